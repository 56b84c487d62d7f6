"""Stories that end in one call: what was built before, what is wanted now."""
