"""Processes of a launcher that has given up: waited for, or ended; none stays behind."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

PATIENCE = 20.0
"""Seconds that a process has to write how it ended before it is killed."""
LONGEST = 3 * 86400.0
"""Seconds that the other jobs of a launcher have to end."""
_WORKERS = ("submitit.", "loky.", "joblib.externals.loky.")
"""What the modules begin with that launchers start their processes with (`python -m ...`)."""
log = logging.getLogger(__name__)


def wait_for_jobs(launcher: str, folder: Path, longest: float = LONGEST) -> None:
    """Let the other jobs of a launcher end that has raised for one of them.

    Args:
        launcher: its name.
        folder: of the sweep.
        longest: seconds after which it goes on without them.
    """
    if launcher == "ray":
        ended = _wait(_idle_ray(), 0.5, longest)
    elif launcher == "submitit_slurm":
        ended = _wait(_ended_slurm(folder), 10.0, longest)
    elif launcher == "submitit_local":
        ended = _wait(lambda: not _workers(), 0.2, longest)
    else:  # joblib has ended its workers itself
        return
    if not ended:
        log.warning("jobs of hydra/launcher=%s still run after %.0f s: waiting no longer", launcher, longest)


def _wait(is_over: Callable[[], bool], pause: float, longest: float) -> bool:
    """Whether something was over before so many seconds had gone."""
    end = time.monotonic() + longest
    while not is_over():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def end_jobs(launcher: str) -> None:
    """End what still runs on this machine; jobs on a cluster go on."""
    if launcher == "submitit_slurm":
        return
    import psutil

    found = _workers()
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs(found, timeout=PATIENCE)
    for process in stubborn:
        with contextlib.suppress(psutil.Error):
            process.kill()
    leave_ray()


def leave_ray() -> None:
    """End the cluster that this process has started, or leave the one that it has joined."""
    ray = sys.modules.get("ray")
    if ray is not None and hasattr(ray, "shutdown"):
        ray.shutdown()


def _workers() -> list[psutil.Process]:
    """Processes of launchers below this one that have not ended."""
    import psutil

    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and _is_worker(process.cmdline()):
                found.append(process)
    return found


def _is_worker(words: Sequence[str]) -> bool:
    """Whether a command line is `python -m` a launcher's module."""
    return any(flag == "-m" and module.startswith(_WORKERS) for flag, module in pairwise(words))


def _idle_ray() -> Callable[[], bool]:
    """Whether no slot has been taken for a while: a task that waits is started at once where there is one."""
    import ray

    idle = 0

    def is_idle() -> bool:
        nonlocal idle
        if not ray.is_initialized():
            return True
        free, there = ray.available_resources().get("CPU", 0.0), ray.cluster_resources().get("CPU", 0.0)
        idle = idle + 1 if free >= there else 0
        return idle >= 5

    return is_idle


def _ended_slurm(folder: Path) -> Callable[[], bool]:
    """Whether SLURM says of every job that was handed to it that it has ended."""
    import submitit

    names = sorted((folder / ".submitit").glob("*/*_submitted.pkl"))
    jobs: list[Any] = [submitit.SlurmJob(p.parent, p.name.removesuffix("_submitted.pkl")) for p in names]
    return lambda: all(job.done() for job in jobs)
