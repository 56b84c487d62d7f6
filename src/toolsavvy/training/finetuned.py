"""From an encoder to a fine-tuned copy of it, and that as a retriever."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch.utils.data import DataLoader

from toolsavvy.catalog import Catalog, Query, relevant_indices
from toolsavvy.errors import UserError
from toolsavvy.models.loading import quiet_transformers
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Ranking
from toolsavvy.training.contrastive import (
    ContrastiveModule,
    Examples,
    Settings,
    Validation,
    eager_attention,
    refuse_idle,
)
from toolsavvy.training.fitting import Hardware, fit
from toolsavvy.training.negatives import shared_golds
from toolsavvy.training.ranks import process
from toolsavvy.training.sampling import DistinctTools


@dataclass(frozen=True)
class LoRA:
    """Adapters that are trained in place of the weights, and merged into them afterwards.

    Args:
        rank: of the adapters.
        alpha: their scale is alpha / rank.
        dropout: on their input.
        targets: `all-linear` or module names.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    targets: str | list[str] = "all-linear"


def tune(
    encoder: Encoder,
    examples: Examples,
    settings: Settings,
    *,
    lora: LoRA | None = None,
    validation: Validation | None = None,
    hardware: Hardware | None = None,
    checkpoint: Path | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> tuple[Any, list[dict[str, float]]]:
    """Train a copy of an encoder's model.

    Args:
        encoder: where training starts; it is left as it was.
        examples: what it is trained on.
        settings: how.
        lora: None trains every weight.
        validation: chooses the epoch; None keeps the last.
        hardware: where it trains.
        checkpoint: file that every epoch is kept in and a training that was cut off goes on from.
        watch: told every point of the learning curves as it comes.

    Returns:
        The SentenceTransformer, ready for inference, and its learning curves.

    Raises:
        UserError: adapters that fit nowhere.
    """
    model = copy.deepcopy(encoder.model)
    limit, read = model.max_seq_length, encoder.max_tokens  # what evaluation cuts off is no use in training
    model.max_seq_length = min(settings.max_length, read) if read else settings.max_length
    wrapped = _with_adapters(model, lora, settings.seed) if lora else None
    freeze_idle(model, examples.documents[0])
    sampler = DistinctTools(examples.pairs, settings.batch_size, settings.seed)
    steps = settings.epochs * len(sampler)
    module = ContrastiveModule(model, examples, settings, steps=steps, validation=validation, watch=watch)
    items: Any = examples.pairs  # a list is a map-style dataset
    loader = DataLoader(items, batch_sampler=sampler, collate_fn=list)
    with eager_attention(model):
        fit(
            module, loader, epochs=settings.epochs, seed=settings.seed, hardware=hardware, checkpoint=checkpoint
        )  # fmt: skip
    if module.best is not None:
        model.load_state_dict(module.best[1])
    if wrapped is not None:
        with quiet_transformers():
            model[0].model = wrapped.merge_and_unload()
    model.max_seq_length = limit
    return model.eval(), module.history


def freeze_idle(model: Any, text: str) -> None:
    """Freeze what takes no part in an embedding (BERT's pooler): several processes wait for every gradient."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    features = {
        k: v.to(model.device) if isinstance(v, torch.Tensor) else v for k, v in model.preprocess([text]).items()
    }
    with torch.enable_grad():
        vector = model.eval()(features)["sentence_embedding"]
        gradients = torch.autograd.grad(vector.float().sum(), parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.requires_grad_(gradient is not None)


def _with_adapters(model: Any, lora: LoRA, seed: int) -> Any:
    """Put adapters into the transformer, the same ones for the same seed; all else is frozen.

    Raises:
        UserError: there is no transformer, or none of its modules is a target.
    """
    from peft import LoraConfig, get_peft_model

    if not isinstance(getattr(model[0], "model", None), torch.nn.Module):
        what = f"the encoder starts with a {type(model[0]).__name__}, which takes no adapters"
        raise UserError(what, where="tuning.kind", expected="full for this encoder", fix="tuning=full")
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.targets)  # type: ignore[arg-type]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    try:
        with quiet_transformers(), torch.random.fork_rng():
            torch.manual_seed(seed)
            model[0].model = get_peft_model(model[0].model, config)
    except ValueError as error:
        linear = {n.rpartition(".")[2] for n, m in model[0].model.named_modules() if isinstance(m, torch.nn.Linear)}
        targets = lora.targets if isinstance(lora.targets, str) else ", ".join(lora.targets)
        raise UserError(
            f"{targets} are no modules that adapters fit into", where="tuning.targets",
            expected=f"all-linear, or some of {', '.join(sorted(linear))}", fix="tuning.targets=all-linear",
        ) from error  # fmt: skip
    return model[0].model


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
        UserError: (on fit) there are no training queries, or nothing in a batch to tell apart.
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
        self.encoder = encoder
        self.settings = Settings(
            learning_rate=learning_rate, epochs=epochs, batch_size=batch_size, temperature=temperature,
            max_length=max_length, seed=seed,
        )  # fmt: skip
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
        queries = [(self.encoder.query_text(q),) for q in train]
        examples = Examples(
            queries, document_texts(self.encoder, catalog), relevant_indices(catalog, train),
            spared=shared_golds(catalog, train),
        )  # fmt: skip
        refuse_idle(examples, self.settings, "retriever.finetuned")
        validation = None
        if self.validation:
            texts = [self.encoder.query_text(q) for q in self.validation]
            validation = Validation(texts, relevant_indices(catalog, self.validation))
        model, self.history = tune(
            self.encoder, examples, self.settings, validation=validation, hardware=self.hardware
        )  # fmt: skip
        dense = Dense(self.encoder.with_model(model))
        self._dense = dense.fit(catalog) if process()[0] == 0 else dense
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank with the fine-tuned encoder."""
        if self._dense is None:
            raise RuntimeError("fit before searching")
        return self._dense.search(queries, k)


def document_texts(encoder: Encoder, catalog: Catalog) -> list[str]:
    """Every tool's document as the encoder reads it."""
    return [encoder.document_template.format(document=document) for document in catalog.documents]
