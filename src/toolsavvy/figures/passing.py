"""Pass rate against retrieval: a line a system through its numbers of tools, arrows from before to after training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolsavvy.figures.canvas import COLOURS, GREY, Paths, bare, headed, new_figure, plain, save
from toolsavvy.figures.points import MARKERS


@dataclass(frozen=True)
class Dot:
    """A system with k tools.

    Args:
        system: its name.
        k: tools that were offered.
        x: of retrieval.
        y: pass rate.
        low: lower end of its interval.
        high: upper end.
    """

    system: str
    k: int
    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """One plot.

    Args:
        title: above it.
        x: what the axis is.
        dots: of every system and k.
        arrows: (system, rival): from the rival's dots to the system's, at each k.
    """

    title: str
    x: str
    dots: Sequence[Dot]
    arrows: Sequence[tuple[str, str]] = ()


def pass_rates(paths: Paths, grid: Sequence[Sequence[Panel]], *, y: str) -> list[Path]:
    """Draw the panels, a row each inner sequence, all of as many.

    Args:
        paths: of the .png or .svg files.
        grid: the panels.
        y: what the common axis is.
    """
    columns = max(map(len, grid))
    figure = new_figure(4.6 * columns, 3.9 * len(grid) + 0.5)
    plots = figure.subplots(len(grid), columns, squeeze=False, sharey=True)
    systems = list(dict.fromkeys(dot.system for row in grid for panel in row for dot in panel.dots))
    for row, (axes, own) in enumerate(zip(plots, grid, strict=True)):
        for column, (ax, panel) in enumerate(zip(axes, own, strict=True)):
            _draw(ax, panel, systems)
            headed(ax, panel.title if column == 0 else "")
            ax.set_xlabel(plain(panel.x))
            if column == 0:
                ax.set_ylabel(plain(y))
            ax.margins(0.08)
            ax.grid(alpha=0.2, linewidth=0.5)
            bare(ax)
        if row == 0:
            handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)), fontsize=8, frameon=False)
    return save(figure, paths)


def _draw(ax: Any, panel: Panel, systems: Sequence[str]) -> None:
    """Lines through a system's dots, the k beside each, and arrows."""
    trained = {system for system, _ in panel.arrows}
    untrained = {rival for _, rival in panel.arrows} - trained
    at = {(dot.system, dot.k): dot for dot in panel.dots}
    for system in dict.fromkeys(dot.system for dot in panel.dots):
        i = systems.index(system)
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        own = sorted((dot for dot in panel.dots if dot.system == system), key=lambda dot: dot.k)
        x, y = [d.x for d in own], [d.y for d in own]
        errors = [[max(d.y - d.low, 0) for d in own], [max(d.high - d.y, 0) for d in own]]
        ax.errorbar(
            x, y, yerr=errors, color=colour, marker=marker, markersize=5, linewidth=0.9, elinewidth=0.5, capsize=1.5,
            markerfacecolor="white" if system in untrained else colour, label=plain(system), zorder=3,
        )  # fmt: skip
        for dot in own:
            ax.annotate(str(dot.k), (dot.x, dot.y), (4, -8), textcoords="offset points", fontsize=6, color=colour)
    for system, rival in panel.arrows:
        for (name, k), dot in at.items():
            start = at.get((rival, k)) if name == system else None
            if start is not None:
                style = {"arrowstyle": "-|>", "color": GREY, "linewidth": 0.9, "shrinkA": 4, "shrinkB": 4}
                ax.annotate("", (dot.x, dot.y), (start.x, start.y), arrowprops=style, zorder=2)
