"""Make an encoder tool-savvy: contrastive training on (query, tool) pairs with hard negatives (TOOLRET section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor

from toolsavvy.errors import UserError
from toolsavvy.training.losses import Contrast, info_nce, replayed_loss
from toolsavvy.training.negatives import Pools, Twins
from toolsavvy.training.ranks import of_first, process
from toolsavvy.training.sampling import Pair
from toolsavvy.training.schedule import linear
from toolsavvy.training.validation import full_recall


@dataclass(frozen=True)
class Settings:
    """How an encoder is trained.

    Args:
        learning_rate: peak of a linear schedule.
        epochs: passes over the (query, tool) pairs.
        warmup: share of the steps during which the rate rises.
        weight_decay: AdamW's.
        batch_size: pairs a batch, over all processes.
        temperature: cosines are divided by it.
        symmetric: also find the query, given the tool.
        negatives: hard negatives that each pair draws from its pool.
        chunk: texts of similar length embedded together; None is 16 on a CPU, whose caches hold that, else 128.
        cached: keep no graph over chunks: memory is that of one chunk, the price one more forward pass.
        max_length: tokens per text while training.
        seed: of order, draws and dropout.
    """

    learning_rate: float = 5e-5
    epochs: int = 5
    warmup: float = 0.1
    weight_decay: float = 0.01
    batch_size: int = 32
    temperature: float = 0.05
    symmetric: bool = False
    negatives: int = 0
    chunk: int | None = None
    cached: bool = False
    max_length: int = 128
    seed: int = 0


@dataclass(frozen=True)
class Examples:
    """What an encoder is trained on.

    Args:
        queries: text of every training query; several wordings (without and with its instruction) take turns by epoch.
        documents: text of every tool.
        golds: gold tools of every training query.
        pools: hard negatives; None for in-batch negatives alone.
        twins: tools that are no negatives for one another's queries; None compares documents.
        spared: tools that are no negatives of every training query, its golds among them; None: its golds alone.
    """

    queries: Sequence[tuple[str, ...]]
    documents: Sequence[str]
    golds: Sequence[Sequence[int]]
    pools: Pools | None = None
    twins: Twins | None = None
    spared: Sequence[Sequence[int]] | None = None

    @cached_property
    def pairs(self) -> list[Pair]:
        """One pair for every gold tool of every query."""
        return [(q, t) for q, tools in enumerate(self.golds) for t in tools]


@dataclass(frozen=True)
class Validation:
    """What chooses the epoch.

    Args:
        queries: texts.
        golds: gold tools of every query.
        tools: the tools that are ranked, golds among them; None ranks all.
    """

    queries: Sequence[str]
    golds: Sequence[Sequence[int]]
    tools: Sequence[int] | None = None


def refuse_idle(examples: Examples, settings: Settings, where: str) -> None:
    """Refuse a training in which no tool is ever told from another: its loss would be 0 from first to last.

    Args:
        examples: what would be trained on.
        settings: how.
        where: the key that the settings stand under.

    Raises:
        UserError: batches of one tool alone, and no hard negative.
    """
    tools = {tool for _, tool in examples.pairs}
    has_hard = settings.negatives and examples.pools is not None and any(examples.pools.of_query)
    if has_hard or (len(tools) > 1 and settings.batch_size > 1):
        return
    what = (
        f"batches of {min(settings.batch_size, len(tools))} tool and no hard negatives: there is nothing to tell apart"
    )
    expected = "two tools in a batch, or hard negatives"
    raise UserError(what, where=where, expected=expected, fix=f"{where}.batch_size=32, and queries for several tools")


class ContrastiveModule(pl.LightningModule):
    """InfoNCE over in-batch and hard negatives; no gold of a query is ever among its negatives.

    Args:
        model: a sentence-transformers model.
        examples: what it is trained on.
        settings: how.
        steps: optimizer steps of the whole training.
        validation: ranked at the end of each epoch, the best epoch's weights are kept; None keeps the last.
        watch: told every point of the learning curves as it comes.

    Raises:
        FloatingPointError: the loss is not finite; names the step and the pairs.
    """

    def __init__(
        self,
        model: Any,
        examples: Examples,
        settings: Settings,
        *,
        steps: int,
        validation: Validation | None = None,
        watch: Callable[[dict[str, float]], None] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.examples, self.settings, self.steps = model, examples, settings, steps
        self.validation, self.watch = validation, watch
        self.twins = examples.twins or Twins(examples.documents)
        self.best: tuple[float, dict[str, Tensor]] | None = None
        self.history: list[dict[str, float]] = []

    def on_fit_start(self) -> None:
        """All processes learn from the first one's examples: negatives that each mines itself may differ."""
        self.examples = of_first(self.examples)
        self.twins = self.examples.twins or Twins(self.examples.documents)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors [text, dimension], with gradients where they are recorded."""
        features = self.model.preprocess(list(texts))
        features = {k: v.to(self.device) if isinstance(v, Tensor) else v for k, v in features.items()}
        return torch.nn.functional.normalize(self.model(features)["sentence_embedding"].float(), dim=-1)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Dropout of an epoch depends on the epoch alone: a training that is continued draws what it would have.

        Lightning calls no `on_train_epoch_start` where it continues.
        """
        if batch_idx == 0:
            torch.manual_seed(1_000_003 * self.settings.seed + self.current_epoch)

    def training_step(self, pairs: list[Pair], index: int) -> Tensor:
        """InfoNCE loss of one (global) batch of pairs."""
        queries, tools, contrast = self.assemble(pairs)
        texts = [*self._query_texts(queries), *(self.examples.documents[t] for t in tools)]
        chunks = _by_length(texts, self._chunk)

        def loss_of(vectors: Tensor) -> Tensor:
            parts = vectors[: len(queries)], vectors[len(queries) :]
            return info_nce(*parts, contrast, self.settings.temperature, self.settings.symmetric)

        if self.settings.cached or process()[1] > 1:
            trained = [p for p in self.model.parameters() if p.requires_grad]
            loss = replayed_loss(self.embed, texts, chunks, loss_of, trained)
        else:
            vectors = torch.cat([self.embed([texts[i] for i in chunk]) for chunk in chunks])
            place = torch.tensor([i for chunk in chunks for i in chunk], device=vectors.device).argsort()
            loss = loss_of(vectors[place])
        if not torch.isfinite(loss):
            raise FloatingPointError(f"loss is {loss.item()} at step {self.global_step}, pairs {pairs}")
        self._point(loss=float(loss.detach()))
        return loss

    def assemble(self, pairs: Sequence[Pair]) -> tuple[list[int], list[int], Contrast]:
        """The distinct queries and tools of a batch, its hard negatives among them, and who is compared with whom."""
        own = [t for _, t in pairs]
        queries = list(dict.fromkeys(q for q, _ in pairs))
        tools = list(dict.fromkeys([*own, *(t for pair in pairs for t in self._negatives(pair))]))
        column, row = {t: i for i, t in enumerate(tools)}, {q: i for i, q in enumerate(queries)}
        golds = np.array([column[t] for t in own])
        spared = self.examples.golds if self.examples.spared is None else self.examples.spared
        known = list(dict.fromkeys(t for q in queries for t in spared[q]))
        place, twins = {t: i for i, t in enumerate(known)}, self.twins.matrix(known, tools)
        excluded = np.stack([twins[[place[t] for t in spared[q]]].any(axis=0) for q, _ in pairs])
        excluded[np.arange(len(pairs)), golds] = False
        rows = torch.tensor([row[q] for q, _ in pairs])
        parts = (rows, torch.from_numpy(golds), torch.from_numpy(excluded))
        return queries, tools, Contrast(*(part.to(self.device) for part in parts))

    def _negatives(self, pair: Pair) -> tuple[int, ...]:
        pools, n = self.examples.pools, self.settings.negatives
        if pools is None or not n:
            return ()
        return pools.draw(pair[0], n, f"{self.settings.seed}/{self._epoch}/{pair[0]}/{pair[1]}")

    def _query_texts(self, queries: Sequence[int]) -> list[str]:
        """One wording of each query: the wordings take turns."""
        wordings = [self.examples.queries[q] for q in queries]
        return [texts[(q + self._epoch) % len(texts)] for q, texts in zip(queries, wordings, strict=True)]

    @property
    def _chunk(self) -> int:
        return self.settings.chunk or (16 if self.device.type == "cpu" else 128)

    @property
    def _epoch(self) -> int:
        return self.current_epoch if self._trainer is not None else 0

    @torch.no_grad()
    def on_train_epoch_end(self) -> None:
        """Keep the weights of the best validation recall@1 (the earliest, when equal), on the first process."""
        if self.validation is None or process()[0] != 0:
            return
        self.model.eval()
        recall = self._validate(self.validation)
        self.model.train()
        self._point(**{"epoch": self.current_epoch, "recall@1": recall})
        if self.best is None or recall > self.best[0]:
            self.best = (recall, {k: v.detach().clone() for k, v in self.model.state_dict().items()})

    def _validate(self, validation: Validation) -> float:
        tools = range(len(self.examples.documents)) if validation.tools is None else validation.tools
        place = {t: i for i, t in enumerate(tools)}
        texts = [*validation.queries, *(self.examples.documents[t] for t in place)]
        chunks = _by_length(texts, self._chunk)
        attached = self._trainer is not None
        with self.trainer.precision_plugin.forward_context() if attached else nullcontext():
            parts = [self.embed([texts[i] for i in chunk]).cpu() for chunk in chunks]
        vectors = torch.empty(len(texts), parts[0].shape[1])
        vectors[[i for chunk in chunks for i in chunk]] = torch.cat(parts)
        scores = vectors[: len(validation.queries)] @ vectors[len(validation.queries) :].T
        return full_recall(scores, [[place[t] for t in golds] for golds in validation.golds])

    def _point(self, **values: float) -> None:
        self.history.append({"step": self.global_step, **values})
        if self.watch is not None:
            self.watch(self.history[-1])

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The best weights and the learning curves go along with the rest."""
        checkpoint["best"], checkpoint["history"] = self.best, self.history

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take them up again."""
        self.best, self.history = checkpoint["best"], checkpoint["history"]

    def configure_optimizers(self) -> Any:
        """AdamW over what trains, with warm-up and linear decay."""
        trained = [p for p in self.model.parameters() if p.requires_grad]
        s = self.settings
        optimizer = torch.optim.AdamW(trained, lr=s.learning_rate, weight_decay=s.weight_decay)
        schedule = linear(optimizer, self.steps, s.warmup)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def _by_length(texts: Sequence[str], size: int) -> list[list[int]]:
    """Positions in chunks of similar length: little padding."""
    order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), i))
    return [order[start : start + size] for start in range(0, len(order), size)]


@contextmanager
def eager_attention(model: Any) -> Iterator[None]:
    """Use plain attention while training on a CPU: torch's fused backward is several times slower there in bf16."""
    parts = [m for m in model.modules() if hasattr(m, "set_attn_implementation") and not torch.cuda.is_available()]
    before = [m.config._attn_implementation for m in parts]
    for part in parts:
        part.set_attn_implementation("eager")
    try:
        yield
    finally:
        for part, name in zip(parts, before, strict=True):
            part.set_attn_implementation(name)
