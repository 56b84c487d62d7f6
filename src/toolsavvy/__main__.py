"""compose -> preflight -> run -> record: the `toolsavvy` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from toolsavvy.errors import UserError

if TYPE_CHECKING:
    from argparse import Namespace

    from omegaconf import DictConfig
    from rich.console import Console

    from toolsavvy.config.compose import Job
    from toolsavvy.config.schema import Config
    from toolsavvy.tracking import Run
    from toolsavvy.tracking.sweep import Outcome

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
OVERRIDES = "key=value, and flags that --help names"
_RUNS_NOTHING = ("cfg", "info", "hydra_help", "shell_completion")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: without the program's name; that of this process by default.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if {"--help", "-h"} & set(words):
        return _help()
    from toolsavvy.tracking.masking import learn_from_overrides

    learn_from_overrides(words)
    try:
        return _command(words)
    except UserError as error:
        return _complain(error)
    except KeyboardInterrupt:
        _stderr().print("interrupted")
        return INTERRUPTED
    except Exception:
        return _crashed()


def _help() -> int:
    """Answer before anything slow is imported."""
    from toolsavvy.config.help import help_text
    from toolsavvy.config.places import groups

    sys.stdout.write(help_text(groups()))
    return 0


def _complain(error: UserError) -> int:
    """One message for a mistake of the user's; secrets in values stay hidden."""
    from toolsavvy.tracking.masking import mask_text

    sys.stderr.write(mask_text(f"error: {error}\n"))
    return USER_ERROR


def _crashed() -> int:
    """A fault of ours: the traceback, as Python would print it, without secrets and commands to the terminal."""
    import traceback

    from toolsavvy.errors import plain
    from toolsavvy.tracking.masking import mask_text

    sys.stderr.write(plain(mask_text(traceback.format_exc())))
    return FAILED


def _stderr() -> Console:
    """The terminal, for what is no result."""
    from toolsavvy.report import errors_console

    return errors_console()


def _command(words: list[str]) -> int:
    """Parse, compose, check, and hand over to Hydra."""
    from toolsavvy.config.compose import compose, compose_sweep, with_experiment

    args = _parse(words)
    _check_sweep(args)
    overrides = with_experiment(args.overrides)
    if any(getattr(args, name) for name in _RUNS_NOTHING):
        if args.cfg:
            compose(overrides, config_dir=args.config_dir)
        return _hydra(_flags(words, args), overrides)
    make = compose_sweep if args.multirun else lambda o, config_dir: [compose(o, config_dir=config_dir)]
    jobs = make(overrides, config_dir=args.config_dir)
    configs = _check(jobs)
    if any(config.dry_run for config in configs):
        return _show_plans(jobs, configs)
    if args.multirun:
        return _sweep(_flags(words, args), overrides, jobs, configs)
    return _single(_flags(words, args), overrides, jobs[0])


def _parse(words: list[str]) -> Namespace:
    """Hydra's flags, and the overrides; flags that would run another config than the one checked are refused."""
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.error = _refuse_flag
    args = parser.parse_intermixed_args(words)
    for name in ("config_name", "config_path"):
        if getattr(args, name):
            flag = f"--{name.replace('_', '-')}"
            fix = "options of your own go into --config-dir FOLDER, a whole run into its experiment/NAME.yaml"
            raise UserError(f"{flag} is not for use here", where=f"command line, {flag}", expected=OVERRIDES, fix=fix)
    return args


def _refuse_flag(message: str) -> NoReturn:
    """What argparse would end the process for."""
    raise UserError(message, where="command line", expected=OVERRIDES, fix="see toolsavvy --help")


def _check_sweep(args: Namespace) -> None:
    """A file of conf/sweep says what varies: it is added to a configuration, and needs -m."""
    from toolsavvy.config.compose import key_of

    override = next((o for o in args.overrides if key_of(o) == "sweep" and not o.startswith("~")), None)
    if override is not None and not (args.multirun and override.startswith("+")):
        added = f"toolsavvy -m +{override.lstrip('+')}"
        raise UserError("a sweep is of several jobs", where=f"command line, {override}", expected=added)


