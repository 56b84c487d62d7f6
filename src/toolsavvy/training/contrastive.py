"""Make an encoder tool-savvy: in-batch contrastive training on (query, tool) pairs (TOOLRET section 5)."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from toolsavvy.catalog import Catalog, Query, relevant_indices
from toolsavvy.errors import UserError
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Ranking
from toolsavvy.training.fitting import Hardware, fit
from toolsavvy.training.validation import full_recall

Pair = tuple[int, int]
"""(index of a training query, index of one of its gold tools)."""


class DistinctTools(Sampler[list[int]]):
    """Seeded batches in which no tool stands twice: a repeated positive would be its twin's false negative.

    Pairs are dealt out like cards, tool by tool, so that batches are filled evenly and every epoch has as many of them
    (Lightning asks for the number once): ceil(pairs / batch size), or more where a tool has more pairs than that.

    Args:
        pairs: (query, tool) pairs.
        batch_size: pairs a batch at most.
        seed: of the order; every epoch has its own.
    """

    def __init__(self, pairs: Sequence[Pair], batch_size: int, seed: int) -> None:
        self.pairs, self.batch_size, self.seed, self.epoch = list(pairs), batch_size, seed, 0
        most = max(Counter(tool for _, tool in self.pairs).values(), default=0)
        self.batches = max(-(-len(self.pairs) // batch_size), most)

    def __len__(self) -> int:
        """Batches of every epoch."""
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        """Draw the next epoch."""
        rng = random.Random(f"{self.seed}/{self.epoch}")
        self.epoch += 1
        places: dict[int, list[int]] = {}
        for i in rng.sample(range(len(self.pairs)), k=len(self.pairs)):
            places.setdefault(self.pairs[i][1], []).append(i)
        dealt = [i for tool in places.values() for i in tool]
        batches = [dealt[start :: self.batches] for start in range(self.batches)]
        rng.shuffle(batches)
        return iter(batches)


class ContrastiveModule(pl.LightningModule):
    """InfoNCE over in-batch tools; no gold of a query is ever among its negatives.

    Args:
        model: a sentence-transformers model.
        queries: text of every training query.
        documents: text of every tool.
        golds: gold tools of every training query.
        learning_rate: peak of a linear schedule.
        steps: optimizer steps of the whole training.
        temperature: of the softmax over cosines.
        warmup: share of `steps` during which the rate rises.
        validation: (query texts, gold tools) for torchmetrics' recall@1 at the end of each epoch; None skips it.

    Raises:
        FloatingPointError: the loss is not finite; names the step and the pairs.
    """

    def __init__(
        self,
        model: Any,
        queries: Sequence[str],
        documents: Sequence[str],
        golds: Sequence[Sequence[int]],
        *,
        learning_rate: float,
        steps: int,
        temperature: float = 0.05,
        warmup: float = 0.1,
        validation: tuple[Sequence[str], Sequence[Sequence[int]]] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.queries, self.documents, self.golds = list(queries), list(documents), [set(g) for g in golds]
        self.learning_rate, self.steps, self.temperature, self.warmup = learning_rate, steps, temperature, warmup
        self.validation = validation
        self.best: tuple[float, dict[str, Tensor]] | None = None
        self.history: list[dict[str, float]] = []

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors [text, dimension], with gradients."""
        features = self.model.preprocess(list(texts))
        features = {k: v.to(self.device) if isinstance(v, Tensor) else v for k, v in features.items()}
        return torch.nn.functional.normalize(self.model(features)["sentence_embedding"].float(), dim=-1)

    def training_step(self, pairs: list[Pair], index: int) -> Tensor:
        """InfoNCE loss of one batch of pairs."""
        queries = self.embed([self.queries[q] for q, _ in pairs])
        tools = self.embed([self.documents[t] for _, t in pairs])
        logits = queries @ tools.T / self.temperature
        logits = logits.masked_fill(self._false_negatives(pairs).to(logits.device), -torch.inf)
        loss = torch.nn.functional.cross_entropy(logits, torch.arange(len(pairs), device=logits.device))
        if not torch.isfinite(loss):
            raise FloatingPointError(f"loss is {loss.item()} at step {self.global_step}, pairs {pairs}")
        self.history.append({"step": self.global_step, "loss": float(loss.detach())})
        return loss

    def _false_negatives(self, pairs: list[Pair]) -> Tensor:
        """Bool [pair, pair]: column's tool is another gold of the row's query, or has the same document as its gold."""
        mask = [
            [
                i != j and (t in self.golds[q] or self.documents[t] == self.documents[own])
                for j, (_, t) in enumerate(pairs)
            ]
            for i, (q, own) in enumerate(pairs)
        ]
        return torch.tensor(mask)

    @torch.no_grad()
    def on_train_epoch_end(self) -> None:
        """Keep the weights of the best validation recall@1 (the earliest, when equal)."""
        if self.validation is None:
            return
        self.model.eval()
        recall = self._validate(*self.validation)
        self.model.train()
        self.history.append({"step": self.global_step, "epoch": self.current_epoch, "recall@1": recall})
        if self.best is None or recall > self.best[0]:
            self.best = (recall, {k: v.detach().clone() for k, v in self.model.state_dict().items()})

    def _validate(self, texts: Sequence[str], golds: Sequence[Sequence[int]]) -> float:
        order = sorted(range(len(self.documents)), key=lambda i: len(self.documents[i]))  # little padding
        attached = self._trainer is not None
        with self.trainer.precision_plugin.forward_context() if attached else nullcontext():
            parts = [self.embed([self.documents[i] for i in order[j : j + 32]]) for j in range(0, len(order), 32)]
            queries = self.embed(texts)
        documents = torch.empty(len(order), parts[0].shape[1])
        documents[order] = torch.cat(parts).cpu()
        scores = queries.cpu() @ documents.T
        return full_recall(scores, golds)

    def configure_optimizers(self) -> Any:
        """AdamW with warm-up and linear decay."""
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.learning_rate, weight_decay=0.01)
        warm = max(1, round(self.warmup * self.steps))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda s: min((s + 1) / warm, max(0.0, (self.steps - s) / max(1, self.steps - warm)))
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


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


