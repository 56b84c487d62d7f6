"""The same figures as Plotly's JSON, from the same data: for W&B and notebooks, written without plotly being there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolsavvy.assets import atomic_write
from toolsavvy.figures.canvas import LIGHT, Paths

if TYPE_CHECKING:
    from toolsavvy.figures.heatmap import Map
    from toolsavvy.figures.sankey import Ribbon

SUFFIX = ".plotly.json"
Figure = dict[str, Any]


def write_interactive(paths: Paths, figure: Figure) -> list[Path]:
    """Write to those of the paths that end in `.plotly.json`; the picture's writer leaves these out."""
    files = [p for p in ([paths] if isinstance(paths, Path) else paths) if p.name.endswith(SUFFIX)]
    for path in files:
        with atomic_write(path, text=True) as file:
            json.dump(figure, file, ensure_ascii=False, allow_nan=False)
    return files


def heat_map_figure(
    maps: Sequence[Map], *, measure: str, low: float, high: float, colours: str, title: str = ""
) -> Figure:
    """Maps side by side on one colour scale, as `figures.heatmap.heat_maps` draws them.

    Args:
        maps: at least one.
        measure: what the colours mean.
        low: lower end of the scale.
        high: upper end of the scale.
        colours: name of a colour map.
        title: above the figure.
    """
    share = 1 / len(maps)
    bar = {"title": {"text": measure}}
    layout: Figure = {
        "title": {"text": title}, "shapes": [], "annotations": [], "plot_bgcolor": LIGHT,
        "coloraxis": {"cmin": low, "cmax": high, "colorscale": _scale(colours), "colorbar": bar},
    }  # fmt: skip
    data = []
    for i, one in enumerate(maps):
        number = "" if i == 0 else str(i + 1)
        x, y = f"x{number}", f"y{number}"
        start = i * share
        layout[f"xaxis{number}"] = {
            "domain": [start, start + share * 0.9], "anchor": y, "title": {"text": one.axis}, "showgrid": False,
        }  # fmt: skip
        layout[f"yaxis{number}"] = {"anchor": x, "title": {"text": "" if i else "layer (0: embeddings)"}}
        layout["annotations"].append(_caption(one.title, start))
        layout["shapes"] += _marks(one, x, y)
        data.append({
            "type": "heatmap", "name": one.title, "xaxis": x, "yaxis": y, "coloraxis": "coloraxis",
            "x": list(one.positions), "y": list(one.layers), "z": [[_finite(v) for v in row] for row in one.values],
            "hovertemplate": f"layer %{{y}}, position %{{x}}<br>{measure} %{{z:.3f}}<extra></extra>",
        })  # fmt: skip
    return {"data": data, "layout": layout}


def sankey_figure(
    columns: Sequence[str], nodes: Sequence[Sequence[str]], ribbons: Sequence[Ribbon], *, colours: Mapping[str, str],
    unit: str = "", title: str = "",
) -> Figure:  # fmt: skip
    """Ribbons between columns of nodes, as `figures.sankey.sankey` draws them; a ribbon is a link a pair of columns."""
    index = {(i, state): n for n, (i, state) in enumerate((i, s) for i, states in enumerate(nodes) for s in states)}
    links = [
        (index[i, ribbon.nodes[i]], index[i + 1, ribbon.nodes[i + 1]], ribbon)
        for ribbon in ribbons if ribbon.size > 0 for i in range(len(columns) - 1)
    ]  # fmt: skip
    sankey = {
        "type": "sankey", "arrangement": "snap", "valuesuffix": f" {unit}".rstrip(),
        "node": {"label": [state for _, state in index], "color": "#303030", "thickness": 18, "pad": 18},
        "link": {
            "source": [source for source, _, _ in links], "target": [target for _, target, _ in links],
            "value": [float(ribbon.size) for *_, ribbon in links], "label": [ribbon.kind for *_, ribbon in links],
            "color": [_faint(colours[ribbon.kind]) for *_, ribbon in links],
        },
    }  # fmt: skip
    last = max(1, len(columns) - 1)
    heads = [_caption(column, i / last, anchor="center") for i, column in enumerate(columns)]
    return {"data": [sankey], "layout": {"title": {"text": title}, "annotations": heads}}


def _marks(one: Map, x: str, y: str) -> list[Figure]:
    """A frame around the selected cell, and a line above the template's own tokens."""
    found: list[Figure] = []
    if one.selected is not None:
        layer, position = one.selected
        half = {"x0": position - 0.5, "x1": position + 0.5, "y0": layer - 0.5, "y1": layer + 0.5}
        found += [{"type": "rect", "xref": x, "yref": y, **half, "line": {"color": "white", "width": 2}}]
    for position in one.template:
        place = {"x0": position - 0.5, "x1": position + 0.5, "y0": 1.01, "y1": 1.01}
        found += [{"type": "line", "xref": x, "yref": f"{y} domain", **place, "line": {"color": "black", "width": 2}}]
    return found


def _caption(text: str, x: float, anchor: str = "left") -> Figure:
    """A line above a plot."""
    return {
        "text": text, "x": x, "y": 1.06, "xref": "paper", "yref": "paper", "xanchor": anchor, "showarrow": False,
    }  # fmt: skip


def _scale(name: str, steps: int = 11) -> list[list[Any]]:
    """A colour map of the static figures in Plotly's form: names mean other colours there."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [[i / (steps - 1), to_hex(colormaps[name](i / (steps - 1)))] for i in range(steps)]


def _faint(colour: str) -> str:
    """A colour that others show through."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.75)"


def _finite(value: float) -> float | None:
    """JSON knows no NaN: an undefined cell has no colour."""
    return float(value) if math.isfinite(value) else None
