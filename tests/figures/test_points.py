from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.image import imread

from toolsavvy.figures.points import Path2D, Point, scatter, trajectories


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


def moving(label: str, *points: tuple[float, float], reach: float = 5.0) -> Path2D:
    return Path2D(label, tuple(Point(x, x - reach, x + reach, y, y - reach, y + reach) for x, y in points))


@pytest.mark.parametrize(
    "paths",
    [
        [],
        [moving("one", (30, 40))],
        [moving("still", (30, 40), (30, 40), reach=0.0), moving("$x^", (25, 0), (60, 100))],
        [moving(f"a_{i}", (20 + i, 40), (30, 40 + i)) for i in range(12)],
    ],
)
def test_any_number_of_paths_becomes_a_picture_of_two_panels(tmp_path: Path, paths: list[Path2D]) -> None:
    panels = [("left", paths, [("rival", 90.0)]), ("right", paths[:1], [])]
    trajectories(
        tmp_path / "a.png", panels, axes=("x, %", "y, %"), chance=(25.0, "chance"), ends=("before", "after")
    )  # fmt: skip
    height, width, _ = imread(tmp_path / "a.png").shape
    assert width > 1.5 * height


def test_an_arrow_and_its_direction_are_in_the_picture(tmp_path: Path) -> None:
    for name, points in (("there", ((30, 40), (60, 80))), ("back", ((60, 80), (30, 40)))):
        panels = [("", [moving("a", *points)], [])]
        trajectories(tmp_path / f"{name}.png", panels, axes=("x", "y"), chance=(25.0, "chance"), ends=("1", "2"))
    there, back = (imread(tmp_path / f"{name}.png") for name in ("there", "back"))
    assert there.shape == back.shape and (there != back).any()
