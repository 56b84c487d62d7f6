"""Configuration: schemas, composition, and the checks before anything starts."""
