"""From a thousand to a million simulated tools: CPU seconds and peak memory of every step, each in its own process.

`BENCH_SIZES=1000,10000` makes it shorter, `BENCH_KEEP=1` goes on with what `results/13_million_steps.json` holds.
Tools are simulated (`catalog=simulated`), vectors for FAISS are drawn (providers of 50 tools in 16 domains, 64 wide),
the rows of the code tokens are random: times and memory mean something, rankings of the language model don't.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from record import RESULTS, Record, Row

SIZES = [int(size) for size in os.environ.get("BENCH_SIZES", "1000,10000,100000,1000000").split(",")]
STEPS = ("catalog", "bm25", "minilm", "vectors", "Flat", "IVF", "IVF-PQ", "HNSW", "codes", "trie", "beams")
KEPT = RESULTS / "13_million_steps.json"
FIGURES = Path(__file__).parents[2] / "notebooks" / "figures"
QUERIES, DEPTH, WIDTH, BEAMS, PROMPTS = 100, 10, 64, 10, 8
MEMORY = 8.0
"""GB that no step may exceed at a million tools."""
SHARE = 5.0
"""Per cent of constrained decoding that the constraint may take."""

Facts = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process, which has one thread: other processes on the machine don't count."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def run() -> Record:
    done: dict[str, dict[str, Facts]] = {}
    if os.environ.get("BENCH_KEEP") and KEPT.is_file():
        done = json.loads(KEPT.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            facts = done.setdefault(str(size), {})
            for step in STEPS if size == min(SIZES) else [s for s in STEPS if s != "minilm"]:
                needed = step in ("vectors", "Flat", "codes") and any(s not in facts for s in STEPS if s != "minilm")
                if step not in facts or needed:  # later steps read what these leave in the folder
                    facts[step] = measure(step, size, folder)
                    RESULTS.mkdir(exist_ok=True)
                    KEPT.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
                    print(f"  {size:>9,} {step:8} {json.dumps(facts[step])}", flush=True)
            for file in Path(folder).iterdir():
                file.unlink()
    sizes = sorted(map(int, done))
    draw(done, sizes)
    return record(done, sizes)


def measure(step: str, size: int, folder: str) -> Facts:
    """Run one step by itself: its facts, seconds in all and peak memory."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    start = time.perf_counter()
    told = subprocess.run(
        [sys.executable, __file__, step, str(size), folder], capture_output=True, text=True, env=environment
    )
    seconds = time.perf_counter() - start
    if told.returncode:
        raise RuntimeError(f"{step} of {size} tools failed:\n{told.stderr[-2000:]}")
    return {**json.loads(told.stdout.splitlines()[-1]), "wall_seconds": round(seconds, 2)}


def record(done: dict[str, dict[str, Facts]], sizes: list[int]) -> Record:
    rows, sound = [], True
    for size in sizes:
        facts = done[str(size)]
        for step in (s for s in STEPS if s in facts):
            first = next(v for k, v in facts[step].items() if k.endswith("_seconds"))
            rows.append(Row(f"{size:,}: {step}", first, None, None, facts[step]))
        sound &= facts["trie"]["accepts_exactly_the_catalog"] and facts["beams"]["all_are_tools"]
        sound &= facts["codes"]["distinct"] and facts["codes"]["even"]
        peak = max(fact["peak_gb"] for fact in facts.values())
        rows.append(Row(f"{size:,}: largest peak memory of a step", peak, None, MEMORY, unit="GB"))
        share = facts["beams"]["constraint_percent"]
        rows.append(Row(f"{size:,}: the constraint's share of decoding", share, None, SHARE, unit="%"))
    return Record(
        "13_million", f"a million simulated tools: no step above {MEMORY:g} GB, the trie below {SHARE:g} % of decoding",
        "codes differ and are even, the trie holds each tool's code and no other, every beam ends in a tool",
        sound, rows,
        "Each step in a process of its own; CPU seconds of one thread, the first of a step, all others under detail.",
    )  # fmt: skip