class FineTuned:
    """The fair rival: an encoder fine-tuned on the same training queries, then searched like any other.

    Args:
        encoder: where training starts; it is left as it was.
        epochs: passes over the (query, tool) pairs.
        learning_rate: peak.
        batch_size: pairs a batch.
        temperature: of the softmax over cosines.
        max_length: tokens per text while training.
        seed: of the order and of dropout.

    Attributes:
        validation: queries that choose the epoch; the last one is kept where there are none.
        hardware: where it trains.

    Raises:
        UserError: (on fit) there are no training queries.
    """

    def __init__(
        self,
        encoder: Encoder,
        epochs: int = 5,
        learning_rate: float = 1e-4,
        batch_size: int = 32,
        temperature: float = 0.05,
        max_length: int = 128,
        seed: int = 0,
    ) -> None:
        self.encoder, self.epochs, self.learning_rate, self.batch_size = encoder, epochs, learning_rate, batch_size
        self.temperature, self.max_length, self.seed = temperature, max_length, seed
        self.validation: tuple[Query, ...] = ()
        self.hardware = Hardware()
        self.history: list[dict[str, float]] = []
        self._dense: Dense | None = None

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Train on the queries, then embed the catalog."""
        if not train:
            raise UserError(
                "fine-tuning needs training queries", where=f"catalog {catalog.name}, split 'train'",
                expected="at least one training query",
                fix="leave out retriever=finetuned, or choose a catalog with a train split",
            )  # fmt: skip
        model = copy.deepcopy(self.encoder.model)
        limit, model.max_seq_length = model.max_seq_length, self.max_length
        with eager_attention(model):
            self._train(model, catalog, train)
        model.max_seq_length = limit
        self._dense = Dense(self.encoder.with_model(model)).fit(catalog)
        return self

    def _train(self, model: Any, catalog: Catalog, train: Sequence[Query]) -> None:
        golds = relevant_indices(catalog, train)
        pairs = [(q, t) for q, tools in enumerate(golds) for t in tools]
        sampler = DistinctTools(pairs, self.batch_size, self.seed)
        validation = None
        if self.validation:
            texts = [self.encoder.query_text(q) for q in self.validation]
            validation = (texts, relevant_indices(catalog, self.validation))
        documents = [self.encoder.document_template.format(document=d) for d in catalog.documents]
        module = ContrastiveModule(
            model, [self.encoder.query_text(q) for q in train], documents, golds, learning_rate=self.learning_rate,
            steps=self.epochs * len(sampler), temperature=self.temperature, validation=validation,
        )  # fmt: skip
        items: Any = pairs  # a list is a map-style dataset
        loader = DataLoader(items, batch_sampler=sampler, collate_fn=list)
        fit(module, loader, epochs=self.epochs, seed=self.seed, hardware=self.hardware)
        if module.best is not None:
            model.load_state_dict(module.best[1])
        self.history = module.history

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank with the fine-tuned encoder."""
        if self._dense is None:
            raise RuntimeError("fit before searching")
        return self._dense.search(queries, k)
