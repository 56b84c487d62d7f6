"""ToolSense's three benchmarks for any catalog: realistic requests, multiple-choice and yes/no questions."""
