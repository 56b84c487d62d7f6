from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from catalog_files import fault, write_jsonl

from toolsavvy.catalogs import toolret_train

DOCUMENTS = [json.dumps({"name": f"tool_{i}", "description": f"does  number {i}"}) for i in range(5)] + ["plain text"]


def row(query: str, pos: list[int], neg: list[int] | None = None, **changes: Any) -> dict[str, Any]:
    texts = {"pos": [DOCUMENTS[i] for i in pos], "neg": [DOCUMENTS[i] for i in neg or []]}
    return {"query": query, **texts, "prompt": f"find tools for {query}", **changes}


ROWS = [row("a", [0, 1], [2, 5, 1]), row("b", [2]), row("c", [1], [0, 0]), row("d", [5], [3], prompt="")]


def test_rows_bring_golds_negatives_and_instructions(tmp_path: Path) -> None:
    data = toolret_train.load(
        write_jsonl(tmp_path / "rows.jsonl", ROWS), validation_share=0.25, test_share=0.25, seed=1
    )
    assert {split: len(queries) for split, queries in data.splits.items()} == {
        "train": 2, "validation": 1, "test_seen": 1,
    }  # fmt: skip
    assert data.headline == ("test_seen",)
    text = {t.id: t.description for t in data.catalog.tools}
    assert sorted(text.values()) == sorted(DOCUMENTS[:4] + DOCUMENTS[5:])  # each once, whatever it is in
    assert set(data.catalog.documents) == set(text.values())  # verbatim
    found = {q.text: q for queries in data.splits.values() for q in queries}
    for given in ROWS:
        query = found[given["query"]]
        assert [text[t] for t in query.relevant] == given["pos"]
        assert [text[t] for t in query.negatives] == list(
            dict.fromkeys(d for d in given["neg"] if d not in given["pos"])
        )
        assert query.instruction == (given["prompt"] or None)
    assert data.audit["source"]["negatives_that_are_golds"] == 1
    assert data.audit["source"]["rows_without_negatives"] == 1
    assert [t.name for t in data.catalog.tools][:2] == ["tool_0", "tool_1"]


def test_parquet_and_folders_give_the_same(tmp_path: Path) -> None:
    import polars

    first = toolret_train.load(write_jsonl(tmp_path / "one" / "rows.jsonl", ROWS))
    (tmp_path / "two").mkdir()
    for number, part in enumerate((ROWS[:2], ROWS[2:])):
        polars.DataFrame(part, schema_overrides={"neg": polars.List(polars.String)}).write_parquet(
            tmp_path / "two" / f"{number}.parquet"
        )
    second = toolret_train.load(tmp_path / "two")
    assert second.splits == first.splits
    assert second.catalog.fingerprint == first.catalog.fingerprint
    assert len(toolret_train.load(tmp_path / "two", rows=3).splits["train"]) == 3


@pytest.mark.parametrize(
    ("rows", "where", "what", "expected"),
    [
        ([{"query": "a", "neg": []}], "line 1, field 'pos'", "missing", "list"),
        ([row("a", [])], "line 1, field 'pos'", "no document answers", "at least one"),
        ([row("a", [0]), row(" ", [0])], "line 2, field 'query'", "empty", "text"),
        ([{**row("a", [0]), "pos": "text"}], "line 1, field 'pos'", "text", "list"),
        ([{**row("a", [0]), "neg": [3]}], "line 1, field 'neg'", "3 is no document", "a list of texts"),
    ],
)
def test_malformed_rows_say_where(
    tmp_path: Path, rows: list[dict[str, Any]], where: str, what: str, expected: str
) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    fault(lambda: toolret_train.load(path), what=what, where=where, expected=expected)


def test_nothing_there_is_said_with_the_key(tmp_path: Path) -> None:
    fault(lambda: toolret_train.load(tmp_path / "none"), what="no such file", where="catalog.path")
    fault(lambda: toolret_train.load(tmp_path), what="holds no rows", where="catalog.path")
    fault(lambda: toolret_train.load(tmp_path, rows=0), what="0 is out of range", where="catalog.rows", expected="1")
