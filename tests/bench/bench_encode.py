"""Item 6: encoding tool documents of mixed length, against `SentenceTransformer.encode` at the same dtype."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import yaml
from record import Record, Row, median, timed

from toolsavvy.catalogs import aws
from toolsavvy.retrieval import encoding
from toolsavvy.retrieval.encoders import Encoder

MINILM = Path(__file__).parents[2] / "conf" / "encoder" / "minilm.yaml"
DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "2000"))
QUERIES, SLICES, K = 300, 10, 10
Vectors = np.ndarray


def run() -> Record:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        return measure(*texts())
    finally:
        torch.set_num_threads(threads)


def measure(documents: list[str], queries: list[str]) -> Record:
    """Slices of the documents in turn, each by all contenders one after the other: a busy moment meets all of them."""
    exact, half = minilm("float32"), minilm("bfloat16")
    contenders: dict[str, Callable[[list[str]], Vectors]] = {
        "library, float32": lambda t: library(exact, t),
        "ours, float32": exact.encode,
        "ours, float32, the library's kernels": lambda t: plain_kernels(exact, t),
        "library, bfloat16": lambda t: library(half, t),
        "ours, bfloat16": half.encode,
    }
    parts = [documents[i::SLICES] for i in range(SLICES)]
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    found: dict[str, list[Vectors]] = {name: [] for name in contenders}
    for encode in contenders.values():
        encode(documents[:64])
    for turn, part in enumerate(parts):
        names = list(contenders) if turn % 2 else list(contenders)[::-1]
        for name in names:
            spent, vectors = timed(lambda name=name, part=part: contenders[name](part))
            seconds[name].append(spent)
            found[name].append(vectors)
    vectors = {name: np.concatenate(v) for name, v in found.items()}
    asked = library(exact, queries)
    same = {
        dtype: overlap(vectors[f"ours, {dtype}"], vectors[f"library, {dtype}"], asked)
        for dtype in ("float32", "bfloat16")
    }
    far = float(np.abs(vectors["ours, float32"] - vectors["library, float32"]).max())
    paired = {
        name: median([a / b for a, b in zip(seconds["library, float32"], seconds[name], strict=True)])
        for name in contenders
    }
    detail = {"documents": len(documents), "slices": SLICES, "median_of_paired_ratios": paired, "overlap_at_10": same}
    spent = {name: median(values) for name, values in seconds.items()}
    rows = [
        Row("float32", spent["ours, float32"], spent["library, float32"], 1.2, detail),
        Row("float32, batches alone, same kernels", spent["ours, float32, the library's kernels"],
            spent["library, float32"], None),
        Row("bfloat16, both", spent["ours, bfloat16"], spent["library, bfloat16"], None),
        Row("bfloat16 against float32, ours", spent["ours, bfloat16"], spent["ours, float32"], None),
    ]  # fmt: skip
    return Record(
        "6_encode", "encoding mixed-length tools: at least 1.2 times SentenceTransformer.encode at the same dtype",
        f"float32: top 10 of {len(asked)} queries overlap by {same['float32']:.4f} (at least 0.99), "
        f"largest difference {far:.1e} (at most 1e-4)",
        same["float32"] >= 0.99 and far <= 1e-4, rows,
        f"Seconds for a slice of {len(parts[0])} AWS documents, 2 threads, MiniLM.",
    )  # fmt: skip


def texts() -> tuple[list[str], list[str]]:
    """Distinct documents of the whole AWS catalog, and real queries."""
    data = aws.load()
    documents = sorted(set(data.catalog.documents))
    queries = [query.text for split in data.test_splits for query in data.splits[split]]
    rng = random.Random(0)
    return rng.sample(documents, min(DOCUMENTS, len(documents))), rng.sample(queries, QUERIES)


def minilm(dtype: str) -> Encoder:
    options = {k: v for k, v in yaml.safe_load(MINILM.read_text(encoding="utf-8")).items() if k != "_target_"}
    return Encoder(**{**options, "cache": False, "dtype": dtype, "device": "cpu"})


def library(encoder: Encoder, batch: Sequence[str]) -> Vectors:
    found: Any = encoder.model.encode(
        list(batch), batch_size=encoder.batch_size, normalize_embeddings=True, convert_to_tensor=True,
        show_progress_bar=False,
    )  # fmt: skip
    return found.float().numpy()


def plain_kernels(encoder: Encoder, batch: list[str]) -> Vectors:
    with patch.object(encoding, "fast_linear", lambda model: nullcontext()):
        return encoder.encode(batch)


def overlap(ours: Vectors, theirs: Vectors, queries: Vectors) -> float:
    """Mean share of the top 10 that both sets of documents have in common."""
    tops = [np.argsort(-(queries @ side.T), axis=1, kind="stable")[:, :K] for side in (ours, theirs)]
    return float(np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(*tops, strict=True)]))
