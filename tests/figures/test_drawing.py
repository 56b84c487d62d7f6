from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from toolsavvy.figures.bars import Bar, quadrant_bars
from toolsavvy.figures.canvas import COLOURS, QUADRANT_COLOURS
from toolsavvy.figures.curves import Curve, Mark, Panel, curve_panels
from toolsavvy.figures.heatmap import Map, heat_maps, table_map
from toolsavvy.figures.points import Cloud, clouds
from toolsavvy.figures.sankey import Ribbon, sankey

NODES = (("necessary", "unnecessary"), ("thinks so", "thinks not"), ("called", "not called"))
WAY = Ribbon(("necessary", "thinks so", "not called"), 12, "stage 2")


def texts(path: Path) -> str:
    """All text of an SVG, in order."""
    root = ElementTree.fromstring(path.read_bytes())
    return "\n".join("".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text"))


def bars(paths, label="model") -> None:
    shares = (0.1, 0.2, 0.3, 0.4)
    several = [Bar(label, "strict", shares, 1234, "50.0 [48, 52]"), Bar("b", "released", shares, 7, "$1")]
    quadrant_bars(paths, several, title="a title")


def maps(paths, label="model") -> None:
    values = np.full((3, 6), np.nan)
    values[0] = np.linspace(-1, 1, 6)
    one = Map(label, values, (0, 1, 2), tuple(range(-6, 0)), (1, -2), (-2, -1))
    heat_maps(paths, [one, Map("b", values, (0, 1, 2), tuple(range(-6, 0)))], measure="MCC", title="a title")


def table(paths, label="model") -> None:
    values = np.array([[0.1, np.nan], [0.3, 0.2]])
    cells = [["10 %", ""], ["30 %", "20 %"]]
    table_map(paths, values, ["5", label], ["0.3", "0.7"], texts=cells, axes=("T", "N"), measure="mismatch")


def flows(paths, label="model") -> None:
    other = Ribbon(("unnecessary", "thinks not", "not called"), 30, label)
    colours = {label: COLOURS[0], "stage 2": COLOURS[1]}
    sankey(paths, ("Factual", "Cognition", "Action"), NODES, [WAY, other], colours=colours, title="a title")


def lines(paths, label="model") -> None:
    curve = Curve(label, [-1, 0, 1], [0.1, np.nan, 0.4], [0, 0, 0.3], [0.2, 1, 0.5])
    control = Curve("random", [-1, 0, 1], [0.2] * 3, [0.1] * 3, [0.3] * 3, control=True)
    panels = [
        Panel("calls", "alpha", "call rate", (curve, control), line=(0, "unsteered"), level=(0.3, "as it was")),
        Panel("accuracy", "alpha", "accuracy", (curve,), (Mark("$baseline_1", 0, 0.3),)),
        Panel("empty", "x", "y", ()),
    ]
    curve_panels(paths, panels, title="a title")


def points(paths, label="model") -> None:
    groups = [Cloud(label, COLOURS[0], "o", [1, 2], [0, 1]), Cloud("none", COLOURS[1], "s", [], [])]
    clouds(paths, groups, axes=("necessity", "action"), thresholds=(0.5, None), title="a title")


DRAWN: dict[Callable[..., None], tuple[str, ...]] = {
    bars: ("strict", "released", "(1,234)", "N-NC: necessary, not called", "50.0 [48, 52]", "40", "$1"),
    maps: ("a title", "MCC", "template", "-1", "layer (0: embeddings)"),
    table: ("10 %", "30 %", "0.7", "mismatch"),
    flows: ("Factual", "Cognition", "Action", "stage 2: 12 (29%)", "called", "30", "thinks not"),
    lines: ("calls", "random", "unsteered", "as it was", "$baseline_1", "call rate", "empty"),
    points: ("none (0)", "(2)", "necessity", "action"),
}


@pytest.mark.parametrize("draw", DRAWN, ids=lambda d: d.__name__)
def test_a_png_and_an_svg_with_the_labels_and_the_same_bytes_every_time(tmp_path: Path, draw) -> None:
    for name in ("a", "b"):
        draw([tmp_path / name / "f.png", tmp_path / name / "f.svg"])
    draw(tmp_path / "c" / "f.svg", label="<another> & é $x^")
    assert imread(tmp_path / "a" / "f.png").ndim == 3
    for suffix in ("png", "svg"):
        first, second = ((tmp_path / name / f"f.{suffix}").read_bytes() for name in "ab")
        assert first == second
    shown = texts(tmp_path / "a" / "f.svg")
    for label in (*DRAWN[draw], "model"):
        assert label in shown, label
    assert "<another> & é $x^" in texts(tmp_path / "c" / "f.svg")
    svg = (tmp_path / "a" / "f.svg").read_text(encoding="utf-8")
    assert len(svg) < 150_000
    for told in ("<dc:date>", "Matplotlib v", "<script"):
        assert told not in svg


def test_other_data_give_another_picture(tmp_path: Path) -> None:
    for name, size in (("a", 12), ("b", 13)):
        sankey(
            tmp_path / f"{name}.png", ("F", "C", "A"), NODES, [Ribbon(WAY.nodes, size, "k"),
            Ribbon(("unnecessary", "thinks not", "called"), 20, "k")], colours={"k": COLOURS[0]},
        )  # fmt: skip
    assert (imread(tmp_path / "a.png") != imread(tmp_path / "b.png")).any()


def test_bars_are_as_long_as_their_shares(tmp_path: Path) -> None:
    quadrant_bars(tmp_path / "a.png", [Bar("m", "", (0.1, 0.2, 0.3, 0.4), 10, "")])
    picture = (imread(tmp_path / "a.png")[..., :3] * 255).round().astype(int)
    wanted = {n: tuple(int(c[i : i + 2], 16) for i in (1, 3, 5)) for n, c in QUADRANT_COLOURS.items()}
    widths = {n: max((picture == np.array(c)).all(axis=-1).sum(axis=1)) for n, c in wanted.items()}
    assert widths["UN-NC"] / widths["N-C"] == pytest.approx(4, rel=0.15)
    assert widths["UN-C"] / widths["N-C"] == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("empty", [lambda p: quadrant_bars(p, []), lambda p: clouds(p, [], axes=("x", "y")),
    lambda p: sankey(p, ("F", "C", "A"), NODES, [], colours={}),
    lambda p: heat_maps(p, [Map("m", np.full((1, 1), np.nan), (0,), (-1,))], measure="MCC", diverging=True),
    lambda p: heat_maps(p, [Map("m", np.zeros((1, 1)), (0,), (-1,))], measure="MCC")])  # fmt: skip
def test_nothing_to_show_is_still_a_picture(tmp_path: Path, empty) -> None:
    empty(tmp_path / "a.png")
    assert imread(tmp_path / "a.png").ndim == 3


def test_what_can_not_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not a\.pdf"):
        bars(tmp_path / "a.pdf")
    with pytest.raises(ValueError, match=r"values \(2, 1\) for 1 x 1"):
        heat_maps(tmp_path / "a.png", [Map("m", np.zeros((2, 1)), (0,), (-1,))], measure="MCC")
    for ribbons, message in (
        ([Ribbon(("nowhere", "thinks so", "called"), 1, "k")], "no place for ribbon"),
        ([Ribbon(WAY.nodes, 1, "other")], "kind 'other'"),
        ([Ribbon(WAY.nodes, 1, "k"), Ribbon(WAY.nodes, 2, "k")], "the same way"),
    ):
        with pytest.raises(ValueError, match=message):
            sankey(tmp_path / "a.png", ("F", "C", "A"), NODES, ribbons, colours={"k": COLOURS[0]})
    assert not list(tmp_path.iterdir())
