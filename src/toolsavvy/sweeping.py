"""All jobs of a sweep: through a launcher, whatever becomes of them or of it, to one table and a report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolsavvy.errors import UserError
from toolsavvy.jobs import ENDED, GOING_ON, IN_WORKER, SWEEP_START
from toolsavvy.starting import FAILED, INTERRUPTED, STOPPED, check, complain, folder_errors, pin, run_hydra, stderr

if TYPE_CHECKING:
    from toolsavvy.config.compose import Job
    from toolsavvy.tracking.sweep import Ledger, Outcome


def run_sweep(flags: list[str], overrides: list[str], jobs: Sequence[Job]) -> int:
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
    with folder_errors():
        ended = ledger.write(is_over=not stopped)
    code = show_jobs(ended, stderr()) or int(not ended)
    if stopped:
        return stopped
    if jobs[0].is_searched:
        stderr().print(best_text(folder, ended, str(jobs[0].config.objective)), soft_wrap=True, markup=False)
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
    configs = check(jobs)
    check_devices(launcher, configs)
    own, variables = spread(launcher, configs, overrides)
    start = time.time()
    variables |= {SWEEP_START: str(start), IN_WORKER: "\n".join((str(os.getpid()), *_without_multirun(flags)))}
    line = [*overrides, *pin("hydra.sweep.dir", ledger.folder, overrides), *own]
    try:
        with _environment(variables), _signals_unwind(launcher.name), folder_errors(), ledger.kept():
            before, left = len(jobs) + 1, len(jobs)
            while 0 < left < before:
                try:
                    run_hydra(flags, line)
                    break
                except (UserError, OSError):
                    raise
                except Exception as error:  # a worker was killed, or the launcher itself has failed
                    stderr().print(_breakdown(launcher.name, error), markup=False)
                    wait_for_jobs(launcher.name, ledger.folder)
                    os.environ[GOING_ON] = "1"
                before, left = left, 0 if configs[0].on_error == "stop" else ledger.waiting(start)
    except StopSearch as stop:
        raise stop.error from None
    except (KeyboardInterrupt, SystemExit) as stop:
        end_jobs(launcher.name)
        if launcher.is_local:  # on a cluster they go on, and need theirs
            drop_typed(ledger.folder)
        stderr().print(STOPPED)
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
def _signals_unwind(launcher: str) -> Iterator[None]:
    """Ctrl-C and a scheduler's SIGTERM end a sweep with its table and without orphans.

    Workers of joblib are told first, as it kills them without a word when it is interrupted itself.
    """
    import signal
    import threading

    from toolsavvy.tracking.workers import end_jobs

    def stop(number: int, frame: Any) -> None:
        if launcher == "joblib":
            end_jobs(launcher)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
        return complain(error)
    return 0


def _sweep_dir(first: Job, overrides: Sequence[str]) -> Path:
    """The user's folder, or the one named after the experiment."""
    chosen = next((o.partition("=")[2] for o in overrides if o.startswith("hydra.sweep.dir=")), None)
    return Path(chosen.strip("'\"")).resolve() if chosen else first.folder
