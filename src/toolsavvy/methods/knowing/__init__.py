"""Parts of method=necessity: what the model does, numbers, tables and pages."""
