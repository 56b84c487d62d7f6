"""What all figures share: colours that colour-blind readers tell apart, plain text, files whose bytes repeat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Okabe and Ito's palette (their yellow left out: too light for lines)."""
GREY, LIGHT = "#6b6b6b", "#d9d9d9"
QUADRANT_COLOURS = {"N-C": "#0072b2", "N-NC": "#d55e00", "UN-C": "#f0b060", "UN-NC": "#9ecae1"}
"""Aligned quadrants are blue, mismatched ones orange; necessary questions are dark, unnecessary ones light."""
DPI = 150

Paths = Path | Sequence[Path]
"""Where a figure goes; the suffix (.png, .svg, and .plotly.json for some) says as what."""


def new_figure(width: float, height: float) -> Any:
    """A figure without pyplot: no display, no state between figures; sizes in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, paths: Paths) -> list[Path]:
    """Write a figure; the same data give the same bytes, and text stays text in an SVG.

    Raises:
        ValueError: a suffix that is neither .png nor .svg.
    """
    from matplotlib import rc_context

    files = [p for p in ([paths] if isinstance(paths, Path) else paths) if not p.name.endswith(".plotly.json")]
    for path in files:
        if path.suffix not in (".png", ".svg"):
            raise ValueError(f"a figure is a .png or .svg file, not {path.name}")
        with rc_context({"svg.hashsalt": "toolsavvy", "svg.fonttype": "none"}), atomic_write(path) as file:
            if path.suffix == ".png":
                figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
            else:
                figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return files


def plain(text: str) -> str:
    """A dollar sign would start a formula."""
    return text.replace("$", r"\$")


def bare(ax: Any, *sides: str) -> None:
    """Take the top and the right line off a plot, and others that are named."""
    for side in ("top", "right", *sides):
        ax.spines[side].set_visible(False)


def headed(ax: Any, title: str) -> None:
    """A small title at the left."""
    ax.set_title(plain(title), fontsize=9, loc="left")
