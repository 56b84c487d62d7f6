"""Figures of probes on argument values: reliability, precision over coverage, layers, levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.figures.canvas import COLOURS, GREY, LIGHT, Paths, bare, headed, new_figure, plain, save
from toolsavvy.figures.curves import Curve, Mark, Panel, curve_panels

_FILLS = COLOURS[:-1]
"""Of bars: intervals are black."""


@dataclass(frozen=True)
class Reliability:
    """A signal's reliability.

    Args:
        title: above its plot (name, ECE).
        predicted: [bin], mean score; only bins with items.
        right: [bin], share of right ones.
        n: [bin], items.
    """

    title: str
    predicted: Sequence[float]
    right: Sequence[float]
    n: Sequence[int]


def reliability_plots(paths: Paths, signals: Sequence[Reliability], *, columns: int = 3, title: str = "") -> list[Path]:
    """Draw one plot a signal: share of right values over the score; the area of a dot is the number of values.

    Args:
        paths: of the .png or .svg files.
        signals: at least one.
        columns: plots in a row.
        title: above the figure.

    Raises:
        ValueError: no signal.
    """
    if not signals:
        raise ValueError("no signal to draw")
    columns = min(columns, len(signals))
    rows = -(-len(signals) // columns)
    figure = new_figure(0.8 + 2.5 * columns, 0.7 + 2.5 * rows)
    plots = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    most = max((max(s.n, default=1) for s in signals), default=1)
    for ax, signal in zip(plots, signals, strict=False):
        ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=0.9, zorder=1)
        ax.plot(signal.predicted, signal.right, color=COLOURS[0], linewidth=1.2, zorder=2)
        sizes = [8 + 90 * n / most for n in signal.n]
        ax.scatter(signal.predicted, signal.right, s=sizes, color=COLOURS[0], edgecolor="white", zorder=3)
        ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")
        _axes(ax, signal.title, "score", "share right")
    for ax in plots[len(signals) :]:
        ax.axis("off")
    if title:
        figure.suptitle(plain(title), fontsize=10, x=0.01, ha="left")
    return save(figure, paths)


def _axes(ax: Any, title: str, x: str, y: str) -> None:
    """Small labels, a light grid, no box."""
    headed(ax, title)
    ax.set_xlabel(plain(x), fontsize=8.5)
    ax.set_ylabel(plain(y), fontsize=8.5)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.25, linewidth=0.5)
    bare(ax)


@dataclass(frozen=True)
class Filter:
    """A filter of pseudo-labels.

    Args:
        label: of the signal.
        coverage: [step], share of calls that are kept, ascending.
        precision: [step], share of right ones among them.
        chosen: coverage and precision at the threshold that was used, or None.
    """

    label: str
    coverage: Sequence[float]
    precision: Sequence[float]
    chosen: tuple[float, float] | None = None


def precision_coverage(paths: Paths, filters: Sequence[Filter], *, base: float, title: str = "") -> list[Path]:
    """Draw precision of pseudo-labels over coverage; chosen thresholds are marks, the share of right calls is a line.

    Args:
        paths: of the .png or .svg files.
        filters: signals.
        base: precision without a filter.
        title: above the figure.
    """
    curves = tuple(Curve(f.label, f.coverage, f.precision) for f in filters)
    marks = tuple(Mark(f"{f.label}, chosen", *f.chosen) for f in filters if f.chosen is not None)
    panel = Panel("", "coverage of calls", "precision", curves, marks, level=(base, "no filter"))
    return curve_panels(paths, [panel], columns=1, title=title)


def layer_curves(
    paths: Paths, panels: Mapping[str, Mapping[str, Curve]], *, chosen: Mapping[str, int], title: str = ""
) -> list[Path]:
    """Draw AUC over layers, one panel a benchmark.

    Args:
        paths: of the .png or .svg files.
        panels: benchmark -> name -> curve over layers (probe, shuffled labels, other signals as level lines).
        chosen: benchmark -> layer that is used.
        title: above the figure.
    """
    drawn = [
        Panel(name, "layer", "AUC", tuple(curves.values()), line=_line(chosen.get(name)), level=(0.5, "chance"))
        for name, curves in panels.items()
    ]
    return curve_panels(paths, drawn, title=title)


def _line(layer: int | None) -> tuple[float, str] | None:
    return None if layer is None else (float(layer), f"layer {layer}")


@dataclass(frozen=True)
class LevelBars:
    """One system's values by level.

    Args:
        label: in the legend.
        values: [level], NaN where there is none.
        low: [level].
        high: [level].
    """

    label: str
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def level_bars(
    paths: Paths, levels: Sequence[str], systems: Sequence[LevelBars], *, measure: str, title: str = ""
) -> list[Path]:
    """Draw groups of bars with intervals, one group a level.

    Args:
        paths: of the .png or .svg files.
        levels: names of the groups, with their sizes if wanted.
        systems: bars of each group, in order.
        measure: what the heights are.
        title: above the figure.

    Raises:
        ValueError: a system with another number of values than levels, or no system.
    """
    if not systems or any(len(s.values) != len(levels) for s in systems):
        raise ValueError("one value a level and system")
    figure = new_figure(max(4.5, 1.2 + len(levels) * (0.35 + 0.17 * len(systems))), 3.2)
    ax = figure.add_subplot()
    width = 0.8 / len(systems)
    for i, system in enumerate(systems):
        places = np.arange(len(levels)) + (i - (len(systems) - 1) / 2) * width
        values, low, high = (np.asarray(v, dtype=np.float64) for v in (system.values, system.low, system.high))
        colour, hatch = _FILLS[i % len(_FILLS)], "" if i < len(_FILLS) else "//"
        ax.bar(places, values, width * 0.92, color=colour, label=plain(system.label), hatch=hatch, edgecolor="white")
        known = np.isfinite(low) & np.isfinite(high)
        ends = np.stack([values - low, high - values])[:, known].clip(min=0)
        ax.errorbar(places[known], values[known], ends, fmt="none", ecolor="black", elinewidth=0.8, capsize=1.5)
    ax.set_xlim(-0.5, len(levels) - 0.5)
    ax.set_xticks(np.arange(len(levels)), [plain(name) for name in levels])
    _axes(ax, "", "", measure)
    ax.grid(visible=False, axis="x")
    ax.axhline(0, color=LIGHT, linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=min(4, len(systems)), fontsize=8, frameon=False)
    if title:
        figure.suptitle(plain(title), fontsize=10, x=0.01, ha="left")
    return save(figure, paths)
