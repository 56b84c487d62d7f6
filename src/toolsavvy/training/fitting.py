"""One way to run a Lightning module: quiet, seeded, on the hardware that the config names."""

from __future__ import annotations

import logging
import pickle
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.utils.data import DataLoader

from toolsavvy.errors import UserError
from toolsavvy.models.loading import resolve_precision
from toolsavvy.tracking.run import is_writer
from toolsavvy.training.launching import RankLost, follow_first, soon_lost
from toolsavvy.training.strategies import strategy_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Hardware:
    """Where and in which numbers training runs.

    Args:
        accelerator: cpu | gpu | auto.
        devices: how many.
        strategy: auto | ddp | fsdp | deepspeed.
        precision: fp32 | bf16 | auto (bf16 where the processor multiplies it natively).
        threads: of torch on the CPU; None leaves them.
        zero_stage: of DeepSpeed, 1 or 2.
        offload: DeepSpeed keeps the optimizer's state in the memory of the CPU.
    """

    accelerator: str = "cpu"
    devices: int = 1
    strategy: str = "auto"
    precision: str = "auto"
    threads: int | None = None
    zero_stage: int = 2
    offload: bool = False

    @property
    def is_bf16(self) -> bool:
        """Whether products are taken in bfloat16."""
        return resolve_precision(self.precision, self.accelerator) == "bf16"

    @property
    def lightning_precision(self) -> Any:
        """Lightning's name of the precision; shards see to theirs themselves."""
        return "bf16-mixed" if self.is_bf16 and self.strategy != "fsdp" else "32-true"


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
    if hardware.strategy == "fsdp":
        refuse_unshardable(module)
    module.train()  # models are loaded for inference, and Lightning leaves them so: dropout would stay off
    follow_first()
    with _quiet(), _ctrl_c(), _told(), torch.random.fork_rng():
        torch.manual_seed(seed)
        strategy = strategy_of(
            hardware.strategy, hardware.devices, bf16=hardware.is_bf16, stage=hardware.zero_stage,
            offload=hardware.offload,
        )  # fmt: skip
        trainer = pl.Trainer(
            accelerator=hardware.accelerator, devices=hardware.devices, strategy=strategy,
            precision=hardware.lightning_precision, max_epochs=epochs, gradient_clip_val=1.0,
            accumulate_grad_batches=accumulate, logger=False, use_distributed_sampler=False,
            enable_checkpointing=checkpoint is not None, callbacks=_every_epoch(checkpoint),
            enable_model_summary=False, enable_progress_bar=sys.stderr.isatty() and is_writer(),
        )  # fmt: skip
        before = _resumable(checkpoint)
        if isinstance(data, DataLoader):
            trainer.fit(module, train_dataloaders=data, ckpt_path=before, weights_only=True)
        else:
            trainer.fit(module, datamodule=data, ckpt_path=before, weights_only=True)
    module.eval()


def refuse_unshardable(module: pl.LightningModule) -> None:
    """Only modules that know how are trained in shards, and only as a whole.

    Raises:
        UserError: an encoder, or adapters.
    """
    is_partial = not all(p.requires_grad for p in module.parameters())
    if not is_overridden("configure_model", module) or is_partial:
        what = "adapters are" if is_partial else f"a {type(module).__name__} is"
        raise UserError(
            f"{what} not trained in shards", where="trainer.strategy=fsdp",
            expected="a causal language model whose every weight trains (tuning=full)", fix="trainer=ddp",
        )  # fmt: skip


@contextmanager
def _told() -> Iterator[None]:
    """An error that comes from the end of another process is told as that."""
    try:
        yield
    except RankLost:
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and (gone := soon_lost()) is not None:
            raise gone from error
        raise


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
        with zipfile.ZipFile(checkpoint) as archive:
            is_whole = archive.testzip() is None  # torch does not look at checksums
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile):
        is_whole = False
    if not is_whole:
        log.warning("%s is damaged: training starts anew", checkpoint.name)
        checkpoint.unlink(missing_ok=True)
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
