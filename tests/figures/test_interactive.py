"""Plotly's JSON of heat maps and Sankey figures: valid, and the numbers of the static ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import plotly.io
import pytest

from toolsavvy.figures.heatmap import Map, heat_maps
from toolsavvy.figures.sankey import Ribbon, sankey

NODES = (("necessary", "unnecessary"), ("read so", "not read so"), ("called", "not called"))
RIBBONS = (
    Ribbon(("necessary", "read so", "called"), 30, "aligned"),
    Ribbon(("necessary", "read so", "not called"), 12, "stage 2"),
    Ribbon(("unnecessary", "not read so", "not called"), 0, "aligned"),
)


def test_heat_maps_have_the_values_and_undefined_cells_stay_empty(tmp_path: Path) -> None:
    values = np.array([[0.25, np.nan, -0.5], [0.0, 0.5, 1.0]])
    one = Map("probe <b>", values, (0, 7), (-3, -2, -1), selected=(7, -1), template=(-1,))
    paths = [tmp_path / f"m{suffix}" for suffix in (".png", ".svg", ".plotly.json")]
    assert sorted(heat_maps(paths, [one, one], measure="MCC", diverging=True, title="a title")) == sorted(paths)
    assert "NaN" not in paths[2].read_text()
    figure = plotly.io.read_json(str(paths[2]))  # plotly checks every property
    assert [t.type for t in figure.data] == ["heatmap", "heatmap"]
    assert figure.data[0].z == ((0.25, None, -0.5), (0.0, 0.5, 1.0)) or np.array_equal(
        np.array(figure.data[0].z, dtype=float), values, equal_nan=True
    )
    assert (tuple(figure.data[0].x), tuple(figure.data[0].y)) == ((-3, -2, -1), (0, 7))
    axis = figure.layout.coloraxis
    assert (axis.cmin, axis.cmax, figure.layout.title.text) == (-1, 1, "a title")
    assert axis.colorscale[0][1] < axis.colorscale[-1][1]  # blue is negative: #053061 to #67001f
    frame = figure.layout.shapes[0]
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (-1.5, -0.5, 6.5, 7.5)
    assert figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]


def test_sankey_sends_every_item_through_every_column(tmp_path: Path) -> None:
    path = tmp_path / "s.plotly.json"
    colours = {"aligned": "#0072b2", "stage 2": "#f0b060"}
    assert sankey([path], ("Factual", "Cognition", "Action"), NODES, RIBBONS, colours=colours, unit="questions") == [
        path
    ]
    (data,) = plotly.io.read_json(str(path)).data
    label = data.node.label
    flows = [
        (label[s], label[t], v) for s, t, v in zip(data.link.source, data.link.target, data.link.value, strict=True)
    ]
    assert flows == [
        ("necessary", "read so", 30), ("read so", "called", 30), ("necessary", "read so", 12),
        ("read so", "not called", 12),
    ]  # fmt: skip
    assert set(label) == {state for states in NODES for state in states}
    assert data.link.color[0] == "rgba(0,114,178,0.75)"
    assert data.link.label[2:] == ("stage 2", "stage 2")
    json.loads(path.read_text(), parse_constant=lambda c: pytest.fail(c))
