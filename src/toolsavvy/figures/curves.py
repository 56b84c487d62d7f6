"""Curves with their intervals as bands: steering over its strength, savings over a threshold, costs over a price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.figures.canvas import COLOURS, GREY, Paths, bare, headed, new_figure, plain, save
from toolsavvy.figures.points import place_labels

STYLES = ("-", "--", "-.", ":")
MARKERS = "os^Dv"


@dataclass(frozen=True)
class Curve:
    """A line.

    Args:
        label: equal labels share colour and legend entry in all panels; '' has none.
        x: [point].
        y: [point], NaN where undefined.
        low: [point], lower end of the band, or () for none.
        high: [point], upper end.
        control: drawn in grey, behind (random directions).
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    control: bool = False


@dataclass(frozen=True)
class Mark:
    """A labelled point beside the curves (a baseline)."""

    label: str
    x: float
    y: float


@dataclass(frozen=True)
class Panel:
    """One plot.

    Args:
        title: above it.
        x: what x is.
        y: what y is.
        curves: in it.
        marks: labelled points.
        line: an upright line at x and its name, or None.
        level: a horizontal line at y and its name, or None.
        log: both axes are logarithmic.
    """

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...] = ()
    line: tuple[float, str] | None = None
    level: tuple[float, str] | None = None
    log: bool = False


def curve_panels(paths: Paths, panels: Sequence[Panel], *, columns: int = 2, title: str = "") -> list[Path]:
    """Draw panels of curves; one legend for all.

    Args:
        paths: of the .png or .svg files.
        panels: at least one.
        columns: panels in a row.
        title: above the figure.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(1.0 + 3.9 * columns, 1.0 + 2.7 * rows)
    plots = figure.subplots(rows, columns, squeeze=False).ravel()
    labels = list(dict.fromkeys(c.label for p in panels for c in p.curves if c.label))
    looks = _looks(labels, {c.label for p in panels for c in p.curves if c.control})
    for ax, panel in zip(plots, panels, strict=False):
        _draw(ax, panel, looks)
    for ax in plots[len(panels) :]:
        ax.axis("off")
    if labels:
        _legend(figure, plots, labels)
    if title:
        figure.suptitle(plain(title), fontsize=10, x=0.01, ha="left")
    figure.canvas.draw()
    figure.set_layout_engine("none")  # only now are the points where they will be
    for ax, panel in zip(plots, panels, strict=False):
        _name(figure, ax, panel)
    return save(figure, paths)


def _looks(labels: Sequence[str], controls: set[str]) -> dict[str, dict[str, Any]]:
    """Colour, line and marker of every label: none of them rests on colour alone."""
    looks, i = {}, 0
    for label in labels:
        if label in controls:
            looks[label] = {"color": GREY, "linestyle": "--", "marker": "", "zorder": 1}
            continue
        place = {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i % len(STYLES)], "zorder": 3}
        looks[label] = {**place, "marker": MARKERS[i % len(MARKERS)]}
        i += 1
    return looks


def _draw(ax: Any, panel: Panel, looks: dict[str, dict[str, Any]]) -> None:
    for curve in panel.curves:
        look = looks.get(curve.label, {"color": GREY, "linestyle": "--", "marker": "", "zorder": 1})
        if len(curve.low):
            low, high = (np.asarray(v, dtype=np.float64) for v in (curve.low, curve.high))
            ax.fill_between(curve.x, low, high, color=look["color"], alpha=0.18, linewidth=0, zorder=look["zorder"])
        marker = look["marker"] if len(curve.x) <= 25 else ""
        style = {**look, "marker": marker, "markersize": 3.5, "linewidth": 1.4}
        ax.plot(curve.x, curve.y, label=plain(curve.label) or None, **style)
    for mark in panel.marks:
        ax.plot([mark.x], [mark.y], marker="D", color="black", markersize=4.5, linestyle="", zorder=4)
    if panel.line is not None:
        ax.axvline(panel.line[0], color="black", linestyle=":", linewidth=0.9, zorder=1)
    if panel.level is not None:
        ax.axhline(panel.level[0], color="black", linestyle=":", linewidth=0.9, zorder=1)
    if panel.log:
        ax.set_xscale("log")
        ax.set_yscale("log")
    headed(ax, panel.title)
    ax.set_xlabel(plain(panel.x), fontsize=8.5)
    ax.set_ylabel(plain(panel.y), fontsize=8.5)
    ax.tick_params(labelsize=8)
    ax.margins(x=0.06, y=0.1)
    ax.grid(alpha=0.25, linewidth=0.5)
    bare(ax)


def _legend(figure: Any, plots: Sequence[Any], labels: Sequence[str]) -> None:
    found: dict[str, Any] = {}
    for ax in plots:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    columns = 1 if max(map(len, labels)) > 45 else min(3, len(found))
    figure.legend(
        list(found.values()), list(found), loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


def _name(figure: Any, ax: Any, panel: Panel) -> None:
    """Labels of marks and lines where they cover the least."""
    named = [(mark.label, (mark.x, mark.y)) for mark in panel.marks]
    left, bottom = ax.get_xlim()[0], ax.get_ylim()[0]
    if panel.line is not None and panel.line[1]:
        named.append((panel.line[1], (panel.line[0], bottom)))
    if panel.level is not None and panel.level[1]:
        named.append((panel.level[1], (left, panel.level[0])))
    lines = [point for curve in panel.curves for point in _along(curve)]
    place_labels(ax, figure.canvas.get_renderer(), [n for n, _ in named], [p for _, p in named], avoid=lines)


def _along(curve: Curve, points: int = 80) -> list[tuple[float, float]]:
    """Many points of a line, for labels to keep off."""
    x, y = (np.asarray(v, dtype=np.float64) for v in (curve.x, curve.y))
    known = np.isfinite(x) & np.isfinite(y)
    if not known.any():
        return []
    steps = np.linspace(0, known.sum() - 1, points)
    places = np.arange(known.sum())
    return list(zip(np.interp(steps, places, x[known]), np.interp(steps, places, y[known]), strict=True))
