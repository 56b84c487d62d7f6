"""Every file that a run which was cut off left behind, damaged in turn: it is refused by name, or its work is redone.

The files are those that are there, in the run's folder and in the cache, so a new kind of file is covered as soon as
it is written. The seed draws some files and what happens to them; `TOOLSAVVY_DAMAGES=20` draws as many of each method,
and with `TOOLSAVVY_KILLS=all` every kind of damage is done to every file.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, runs

from killing import Commands, Ended, Place, Plan
from toolsavvy.tracking import read_status
from toy_commands import COMMANDS, Command, contents, differences, half_written

ALL = os.environ.get("TOOLSAVVY_KILLS") == "all"
DRAWN = int(os.environ.get("TOOLSAVVY_DAMAGES", "1"))
"""Files of each method that are damaged."""
LAST = {"toolgen": "save model", "contrastive": "score catalog_test", "necessity": "probe", "pbt": "score",
        "generate": "write", "evaluate": "score catalog_test"}  # fmt: skip
"""Stage at whose beginning a run is cut off: most of its files are there by then."""
UNREAD = ("run.log", "config.yaml", ".lock", "history.csv", "run.json")
"""Ends of files that a resumed run writes anew, that hold nothing, or that have no checksum to find a bit flipped."""


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit flipped": flipped,
    "cut in half": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
}


@dataclass(frozen=True)
class CutOff:
    """A run that was killed near its end, and what it should have come to.

    Args:
        command: its name's.
        words: of its command, without the outputs.
        folder: outputs and cache as the kill left them.
        wanted: contents of the run's folder when nothing happens.
    """

    command: Command
    words: tuple[str, ...]
    folder: Path
    wanted: dict[str, Any]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("commands"))


def start(commands: Commands, command: Command, words: tuple[str, ...], folder: Path, **plan: Any) -> Ended:
    """One attempt, with outputs and cache below a folder."""
    told = Plan(watched=(str(folder),), prepare=command.prepare, **plan)
    words = (*words, f"paths.outputs={folder / 'out'}")
    return commands.run(words, told, ROOT, TOOLSAVVY_CACHE=str(folder / "cache"))


@pytest.fixture(scope="module", params=list(LAST))
def cut_off(request: pytest.FixtureRequest, commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> CutOff:
    command, base = COMMANDS[request.param], tmp_path_factory.mktemp("cut")
    words = (*command.words, *command.made(base))
    ended = start(commands, command, words, base / "cut", die=Place(LAST[request.param]))
    assert ended.code == -9, ended.err
    shutil.copytree(base / "cut", base / "whole")
    done = start(commands, command, (*words, "resume=true"), base / "whole")
    assert done.code == 0, done.err
    return CutOff(command, words, base / "cut", contents(runs(base / "whole" / "out")[0]))


def damages(folder: Path) -> Iterator[tuple[Path, str]]:
    """(File, what happens to it)."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_size and not p.name.endswith(UNREAD)]
    rng = random.Random(len(files))
    for path in files if ALL else rng.sample(files, min(DRAWN, len(files))):
        yield from ((path.relative_to(folder), name) for name in (DAMAGES if ALL else [rng.choice(list(DAMAGES))]))


def outcome(commands: Commands, cut: CutOff, folder: Path, path: Path) -> str:
    """What a resumed run made of the damage; "" where that is all right."""
    ended = start(commands, cut.command, (*cut.words, "resume=true"), folder)
    if "Traceback" in ended.err or ended.code not in (0, 2):
        return f"exit code {ended.code}: {ended.err[-1500:]}"
    if ended.code == 2:
        return "" if path.name in ended.err or path.parent.name in ended.err else f"does not name it: {ended.err}"
    run = next(r for r in runs(folder / "out") if (found := read_status(r)) is not None and found.status == "done")
    return "; ".join([*differences(contents(run), cut.wanted), *half_written(folder / "cache", run)])


def test_damage_is_refused_by_name_or_mended(commands: Commands, cut_off: CutOff, tmp_path: Path) -> None:
    wrong: list[str] = []
    for number, (path, name) in enumerate(damages(cut_off.folder)):
        folder = tmp_path / str(number)
        shutil.copytree(cut_off.folder, folder)
        (folder / path).write_bytes(DAMAGES[name]((folder / path).read_bytes()))
        if trouble := outcome(commands, cut_off, folder, path):
            wrong.append(f"{path}, {name}: {trouble}")
        shutil.rmtree(folder)
    assert not wrong, "\n".join(wrong)
