"""Figures of a run, as PNG files; matplotlib is loaded only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Point:
    """A value and its interval on both axes."""

    x: float
    x_low: float
    x_high: float
    y: float
    y_low: float
    y_high: float


@dataclass(frozen=True)
class Path2D:
    """Where something moves: its name, and its points in order."""

    label: str
    points: tuple[Point, ...]


MARKERS, GREYS = "os^DvPX*", ("0.0", "0.35", "0.5", "0.2", "0.6")
"""Tell paths apart without colours."""


def trajectories(
    path: Path,
    panels: Sequence[tuple[str, Sequence[Path2D], Sequence[tuple[str, float]]]],
    *,
    axes: tuple[str, str],
    chance: tuple[float, str],
    ends: tuple[str, str],
) -> None:
    """Draw labelled arrows from the first (hollow) to the last point (filled) of every path, with intervals.

    Args:
        path: of the PNG file.
        panels: title, paths, and labelled heights of dashed lines; side by side on common axes.
        axes: what x and y are.
        chance: place and name of a dotted upright line.
        ends: what the first and the last point are.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(panels), 4.8), layout="constrained")
    plots = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    canvas = FigureCanvasAgg(figure)
    for ax, (title, paths, lines) in zip(plots, panels, strict=True):
        ax.axvline(chance[0], color="0.6", linestyle=":", linewidth=1)
        for _, height in lines:
            ax.axhline(height, color="0.7", linestyle="--", linewidth=0.8, zorder=1)
        for i, way in enumerate(paths):
            _draw_path(ax, way, MARKERS[i % len(MARKERS)], GREYS[i % len(GREYS)])
        ax.set_title(_plain(title), fontsize=9, loc="left")
        ax.set_xlabel(_plain(axes[0]))
        ax.grid(alpha=0.2, linewidth=0.5)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    plots[0].set_ylabel(_plain(axes[1]))
    plots[0].set_ylim(-3, 103)
    handles, labels = plots[0].get_legend_handles_labels()
    meaning = f"hollow: {ends[0]}, filled: {ends[1]}"
    columns = min(5, max(1, len(labels)))
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        title=meaning,
        fontsize=8,
        title_fontsize=8,
        frameon=False,
    )
    canvas.draw()
    figure.set_layout_engine("none")
    for ax, (_, paths, lines) in zip(plots, panels, strict=True):
        left = ax.get_xlim()[0]
        last = [(way.label, (way.points[-1].x, way.points[-1].y)) for way in paths]
        named = [*last, *((name, (left, height)) for name, height in lines), (chance[1], (chance[0], 0.0))]
        _label(ax, canvas.get_renderer(), [name for name, _ in named], [place for _, place in named])
    with atomic_write(path) as file:
        canvas.print_png(file, metadata={"Software": None})


def _draw_path(ax: Any, way: Path2D, marker: str, grey: str) -> None:
    """Points with their intervals, and an arrow from each to the next."""
    for i, p in enumerate(way.points):
        is_last = i == len(way.points) - 1
        ax.errorbar(
            [p.x], [p.y], xerr=[[max(p.x - p.x_low, 0)], [max(p.x_high - p.x, 0)]],
            yerr=[[max(p.y - p.y_low, 0)], [max(p.y_high - p.y, 0)]], fmt=marker, color=grey, markersize=6,
            markerfacecolor=grey if is_last else "white", elinewidth=0.6, capsize=1.5, zorder=3,
            label=_plain(way.label) if is_last else None,
        )  # fmt: skip
    for a, b in zip(way.points, way.points[1:], strict=False):
        arrow = {"arrowstyle": "-|>", "color": grey, "linewidth": 1.1, "shrinkA": 4, "shrinkB": 4}
        ax.annotate("", (b.x, b.y), (a.x, a.y), arrowprops=arrow, zorder=2)
