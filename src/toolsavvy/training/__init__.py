"""Training: rows of the two stages, Lightning modules, one way to run them."""
