"""Linear probes on hidden states: all (layer, position) cells at once, with their controls."""
