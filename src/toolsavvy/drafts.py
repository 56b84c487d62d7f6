"""Names that files have while they are written, and the end of those that a killed process has left behind."""

from __future__ import annotations

import os
import re
import shutil
import socket
from pathlib import Path

_DRAFT = re.compile(r"\..+\.(?P<process>\d+)@(?P<host>.+?)\.\w+\.tmp", re.DOTALL)
SUFFIX = ".tmp"


def draft_prefix(path: Path) -> str:
    """How the draft of a file or folder begins: hidden, and with the process that writes it."""
    return f".{path.name[:100]}.{os.getpid()}@{socket.gethostname()[:60]}."


def draft_path(path: Path) -> Path:
    """The one draft that this process writes of a file at a time."""
    return path.with_name(f"{draft_prefix(path)}one{SUFFIX}")


def clear_drafts(folder: Path, *, is_owned: bool = False) -> None:
    """Remove drafts whose process is gone.

    Args:
        folder: where to look; all that is below it where it is owned.
        is_owned: nobody else writes there, so that every draft is a dead one, of another machine's processes too.
    """
    for path in folder.rglob(f".*{SUFFIX}") if is_owned else folder.glob(f".*{SUFFIX}"):
        if (found := _DRAFT.fullmatch(path.name)) is None or not (is_owned or _is_dead(found)):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_dead(found: re.Match[str]) -> bool:
    """Whether the process of a draft was one of this machine's and has ended."""
    import psutil

    return found["host"] == socket.gethostname()[:60] and not psutil.pid_exists(int(found["process"]))
