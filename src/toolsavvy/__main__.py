"""compose -> preflight -> run -> record: the `toolsavvy` command."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from toolsavvy import __version__
from toolsavvy.errors import UserError
from toolsavvy.jobs import ENDED, GOING_ON, IN_WORKER, SWEEP_START, failure_text, job

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from toolsavvy.config.compose import Job
    from toolsavvy.config.schema import Config
    from toolsavvy.tracking.sweep import Ledger, Outcome

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
OVERRIDES = "key=value, and flags that --help names"
STOPPED = "interrupted: the same command with resume=true goes on where this ended"
_RUNS_NOTHING = ("cfg", "info")


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
    if "--version" in words:
        sys.stdout.write(f"toolsavvy {__version__}\n")
        return 0
    try:
        if not {"--shell-completion", "-sc"} & set(words):  # every key that is completed waits for imports
            from toolsavvy.tracking.masking import learn_from_overrides

            learn_from_overrides(words)
        return _command(words)
    except UserError as error:
        return _complain(error)
    except KeyboardInterrupt:
        _stderr().print(STOPPED)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has what he wanted: toolsavvy --cfg job | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
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

    way = "no run holds this fault: report the traceback above with its command; toolsavvy method=doctor looks further"
    sys.stderr.write(plain(mask_text(f"{traceback.format_exc()}  fix: {way}\n")))
    return FAILED


def _stderr() -> Console:
    """The terminal, for what is no result."""
    from toolsavvy.report import errors_console

    return errors_console()


def _command(words: list[str]) -> int:
    """Parse, compose, check, and hand over to Hydra."""
    from toolsavvy.config.compose import compose, compose_sweep, with_experiment

    args = _parse(words)
    if args.shell_completion:
        return _complete(args.overrides)
    if args.hydra_help:
        return _hydra(["--hydra-help"], [])
    _check_sweep(args)
    overrides = with_experiment(args.overrides)
    if any(getattr(args, name) for name in _RUNS_NOTHING):
        if args.cfg:
            compose(overrides, config_dir=args.config_dir)
        return _hydra(_flags(words, args), overrides)
    make = compose_sweep if args.multirun else lambda o, config_dir: [compose(o, config_dir=config_dir)]
    jobs = make(overrides, config_dir=args.config_dir)
    if any(job_.config.get("dry_run") is True for job_ in jobs):
        return _show_plans(jobs, _check(jobs))
    if args.multirun:
        return _sweep(_flags(words, args), overrides, jobs)
    _check(jobs)
    return _single(_flags(words, args), overrides, jobs[0])


def _complete(overrides: Sequence[str]) -> int:
    """Completion: a script for the shell, or what can follow the line that is being typed there."""
    from toolsavvy.config.completion import asked, script

    command, _, shell = " ".join(overrides).partition("=")
    if command not in ("install", "uninstall", "query") or shell not in ("bash", "zsh", "fish"):
        expected, fix = "install, uninstall or query, of bash, zsh or fish", 'eval "$(toolsavvy -sc install=bash)"'
        raise UserError("no such completion", where="command line, -sc", expected=expected, fix=fix)
    if shell == "bash" and command != "query":
        sys.stdout.write(script(command, sys.argv[0]))
        return 0
    os.environ["COMP_LINE"], flags = asked(os.environ.get("COMP_LINE", ""))
    return _hydra(["-sc", *flags], overrides)


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
        where, fix = f"command line, {override}", "add both -m and the plus sign"
        raise UserError("a sweep is of several jobs", where=where, expected=added, fix=fix)


def _flags(words: Sequence[str], args: Namespace) -> list[str]:
    """The command line without its overrides."""
    return [w for w in words if w not in set(args.overrides)]


def _check(jobs: Sequence[Job]) -> list[Config]:
    """Preflight every job before the first one starts."""
    from toolsavvy.config.preflight import preflight

    configs = []
    for number, job_ in enumerate(jobs):
        try:
            configs.append(preflight(job_))
        except UserError as error:
            if len(jobs) == 1:
                raise
            where = f"job {number} ({' '.join(job_.overrides)}), {error.where}"
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

    from toolsavvy.config.compose import conf_dir, register, trust_composed

    register()
    trust_composed()
    ENDED.clear()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come here, where they are told properly
    sys.argv[1:] = [*flags, *overrides]
    with _folder_errors():
        hydra.main(config_path=str(conf_dir()), config_name="config", version_base="1.3")(job)()
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
        sys.stderr.write(failure_text(end.error, end.folder))
        return FAILED
    if is_writer():
        _stderr().print(f"done: {end.folder}", soft_wrap=True, markup=False)
    return 0


def _pin(key: str, folder: Path, overrides: Sequence[str]) -> list[str]:
    """Keep the folder that was announced, unless the user chose one."""
    from toolsavvy.config.compose import quoted

    is_chosen = any(o.startswith(f"{key}=") for o in overrides)
    return [] if is_chosen else [f"{key}={quoted(str(folder))}"]


def _sweep(flags: list[str], overrides: list[str], jobs: Sequence[Job]) -> int:
    """All jobs of a sweep, then one table of how they ended, whatever became of them or of the launcher."""
    from toolsavvy.tracking.study import Study, best_text, check_search
    from toolsavvy.tracking.sweep import Ledger, show_jobs, sweep_folder

    outputs, resume = Path(str(jobs[0].config.paths.outputs)), any(j.config.get("resume") is True for j in jobs)
    folder = (sweep_folder(jobs, outputs) if resume else None) or _sweep_dir(jobs[0], overrides)
    if jobs[0].is_searched:
        check_search(jobs[0])
        ledger: Ledger = Study(folder, lambda: [end.folder for end in ENDED])
    else:
        ledger = Ledger(jobs, folder, outputs, resume=resume)
    stopped = 0
    if not (resume and ledger.is_done()):
        stopped = _launch(flags, overrides, jobs, ledger)
    with _folder_errors():
        ended = ledger.write(is_over=not stopped)
    code = show_jobs(ended, _stderr()) or int(not ended)
    if stopped:
        return stopped
    if jobs[0].is_searched:
        _stderr().print(best_text(folder, ended, str(jobs[0].config.objective)), soft_wrap=True, markup=False)
    return _report_sweep(jobs[0].config.get("after_sweep"), ended, folder) or code


def _launch(flags: list[str], overrides: list[str], jobs: Sequence[Job], ledger: Ledger) -> int:
    """Let Hydra's launcher run the jobs; when it breaks down, those that it has not started get their turn.

    Returns:
        0, or the exit code of an interruption.
    """
    from toolsavvy.config.launchers import check_devices, check_launcher, launcher_of, spread
    from toolsavvy.tracking.study import StopSearch
    from toolsavvy.tracking.sweep import drop_typed
    from toolsavvy.tracking.workers import end_jobs, leave_ray, wait_for_jobs

    launcher = launcher_of(jobs[0].launcher)
    check_launcher(launcher)
    configs = _check(jobs)
    check_devices(launcher, configs)
    own, variables = spread(launcher, configs, overrides)
    start = time.time()
    variables |= {SWEEP_START: str(start), IN_WORKER: "\n".join((str(os.getpid()), *_without_multirun(flags)))}
    line = [*overrides, *_pin("hydra.sweep.dir", ledger.folder, overrides), *own]
    try:
        with _environment(variables), _sigterm_unwinds(), _folder_errors(), ledger.kept():
            before, left = len(jobs) + 1, len(jobs)
            while 0 < left < before:
                try:
                    _hydra(flags, line)
                    break
                except (UserError, OSError):
                    raise
                except Exception as error:  # a worker was killed, or the launcher itself has failed
                    _stderr().print(_breakdown(launcher.name, error), markup=False)
                    wait_for_jobs(launcher.name, ledger.folder)
                    os.environ[GOING_ON] = "1"
                before, left = left, 0 if configs[0].on_error == "stop" else ledger.waiting(start)
    except StopSearch as stop:
        raise stop.error from None
    except (KeyboardInterrupt, SystemExit) as stop:
        end_jobs(launcher.name)
        if launcher.is_local:  # on a cluster they go on, and need theirs
            drop_typed(ledger.folder)
        _stderr().print(STOPPED)
        return INTERRUPTED if isinstance(stop, KeyboardInterrupt) else int(stop.code or FAILED)
    finally:
        leave_ray()
    return 0


def _breakdown(launcher: str, error: Exception) -> str:
    """What a launcher says when a worker dies, in one line."""
    from toolsavvy.errors import plain
    from toolsavvy.tracking.masking import mask_text

    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    said = (lines[-1] if "Traceback" in str(error) else " ".join(lines))[:300]
    return plain(mask_text(f"hydra/launcher={launcher} broke down: {type(error).__name__}: {said}"))


def _without_multirun(flags: Sequence[str]) -> list[str]:
    """The flags of a single job of a sweep."""
    return [flag for flag in flags if flag not in ("-m", "--multirun")]


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables that the processes of a launcher inherit, put back afterwards."""
    names = (*variables, GOING_ON)
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """A scheduler's SIGTERM ends a sweep with its table and without orphans."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _folder_errors() -> Iterator[None]:
    """A folder that cannot be made is the user's to mend."""
    from toolsavvy.tracking.disk import disk_error

    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise disk_error(error) or _no_folder(error) from error


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


def _show_plans(jobs: Sequence[Job], configs: Sequence[Config]) -> int:
    """Say what would be done."""
    from toolsavvy.config.planning import show_plan
    from toolsavvy.report import Terminal

    for job_, config in zip(jobs, configs, strict=True):
        show_plan(job_, config, Terminal(highlight=False, emoji=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