def draw(done: dict[str, dict[str, Facts]], sizes: list[int]) -> None:
    """Log-log curves over the number of tools."""
    if len(sizes) < 2:
        return
    from toolsavvy.figures.curves import Curve, Panel, curve_panels

    def curve(label: str, step: str, key: str) -> Curve:
        known = [(size, done[str(size)][step][key]) for size in sizes if step in done[str(size)]]
        return Curve(label, [float(x) for x, _ in known], [float(y) for _, y in known])

    x = "tools (simulated)"
    indexes = ("Flat", "IVF", "IVF-PQ", "HNSW")
    texts = (
        curve("catalog and audit", "catalog", "load_seconds"), curve("BM25", "bm25", "build_seconds"),
        curve("hierarchical codes", "codes", "tree_seconds"), curve("trie", "trie", "build_seconds"),
    )  # fmt: skip
    vectors = tuple(curve(name, name, "build_seconds") for name in indexes)
    searched = (curve("BM25", "bm25", "search_ms"), *(curve(name, name, "search_ms") for name in indexes))
    decoded = (curve("beam search", "beams", "query_ms"), curve("of it the trie", "beams", "constraint_ms"))
    panels = [
        Panel("Build, from texts", x, "CPU seconds", texts, log=True),
        Panel(f"Build, from {WIDTH} numbers a tool", x, "CPU seconds", vectors, log=True),
        Panel("Search", x, "CPU ms a query", searched, log=True),
        Panel(f"Decode codes with {BEAMS} beams", x, "CPU ms a query", decoded, log=True),
    ]
    curve_panels(FIGURES / "million_time.svg", panels, title="One thread; each step in a process of its own")
    held = (("catalog and audit", "catalog"), ("BM25", "bm25"), ("hierarchical codes", "codes"), ("trie", "trie"),
            ("beam search", "beams"))  # fmt: skip
    memory = [
        Panel("Steps over texts", x, "GB at the peak", tuple(curve(n, s, "peak_gb") for n, s in held), log=True),
        Panel("Indexes", x, "GB at the peak", tuple(curve(n, n, "peak_gb") for n in indexes), log=True),
    ]
    curve_panels(FIGURES / "million_memory.svg", memory, title="Peak memory of each step's process, libraries included")


# --- the steps, each in its own process ------------------------------------------------------------------------------


def tools_of(size: int) -> Any:
    from toolsavvy.catalog import Catalog
    from toolsavvy.catalogs.simulated import simulate

    return Catalog("simulated", tuple(simulate(size)))


