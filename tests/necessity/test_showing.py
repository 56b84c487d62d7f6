from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from toolsavvy.metrics import Interval
from toolsavvy.necessity.attribution import KINDS, attribution, curve_thresholds
from toolsavvy.necessity.need import cost_curve
from toolsavvy.necessity.showing import (
    ATTRIBUTION_HEAD,
    KIND_COLOURS,
    KIND_NAMES,
    attribution_rows,
    draw_costs,
    draw_sankey,
    draw_stages,
    told,
    way_rows,
)

RNG = np.random.default_rng(0)
FACTUAL = RNG.random(200) < 0.4
SCORES = FACTUAL + RNG.normal(size=200)
CALLED = RNG.random(200) < 0.5
FOUND = attribution(FACTUAL, SCORES, CALLED, curve_thresholds(SCORES, 9), resamples=50)


def texts(path: Path) -> str:
    root = ElementTree.fromstring(path.read_bytes())
    return "\n".join("".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text"))


@pytest.mark.parametrize(
    ("value", "text"),
    [(Interval(0.123, 0.1, 0.2, 5), "0.12 [0.10, 0.20]"), (Interval(0.5, None, None, 1), "0.50"),
     (Interval(None, None, None, 0), "undefined")],
)  # fmt: skip
def test_intervals_as_text(value: Interval, text: str) -> None:
    assert told(value) == text


def test_numbers_with_units_and_signs() -> None:
    assert told(Interval(0.0123, -0.1, 0.2, 5), 100, 1, "+") == "+1.2 [-10.0, +20.0]"


def test_rows_hold_the_counts_and_every_row_fits_the_head() -> None:
    rows = attribution_rows(FOUND)
    assert {len(row) for row in rows} == {len(ATTRIBUTION_HEAD)}
    for row, one in zip(rows, FOUND, strict=True):
        assert [int(cell.replace(",", "")) for cell in row[1:5]] == [one.count(kind) for kind in KINDS]
    assert (rows[0][0], rows[-1][0]) == ("-inf", "inf")
    ways = way_rows(FOUND[4])
    assert sum(int(row[4]) for row in ways) == 200
    assert {row[3] for row in ways} == set(KIND_NAMES.values())
    assert set(KINDS) == set(KIND_NAMES) == set(KIND_COLOURS)


def test_the_figures_say_what_they_show(tmp_path: Path) -> None:
    one = FOUND[4]
    draw_sankey([tmp_path / "a.png", tmp_path / "a.svg"], one, title="m")
    draw_stages([tmp_path / "b.png", tmp_path / "b.svg"], FOUND, chosen=one.threshold)
    points = cost_curve(RNG.binomial(10, 0.7, size=200), 10, CALLED, costs=(0, 0.5, 1), resamples=20)
    draw_costs([tmp_path / "c.png", tmp_path / "c.svg"], points)
    for name in "abc":
        assert imread(tmp_path / f"{name}.png").ndim == 3
    sankey = texts(tmp_path / "a.svg")
    for kind in KINDS:
        assert f"{KIND_NAMES[kind]}: {one.count(kind)} (" in sankey
    assert f"called\n{CALLED.sum()}" in sankey
    for label in ("mismatch in stage 1", "the same by the probe's errors alone", "chosen threshold"):
        assert label in texts(tmp_path / "b.svg")
    for label in ("always call", "cost-aware rule", "hard label", "price of a call (a wrong answer: 1)"):
        assert label in texts(tmp_path / "c.svg")


def test_a_set_without_a_mismatch_is_drawn_too(tmp_path: Path) -> None:
    found = attribution(FACTUAL, SCORES, FACTUAL, curve_thresholds(SCORES, 5), resamples=20)
    draw_stages(tmp_path / "a.png", found)
    draw_sankey(tmp_path / "b.png", found[0])
    assert attribution_rows(found)[2][5:] == ["undefined"] * 3
