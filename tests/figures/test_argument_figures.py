from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from toolsavvy.figures import arguments
from toolsavvy.figures.curves import Curve


def texts(path: Path) -> str:
    root = ElementTree.fromstring(path.read_bytes())
    return "\n".join("".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text"))


def reliable(paths, label="probe") -> None:
    one = arguments.Reliability(label, [0.1, 0.9], [0.2, 0.8], [3, 40])
    arguments.reliability_plots(paths, [one] * 4 + [arguments.Reliability("none", [], [], [])], title="a title")


def filters(paths, label="probe") -> None:
    one = arguments.Filter(label, [0.1, 0.5, 1.0], [1.0, 0.9, 0.4], (0.5, 0.9))
    arguments.precision_coverage(paths, [one, arguments.Filter("P($true$)", [0.5], [0.4])], base=0.4, title="a title")


def layers(paths, label="probe") -> None:
    curve = Curve(label, range(4), [0.5, 0.7, 0.9, 0.8], [0.4] * 4, [0.95] * 4)
    control = Curve("shuffled labels", range(4), [0.5] * 4, control=True)
    panels = {"one": {label: curve, "shuffled labels": control}, "two": {label: curve}}
    arguments.layer_curves(paths, panels, chosen={"one": 2}, title="a title")


def bars(paths, label="probe") -> None:
    systems = [arguments.LevelBars(label, [0.5, np.nan], [0.4, np.nan], [0.6, np.nan])]
    arguments.level_bars(paths, ["L1 (40)", "L2 (0)"], systems * 9, measure="exact match", title="a title")


DRAWN = [reliable, filters, layers, bars]


@pytest.mark.parametrize("draw", DRAWN)
def test_figures_hold_their_labels_and_repeat_byte_by_byte(draw: Callable, tmp_path: Path) -> None:
    files = [tmp_path / f"a{suffix}" for suffix in (".svg", ".png")]
    draw(files, "some $x_1$ label")
    assert "some $x_1$ label" in texts(files[0])
    assert "a title" in texts(files[0])
    image = imread(files[1])
    assert min(image.shape[:2]) > 200
    assert image[..., :3].std() > 0.05
    again = tmp_path / "b.svg"
    draw(again, "some $x_1$ label")
    assert again.read_bytes() == files[0].read_bytes()


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no signal"):
        arguments.reliability_plots(tmp_path / "a.png", [])
    with pytest.raises(ValueError, match="one value a level"):
        arguments.level_bars(tmp_path / "a.png", ["L1"], [arguments.LevelBars("x", [], [], [])], measure="")
