"""No room in the middle of a run: one sentence and exit code 2, nothing half-written; with room it completes.

A file that may not grow past a size stands for a full disk: the largest of a whole run finds no room for its last byte.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import ROOT, runs, status

from killing import Commands, Plan
from toy_commands import COMMANDS, contents, differences, half_written

METHODS = ("generate", "toolgen", "necessity")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("commands"))


@pytest.mark.parametrize("name", METHODS)
def test_a_run_without_room_says_so_and_completes_with_room(commands: Commands, tmp_path: Path, name: str) -> None:
    command = COMMANDS[name]
    words = (*command.words, *command.made(tmp_path / "inputs"))

    def run(folder: Path, *more: str, largest: int = 0) -> tuple[int, str]:
        plan = Plan(largest=largest, prepare=command.prepare)
        told = (*words, *more, f"paths.outputs={folder / 'out'}")
        ended = commands.run(told, plan, ROOT, TOOLSAVVY_CACHE=str(folder / "cache"))
        return ended.code, ended.err

    code, err = run(tmp_path / "whole")
    assert code == 0, err
    (whole,) = runs(tmp_path / "whole" / "out")
    sizes = sorted(p.stat().st_size for p in (tmp_path / "whole").rglob("*") if p.is_file())

    folder = tmp_path / "limited"
    code, err = run(folder, largest=sizes[-1] - 1)
    refused(code, err, folder)
    resumed(run(folder, "resume=true"), folder, whole)


def refused(code: int, err: str, folder: Path) -> None:
    """One sentence, and nothing half-written."""
    assert code == 2, err
    assert "Traceback" not in err and "fix:" in err
    assert any(word in err for word in ("disk", "grow", "room", "space")), err
    assert list(half_written(folder)) == []
    assert "done" not in [status(r)["status"] for r in runs(folder / "out")]


def resumed(ended: tuple[int, str], folder: Path, whole: Path) -> None:
    """As if there had been room all along."""
    code, err = ended
    assert code == 0, err
    run = next(r for r in runs(folder / "out") if status(r)["status"] == "done")
    assert not (found := differences(contents(run), contents(whole))), found
