"""Heat maps over (layer, position) cells: MCC of probes, cosines beside their ceiling; and small tables as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.figures.canvas import LIGHT, Paths, new_figure, plain, save
from toolsavvy.figures.interactive import heat_map_figure, write_interactive


@dataclass(frozen=True)
class Map:
    """One map.

    Args:
        title: above it.
        values: float [layer, position], NaN where undefined (grey).
        layers: of the rows, drawn upwards.
        positions: of the columns, ascending (-20 ... -1).
        selected: (layer, position) that is framed, or None.
        template: positions whose token is the chat template's, the same for every question.
        axis: what positions count from.
    """

    title: str
    values: np.ndarray
    layers: tuple[int, ...]
    positions: tuple[int, ...]
    selected: tuple[int, int] | None = None
    template: tuple[int, ...] = ()
    axis: str = "position, from the end of the prompt"


def heat_maps(
    paths: Paths,
    maps: Sequence[Map],
    *,
    measure: str,
    span: tuple[float, float] | None = None,
    diverging: bool = False,
    title: str = "",
) -> list[Path]:
    """Draw maps side by side on one colour scale.

    Args:
        paths: of the .png, .svg or .plotly.json files.
        maps: at least one.
        measure: what the colours mean.
        span: ends of the scale; None for those of the values.
        diverging: white is 0, and the scale is symmetric.
        title: above the figure.

    Raises:
        ValueError: a map's values don't have its shape.
    """
    for one in maps:
        if one.values.shape != (len(one.layers), len(one.positions)):
            raise ValueError(f"'{one.title}': values {one.values.shape} for {len(one.layers)} x {len(one.positions)}")
    low, high = span or _span([one.values for one in maps], diverging)
    colours = "RdBu_r" if diverging else "viridis"
    told = heat_map_figure(maps, measure=measure, low=low, high=high, colours=colours, title=title)
    written = write_interactive(paths, told)
    widths = [1.2 + 0.14 * len(one.positions) for one in maps]
    tallest = max(len(one.layers) for one in maps)
    figure = new_figure(max(4.2, sum(widths) + 1.3), 1.6 + 0.13 * max(8, tallest))
    plots = figure.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
    image = None
    for ax, one in zip(plots, maps, strict=True):
        image = _draw(ax, one, low, high, colours)
    bar = figure.colorbar(image, ax=list(plots), fraction=0.04, pad=0.02, aspect=25)
    bar.set_label(plain(measure), fontsize=8.5)
    bar.ax.tick_params(labelsize=8)
    plots[0].set_ylabel("layer (0: embeddings)", fontsize=8.5)
    if title:
        figure.suptitle(plain(title), fontsize=10, x=0.01, ha="left")
    return save(figure, paths) + written


def _span(values: Sequence[np.ndarray], diverging: bool) -> tuple[float, float]:
    """Ends of the scale, never equal."""
    finite = np.concatenate([v[np.isfinite(v)].ravel() for v in values])
    if not len(finite):
        return (-1.0, 1.0) if diverging else (0.0, 1.0)
    if diverging:
        most = float(np.abs(finite).max()) or 1.0
        return -most, most
    low, high = min(0.0, float(finite.min())), float(finite.max())
    return low, high if high > low else low + 1


def _draw(ax: Any, one: Map, low: float, high: float, colours: str) -> Any:
    from matplotlib import colormaps

    cmap = colormaps[colours].with_extremes(bad=LIGHT)
    shown = np.ma.masked_invalid(one.values)
    image = ax.imshow(shown, origin="lower", aspect="auto", cmap=cmap, vmin=low, vmax=high, interpolation="nearest")
    ax.set_title(plain(one.title), fontsize=9, loc="left", pad=16 if one.template else 6)
    step = max(1, -(-len(one.layers) // 10))
    rows = range(0, len(one.layers), step)
    ax.set_yticks(list(rows), [str(one.layers[i]) for i in rows], fontsize=8)
    narrow = 1 if len(one.positions) <= 8 else 5
    columns = [i for i, p in enumerate(one.positions) if p % narrow == 0 or i == len(one.positions) - 1]
    ax.set_xticks(columns, [str(one.positions[i]) for i in columns], fontsize=8)
    ax.set_xlabel(plain(one.axis), fontsize=8.5)
    _mark(ax, one)
    return image


def _mark(ax: Any, one: Map) -> None:
    """Frame the selected cell, and draw a line above the columns of the template's own tokens."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.transforms import offset_copy

    if one.selected is not None:
        layer, position = one.selected
        corner = (one.positions.index(position) - 0.5, one.layers.index(layer) - 0.5)
        for colour, width in (("black", 3.2), ("white", 1.4)):
            ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=colour, linewidth=width, clip_on=False))
    columns = [i for i, p in enumerate(one.positions) if p in one.template]
    above = offset_copy(ax.get_xaxis_transform(), fig=ax.figure, y=3, units="points")
    for i in columns:
        ax.add_artist(Line2D([i - 0.5, i + 0.5], [1, 1], transform=above, color="black", linewidth=2, clip_on=False))
    if columns:
        ax.text(columns[-1] + 0.5, 1.0, "template\n", transform=above, ha="right", va="center", fontsize=7.5)


def table_map(
    paths: Paths,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    texts: Sequence[Sequence[str]],
    axes: tuple[str, str],
    measure: str,
    title: str = "",
) -> list[Path]:
    """Draw a small table (numbers of samples x temperatures) whose cells are coloured and written in.

    Args:
        paths: of the .png or .svg files.
        values: float [row, column], NaN where there is none.
        rows: names.
        columns: names.
        texts: [row][column], written in the cells.
        axes: what columns and rows are.
        measure: what the colours mean.
        title: above the figure.
    """
    from matplotlib import colormaps

    figure = new_figure(2.2 + 1.35 * len(columns), 1.5 + 0.62 * len(rows))
    ax = figure.add_subplot()
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    high = high if high > low else low + 1
    cmap = colormaps["cividis"].with_extremes(bad=LIGHT)
    image = ax.imshow(np.ma.masked_invalid(values), cmap=cmap, vmin=low, vmax=high, aspect="auto")
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            light = np.isfinite(values[i, j]) and (values[i, j] - low) < 0.55 * (high - low)
            colour = "white" if light else "black"
            ax.text(j, i, plain(text), ha="center", va="center", fontsize=8, color=colour)
    ax.set_xticks(range(len(columns)), list(map(plain, columns)), fontsize=8.5)
    ax.set_yticks(range(len(rows)), list(map(plain, rows)), fontsize=8.5)
    ax.set_xlabel(plain(axes[0]), fontsize=8.5)
    ax.set_ylabel(plain(axes[1]), fontsize=8.5)
    ax.tick_params(length=0)
    bar = figure.colorbar(image, ax=ax)
    bar.set_label(plain(measure), fontsize=8.5)
    bar.ax.tick_params(labelsize=8)
    if title:
        figure.suptitle(plain(title), fontsize=10, x=0.01, ha="left")
    return save(figure, paths)
