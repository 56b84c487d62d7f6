"""Supervised fine-tuning of a tool model: only label positions are scored, never the vocabulary at every position."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler

from toolsavvy.models import forward
from toolsavvy.models.tuning import snapshot
from toolsavvy.training.formats import Row
from toolsavvy.training.padding import Batch, Entry, Labelled, padded
from toolsavvy.training.ranks import of_first, process, summed, weights_of_first
from toolsavvy.training.schedule import linear
from toolsavvy.training.strategies import FSDP, gather, sharded
from toolsavvy.training.trunk import Trunk

MEGABATCH = 16
"""Batches drawn together and sorted by length: little padding, nearly random order."""


def collate(indexed: Sequence[tuple[int, Row]], pad: int) -> Batch:
    """Pad rows to the right and list their label positions; a row weighs the same however long its answer is."""
    return padded([(i, _labelled(row)) for i, row in indexed], pad)


def _labelled(row: Row) -> Labelled:
    weight, last = row.weight / len(row.target), len(row.target) - 1
    return Labelled(
        (*row.prompt, *row.target[:-1]),
        tuple(
            Entry(
                len(row.prompt) - 1 + j, tuple(row.golds) if j == 0 and row.golds else (label,), weight,
                row.kind == "query" and j < last,
            )
            for j, label in enumerate(row.target)
        ),
    )  # fmt: skip


class LengthGrouped(Sampler[list[int]]):
    """Batches of similar length in a seeded random order that changes every epoch.

    Args:
        lengths: tokens of each row.
        batch_size: rows a batch.
        seed: of the order.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        """Epochs are counted by the sampler itself, so that every `iter` gives the next order."""
        self.lengths, self.batch_size, self.seed, self.epoch = list(lengths), batch_size, seed, 0

    def __len__(self) -> int:
        """Batches an epoch."""
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        """Sort inside random megabatches, then shuffle the batches."""
        rng = random.Random(f"{self.seed}/{self.epoch}")
        self.epoch += 1
        order = rng.sample(range(len(self.lengths)), k=len(self.lengths))
        size, mega = self.batch_size, self.batch_size * MEGABATCH
        batches = []
        for start in range(0, len(order), mega):
            chunk = sorted(order[start : start + mega], key=lambda i: (self.lengths[i], i))
            batches.extend(chunk[j : j + size] for j in range(0, len(chunk), size))
        rng.shuffle(batches)
        return iter(batches)


class RowData(pl.LightningDataModule):
    """Rows of one stage, in length-grouped batches.

    Args:
        rows: the stage's rows.
        batch_size: rows a batch.
        pad: padding id (masked, never supervised).
        seed: of the order.
    """

    def __init__(self, rows: Sequence[Row], batch_size: int, pad: int, seed: int) -> None:
        """Keep the rows; nothing is tokenised here."""
        super().__init__()
        self.rows, self.pad = list(rows), pad
        self.sampler = LengthGrouped([r.length for r in self.rows], batch_size, seed)

    def train_dataloader(self) -> DataLoader:
        """Loader over (index, row) pairs; several processes read the first one's rows."""
        pad, self.rows = self.pad, of_first(self.rows)
        self.sampler.lengths = [r.length for r in self.rows]
        rows: Any = list(enumerate(self.rows))  # a list is a map-style dataset
        return DataLoader(rows, batch_sampler=self.sampler, collate_fn=lambda items: collate(items, pad))


@dataclass(frozen=True)
class Regularization:
    """What keeps stage 2 from erasing stage 1.

    Args:
        absent: int64 [token], virtual tokens that no query row teaches: they are left out of the softmax at query rows,
            since a query of another tool says nothing against them. None lets all compete.
        teacher: log-probabilities [row, tool] of the stage-1 model on replayed rows; NaN rows are not used.
        tool_ids: int64 [tool], vocabulary ids of the (atomic) tools that `teacher` speaks of.
        weight: of the KL divergence from the teacher.
    """

    absent: Tensor | None = None
    teacher: Tensor | None = None
    tool_ids: Tensor | None = None
    weight: float = 0.0


class HasModel(Protocol):
    """A tool model, or whatever else holds a causal model."""

    model: Any


