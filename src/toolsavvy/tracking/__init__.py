"""The life of a run: its folder, its records, and who else is told about it."""

from __future__ import annotations

from toolsavvy.tracking.records import Status, cell_hash, config_hash, read_status
from toolsavvy.tracking.run import Run

__all__ = ["Run", "Status", "cell_hash", "config_hash", "read_status"]
