"""Language models that hold tools."""
