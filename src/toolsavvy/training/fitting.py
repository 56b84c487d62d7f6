"""One way to run a Lightning module: quiet, seeded, on the hardware that the config names."""

from __future__ import annotations

import logging
import pickle
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from toolsavvy.models.loading import resolve_precision

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Hardware:
    """Where and in which numbers training runs.

    Args:
        accelerator: cpu | gpu | auto.
        devices: how many.
        strategy: Lightning's.
        precision: fp32 | bf16 | auto (bf16 where the processor multiplies it natively).
        threads: of torch on the CPU; None leaves them.
    """

    accelerator: str = "cpu"
    devices: int = 1
    strategy: str = "auto"
    precision: str = "auto"
    threads: int | None = None

    @property
    def lightning_precision(self) -> Any:
        """Lightning's name of the precision."""
        return "bf16-mixed" if resolve_precision(self.precision, self.accelerator) == "bf16" else "32-true"


def fit(
    module: pl.LightningModule,
    data: Any,
    *,
    epochs: int,
    seed: int,
    hardware: Hardware | None = None,
    accumulate: int = 1,
    checkpoint: Path | None = None,
) -> None:
    """Train a module for some epochs; it is left ready for inference.

    Args:
        module: a Lightning module that keeps its own history.
        data: a DataLoader or a LightningDataModule.
        epochs: passes over the data.
        seed: of dropout and everything else that is drawn while training.
        hardware: see `Hardware`.
        accumulate: batches that one optimizer step is made of.
        checkpoint: file that every epoch is kept in; where it is there already, training goes on from it.
    """
    hardware = hardware or Hardware()
    if hardware.threads:
        torch.set_num_threads(hardware.threads)
    module.train()  # models are loaded for inference, and Lightning leaves them so: dropout would stay off
    with _quiet(), _ctrl_c(), torch.random.fork_rng():
        torch.manual_seed(seed)
        trainer = pl.Trainer(
            accelerator=hardware.accelerator, devices=hardware.devices, strategy=hardware.strategy,
            precision=hardware.lightning_precision, max_epochs=epochs, gradient_clip_val=1.0,
            accumulate_grad_batches=accumulate, logger=False, use_distributed_sampler=False,
            enable_checkpointing=checkpoint is not None, callbacks=_every_epoch(checkpoint),
            enable_model_summary=False, enable_progress_bar=sys.stderr.isatty(),
        )  # fmt: skip
        before = _resumable(checkpoint)
        if isinstance(data, DataLoader):
            trainer.fit(module, train_dataloaders=data, ckpt_path=before, weights_only=True)
        else:
            trainer.fit(module, datamodule=data, ckpt_path=before, weights_only=True)
    module.eval()


def _every_epoch(checkpoint: Path | None) -> list[Any]:
    """Keep the state after each epoch in one file."""
    if checkpoint is None:
        return []
    from pytorch_lightning.callbacks import ModelCheckpoint

    return [
        ModelCheckpoint(
            dirpath=checkpoint.parent,
            filename=checkpoint.stem,
            save_on_train_epoch_end=True,
            every_n_epochs=1,
            enable_version_counter=False,
        )
    ]


def _resumable(checkpoint: Path | None) -> Path | None:
    """A checkpoint that can be read; a torn one (killed while it was written) is dropped, and training starts anew."""
    if checkpoint is None or not checkpoint.is_file():
        return None
    try:
        torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
        log.warning("%s is damaged: training starts anew", checkpoint.name)
        checkpoint.unlink()
        return None
    return checkpoint


@contextmanager
def _ctrl_c() -> Iterator[None]:
    """Lightning turns Ctrl-C into exit(1); what comes out of here is the interruption itself."""
    try:
        yield
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from stop
        raise


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning's advice (number of workers, missing logger) is settled here and would drown our own lines."""
    loggers = [
        logging.getLogger(n) for n in ("pytorch_lightning", "lightning", "lightning.pytorch", "lightning_fabric")
    ]
    levels = [log.level for log in loggers]
    for log in loggers:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(pytorch_)?lightning.*")
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            yield
    finally:
        for log, level in zip(loggers, levels, strict=True):
            log.setLevel(level)
