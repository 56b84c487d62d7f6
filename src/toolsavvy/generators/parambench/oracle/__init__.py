"""A rule-based solver that sees only schema, instruction and context: what it finds is derivable.

Every module here may have `RULES`, operation -> a function of `Sight` to the arguments.
"""