class Scorer(nn.Module):
    """A causal model and the way to its logits at label positions.

    Args:
        model: causal.
        trunk: what reads the blocks that do not train once for every row; None reads them every time.
    """

    def __init__(self, model: Any, trunk: Trunk | None = None) -> None:
        super().__init__()
        self.model, self.trunk = model, trunk

    def forward(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Logits [position, vocabulary] at the label positions only."""
        if self.trunk is not None:
            hidden = self.trunk.states(input_ids, attention_mask)
        else:
            hidden = forward.states(self.model, input_ids, attention_mask)
        return forward.logits(self.model, hidden.flatten(0, 1)[positions])


class CausalSFT(pl.LightningModule):
    """Next-token training of a tool model on the answer's tokens alone (ToolGen sections 3.2, 3.3).

    Args:
        tools: what holds the causal model as `model`.
        learning_rate: peak of a linear schedule.
        steps: optimizer steps of the whole stage.
        warmup: share of `steps` for warming up.
        weight_decay: AdamW's.
        regularization: see `Regularization`.
        validate: called at the end of each epoch; returns metrics that are logged, "recall@1" among them.
        keep_best: choose the epoch with the highest validation recall@1 (the latest of equal ones), not the last.
        watch: told every point of the learning curves as it comes.
        trunk: what reads the blocks that do not train once for every row; None reads them every time.

    Raises:
        FloatingPointError: the loss is not finite; names the step and the rows.
    """

    def __init__(
        self,
        tools: HasModel,
        *,
        learning_rate: float,
        steps: int,
        warmup: float = 0.03,
        weight_decay: float = 0.0,
        regularization: Regularization | None = None,
        validate: Callable[[], dict[str, float]] | None = None,
        keep_best: bool = False,
        watch: Callable[[dict[str, float]], None] | None = None,
        trunk: Trunk | None = None,
    ) -> None:
        """Hold the model; parameters that train are those that require gradients."""
        super().__init__()
        self.tools, self.scorer = tools, Scorer(tools.model, trunk)
        self.whole: tuple[Scorer, ...] = ()
        self.learning_rate, self.steps, self.warmup, self.weight_decay = learning_rate, steps, warmup, weight_decay
        self.regularization = regularization or Regularization()
        self.validate, self.keep_best, self.watch = validate, keep_best, watch
        self.best: tuple[float, dict[str, Tensor]] | None = None
        self.seconds = 0.0
        self.history: list[dict[str, float]] = []
        self.tokens = 0

    def forward(self, batch: Batch) -> Tensor:
        """Logits [position, vocabulary] at the label positions only."""
        return self.scorer(batch.input_ids, batch.attention_mask, batch.positions)

    def configure_model(self) -> None:
        """Under fsdp train shards of the model; the model itself waits in the memory of the CPU."""
        strategy = self.trainer.strategy
        if not isinstance(strategy, FSDP) or self.whole:
            return
        whole = Scorer(self.model.to("cpu"))
        self.scorer = sharded(whole, whole.model, strategy.device_mesh["data_parallel"], bf16=strategy.bf16)
        self.whole = (whole,)  # in a tuple: Lightning would move a module to the device

    def on_train_end(self) -> None:
        """The shards' weights are the model's now."""
        if self.whole:
            gather(self.scorer, self.whole[0])
            self.scorer, self.whole = self.whole[0], ()

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """Weighted negative log-likelihood of the entries, plus the KL term on replayed rows.

        Of several processes each returns its part of the global batch's loss, times their number: gradients are
        averaged over them.
        """
        logits = self(batch)
        part = self._nll(logits, batch)
        if self.regularization.weight > 0:
            part = part + self.regularization.weight * self._divergence(logits, batch)
        loss = summed(part)
        if not torch.isfinite(loss):
            rows = batch.all_rows.tolist()
            raise FloatingPointError(f"loss is {loss.item()} at step {self.global_step}, rows {rows}")
        self.tokens += int(batch.tokens)
        self._point(loss=float(loss))
        self.log("loss", loss, prog_bar=True)
        return part * process()[1]

    def _nll(self, logits: Tensor, batch: Batch) -> Tensor:
        absent = self.regularization.absent
        if absent is not None and len(absent):
            kept = logits.index_fill(1, absent.to(logits.device), -torch.inf)
            log_z = torch.where(batch.is_query, kept.logsumexp(-1), logits.logsumexp(-1))
        else:
            log_z = logits.logsumexp(-1)
        picked = logits[batch.entry_position, batch.entry_target]
        losses = (log_z[batch.entry_position] - picked) * batch.entry_weight
        return losses.sum() / batch.weight

    def _divergence(self, logits: Tensor, batch: Batch) -> Tensor:
        """KL(stage 1 || now) over the tools at the first label of replayed rows."""
        teacher, tool_ids = self.regularization.teacher, self.regularization.tool_ids
        assert teacher is not None and tool_ids is not None
        count = int((~teacher[batch.all_rows.to(teacher.device), 0].isnan()).sum())
        wanted = teacher[batch.rows.to(teacher.device)].to(logits.device)
        known = ~wanted[:, 0].isnan() & (batch.rows >= 0)
        if not known.any():
            return logits.new_zeros(())
        student = logits[batch.first[known]][:, tool_ids].log_softmax(-1)
        return torch.nn.functional.kl_div(student, wanted[known], log_target=True, reduction="sum") / count

    @property
    def model(self) -> Any:
        """The causal model, whole."""
        return self.whole[0].model if self.whole else self.scorer.model

    def on_train_epoch_end(self) -> None:
        """Validate and log on the first process; the recipe decides what to keep."""
        if self.validate is None:
            return
        if self.whole:
            gather(self.scorer, self.whole[0])
        if process()[0] == 0:
            self._validate(self.validate)

    def _validate(self, validate: Callable[[], dict[str, float]]) -> None:
        if self.whole:
            self.model.to(self.device)
        self.model.eval()
        metrics = validate()
        self.model.train()
        if self.whole:
            self.model.to("cpu")
        if self.keep_best and (self.best is None or metrics["recall@1"] >= self.best[0]):
            self.best = (metrics["recall@1"], snapshot(self.model))
        self._point(epoch=self.current_epoch, **metrics)

    def _point(self, **values: float) -> None:
        self.history.append({"step": self.global_step, **values})
        if self.watch is not None:
            self.watch(self.history[-1])

    def chosen(self) -> dict[str, Tensor]:
        """The weights that the stage ends with, the same in all processes."""
        return weights_of_first(self.best[1] if self.best is not None else snapshot(self.model))

    @property
    def tokens_per_second(self) -> float:
        """Training throughput, validation left out."""
        return round(self.tokens / self.seconds, 1) if self.seconds else 0.0

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Start the clock."""
        self._started = time.monotonic()

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """Stop the clock."""
        self.seconds += time.monotonic() - self._started

    def configure_optimizers(self) -> Any:
        """AdamW with a short warm-up and a linear decay to zero."""
        parameters = [p for p in self.scorer.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=self.learning_rate, weight_decay=self.weight_decay, foreach=True)
        schedule = linear(optimizer, self.steps, self.warmup)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
