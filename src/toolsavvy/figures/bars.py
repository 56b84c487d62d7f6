"""Stacked bars of the four quadrants: what a model needs against what it does, across models and rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolsavvy.figures.canvas import QUADRANT_COLOURS, Paths, bare, new_figure, plain, save

MEANINGS = {
    "N-C": "necessary, called",
    "N-NC": "necessary, not called",
    "UN-C": "unnecessary, called",
    "UN-NC": "unnecessary, not called",
}
ORDER = ("N-C", "UN-NC", "N-NC", "UN-C")
"""Aligned quadrants first, so that the mismatch is one block at the right end."""


@dataclass(frozen=True)
class Bar:
    """The quadrants of one model under one rule.

    Args:
        label: beside the bar.
        group: heading above the bars that share it, '' for none.
        shares: of N-C, N-NC, UN-C, UN-NC, in this order; they sum to 1.
        n: questions.
        mismatch: mismatch rate as text, written at the bar's end.
    """

    label: str
    group: str
    shares: tuple[float, float, float, float]
    n: int
    mismatch: str


def quadrant_bars(paths: Paths, bars: Sequence[Bar], *, title: str = "") -> list[Path]:
    """Draw one stacked bar a model, groups under headings.

    Args:
        paths: of the .png or .svg files.
        bars: in order, those of a group together.
        title: above the figure.
    """
    groups = [g for g in dict.fromkeys(b.group for b in bars) if g]
    rows = len(bars) + len(groups)
    figure = new_figure(8.2, 1.1 + 0.3 * max(1, rows))
    ax = figure.add_subplot()
    heights: list[float] = []
    place, group = 0.0, ""
    for bar in bars:
        if bar.group != group and bar.group:
            ax.text(0, place + 0.12, plain(bar.group), fontsize=8.5, fontweight="bold", va="center", ha="left")
            place += 1
        group = bar.group
        heights.append(place)
        _draw(ax, bar, place)
        place += 1
    ax.set_yticks(heights, [plain(f"{b.label} ({b.n:,})") for b in bars], fontsize=8)
    ax.set(xlim=(0, 100), ylim=(max(place, 1) - 0.4, -0.6), xlabel="% of questions")
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8)
    ax.xaxis.label.set_size(8.5)
    bare(ax, "left")
    if title:
        figure.suptitle(plain(title), fontsize=10, x=0.01, ha="left")
    _legend(figure)
    return save(figure, paths)


def _draw(ax: Any, bar: Bar, place: float) -> None:
    """Segments with their percentages where there is room, and the mismatch rate at the end."""
    shares = dict(zip(QUADRANT_COLOURS, bar.shares, strict=True))
    left = 0.0
    for name in ORDER:
        width = 100 * shares[name]
        ax.barh(place, width, left=left, color=QUADRANT_COLOURS[name], height=0.74, edgecolor="white", linewidth=0.8)
        if width >= 4.5:
            colour = "white" if name in ("N-C", "N-NC") else "black"
            ax.text(left + width / 2, place, f"{width:.0f}", ha="center", va="center", fontsize=7.5, color=colour)
        left += width
    ax.annotate(
        plain(bar.mismatch), (100, place), (6, 0), textcoords="offset points", fontsize=8, va="center",
        annotation_clip=False,
    )  # fmt: skip


def _legend(figure: Any) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=QUADRANT_COLOURS[name], label=f"{name}: {MEANINGS[name]}") for name in ORDER]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False,
        title="blue: aligned; orange: mismatched (rate at the right)", title_fontsize=8,
    )  # fmt: skip
