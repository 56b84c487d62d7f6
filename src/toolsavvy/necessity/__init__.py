"""Does a model call a tool when it needs one, and did it know: questions, labels, attribution (2605.14038)."""
