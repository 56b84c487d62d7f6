"""Figures of runs, as PNG and SVG; matplotlib is loaded only when one is drawn."""
