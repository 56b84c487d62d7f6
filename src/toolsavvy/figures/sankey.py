"""Sankey figures: how many items go which way through columns of states, as ribbons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolsavvy.figures.canvas import Paths, new_figure, plain, save
from toolsavvy.figures.interactive import sankey_figure, write_interactive

WIDE, GAP = 0.14, 0.05
"""Width of a node, and the gap between nodes as a share of the height."""


@dataclass(frozen=True)
class Ribbon:
    """Items that go the same way.

    Args:
        nodes: state in each column, from left to right.
        size: how many, or their share.
        kind: names the colour; the legend explains it.
    """

    nodes: tuple[str, ...]
    size: float
    kind: str


def sankey(
    paths: Paths,
    columns: Sequence[str],
    nodes: Sequence[Sequence[str]],
    ribbons: Sequence[Ribbon],
    *,
    colours: dict[str, str],
    unit: str = "",
    title: str = "",
) -> list[Path]:
    """Draw ribbons between columns of nodes; a ribbon keeps its colour all the way.

    Args:
        paths: of the .png, .svg or .plotly.json files.
        columns: names of the columns.
        nodes: [column], the states from top to bottom; those that nothing goes through are drawn as a line.
        ribbons: in the order in which they are stacked.
        colours: kind -> colour, in the order of the legend.
        unit: what sizes count, after the numbers of nodes.
        title: above the figure.

    Raises:
        ValueError: a ribbon names a node or kind that isn't there, or goes the way of another.
    """
    for ribbon in ribbons:
        if any(n not in options for n, options in zip(ribbon.nodes, nodes, strict=True)) or ribbon.kind not in colours:
            raise ValueError(f"no place for ribbon {ribbon.nodes} of kind '{ribbon.kind}'")
    if len({r.nodes for r in ribbons}) < len(ribbons):
        raise ValueError("two ribbons go the same way")
    told = sankey_figure(columns, nodes, ribbons, colours=colours, unit=unit, title=title)
    written = write_interactive(paths, told)
    whole = sum(r.size for r in ribbons) or 1.0
    figure = new_figure(2.9 * len(columns), 4.6)
    ax = figure.add_subplot()
    tops = _stack(nodes, ribbons, whole)
    for ribbon in ribbons:
        if ribbon.size > 0:
            _ribbon(ax, ribbon, tops, ribbon.size / whole, colours[ribbon.kind])
    for i, (column, states) in enumerate(zip(columns, nodes, strict=True)):
        side = 1 if i == len(columns) - 1 else -1 if i == 0 else 0
        ax.text(i + WIDE / 2, 1.03, plain(column), ha="center", va="bottom", fontsize=9.5, fontweight="bold")
        for state in states:
            size = sum(r.size for r in ribbons if r.nodes[i] == state)
            _node(ax, i, tops.nodes[i, state], size / whole, f"{state}\n{size:,.0f} {unit}".strip(), side)
    _finish(figure, ax, columns, ribbons, colours, whole, title)
    return save(figure, paths) + written


@dataclass(frozen=True)
class _Tops:
    """Upper ends: of nodes by (column, state), and of ribbons in a column by (column, ribbon, whether leaving)."""

    nodes: dict[tuple[int, str], float]
    ribbons: dict[tuple[int, Ribbon, bool], float]


def _stack(nodes: Sequence[Sequence[str]], ribbons: Sequence[Ribbon], whole: float) -> _Tops:
    """Stack ribbons in every node by where they come from and by where they go, so that few cross."""
    tops, places = {}, {}
    rank = [{state: j for j, state in enumerate(states)} for states in nodes]
    for i, states in enumerate(nodes):
        gap = GAP / max(1, len(states) - 1)
        y = 1.0
        for state in states:
            here = [r for r in ribbons if r.nodes[i] == state]
            tops[i, state] = y
            for leaving in (False, True):
                order = sorted(here, key=lambda r: _order(r, i, rank, leaving))
                top = y
                for ribbon in order:
                    places[i, ribbon, leaving] = top
                    top -= (1 - GAP) * ribbon.size / whole
            y -= (1 - GAP) * sum(r.size for r in here) / whole + gap
    return _Tops(tops, places)


def _order(ribbon: Ribbon, column: int, rank: Sequence[dict[str, int]], leaving: bool) -> tuple[int, ...]:
    """Nearest column on the side that matters first."""
    ranks = [rank[i][state] for i, state in enumerate(ribbon.nodes)]
    ahead, behind = ranks[column + 1 :], ranks[:column][::-1]
    return tuple([*ahead, *behind] if leaving else [*behind, *ahead])


def _ribbon(ax: Any, ribbon: Ribbon, tops: _Tops, share: float, colour: str) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    height = (1 - GAP) * share
    for i in range(len(ribbon.nodes) - 1):
        x0, x1 = i + WIDE, i + 1.0
        y0, y1 = tops.ribbons[i, ribbon, True], tops.ribbons[i + 1, ribbon, False]
        middle = (x0 + x1) / 2
        upper = [(x0, y0), (middle, y0), (middle, y1), (x1, y1)]
        points = [*upper, *((x, y - height) for x, y in reversed(upper)), (x0, y0)]
        codes = [Outline.MOVETO, *[Outline.CURVE4] * 3, Outline.LINETO, *[Outline.CURVE4] * 3, Outline.CLOSEPOLY]
        ax.add_patch(PathPatch(Outline(points, codes), facecolor=colour, alpha=0.75, linewidth=0.4, edgecolor="white"))
        # Numbers stand at the outer ends alone: the labels of the columns between need their room.
        if height > 0.03 and i == 0:
            ax.text(x0 + 0.03, y0 - height / 2, f"{ribbon.size:,.0f}", fontsize=7, va="center", ha="left")
        elif height > 0.03 and i == len(ribbon.nodes) - 2:
            ax.text(x1 - 0.03, y1 - height / 2, f"{ribbon.size:,.0f}", fontsize=7, va="center", ha="right")


def _node(ax: Any, column: int, top: float, share: float, label: str, side: int) -> None:
    """A dark bar; its label stands outside, at the middle columns inside."""
    from matplotlib.patches import Rectangle

    height = max((1 - GAP) * share, 0.002)
    ax.add_patch(Rectangle((column, top - height), WIDE, height, color="#303030", linewidth=0))
    x = column + (WIDE + 0.03 if side > 0 else -0.03 if side < 0 else WIDE / 2)
    align = {1: "left", -1: "right", 0: "center"}[side]
    box = None if side else {"boxstyle": "round,pad=0.2", "facecolor": "white", "linewidth": 0}
    ax.text(x, top - height / 2, plain(label), ha=align, va="center", fontsize=8, bbox=box)


def _finish(
    figure: Any, ax: Any, columns: Sequence[str], ribbons: Sequence[Ribbon], colours: dict[str, str], whole: float,
    title: str,
) -> None:  # fmt: skip
    from matplotlib.patches import Patch

    ax.set(xlim=(-0.42, len(columns) - 1 + WIDE + 0.42), ylim=(-0.03, 1.1))
    ax.axis("off")
    handles = []
    for kind, colour in colours.items():
        size = sum(r.size for r in ribbons if r.kind == kind)
        handles.append(Patch(facecolor=colour, alpha=0.75, label=plain(f"{kind}: {size:,.0f} ({size / whole:.0%})")))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(2, len(handles)), fontsize=8, frameon=False)
    if title:
        figure.suptitle(plain(title), fontsize=10, x=0.01, ha="left")
