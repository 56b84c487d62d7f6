from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.image import imread

from toolsavvy.figures import scatter


def draw(path: Path, labels: list[str]) -> None:
    n = len(labels)
    x, y = [float(i % 4) for i in range(n)], [0.01 * i for i in range(n)]
    scatter(path, labels, x, y, axes=("x", "y"), title="a title")


@pytest.mark.parametrize("labels", [[], ["one"], [f"system {i}" for i in range(9)], ["$x^", "a_b$", "é"]])
def test_any_number_of_points_and_any_label_becomes_a_picture(tmp_path: Path, labels: list[str]) -> None:
    draw(tmp_path / "figures" / "a.png", labels)
    assert imread(tmp_path / "figures" / "a.png").ndim == 3
    assert [p.name for p in (tmp_path / "figures").iterdir()] == ["a.png"]


def test_the_same_points_give_the_same_bytes_and_labels_are_in_the_picture(tmp_path: Path) -> None:
    for name, label in (("a", "system"), ("b", "system"), ("c", "another")):
        draw(tmp_path / f"{name}.png", [label, "x"])
    a, b, c = ((tmp_path / f"{name}.png").read_bytes() for name in "abc")
    assert a == b != c
