"""Hands a checked command over to Hydra: a single run, and what every way of starting jobs needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from toolsavvy.errors import UserError
from toolsavvy.jobs import ENDED, failure_text, job

if TYPE_CHECKING:
    from rich.console import Console

    from toolsavvy.config.compose import Job
    from toolsavvy.config.schema import Config

FAILED, USER_ERROR, INTERRUPTED, TERMINATED = 1, 2, 130, 143
STOPPED = "interrupted: the same command with resume=true goes on where this ended"


def complain(error: UserError) -> int:
    """One message for a mistake of the user's; secrets in values stay hidden."""
    from toolsavvy.tracking.masking import mask_text

    sys.stderr.write(mask_text(f"error: {error}\n"))
    return USER_ERROR


def stderr() -> Console:
    """The terminal, for what is no result."""
    from toolsavvy.report import errors_console

    return errors_console()


def check(jobs: Sequence[Job]) -> list[Config]:
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


def run_hydra(flags: Sequence[str], overrides: Sequence[str]) -> int:
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
    with folder_errors():
        hydra.main(config_path=str(conf_dir()), config_name="config", version_base="1.3")(job)()
    return 0


def _no_folder(error: OSError) -> UserError:
    """Jobs keep their errors to themselves: what comes out of Hydra is a folder that it could not make."""
    expected, fix = "a folder that can be made", "set paths.outputs=FOLDER, or mend hydra.run.dir or hydra.sweep.dir"
    return UserError(error.strerror or str(error), where=str(error.filename or ""), expected=expected, fix=fix)


@contextmanager
def folder_errors() -> Iterator[None]:
    """A folder that cannot be made is the user's to mend."""
    from toolsavvy.tracking.disk import disk_error

    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise disk_error(error) or _no_folder(error) from error


def pin(key: str, folder: Path, overrides: Sequence[str]) -> list[str]:
    """Keep the folder that was announced, unless the user chose one."""
    from toolsavvy.config.compose import quoted

    is_chosen = any(o.startswith(f"{key}=") for o in overrides)
    return [] if is_chosen else [f"{key}={quoted(str(folder))}"]


def run_single(flags: list[str], overrides: list[str], job_: Job) -> int:
    """One run, and one line about how it ended."""
    from toolsavvy.tracking.run import is_writer

    run_hydra(flags, [*overrides, *pin("hydra.run.dir", job_.folder, overrides)])
    (end,) = ENDED
    if isinstance(end.error, UserError):
        raise end.error
    if end.error is not None:
        sys.stderr.write(failure_text(end.error, end.folder))
        return FAILED
    if is_writer():
        stderr().print(f"done: {end.folder}", soft_wrap=True, markup=False)
    return 0