def _flags(words: Sequence[str], args: Namespace) -> list[str]:
    """The command line without its overrides."""
    return [w for w in words if w not in set(args.overrides)]


def _check(jobs: Sequence[Job]) -> list[Config]:
    """Preflight every job before the first one starts."""
    from toolsavvy.config.preflight import preflight

    configs = []
    for number, job in enumerate(jobs):
        try:
            configs.append(preflight(job))
        except UserError as error:
            if len(jobs) == 1:
                raise
            where = f"job {number} ({' '.join(job.overrides)}), {error.where}"
            raise UserError(error.what, where=where, expected=error.expected, fix=error.fix) from error
        except OSError as error:  # a path that nobody thought of: told by the system's own words
            what, where = error.strerror or str(error), str(error.filename or "command line")[:300]
            fix = "correct the path, or its permissions"
            raise UserError(what, where=where, expected="a path that can be looked at", fix=fix) from error
    return configs


def _hydra(flags: Sequence[str], overrides: Sequence[str]) -> int:
    """Let Hydra do what the flags ask for.

    The process's own arguments are replaced, so that Lightning's ddp launcher starts its children with the same.
    """
    import hydra

    from toolsavvy.config.compose import conf_dir, register
    from toolsavvy.tracking.disk import disk_error

    register()
    ENDED.clear()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come here, where they are told properly
    sys.argv[1:] = [*flags, *overrides]
    try:
        hydra.main(config_path=str(conf_dir()), config_name="config", version_base="1.3")(job)()
    except OSError as error:
        raise disk_error(error) or _no_folder(error) from error
    return 0


def _no_folder(error: OSError) -> UserError:
    """Jobs keep their errors to themselves: what comes out of Hydra is a folder that it could not make."""
    expected, fix = "a folder that can be made", "set paths.outputs=FOLDER, or mend hydra.run.dir or hydra.sweep.dir"
    return UserError(error.strerror or str(error), where=str(error.filename or ""), expected=expected, fix=fix)


def _single(flags: list[str], overrides: list[str], job_: Job) -> int:
    """One run, and one line about how it ended."""
    from toolsavvy.tracking.run import is_writer

    _hydra(flags, [*overrides, *_pin("hydra.run.dir", job_.folder, overrides)])
    (end,) = ENDED
    if isinstance(end.error, UserError):
        raise end.error
    if end.error is not None:
        sys.stderr.write(_failure(end.error, end.folder))
        return FAILED
    if is_writer():
        _stderr().print(f"done: {end.folder}", soft_wrap=True, markup=False)
    return 0


def _failure(error: Exception, folder: Path) -> str:
    """Where a crashed run's traceback is."""
    from toolsavvy.errors import plain
    from toolsavvy.tracking.masking import mask_text

    return plain(mask_text(f"failed: {type(error).__name__}: {error}\n  traceback: {folder / 'run.log'}\n"))


def _pin(key: str, folder: Path, overrides: Sequence[str]) -> list[str]:
    """Keep the folder that was announced, unless the user chose one."""
    from toolsavvy.config.compose import quoted

    is_chosen = any(o.startswith(f"{key}=") for o in overrides)
    return [] if is_chosen else [f"{key}={quoted(str(folder))}"]


def _sweep(flags: list[str], overrides: list[str], jobs: Sequence[Job], configs: Sequence[Config]) -> int:
    """All jobs of a sweep, then one table of how they ended."""
    from toolsavvy.tracking.sweep import outcome, show_jobs, sweep_folder

    _refuse_ddp(configs, overrides)
    outputs = Path(configs[0].paths.outputs)
    resume = any(config.resume for config in configs)
    folder = (sweep_folder(jobs, outputs) if resume else None) or _sweep_dir(jobs[0], overrides)
    _hydra(flags, [*overrides, *_pin("hydra.sweep.dir", folder, overrides)])
    ended = [outcome(i, j, folder / str(i), outputs, resume=resume) for i, j in enumerate(jobs)]
    code = show_jobs(ended, _stderr())
    told = _report_sweep(configs[0].after_sweep, ended, folder)
    return code or told


