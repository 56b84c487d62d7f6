"""Figures of a run, as PNG files; matplotlib is loaded only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write

PLACES = (
    (5, 4, "left"), (5, -4, "left"), (-5, 4, "right"), (-5, -4, "right"), (0, 8, "center"), (0, -8, "center"),
    (8, 11, "left"), (8, -11, "left"), (-8, 11, "right"), (-8, -11, "right"),
)  # fmt: skip
"""Offsets in points and alignments that are tried for a label, the best first."""


def scatter(
    path: Path,
    labels: Sequence[str],
    x: Sequence[float],
    y: Sequence[float],
    *,
    axes: tuple[str, str],
    title: str,
    size: tuple[float, float] = (7.5, 5.5),
) -> None:
    """Draw labelled points.

    Args:
        path: of the PNG file.
        labels: [point], written beside each.
        x: [point].
        y: [point].
        axes: what x and y are.
        title: above the figure.
        size: of the figure in inches.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")  # not pyplot: no display, no state between figures
    ax = figure.add_subplot()
    ax.scatter(x, y, s=18, color="#1f5fa8")
    ax.set_xlabel(_plain(axes[0]))
    ax.set_ylabel(_plain(axes[1]))
    ax.set_title(_plain(title), fontsize=9, loc="left")
    ax.margins(x=0.12, y=0.08)
    ax.grid(alpha=0.25, linewidth=0.5)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # only then are the points where they will be
    figure.set_layout_engine("none")
    _label(ax, canvas.get_renderer(), labels, list(zip(x, y, strict=True)))
    with atomic_write(path) as file:
        canvas.print_png(file, metadata={"Software": None})


def _label(ax: Any, renderer: Any, labels: Sequence[str], points: Sequence[tuple[float, float]]) -> None:
    """Write every label where it covers the least of the points and of the labels before it."""
    from matplotlib.transforms import Bbox

    taken = [Bbox.from_bounds(px - 3, py - 3, 6, 6) for px, py in ax.transData.transform(points)] if points else []
    for label, point in zip(labels, points, strict=True):
        text = ax.annotate(_plain(label), point, (5, 4), textcoords="offset points", fontsize=7, va="center")
        tried = []
        for dx, dy, ha in PLACES:
            text.set(position=(dx, dy), ha=ha)
            box = text.get_window_extent(renderer)
            outside = box.width * box.height - _area(Bbox.intersection(box, ax.bbox))
            tried.append((outside + sum(_area(Bbox.intersection(box, other)) for other in taken), dx, dy, ha, box))
        _, dx, dy, ha, box = min(tried, key=lambda place: place[0])
        text.set(position=(dx, dy), ha=ha)
        taken.append(box)


def _area(box: Any) -> float:
    return 0.0 if box is None else box.width * box.height


def _plain(text: str) -> str:
    """A dollar sign would start a formula."""
    return text.replace("$", r"\$")
