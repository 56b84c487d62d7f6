"""Those who are told about metrics besides the run's own files: W&B, or nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol


class Logger(Protocol):
    """What a run tells a logger."""

    def log(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Numbers of a learning curve."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """Final numbers."""

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table."""

    def figure(self, name: str, path: Path) -> None:
        """A picture."""

    def upload(self, kind: str, paths: Sequence[Path]) -> None:
        """Store files and folders under the name of their kind."""

    def finish(self, exit_code: int) -> None:
        """The last call."""


class NoLogger:
    """Tells nobody."""

    def log(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Nothing to do."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """Nothing to do."""

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Nothing to do."""

    def figure(self, name: str, path: Path) -> None:
        """Nothing to do."""

    def upload(self, kind: str, paths: Sequence[Path]) -> None:
        """Nothing to do."""

    def finish(self, exit_code: int) -> None:
        """Nothing to do."""