def queries_of(size: int) -> Any:
    from toolsavvy.catalogs.simulated import simulated_queries

    return simulated_queries(size, 50, QUERIES // 50)


def catalog(size: int, _: Path) -> Facts:
    from toolsavvy.catalogs.simulated import load

    seconds, data = timed(lambda: load(tools=size))
    prints, _ = timed(lambda: data.catalog.fingerprint)
    characters = np.mean([len(document) for document in data.catalog.documents])
    return {"load_seconds": seconds, "fingerprint_seconds": prints, "characters": float(characters)}


def bm25(size: int, _: Path) -> Facts:
    from toolsavvy.retrieval.bm25 import BM25

    tools, queries = tools_of(size), queries_of(size)
    renders, _ = timed(lambda: tools.documents)
    builds, retriever = timed(lambda: BM25().fit(tools))
    searches, ranking = timed(lambda: retriever.search(queries, DEPTH))
    golds = [tools.index[next(iter(query.relevant))] for query in queries]
    found = np.mean([gold in row for gold, row in zip(golds, ranking.indices, strict=True)])
    return {"build_seconds": builds, "render_seconds": renders, "search_ms": 1e3 * searches / len(queries),
            "recall@10_of_gold": float(found)}  # fmt: skip


def minilm(size: int, _: Path) -> Facts:
    """How long a real encoder takes a tool: at a million, hours on two cores."""
    import yaml

    from toolsavvy.config.compose import build

    options = yaml.safe_load((Path(__file__).parents[2] / "conf" / "encoder" / "minilm.yaml").read_text("utf-8"))
    encoder = build({**options, "cache": False})
    texts = list(tools_of(size).documents)[:512]
    encoder.encode_documents(texts[:32])
    seconds, _ = timed(lambda: encoder.encode_documents(texts))
    return {"embed_seconds": seconds, "documents": len(texts), "hours_for_a_million": 1e6 * seconds / len(texts) / 3600}


def vectors(size: int, folder: Path) -> Facts:
    """Unit vectors of tools near their provider's, near their domain's; queries near a tool's."""
    rng = np.random.default_rng(0)
    start = time.process_time()
    domains = rng.normal(size=(16, WIDTH))
    out = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (size, WIDTH))
    for begin in range(0, size, 50_000):
        count = min(50_000, size - begin)
        providers = domains[rng.integers(16, size=-(-count // 50))] + rng.normal(size=(-(-count // 50), WIDTH))
        rows = np.repeat(providers, 50, axis=0)[:count] + 0.7 * rng.normal(size=(count, WIDTH))
        out[begin : begin + count] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    asked = out[rng.choice(size, QUERIES)] + 0.05 * rng.normal(size=(QUERIES, WIDTH)).astype(np.float32)
    np.save(folder / "queries.npy", asked / np.linalg.norm(asked, axis=1, keepdims=True))
    return {"draw_seconds": time.process_time() - start}


def index(name: str, size: int, folder: Path) -> Facts:
    import faiss

    from toolsavvy.retrieval.dense import build_index, set_parameters

    faiss.omp_set_num_threads(1)
    lists = round(size**0.5)
    factory = {"Flat": "Flat", "IVF": f"IVF{lists},Flat", "IVF-PQ": f"IVF{lists},PQ16", "HNSW": "HNSW16"}[name]
    rows, asked = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
    builds, built = timed(lambda: build_index(rows, factory))
    parameters = {"IVF": {"nprobe": 16}, "IVF-PQ": {"nprobe": 16}, "HNSW": {"efSearch": 64}}.get(name, {})
    set_parameters(built, parameters)
    built.search(asked[:1], DEPTH)
    searches, (_, found) = timed(lambda: [built.search(asked[i : i + 1], DEPTH) for i in range(len(asked))][-1])
    found = built.search(asked, DEPTH)[1]
    if name == "Flat":
        np.save(folder / "flat.npy", found)
    flat = np.load(folder / "flat.npy")
    recall = np.mean([len(set(a) & set(b)) / DEPTH for a, b in zip(flat.tolist(), found.tolist(), strict=True)])
    faiss.write_index(built, str(folder / "index.faiss"))
    return {"build_seconds": builds, "search_ms": 1e3 * searches / len(asked), "recall_of_flat@10": float(recall),
            "file_mb": (folder / "index.faiss").stat().st_size / 2**20, "factory": factory, **parameters}  # fmt: skip


def codes(size: int, folder: Path) -> Facts:
    from toolsavvy.indexing import hashed_tfidf
    from toolsavvy.quantization import balanced_tree

    tools = tools_of(size)
    documents = tools.documents
    del tools
    hashes, table = timed(lambda: hashed_tfidf(documents))
    seconds, paths = timed(lambda: balanced_tree(table, 10))
    longest = max(map(len, paths))
    rows = np.full((size, longest), -1, dtype=np.int64)
    for row, path in zip(rows, paths, strict=True):
        row[: len(path)] = path
    np.save(folder / "codes.npy", rows)
    counts, room, even = [size], size, True
    for depth in range(1, longest + 1):
        room = -(-room // 10)
        keys = np.unique(rows[rows[:, depth - 1] >= 0, :depth], axis=0, return_counts=True)
        counts.append(len(keys[0]))
        even &= bool(keys[1].max() <= room)
    distinct = len(np.unique(rows, axis=0)) == size
    return {"tree_seconds": seconds, "hash_seconds": hashes, "levels": longest, "distinct": distinct, "even": even,
            "clusters": counts[1:]}  # fmt: skip


def tokens_of(folder: Path, first: int) -> list[tuple[int, ...]]:
    """Token ids of every tool's code: ten new tokens a level."""
    rows = np.load(folder / "codes.npy")
    shifted = np.where(rows >= 0, rows + first + 10 * np.arange(rows.shape[1]), -1)
    return [tuple(t for t in row if t >= 0) for row in shifted.tolist()]


def trie(size: int, folder: Path) -> Facts:
    import torch

    from toolsavvy.decoding import ToolTrie

    torch.set_num_threads(1)
    spelled = tokens_of(folder, 100)
    seconds, built = timed(lambda: ToolTrie.build(spelled, 2))
    rows = torch.full((size, built.max_length), 2)
    for row, code in zip(rows, spelled, strict=True):
        row[: len(code)] = torch.tensor(code)
    looks, found = timed(lambda: built.lookup(rows))
    exact = torch.equal(found, torch.arange(size)) and int((built.terminal >= 0).sum()) == size
    held = sum(t.numel() * t.element_size() for t in (built.offsets, built.tokens, built.terminal))
    return {"build_seconds": seconds, "lookup_seconds": looks, "nodes": len(built.terminal),
            "bytes_a_tool": held / size, "accepts_exactly_the_catalog": exact}  # fmt: skip


def beams(size: int, folder: Path) -> Facts:
    import torch
    from bench_atomic import smollm2

    from toolsavvy.decoding import ToolTrie, beam_search

    torch.set_num_threads(1)
    with patch("bench_atomic.TOOLS", 100):  # new rows: ten a level
        model, weights = smollm2()
    built = ToolTrie.build(tokens_of(folder, model.config.vocab_size - 100), 2)
    rng = random.Random(0)
    prompts = [[rng.randrange(3, 49_000) for _ in range(rng.randint(20, 40))] for _ in range(PROMPTS)]

    def decode() -> Any:
        return beam_search(model, prompts, k=BEAMS, max_new_tokens=built.max_length, eos_id=2, trie=built, batch_size=4)

    decode()
    inside, expand = [], ToolTrie.expand

    def watched(*arguments: Any) -> Any:
        seconds, result = timed(lambda: expand(*arguments))
        inside.append(seconds)
        return result

    with patch.object(ToolTrie, "expand", watched):
        seconds, found = timed(decode)
    tools = built.lookup(found.sequences.clamp(min=0))
    whole = bool((tools >= 0).all()) and all(len(set(row)) == BEAMS for row in tools.tolist())
    return {"decode_seconds": seconds, "query_ms": 1e3 * seconds / PROMPTS,
            "constraint_ms": 1e3 * sum(inside) / PROMPTS, "constraint_percent": 100 * sum(inside) / seconds,
            "constraint_ms_a_step": 1e3 * sum(inside) / len(inside), "weights": weights,
            "all_are_tools": whole}  # fmt: skip


def main(step: str, size: int, folder: Path) -> None:
    """One step; the last line printed is its facts."""
    steps = {f.__name__: f for f in (catalog, bm25, minilm, vectors, codes, trie, beams)}
    facts = steps[step](size, folder) if step in steps else index(step, size, folder)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    facts["peak_gb"] = round(int(peak[1]) / 2**20, 3) if peak else float("nan")
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in facts.items()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
