"""Charts as markup: round ticks, true places, text that stays text."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from toolsavvy.figures.vector import HEIGHT, WIDTH, Chart, Grid, Series, chart, decades, grid, nice_ticks, number

BAD = "<script>x</script>\"'& \x1b[2J"


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 100.0], (0, 25, 50, 75, 100)), ([3.2, 4.9], (3, 3.5, 4, 4.5, 5)), ([7.0], None), ([], (0, 1)),
        ([-0.02, 0.013], None), ([1e9, 3e9], None),
    ],
)  # fmt: skip
def test_ticks_are_round_and_enclose_the_values(values: list[float], ticks: tuple[float, ...] | None) -> None:
    found = nice_ticks(values)
    assert ticks is None or found == ticks
    assert 2 <= len(found) <= 9
    assert all(found[0] <= v <= found[-1] for v in values)
    steps = {round(b - a, 9) for a, b in pairwise(found)}
    assert len(steps) == 1


def test_decades_and_names() -> None:
    assert decades([0.0001, 0.1]) == (0.0001, 0.001, 0.01, 0.1)
    assert decades([2.0, 7.0]) == (2.0, 7.0)
    assert [number(x) for x in (0, 0.00001, 1234.5, 2500000, 0.25)] == ["0", "1e-5", "1,234.5", "2.5e6", "0.25"]


def test_points_are_where_they_belong_and_gaps_break_the_line() -> None:
    line = Series(8, (1, 10, 100), (0.0, 50.0, 100.0), (0, 40, math.nan), (10, 60, math.nan))
    markup = chart(Chart("t", "x", "y", (line,), is_log=True)).markup
    root = ElementTree.fromstring(markup)
    dots = [(float(d.attrib["cx"]), float(d.attrib["cy"])) for d in root.iter("circle")]
    (a, b, c) = dots
    assert b[0] == pytest.approx((a[0] + c[0]) / 2, abs=0.2)  # equal steps of the logarithm
    assert b[1] == pytest.approx((a[1] + c[1]) / 2, abs=0.2)
    assert a[1] > c[1]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in dots)
    assert {d.attrib["class"] for d in root.iter("circle")} == {"dot c1 d1"}
    broken = chart(Chart("t", "x", "y", (Series(0, (1, 2, 3, 4, 5), (1, 2, math.nan, 4, 5)),))).markup
    assert broken.count("<polyline") == 2
    with pytest.raises(ValueError, match="positive values alone"):
        chart(Chart("t", "x", "y", (Series(0, (0, 1), (1, 2)),), is_log=True))


def test_darker_cells_are_more_and_missing_ones_are_marked() -> None:
    one = Grid("t", "s", "x", "y", ("a", "b"), ("r",), ((0.0, 1.0),), (("0", "1"),))
    fills = re.findall(r'fill="(#\w+)"', grid(one).markup)
    light = [sum(int(f[i : i + 2], 16) for i in (1, 3, 5)) for f in fills]
    assert light[0] > light[1]
    gap = Grid("t", "s", "x", "y", ("a", "b"), ("r",), ((None, math.nan),), (("", ""),))
    assert grid(gap).markup.count('class="none"') == 2
    same = Grid("t", "s", "x", "y", ("a",), ("r",), ((3.0,),), (("3",),), (3.0, 3.0))
    assert "nan" not in grid(same).markup


def test_text_stays_text() -> None:
    charts = [
        chart(Chart(BAD, BAD, BAD, (Series(0, (1, 2), (1, 2)),))),
        chart(Chart(BAD, BAD, BAD, ())),
        grid(Grid(BAD, BAD, BAD, BAD, (BAD,), (BAD,), ((1.0,),), ((BAD,),))),
    ]
    for one in charts:
        tags = {node.tag for node in ElementTree.fromstring(one.markup).iter()}
        assert tags <= {"svg", "text", "line", "rect", "polyline", "circle", "polygon"}
        assert "\x1b" not in one.markup
