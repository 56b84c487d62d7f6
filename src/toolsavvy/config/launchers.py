"""Who starts the jobs of a sweep: what each launcher needs, and how many jobs of it share this machine."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass

from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError

JOB_MEMORY = {"lora": 6_000_000_000, "full": 10_000_000_000}
"""Bytes that a job on a CPU may take, by what is tuned: the quickstart's peaks are 4.7 and 9.8 GB."""


@dataclass(frozen=True)
class Launcher:
    """What is known of a launcher.

    Args:
        name: as in `hydra/launcher=NAME`.
        extra: of this package, that installs it; None is part of Hydra.
        module: that must be there.
        is_local: whether jobs share this machine, so that their number must suit it.
        has_own_process: whether every job gets a process that no other job uses before or after it.
        number: key of the number of jobs at once.
    """

    name: str
    extra: str | None = None
    module: str = ""
    is_local: bool = True
    has_own_process: bool = False
    number: str | None = None


_SUBMITIT, _RAY = "hydra_plugins.hydra_submitit_launcher", "hydra_plugins.hydra_ray_launcher"
LAUNCHERS = {
    "BasicLauncher": Launcher("basic"),
    "JoblibLauncher": Launcher(
        "joblib", "joblib", "hydra_plugins.hydra_joblib_launcher", number="hydra.launcher.n_jobs"
    ),
    "LocalLauncher": Launcher(
        "submitit_local", "submitit", _SUBMITIT, has_own_process=True, number="hydra.sweeper.max_batch_size"
    ),
    "SlurmLauncher": Launcher("submitit_slurm", "submitit", _SUBMITIT, is_local=False, has_own_process=True),
    "RayLauncher": Launcher("ray", "ray", _RAY, has_own_process=True, number="hydra.launcher.ray.init.num_cpus"),
}


def launcher_of(target: str) -> Launcher:
    """What is known of a launcher by its class; one of the user's own is taken at its word."""
    module, _, name = target.rpartition(".")
    return LAUNCHERS.get(name) or Launcher(name, None, module, is_local=False)


def check_launcher(launcher: Launcher) -> None:
    """The plugin must be installed.

    Raises:
        UserError: it is not, with what installs it.
    """
    try:
        is_there = not launcher.module or importlib.util.find_spec(launcher.module) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        extra = f"toolsavvy[{launcher.extra}]" if launcher.extra else launcher.module
        raise UserError(
            "its package is not installed", where=f"hydra/launcher={launcher.name}", expected="an installed launcher",
            fix=f"pip install '{extra}', or leave hydra/launcher out: jobs then run one after the other",
        )  # fmt: skip


def check_devices(launcher: Launcher, configs: Sequence[Config]) -> None:
    """Each rank of a distributed training repeats the command of its process, which must be that of one job.

    Raises:
        UserError: it would be that of the whole sweep, or of a process that other jobs have used.
    """
    if launcher.has_own_process or all(c.trainer.devices == 1 for c in configs):
        return
    strategy = next(c.trainer.strategy for c in configs if c.trainer.devices != 1)
    reason = (
        "each rank would start the whole sweep again" if launcher.name == "basic" else "its processes are used again"
    )
    raise UserError(
        f"training on several devices ({strategy}) needs a process of its own for every job of a sweep: {reason}",
        where=f"hydra/launcher={launcher.name}, trainer.strategy={strategy}",
        expected="trainer.devices=1, or a launcher that starts a process a job: submitit_local, submitit_slurm, ray",
        fix="add hydra/launcher=submitit_local (pip install 'toolsavvy[submitit]'), or run the jobs one by one",
    )


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def jobs_at_once(configs: Sequence[Config]) -> int:
    """How many jobs this machine bears: by cores and memory; one where jobs want the GPU."""
    import psutil

    if any(c.trainer.accelerator != "cpu" for c in configs):
        return 1
    memory = max(JOB_MEMORY[c.tuning.kind] for c in configs)
    return max(1, min(cores(), len(configs), psutil.virtual_memory().available // memory))


def spread(launcher: Launcher, configs: Sequence[Config], overrides: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Overrides and variables by which jobs side by side do not fight for cores; what the user chose stands.

    Args:
        launcher: who starts them.
        configs: of all jobs.
        overrides: of the command line.

    Returns:
        The number of jobs at once as an override, and the threads of each of them.
    """
    if launcher.number is None:
        return [], {}
    chosen = next((o.partition("=")[2] for o in overrides if o.lstrip("+").startswith(f"{launcher.number}=")), None)
    at_once = jobs_at_once(configs)
    if chosen is not None and chosen.lstrip("-").isdecimal() and int(chosen) != 0:
        at_once = int(chosen) if int(chosen) > 0 else cores()
    threads = str(max(1, cores() // at_once))
    own = [] if chosen is not None else [f"{launcher.number}={at_once}"]
    return own, {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ}
