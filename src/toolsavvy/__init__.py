"""toolsavvy: train LLMs to use tools, and measure honestly what they know about them."""

__version__ = "0.1.0"
