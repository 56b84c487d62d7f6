"""The processes of one training on one machine: started by the first, and all ended when one of them is gone.

Lightning's own watchman kills everything, the run that should say what happened included. Here the first process is
told, and ends as any failed run does; the others end when the first is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from pytorch_lightning.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

FIRST = "TOOLSAVVY_FIRST_RANK"
"""Process id of the rank that started the others."""
PAUSE = 0.5
"""Seconds between two looks."""
GRACE = 60.0
"""Seconds in which the first process must have heard that another is gone; it hears nothing inside a stuck GPU call."""
LEAVE = 10.0
"""Seconds that the others have to end when the first has."""


class RankLost(RuntimeError):
    """Another process of the training has ended."""


class Launcher(_SubprocessScriptLauncher):
    """Start the further ranks with this process's own command, and look after them."""

    def launch(self, function: Callable[..., Any], *args: Any, trainer: Any = None, **kwargs: Any) -> Any:
        """Start what is not there yet, then train."""
        self.cluster_environment.validate_settings(num_devices=self.num_processes, num_nodes=self.num_nodes)
        os.environ[FIRST] = str(os.getpid())
        self._call_children_scripts()
        _OTHERS[:] = self.procs
        atexit.register(end_others)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR2, _hear)
        threading.Thread(target=_watch_others, args=(list(self.procs),), daemon=True, name="ranks").start()
        return function(*args, **kwargs)


_OTHERS: list[subprocess.Popen[bytes]] = []
_HEARD = threading.Event()
_ENDING = threading.Event()


def lost() -> RankLost | None:
    """What there is to say of a process that ended with an error; None while all are well."""
    for rank, process in enumerate(_OTHERS, start=1):
        if process.poll():
            return RankLost(
                f"rank {rank} (process {process.pid}) {_ended(process.returncode)}; the training cannot go on without "
                f"it. What it said itself stands above. resume=true continues from the last stage"
            )
    return None


def soon_lost(seconds: float = 2.0) -> RankLost | None:
    """The same for an error in this process that may come from another's end: that is known a moment later."""
    end = time.monotonic() + (seconds if _OTHERS else 0.0)
    while (found := lost()) is None and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _watch_others(others: Sequence[subprocess.Popen[bytes]]) -> None:
    """Tell the first process that another is gone, and end the rest, which wait for it."""
    while any(p.poll() is None for p in others) and lost() is None:
        time.sleep(PAUSE)
    if (gone := lost()) is None or _ENDING.is_set():
        return
    for process in others:
        with contextlib.suppress(OSError):
            process.kill()
    os.kill(os.getpid(), signal.SIGUSR2)
    if not _HEARD.wait(GRACE):
        _last_words(gone)
        os._exit(1)


def _hear(number: int, frame: FrameType | None) -> None:
    """Raise it in the main thread, unless that has an error of its own already and is ending the run."""
    _HEARD.set()
    found = lost()
    if found is not None and sys.exc_info()[0] is None and not _ENDING.is_set():
        raise found


def _last_words(gone: RankLost) -> None:
    """The main thread is stuck: say in its place how the run ended."""
    from toolsavvy.tracking.records import read_status, write_status
    from toolsavvy.tracking.run import RUN_DIR

    sys.stderr.write(f"failed: {gone}\n")
    folder = Path(os.environ.get(RUN_DIR, ""))
    status = read_status(folder) if os.environ.get(RUN_DIR) else None
    if status is not None:
        write_status(folder, replace(status, status="failed", error=f"RankLost: {gone}"))


def end_others() -> None:
    """At the end of the first process the others end too; what is still there after a while is killed."""
    _ENDING.set()
    deadline = time.monotonic() + (LEAVE if lost() is None else 0.0)
    for process in _OTHERS:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def follow_first() -> None:
    """End this process when the one that started it is gone: in a collective it would wait for it for days."""
    first = os.environ.get(FIRST, "")
    if not first or int(first) == os.getpid() or any(t.name == "first rank" for t in threading.enumerate()):
        return

    def watch() -> None:
        while os.getppid() == int(first):
            time.sleep(PAUSE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="first rank").start()
