"""Tool calls in the text of models: parsing, and bounded evaluation of what they hold."""
