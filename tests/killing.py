"""Commands in processes of their own that start in no time, die at named places, or meet a full disk.

A fork server imports torch and the rest once; every command is a fork of it, as real as any process: it is killed with
SIGKILL, interrupted, or run out of room. Where it dies is counted in what it does to files (Python's audit events:
a file opened for writing, a rename, a removal), so nothing of `src` knows of this.
"""

from __future__ import annotations

import atexit
import importlib
import json
import multiprocessing
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

PRELOADED = (
    "torch", "transformers", "peft", "pytorch_lightning", "sentence_transformers", "faiss", "bm25s", "wandb", "hydra",
    "matplotlib.pyplot", "toolsavvy.methods.toolgen", "toolsavvy.methods.contrastive", "toolsavvy.methods.necessity",
    "toolsavvy.methods.pbt", "toolsavvy.methods.evaluate", "toolsavvy.methods.generate", "toolsavvy.methods.report",
)  # fmt: skip
OUTSIDE = "between stages"
"""Name of what a run does outside of every stage."""
_WRITING = os.O_WRONLY | os.O_RDWR
_FOREIGN = ("WANDB_", "TOOLSAVVY_", "HYDRA_")
"""Variables of this environment that commands do not see."""


@dataclass(frozen=True)
class Place:
    """Where a process dies.

    Args:
        stage: name of a stage of `run.stage`, or `OUTSIDE`.
        event: 0 is the stage's beginning; n is before the n-th thing that is done to a file within it.
    """

    stage: str
    event: int = 0

    def __str__(self) -> str:
        """As logs show it."""
        return f"{self.stage}, {'entry' if not self.event else f'write {self.event}'}"


@dataclass(frozen=True)
class Plan:
    """What a process is to meet.

    Args:
        watched: folders in which things done to files count.
        die: where it kills itself.
        events: file that a line is appended to for every event: stage, number, what, path.
        stop: where it waits for a signal instead of dying; the file `stopped` is made there.
        stopped: see `stop`.
        largest: bytes that no file may grow past (EFBIG where a signal would kill).
        shift: seconds that its clock is ahead.
        shift_from: stage at whose beginning the clock jumps; "" means that it was wrong from the start.
        powerless: also for root, what may not be written may not be written.
        prepare: `module:function`, called before the command (a planted model).
    """

    watched: tuple[str, ...] = ()
    die: Place | None = None
    events: str = ""
    stop: Place | None = None
    stopped: str = ""
    largest: int = 0
    shift: float = 0.0
    shift_from: str = ""
    powerless: bool = False
    prepare: str = ""


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float


@dataclass
class _Counter:
    """Counts a process's events by stage, and does what the plan wants at one of them."""

    plan: Plan
    stage: str = OUTSIDE
    counts: dict[str, int] = field(default_factory=dict)
    is_busy: bool = False

    def enter(self, stage: str) -> str:
        before, self.stage = self.stage, stage
        if stage == self.plan.shift_from:
            _shift(self.plan.shift)
        if stage != OUTSIDE:
            self._act(Place(stage), "stage", "")
        return before

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in ("open", "os.rename", "os.remove", "os.rmdir", "os.truncate") or self.is_busy:
            return
        flags = args[2] if event == "open" else _WRITING
        if not isinstance(flags, int) or not flags & _WRITING or flags & os.O_TMPFILE == os.O_TMPFILE:
            return
        path = os.fsdecode(args[0]) if isinstance(args[0], str | bytes | os.PathLike) else ""
        if not path.startswith(self.plan.watched) or "/wandb/" in path or path.endswith(("run.log", ".lock")):
            return
        if event in ("os.remove", "os.rmdir") and not os.path.lexists(path):
            return
        self.counts[self.stage] = number = self.counts.get(self.stage, 0) + 1
        self._act(Place(self.stage, number), event, path)

    def _act(self, place: Place, what: str, path: str) -> None:
        self.is_busy = True
        try:
            if self.plan.events:
                with Path(self.plan.events).open("a") as file:
                    file.write(json.dumps([place.stage, place.event, what, path]) + "\n")
            if place == self.plan.die:
                os.kill(os.getpid(), signal.SIGKILL)
            if place == self.plan.stop:
                Path(self.plan.stopped).touch()
                for _ in range(6000):
                    time.sleep(0.01)
        finally:
            self.is_busy = False


