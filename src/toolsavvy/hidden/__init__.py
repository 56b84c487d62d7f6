"""Hidden states at chosen layers and positions, streamed to disk."""
