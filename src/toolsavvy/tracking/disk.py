"""Disks that are full or may not be written to: a user's to mend, whichever library met them."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from toolsavvy.errors import UserError

_ROOM = "free some space, or set paths.outputs or TOOLSAVVY_CACHE to another disk; resume=true goes on from there"
_RIGHTS = "set paths.outputs or TOOLSAVVY_CACHE to a folder that you may write to"
_TROUBLE = {
    errno.ENOSPC: ("the disk is full", _ROOM),
    errno.EDQUOT: ("the disk quota is used up", _ROOM),
    errno.EFBIG: ("a file may not grow any further here", _ROOM),
    errno.EROFS: ("the disk is read-only", _RIGHTS),
    errno.EACCES: ("permission denied", _RIGHTS),
    errno.EPERM: ("permission denied", _RIGHTS),
}


def disk_error(error: BaseException, folder: Path | str = "") -> UserError | None:
    """The message for an error that a disk caused, itself or behind others; None for any other error.

    Args:
        error: what was raised.
        folder: to name where the error names no file.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UserError):
            return None
        number = _number(cause)
        if number in _TROUBLE:
            what, fix = _TROUBLE[number]
            place = getattr(cause, "filename", None) or folder
            return UserError(what, where=str(place), expected="room and the right to write", fix=fix)
        cause = cause.__cause__ or cause.__context__
    return None


def _number(error: BaseException) -> int | None:
    """The system's number of an error, None where there is none.

    Libraries written in Rust raise errors of their own that quote it ("os error 28"); numpy tells how much of an array
    found room ("3200 requested and 992 written").
    """
    if isinstance(error, OSError):
        cut = re.search(r"\d+ requested and \d+ written", str(error))
        return errno.ENOSPC if error.errno is None and cut else error.errno
    quoted = re.search(r"\(os error (\d+)\)", str(error))
    return int(quoted[1]) if quoted else None
