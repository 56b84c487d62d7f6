"""Peak memory of one job, also when several jobs share a process."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Start a new measurement, where the system can (Linux) and where a GPU is in use."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
    if (cuda := _cuda()) is not None:
        cuda.reset_peak_memory_stats()


def peak() -> dict[str, int]:
    """Bytes at the peak since `reset_peak`: of the process, and of the GPU when one was used."""
    measured = {"host": _host_peak()}
    if (cuda := _cuda()) is not None:
        measured["gpu"] = int(cuda.max_memory_allocated())
    return measured


def _host_peak() -> int:
    """VmHWM can be reset between jobs, getrusage cannot."""
    try:
        line = next(x for x in _STATUS.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _cuda() -> Any:
    """torch.cuda if torch was imported and has started a GPU; never imports it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return torch.cuda
