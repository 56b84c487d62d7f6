"""SIGKILL in every stage of every method, then `resume=true`: the same results, and nothing half-written.

The stages are those that a reference run goes through, so a new stage is covered as soon as there is one. By default a
run is killed in one stage after another, at a place within each that the seed draws, and completes at last. With
`TOOLSAVVY_KILLS=all` every kill has a run of its own: at the entry of every stage, at several places within it, and
between stages; `TOOLSAVVY_KILL_LOG` names a file that gets a line for each.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, record, runs, status

from killing import OUTSIDE, Commands, Ended, Place, Plan
from toy_commands import COMMANDS, Command, contents, differences, half_written

ALL = os.environ.get("TOOLSAVVY_KILLS") == "all"
LOG = os.environ.get("TOOLSAVVY_KILL_LOG")
WITHIN, BETWEEN = 2, 6
"""Places within each stage, and between stages, where every kill has a run of its own."""


@dataclass(frozen=True)
class Reference:
    """A run that nothing happened to.

    Args:
        words: of its command, without the outputs.
        command: its name's.
        contents: of its folder.
        events: stage -> number of things done to files.
    """

    words: tuple[str, ...]
    command: Command
    contents: dict[str, Any]
    events: dict[str, int]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("commands"))


def start(commands: Commands, reference: Command, words: tuple[str, ...], folder: Path, **plan: Any) -> Ended:
    """One attempt, with outputs and cache below a folder."""
    told = Plan(watched=(str(folder),), prepare=reference.prepare, **plan)
    words = (*words, f"paths.outputs={folder / 'out'}")
    return commands.run(words, told, ROOT, TOOLSAVVY_CACHE=str(folder / "cache"))


@pytest.fixture(scope="module", params=list(COMMANDS))
def reference(
    request: pytest.FixtureRequest, commands: Commands, tmp_path_factory: pytest.TempPathFactory
) -> Reference:
    command, folder = COMMANDS[request.param], tmp_path_factory.mktemp("reference")
    words = (*command.words, *command.made(tmp_path_factory.mktemp("inputs")))
    done = start(commands, command, words, folder, events=str(folder / "events"))
    assert done.code == 0, done.err
    events: dict[str, int] = {}
    for line in (folder / "events").read_text().splitlines():
        stage, number, *_ = json.loads(line)
        events[stage] = number
    (run,) = runs(folder / "out")
    assert set(events) - {OUTSIDE} == set(record(run)["stages"])
    return Reference(words, command, contents(run), events)


def places(events: dict[str, int], rng: random.Random) -> Iterator[Place]:
    """Where runs are killed, outside of every stage at last: how often that happens hangs on what is done already."""
    for stage, count in sorted(events.items(), key=lambda item: item[0] == OUTSIDE):
        if not ALL:
            yield Place(stage, rng.randint(1, count))
            continue
        if stage != OUTSIDE:
            yield Place(stage)
        drawn = rng.sample(range(1, count + 1), min(count, BETWEEN if stage == OUTSIDE else WITHIN))
        yield from (Place(stage, number) for number in sorted(drawn))


def complete(commands: Commands, reference: Reference, folder: Path) -> None:
    """Resume without further trouble: everything as in the reference."""
    done = start(commands, reference.command, (*reference.words, "resume=true"), folder)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    (run,) = (r for r in runs(folder / "out") if status(r)["status"] == "done")
    for other in runs(folder / "out"):  # killed before it could say what it is
        assert other == run or {p.name for p in other.iterdir()} <= {"status.json", "run.log"}
    assert not (found := differences(contents(run), reference.contents)), found
    assert list(half_written(folder)) == []


def note(line: str) -> None:
    """A line of the log that was asked for."""
    if LOG:
        with Path(LOG).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def chained(commands: Commands, reference: Reference, name: str, folder: Path) -> None:
    """One run, killed in one stage after another."""
    killed = []
    for place in places(reference.events, random.Random(name)):
        again = ("resume=true",) if killed else ()
        ended = start(commands, reference.command, (*reference.words, *again), folder, die=place)
        if ended.code == 0:  # what that stage does was done in an earlier attempt
            break
        assert ended.code == -signal.SIGKILL, (place, ended.err)
        killed.append(place)
    complete(commands, reference, folder)
    note(f"{name}: killed at {', then at '.join(map(str, killed))}: resumed, equal")


def apart(commands: Commands, reference: Reference, name: str, folder: Path) -> None:
    """A run for every kill."""
    wrong = []
    for number, place in enumerate(places(reference.events, random.Random(name))):
        own = folder / str(number)
        own.mkdir()
        ended = start(commands, reference.command, reference.words, own, die=place)
        assert ended.code == -signal.SIGKILL, (place, ended.err)
        try:
            complete(commands, reference, own)
            note(f"{name}: killed at {place}: resumed, equal")
        except AssertionError as error:
            note(f"{name}: killed at {place}: WRONG: {str(error)[:600]}")
            wrong.append(f"{place}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_killed_run_completes_with_the_same_results(
    commands: Commands, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kill = apart if ALL else chained
    kill(commands, reference, request.node.callspec.id, tmp_path)
