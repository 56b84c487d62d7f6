"""Item 6: contrastive steps per second against sentence-transformers' own trainer, same loss, batch and model."""

from __future__ import annotations

import copy
import itertools
import tempfile
import time
from typing import Any

import torch
from bench_encode import minilm
from record import Record, Row, median

from toolsavvy.catalog import relevant_indices
from toolsavvy.catalogs import aws
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.training.contrastive import ContrastiveModule, Examples, Settings
from toolsavvy.training.finetuned import document_texts, tune
from toolsavvy.training.fitting import Hardware

BATCH, STEPS, ROUNDS, LENGTH, TEMPERATURE = 32, 5, 3, 128, 0.05
WARM = 1
"""First steps of every round that are not timed."""


def run() -> Record:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        return measure(minilm("float32"), examples(minilm("float32")))
    finally:
        torch.set_num_threads(threads)


def measure(encoder: Encoder, data: Examples) -> Record:
    """Rounds of both trainers in turn; medians of the seconds between the ends of two steps."""
    rows = []
    for precision in ("fp32", "bf16"):
        spent: dict[str, list[float]] = {"ours": [], "theirs": []}
        for turn in range(ROUNDS):
            sides = [("ours", ours), ("theirs", theirs)][:: 1 if turn % 2 else -1]
            for name, side in sides:
                spent[name] += side(encoder, data, precision)
        per_second = {"ours_steps_per_second": 1 / median(spent["ours"])}
        rows.append(Row(f"{precision}, a step", median(spent["ours"]), median(spent["theirs"]), 1.0, per_second))
    gap = abs(our_loss(encoder, data) - their_loss(encoder, data))
    return Record(
        "6_contrastive", "a contrastive training step at least as fast as sentence-transformers' trainer takes it",
        f"same loss of one batch (they differ by {gap:.1e})", gap < 1e-4, rows,
        f"MiniLM, batches of {BATCH} (query, document) pairs of AWS, at most {LENGTH} tokens, in-batch negatives.",
    )  # fmt: skip


def examples(encoder: Encoder) -> Examples:
    """As many pairs as one round needs, every tool once, so that no batch has a false negative to mask."""
    data = aws.load()
    firsts: dict[int, str] = {}
    for query, golds in zip(data.train, relevant_indices(data.catalog, data.train), strict=True):
        if len(golds) == 1:
            firsts.setdefault(golds[0], query.text)
    tools = list(firsts)[: BATCH * (STEPS + WARM)]
    documents = document_texts(encoder, data.catalog)
    return Examples([(firsts[t],) for t in tools], [documents[t] for t in tools], [[i] for i in range(len(tools))])


def settings() -> Settings:
    return Settings(learning_rate=1e-5, epochs=1, batch_size=BATCH, temperature=TEMPERATURE, max_length=LENGTH)


def ours(encoder: Encoder, data: Examples, precision: str) -> list[float]:
    ends: list[float] = []
    hardware = Hardware(precision=precision, threads=2)
    tune(encoder, data, settings(), hardware=hardware, watch=lambda _: ends.append(time.perf_counter()))
    return intervals(ends)


def theirs(encoder: Encoder, data: Examples, precision: str) -> list[float]:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    ends: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            ends.append(time.perf_counter())

    model = copy.deepcopy(encoder.model)
    model.max_seq_length = LENGTH
    rows = Dataset.from_dict({"anchor": [q[0] for q in data.queries], "positive": list(data.documents)})
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder, num_train_epochs=1, per_device_train_batch_size=BATCH, learning_rate=1e-5,
            weight_decay=0.01, warmup_steps=1, use_cpu=True, bf16=precision == "bf16", report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        loss = MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
        SentenceTransformerTrainer(model, arguments, rows, loss=loss, callbacks=[Clock()]).train()
    return intervals(ends)


def intervals(ends: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(ends)][WARM - 1 :]


def our_loss(encoder: Encoder, data: Examples) -> float:
    model = copy.deepcopy(encoder.model).eval()
    model.max_seq_length = LENGTH
    with torch.no_grad():
        return float(ContrastiveModule(model, data, settings(), steps=1).training_step(data.pairs[:BATCH], 0))


def their_loss(encoder: Encoder, data: Examples) -> float:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = copy.deepcopy(encoder.model).eval()
    model.max_seq_length = LENGTH
    texts = [q[0] for q in data.queries[:BATCH]], list(data.documents[:BATCH])
    with torch.no_grad():
        loss = MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
        return float(loss([dict(model.preprocess(t)) for t in texts], None))