def _report_sweep(kind: str | None, ended: Sequence[Outcome], folder: Path) -> int:
    """The report that a sweep names, over the jobs that are done.

    Returns:
        The exit code.
    """
    done = [o.folder for o in ended if o.status is not None and o.status.status == "done"]
    if kind is None or not done:
        return 0
    from toolsavvy.config.compose import compose, typed
    from toolsavvy.methods.report import after_sweep
    from toolsavvy.tracking.sweep import differences, state_of

    told = zip(ended, differences(ended), strict=True)
    missing = [f"job {o.number} ({differs}): {state_of(o)}" for o, differs in told if o.folder not in done]
    settings = typed(compose(["method=report", f"method.kind={kind}"]).config).method
    try:
        after_sweep(settings, done, missing, folder)
    except UserError as error:
        return _complain(error)
    return 0


def _sweep_dir(first: Job, overrides: Sequence[str]) -> Path:
    """The user's folder, or the one named after the experiment."""
    chosen = next((o.partition("=")[2] for o in overrides if o.startswith("hydra.sweep.dir=")), None)
    return Path(chosen.strip("'\"")).resolve() if chosen else first.folder


def _refuse_ddp(configs: Sequence[Config], overrides: Sequence[str]) -> None:
    """Each rank of ddp would start the whole sweep again, unless every job has processes of its own."""
    has_launcher = any(o.lstrip("+").startswith("hydra/launcher=") for o in overrides)
    if not has_launcher and any(c.trainer.strategy == "ddp" and c.trainer.devices != 1 for c in configs):
        fix = "add hydra/launcher=submitit_local (pip install hydra-submitit-launcher), or run the jobs one by one"
        raise UserError("ddp cannot run in a sweep in one process", where="trainer.strategy", expected="auto", fix=fix)


def _show_plans(jobs: Sequence[Job], configs: Sequence[Config]) -> int:
    """Say what would be done."""
    from toolsavvy.config.planning import show_plan
    from toolsavvy.report import Terminal

    for job_, config in zip(jobs, configs, strict=True):
        show_plan(job_, config, Terminal(highlight=False, emoji=False))
    return 0


@dataclass(frozen=True)
class End:
    """How a job of this process ended: its folder, and the error if there was one."""

    folder: Path
    error: Exception | None = None


ENDED: list[End] = []
"""Jobs that ran in this process, in order. Hydra's own way of handing errors on prints overrides, secrets included."""


def job(cfg: DictConfig) -> None:
    """What Hydra calls for every job: typed config, folder, run, method.

    Nothing is raised, so that every launcher goes on with the next job; status.json tells how it ended.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from toolsavvy.tracking.disk import disk_error

    settings = HydraConfig.get()
    folder, failure = Path(settings.runtime.output_dir), None
    try:
        config, run, folder = _make_run(cfg, settings)
        if run is not None:
            _work(config, run)
    except Exception as error:
        failure = disk_error(error, folder) or error
        if settings.mode == RunMode.MULTIRUN:
            sys.stderr.write(_failure(failure, folder))
    ENDED.append(End(folder, failure))


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
    elif config.on_error == "stop" and identity.number is not None and _has_failed_job(folder.parent):
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

    earlier = find_run(Path(config.paths.outputs), config_hash(cfg))
    status = read_status(earlier) if earlier is not None else None
    if earlier is None or status is None:
        return folder, False
    if is_alive(status):
        raise UserError("this run is still going on", where=str(earlier), fix="wait for it, or end it first")
    if folder.resolve() != earlier.resolve() and not any(folder.iterdir()):
        folder.rmdir()
    return earlier, status.status == "done"


def _has_failed_job(sweep: Path) -> bool:
    """Whether any job of a sweep has failed so far."""
    from toolsavvy.tracking import read_status

    found = (read_status(p) for p in sweep.iterdir() if p.is_dir())
    return any(s is not None and s.status == "failed" for s in found)


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


if __name__ == "__main__":
    sys.exit(main())
