"""Methods: recipes that read top to bottom."""
