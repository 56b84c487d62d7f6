"""Learning curves in history.csv: whichever logger, once each, whole after a resumed run."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from test_tracking import make_run
from toolsavvy.tracking.history import History, read_history

CURVES = ("memorization/loss", "memorization/lr")


@pytest.mark.parametrize("logger", ["wandb", "csv", "none"])
def test_curves_are_there_whichever_logger(tmp_path: Path, logger: str) -> None:
    with make_run(tmp_path, f"logger={logger}") as run:
        run.log(dict.fromkeys(CURVES, 0.5), step=1)
        run.log({"memorization/loss": 0.25, "memorization/step": 2})
        run.log({'a, "quoted" name': float("nan")})
    told = (tmp_path / "history.csv").read_text()
    assert told.startswith(
        "step,metric,value\n1,memorization/loss,0.5\n1,memorization/lr,0.5\n2,memorization/loss,0.25"
    )
    *points, (step, name, value) = read_history(tmp_path)
    assert points == [(1, CURVES[0], 0.5), (1, CURVES[1], 0.5), (2, CURVES[0], 0.25)]
    assert (step, name) == (None, 'a, "quoted" name')
    assert math.isnan(value)


def test_a_resumed_run_writes_no_point_twice_and_loses_none(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), make_run(tmp_path) as run:
        for step in (1, 2, 3):
            run.log({"a/loss": 1 / step}, step)
        raise KeyboardInterrupt
    with (tmp_path / "history.csv").open("a") as file:
        file.write("4,a/lo")  # the disk took half of the last row
    assert [step for step, *_ in read_history(tmp_path)] == [1, 2, 3]
    with make_run(tmp_path) as run:
        for step in (3, 4):
            run.log({"a/loss": 1 / step}, step)
            run.log({"a/loss": 1 / step}, step)  # said twice by one attempt: its own business
        run.log({"b/loss": 1.0}, 3)
    points = list(read_history(tmp_path))
    assert [(step, name) for step, name, _ in points] == [*((s, "a/loss") for s in (1, 2, 3, 3, 4, 4)), (3, "b/loss")]
    with make_run(tmp_path, "seed=1") as run:  # another config in the same folder starts anew
        run.log({"a/loss": 5.0}, 1)
    assert list(read_history(tmp_path)) == [(1, "a/loss", 5.0)]


def test_a_run_without_curves_has_no_file(tmp_path: Path) -> None:
    with make_run(tmp_path):
        pass
    assert not (tmp_path / "history.csv").exists()
    assert list(read_history(tmp_path)) == []


def test_points_of_one_step_that_a_kill_parted_are_all_there(tmp_path: Path) -> None:
    first = History(tmp_path, continued=False)
    first.append({"a/loss": 1.0}, 0)
    again = History(tmp_path, continued=True)
    for loss in (1.0, 2.0):  # two batches of one optimizer step
        again.append({"a/loss": loss}, 0)
    assert list(read_history(tmp_path)) == [(0, "a/loss", 1.0), (0, "a/loss", 2.0)]


def test_a_curve_that_is_damaged_starts_anew(tmp_path: Path) -> None:
    (tmp_path / "history.csv").write_text("step,metric,value\nx,a/loss,1.0\n")
    History(tmp_path, continued=True).append({"a/loss": 1.0}, 0)
    assert list(read_history(tmp_path)) == [(0, "a/loss", 1.0)]
