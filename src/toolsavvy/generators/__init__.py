"""What is written by language models or templates: profiles of tools, instructions, benchmarks."""
