"""Processes of a launcher that has given up: waited for, or ended; none stays behind."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

PATIENCE = 20.0
"""Seconds that a process has to write how it ended before it is killed."""
_WORKER_WORDS = ("submitit", "loky", "joblib")


def wait_for_jobs(launcher: str, folder: Path) -> None:
    """Let the other jobs of a launcher end that has raised for one of them.

    Args:
        launcher: its name.
        folder: of the sweep.
    """
    if launcher == "ray":
        _wait_for_ray()
    elif launcher == "submitit_slurm":
        _wait_for_slurm(folder)
    elif launcher == "submitit_local":  # joblib has ended its workers itself
        while _workers():
            time.sleep(0.2)


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
            words = " ".join(process.cmdline())
            is_worker = any(w in words for w in _WORKER_WORDS) and "resource_tracker" not in words  # it ends by itself
            if is_worker and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _wait_for_ray() -> None:
    """Until no slot has been taken for a while: a task that waits is started at once where there is one."""
    import ray

    idle = 0
    while ray.is_initialized() and idle < 5:
        free, there = ray.available_resources().get("CPU", 0.0), ray.cluster_resources().get("CPU", 0.0)
        idle = idle + 1 if free >= there else 0
        time.sleep(0.5)


def _wait_for_slurm(folder: Path) -> None:
    """Until SLURM says of every job that was handed to it that it has ended."""
    import submitit

    names = sorted((folder / ".submitit").glob("*/*_submitted.pkl"))
    jobs: list[Any] = [submitit.SlurmJob(p.parent, p.name.removesuffix("_submitted.pkl")) for p in names]
    while any(not job.done() for job in jobs):
        time.sleep(10.0)
