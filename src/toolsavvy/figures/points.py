"""Figures of points: labelled ones, ways between them, clouds of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolsavvy.figures.canvas import Paths, bare, headed, new_figure, plain, save

PLACES = (
    (5, 4, "left"), (5, -4, "left"), (-5, 4, "right"), (-5, -4, "right"), (0, 8, "center"), (0, -8, "center"),
    (8, 11, "left"), (8, -11, "left"), (-8, 11, "right"), (-8, -11, "right"),
    (8, 20, "left"), (8, -20, "left"), (-8, 20, "right"), (-8, -20, "right"),
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
    figure = new_figure(*size)
    ax = figure.add_subplot()
    ax.scatter(x, y, s=18, color="#1f5fa8")
    ax.set_xlabel(plain(axes[0]))
    ax.set_ylabel(plain(axes[1]))
    headed(ax, title)
    ax.margins(x=0.12, y=0.08)
    ax.grid(alpha=0.25, linewidth=0.5)
    bare(ax)
    figure.canvas.draw()  # only then are the points where they will be
    figure.set_layout_engine("none")
    place_labels(ax, figure.canvas.get_renderer(), labels, list(zip(x, y, strict=True)))
    save(figure, path)


def place_labels(
    ax: Any,
    renderer: Any,
    labels: Sequence[str],
    points: Sequence[tuple[float, float]],
    *,
    avoid: Sequence[tuple[float, float]] = (),
) -> None:
    """Write every label where it covers the least of the points, of others to avoid, and of the labels before it."""
    from matplotlib.transforms import Bbox

    full = [*points, *avoid]
    taken = [Bbox.from_bounds(px - 3, py - 3, 6, 6) for px, py in ax.transData.transform(full)] if full else []
    for label, point in zip(labels, points, strict=True):
        text = ax.annotate(plain(label), point, (5, 4), textcoords="offset points", fontsize=7, va="center")
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
    figure = new_figure(5.2 * len(panels), 4.8)
    plots = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for ax, (title, paths, lines) in zip(plots, panels, strict=True):
        ax.axvline(chance[0], color="0.6", linestyle=":", linewidth=1)
        for _, height in lines:
            ax.axhline(height, color="0.7", linestyle="--", linewidth=0.8, zorder=1)
        for i, way in enumerate(paths):
            _draw_path(ax, way, MARKERS[i % len(MARKERS)], GREYS[i % len(GREYS)])
        headed(ax, title)
        ax.set_xlabel(plain(axes[0]))
        ax.grid(alpha=0.2, linewidth=0.5)
        bare(ax)
    plots[0].set_ylabel(plain(axes[1]))
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
    figure.canvas.draw()
    figure.set_layout_engine("none")
    for ax, (_, paths, lines) in zip(plots, panels, strict=True):
        left = ax.get_xlim()[0]
        last = [(way.label, (way.points[-1].x, way.points[-1].y)) for way in paths]
        named = [*last, *((name, (left, height)) for name, height in lines), (chance[1], (chance[0], 0.0))]
        place_labels(ax, figure.canvas.get_renderer(), [name for name, _ in named], [place for _, place in named])
    save(figure, path)


def _draw_path(ax: Any, way: Path2D, marker: str, grey: str) -> None:
    """Points with their intervals, and an arrow from each to the next."""
    for i, p in enumerate(way.points):
        is_last = i == len(way.points) - 1
        ax.errorbar(
            [p.x], [p.y], xerr=[[max(p.x - p.x_low, 0)], [max(p.x_high - p.x, 0)]],
            yerr=[[max(p.y - p.y_low, 0)], [max(p.y_high - p.y, 0)]], fmt=marker, color=grey, markersize=6,
            markerfacecolor=grey if is_last else "white", elinewidth=0.6, capsize=1.5, zorder=3,
            label=plain(way.label) if is_last else None,
        )  # fmt: skip
    for a, b in zip(way.points, way.points[1:], strict=False):
        arrow = {"arrowstyle": "-|>", "color": grey, "linewidth": 1.1, "shrinkA": 4, "shrinkB": 4}
        ax.annotate("", (b.x, b.y), (a.x, a.y), arrowprops=arrow, zorder=2)


@dataclass(frozen=True)
class Cloud:
    """Points of one colour.

    Args:
        label: in the legend, with their number.
        colour: of the points.
        marker: matplotlib's.
        x: [point].
        y: [point].
    """

    label: str
    colour: str
    marker: str
    x: Sequence[float]
    y: Sequence[float]


def clouds(
    paths: Paths,
    groups: Sequence[Cloud],
    *,
    axes: tuple[str, str],
    thresholds: tuple[float | None, float | None] = (None, None),
    title: str = "",
) -> list[Path]:
    """Draw many points in a few colours, the groups mixed so that the last does not cover the others.

    Args:
        paths: of the .png or .svg files.
        groups: each with a legend entry.
        axes: what x and y are.
        thresholds: dotted lines on x and y, or None.
        title: above the figure.
    """
    import numpy as np

    figure = new_figure(6.2, 5.2)
    ax = figure.add_subplot()
    size = 9 if sum(len(g.x) for g in groups) > 500 else 18
    turns = 8
    for turn in range(turns):
        for group in groups:
            x, y = np.asarray(group.x)[turn::turns], np.asarray(group.y)[turn::turns]
            # As pixels inside an SVG: thousands of paths would make it slow to open.
            ax.scatter(x, y, s=size, c=group.colour, marker=group.marker, alpha=0.6, linewidths=0, rasterized=True)
    for group in groups:
        label = plain(f"{group.label} ({len(group.x)})")
        ax.scatter([], [], s=30, c=group.colour, marker=group.marker, linewidths=0, label=label)
    if thresholds[0] is not None:
        ax.axvline(thresholds[0], color="black", linestyle=":", linewidth=1)
    if thresholds[1] is not None:
        ax.axhline(thresholds[1], color="black", linestyle=":", linewidth=1)
    ax.set_xlabel(plain(axes[0]), fontsize=8.5)
    ax.set_ylabel(plain(axes[1]), fontsize=8.5)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.25, linewidth=0.5)
    headed(ax, title)
    bare(ax)
    if groups:
        figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return save(figure, paths)
