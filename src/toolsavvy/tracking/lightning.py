"""A Lightning logger that hands everything to the run, which alone owns W&B."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from lightning_fabric.loggers.logger import rank_zero_experiment
from lightning_fabric.utilities.rank_zero import rank_zero_only
from pytorch_lightning.loggers.logger import Logger

from toolsavvy.tracking.run import Run


class RunLogger(Logger):
    """Give this to `Trainer(logger=...)`.

    Args:
        run: receives the metrics.
        prefix: of every key: the stage ("memorization", "retrieval/plain").
    """

    def __init__(self, run: Run, prefix: str = "") -> None:
        """Nothing is opened here."""
        super().__init__()
        self._run = run
        self._stage = f"{prefix}/" if prefix else ""

    @property
    def name(self) -> str:
        """Lightning asks for it; nothing is stored under it."""
        return "run"

    @property
    def version(self) -> str:
        """Lightning asks for it; nothing is stored under it."""
        return "0"

    @property
    @rank_zero_experiment
    def experiment(self) -> Run:
        """The run."""
        return self._run

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Hand on, without Lightning's epoch counter."""
        self._run.log({f"{self._stage}{k}": v for k, v in metrics.items() if k != "epoch"}, step)

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """The run has told W&B the whole config already."""