def _watch(plan: Plan) -> None:
    """Count from now on: what is done to files, and the stages of runs."""
    from contextlib import contextmanager

    from toolsavvy.tracking.run import Run

    counter, stage = _Counter(plan), Run.stage

    @contextmanager
    def counted(self: Run, name: str) -> Iterator[None]:
        before = counter.enter(name)
        try:
            with stage(self, name):
                yield
        finally:
            counter.enter(before) if before == OUTSIDE else setattr(counter, "stage", before)

    Run.stage = counted
    sys.addaudithook(counter.hook)


def _shift(seconds: float) -> None:
    """The clock jumps."""
    real = time.time
    time.time = lambda: real() + seconds


def _give_up_rights() -> None:
    """Drop the capabilities by which root writes where nobody may (capset of Linux, version 3: two empty sets)."""
    import ctypes

    header, empty = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(header, empty) == 0, os.strerror(ctypes.get_errno())


def _limit(plan: Plan) -> None:
    """No file of this process grows past a size."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (plan.largest, plan.largest))


def _child(words: Sequence[str], plan: Plan, env: Mapping[str, str | None], folder: str, out: str, err: str) -> None:
    """What the fork does: its own output files and environment, then the command."""
    for number, path in ((1, os.devnull if plan.largest else out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    sys.argv = ["toolsavvy", *words]
    os.chdir(folder)
    # Folders that were there before the fork (W&B's media) are the server's: this process may not remove them.
    atexit._clear()
    weakref.finalize._registry.clear()  # pyright: ignore[reportAttributeAccessIssue]
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:  # of whichever test started the server
        os.environ.pop(name)
    for name, value in env.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    if plan.prepare:
        module, _, function = plan.prepare.partition(":")
        getattr(importlib.import_module(module), function)()
    if plan.shift and not plan.shift_from:
        _shift(plan.shift)
    if plan.powerless:
        _give_up_rights()
    if plan.watched:
        _watch(plan)
    if plan.largest:
        _limit(plan)
    from toolsavvy.__main__ import main

    code = main(list(words))
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)


class Started:
    """A command that runs."""

    def __init__(self, process: Any, out: Path, err: Path) -> None:
        self.process, self._out, self._err, self._start = process, out, err, time.monotonic()

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait_for(self, path: Path, seconds: float = 120) -> None:
        """Until a file is there."""
        end = time.monotonic() + seconds
        while not path.exists():
            assert self.process.is_alive(), self._err.read_text()
            assert time.monotonic() < end, f"{path} never appeared"
            time.sleep(0.01)

    def end(self, seconds: float = 300) -> Ended:
        """Wait for its end."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"still running: {self._err.read_text()}"
        seconds = time.monotonic() - self._start
        return Ended(self.process.exitcode, self._out.read_text(), self._err.read_text(), seconds)


class Commands:
    """Starts commands as forks of a server that has imported everything.

    Args:
        folder: for their output files.
    """

    def __init__(self, folder: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._folder, self._count = folder, 0
        self._context.set_forkserver_preload([*PRELOADED, "planted_commands", "killing"])
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # the server is told no path before Python 3.13
        try:
            forkserver.ensure_running()
        finally:
            os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)

    def start(self, words: Sequence[str], plan: Plan | None = None, cwd: Path | None = None, **env: str) -> Started:
        self._count += 1
        out, err = (self._folder / f"{self._count}.{kind}" for kind in ("out", "err"))
        variables = {"COLUMNS": "200", "OMP_NUM_THREADS": "1", **env}
        args = (tuple(words), plan or Plan(), variables, str(cwd or Path.cwd()), str(out), str(err))
        out.touch()
        err.touch()
        process = self._context.Process(target=_child, args=args)
        process.start()
        return Started(process, out, err)

    def run(self, words: Sequence[str], plan: Plan | None = None, cwd: Path | None = None, **env: str) -> Ended:
        return self.start(words, plan, cwd, **env).end()


def wait_until(is_true: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Until something holds."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, what
        time.sleep(0.02)
