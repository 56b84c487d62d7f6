"""One job of the command in whatever process it runs: folder, typed config, run, method. Launchers name it."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolsavvy.errors import UserError, plain

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from toolsavvy.config.schema import Config
    from toolsavvy.tracking import Run


# conf/hydra/launcher/*.yaml are checked against the types of the plugins, which is what we want; said in every process.
warnings.filterwarnings("ignore", message=r"\s*'hydra/launcher/\w+' is validated against ConfigStore schema")

IN_WORKER = "TOOLSAVVY_WORKER"
"""Set where jobs run in processes of a launcher: the process that started them, then its flags, one a line."""
SWEEP_START = "TOOLSAVVY_SWEEP_START"
"""When the sweep was started, in seconds since the epoch."""
GOING_ON = "TOOLSAVVY_GOING_ON"
"""Set when the launcher has broken down, and the jobs that were not started get their turn."""


@dataclass(frozen=True)
class End:
    """How a job of this process ended: its folder, and the error if there was one."""

    folder: Path
    error: Exception | None = None


ENDED: list[End] = []
"""Jobs that ran in this process, in order. Hydra's own way of handing errors on prints overrides, secrets included."""


def job(cfg: DictConfig) -> float | None:
    """What Hydra calls for every job: typed config, folder, run, method.

    Nothing is raised, so that every launcher goes on with the next job; status.json tells how it ended.

    Returns:
        What a search goes by, see `tracking.study`.
    """
    from toolsavvy.config.compose import BASIC, is_multirun, job_settings
    from toolsavvy.tracking.disk import disk_error

    settings = job_settings()
    folder, failure = Path(settings.runtime.output_dir), None
    try:
        config, run, folder = _make_run(cfg, settings)
        if run is not None:
            with _as_own_command(settings):
                _work(config, run)
    except (KeyboardInterrupt, SystemExit):
        if multiprocessing.current_process().name.startswith("LokyProcess"):
            os._exit(1)  # a worker of joblib would take its next job
        raise
    except Exception as error:
        failure = disk_error(error, folder) or error
        if is_multirun(settings):
            sys.stderr.write(failure_text(failure, folder))
    ENDED.append(End(folder, failure))
    if not is_multirun(settings) or settings.sweeper._target_ == BASIC or cfg.get("objective") is None:
        return None
    from toolsavvy.tracking.study import reached

    return reached(folder, cfg.objective)


def failure_text(error: Exception, folder: Path) -> str:
    """What a crashed run says: the fault, and in the last line where its traceback is and how to go on."""
    from toolsavvy.tracking.masking import mask_text

    told = str(error)
    if not isinstance(error, UserError):
        way = f"read the traceback in {folder / 'run.log'}; the same command with resume=true goes on where this ended"
        told = f"{type(error).__name__}: {told}\n  fix: {way}"
    return plain(mask_text(f"failed: {told}\n"))


@contextmanager
def _as_own_command(settings: Any) -> Iterator[None]:
    """Make a launcher's worker look like the single command of its job while that runs.

    Lightning starts the further ranks of a distributed training with the arguments of this process, which in a worker
    are the launcher's; and what SLURM says of its tasks, of which a job has one, is not what Lightning should believe.
    """
    from toolsavvy.config.compose import is_multirun

    started = os.environ.get(IN_WORKER, "").split("\n")
    if not is_multirun(settings) or started[0] in ("", str(os.getpid())):
        yield
        return
    import __main__

    spec, argv = getattr(__main__, "__spec__", None), list(sys.argv)
    tasks = os.environ.pop("SLURM_NTASKS", None)
    __main__.__spec__ = importlib.util.find_spec("toolsavvy.__main__")
    sys.argv = ["toolsavvy", *started[1:], *(str(o) for o in settings.overrides.task)]
    try:
        yield
    finally:
        __main__.__spec__, sys.argv = spec, argv
        if tasks is not None:
            os.environ["SLURM_NTASKS"] = tasks


def _work(config: Config, run: Run) -> None:
    """Let the method do its work inside the run, and give memory back before the next job."""
    from toolsavvy.config.preflight import locate

    if config.paths.cache:
        os.environ["TOOLSAVVY_CACHE"] = config.paths.cache
    try:
        with run:
            _seed(config)
            locate(config.method._target_, "method._target_")(config, run)
    finally:
        _free()


def _free() -> None:
    """Give memory back before the next job of a sweep; never imports torch."""
    import gc

    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _make_run(cfg: DictConfig, settings: Any) -> tuple[Config, Run | None, Path]:
    """The typed config, the run (None when there is nothing to do) and its folder.

    A resumed run keeps the folder of the earlier one that was cut off.
    """
    from toolsavvy.config.compose import typed
    from toolsavvy.tracking import Run
    from toolsavvy.tracking.records import Status, write_status
    from toolsavvy.tracking.run import RUN_DIR, identify, is_writer

    config, folder, identity = typed(cfg), Path(settings.runtime.output_dir), identify(settings, cfg)
    if not is_writer():  # a further rank of a distributed run: rank 0 has decided
        folder = Path(os.environ.get(RUN_DIR, folder))
    elif identity.number is not None and _was_started(folder):
        return config, None, folder
    elif config.on_error == "stop" and identity.number is not None and _has_failed_job(folder.parent, folder):
        write_status(folder, Status("skipped", error="an earlier job failed (on_error=stop)"))
        return config, None, folder
    elif config.resume:
        folder, is_done = _earlier(cfg, config, folder)
        if is_done:
            return config, None, folder
    return config, Run(config, cfg, folder, identity), folder


def _earlier(cfg: DictConfig, config: Config, folder: Path) -> tuple[Path, bool]:
    """The folder of an earlier run of this very config (else the given one), and whether it is done."""
    from toolsavvy.tracking import config_hash, read_status
    from toolsavvy.tracking.records import find_run, is_alive

    earlier = find_run(Path(config.paths.outputs), config_hash(cfg), first=folder)
    status = read_status(earlier) if earlier is not None else None
    if earlier is None or status is None:
        return folder, False
    if is_alive(status):
        raise UserError("this run is still going on", where=str(earlier), fix="wait for it, or end it first")
    if folder.resolve() != earlier.resolve() and not any(folder.iterdir()):
        folder.rmdir()
    return earlier, status.status == "done"


def _has_failed_job(sweep: Path, own: Path) -> bool:
    """Whether another job has failed since the sweep was started; what an earlier attempt left is no reason."""
    from toolsavvy.tracking import read_status

    start = float(os.environ.get(SWEEP_START, "0"))
    others = [p for p in sweep.iterdir() if p.is_dir() and p != own]
    failed = [p for p in others if (s := read_status(p)) is not None and s.status == "failed"]
    return any((p / "status.json").stat().st_mtime >= start for p in failed)


def _was_started(folder: Path) -> bool:
    """Whether a sweep that goes on after its launcher broke down has had this job already."""
    status = folder / "status.json"
    return GOING_ON in os.environ and status.exists() and status.stat().st_mtime >= float(os.environ[SWEEP_START])


def _seed(config: Config) -> None:
    """Seed Python, and numpy and torch where the method uses them."""
    import random

    from toolsavvy.config.predictions import reads_files_alone

    random.seed(config.seed)
    if not config.method.uses or reads_files_alone(config):
        return
    import numpy as np
    import torch

    np.random.seed(config.seed)  # noqa: NPY002 - libraries that use the global generator
    torch.manual_seed(config.seed)
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
