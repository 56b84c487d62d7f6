"""A rule-based reader that derives a call's arguments from schema, instruction and context alone."""
