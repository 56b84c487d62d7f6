from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from set_world import query, shared, source, tool

from toolsavvy.catalog import RetrievalSet
from toolsavvy.catalogs import metatool, sealtools
from toolsavvy.catalogs.splits import plain
from toolsavvy.errors import UserError
from toolsavvy.generators.toolret import ToolRet
from toolsavvy.retrieval.encoders import Encoder
from world import toy_set


def a_run(folder: Path) -> Any:
    """What a generator needs of a run."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    return SimpleNamespace(
        dir=folder, checkpoints=folder / "checkpoints", is_writer=True, stage=lambda name: nullcontext()
    )


def built(
    folder: Path, catalog: RetrievalSet | None = None, sources: Mapping[str, Any] | None = None, **how: Any
) -> Any:
    return ToolRet(Encoder(), catalog, sources, **how).build(a_run(folder))


def every(data: RetrievalSet) -> list[Any]:
    return [q for rows in data.splits.values() for q in rows]


def test_each_source_gives_its_share_and_every_gold_is_in_the_corpus(tmp_path: Path) -> None:
    other = source("other", [tool("o", "o", "Other.")], {"test": [query("1", "one", "o"), query("2", "two", "o")]})
    found = built(tmp_path, toy_set(), {"other": other}, per_source=15)
    counts = found.counts["sampled"]
    assert counts["from_other"] == 2  # fewer than asked for: all of them
    assert counts["from_toy"] + counts.get("empty_clusters", 0) == 15
    assert counts["from_toy"] > 10
    queries = every(found.data)
    assert len({plain(q.text) for q in queries}) == len(queries) == counts["from_toy"] + 2
    assert {q.subset for q in queries} == {"toy", "other"}
    assert all(q.instruction and set(q.relevant) <= set(found.data.catalog.index) for q in queries)
    assert len(found.data.catalog) == len(toy_set().catalog) + 1
    gold = built(tmp_path, toy_set(), {"other": other}, per_source=15, corpus="gold").data
    assert {t.id for t in gold.catalog.tools} == {t for q in every(gold) for t in q.relevant}


def test_the_same_seed_gives_the_same_set_and_another_one_another(tmp_path: Path) -> None:
    def ids(**how: Any) -> Any:
        return dict(built(tmp_path, toy_set(), per_source=20, **how).data.splits)

    assert ids() == ids()
    assert ids() != ids(seed=1)


@pytest.mark.parametrize("split", ["query", "tool"])
def test_drawn_splits_have_about_their_shares(tmp_path: Path, split: str) -> None:
    data = built(tmp_path, toy_set(), per_source=None, split=split, train_share=0.5, validation_share=0.2).data
    sizes = {s: len(rows) / len(every(data)) for s, rows in data.splits.items()}
    coarse = 0.1 if split == "tool" else 0.02  # a tool's ten queries go together
    assert sizes == pytest.approx({"train": 0.5, "validation": 0.2, "test": 0.3}, abs=coarse)
    assert data.headline == ("test",)
    golds = {s: {t for q in rows for t in q.relevant} for s, rows in data.splits.items()}
    crossing = (
        golds["train"] & golds["test"] | golds["train"] & golds["validation"] | golds["validation"] & golds["test"]
    )
    assert bool(crossing) == (split == "query")


def test_the_sources_own_splits_can_stay_and_a_text_in_two_of_them_counts_as_learnt(tmp_path: Path) -> None:
    one = source("one", [tool("a", "a", "A.")], {"test_x": [query("1", "same text", "a"), query("2", "other", "a")]})
    two = source("two", [tool("b", "b", "B.")], {"train": [query("1", "Same text", "b")]})
    data = built(tmp_path, None, {"two": two, "one": one}, split="source").data
    assert {s: [q.id for q in rows] for s, rows in data.splits.items()} == {"train": ["two/1"], "test": ["one/2"]}
    assert data.train[0].relevant == {"two/b": 1, "one/a": 1}


def test_naming_queries_and_instructions_of_the_sources(tmp_path: Path) -> None:
    rows = [query("1", "ask pay_bill to do it", "p"), query("2", "settle it", "p", instruction="Find money tools.")]
    data = source("one", [tool("p", "pay_bill", "Pays.")], {"test": rows})
    kept = built(tmp_path, data, drop_named=True, backend="keep", train_share=0.0, validation_share=0.0)
    assert [(q.id, q.instruction) for q in every(kept.data)] == [("2", "Find money tools.")]
    assert kept.counts["filtered"]["naming_queries"] == 1
    assert kept.counts["instructions"] == {"kept": 1}


@pytest.mark.parametrize(
    ("how", "where", "expected"),
    [
        ({"per_source": 0}, "generator.per_source", "from 1"),
        ({"train_share": 1.5}, "generator.train_share", "0 to 1"),
        ({"train_share": 0.8, "validation_share": 0.3}, "generator.train_share", "<= 1"),
        ({"novelty": -1.0}, "generator.novelty", "0 to 1"),
        ({"exports": ["bier"]}, "generator.exports", "beir"),
        ({"exports": []}, "generator.exports", "beir"),
        ({"backend": "llm"}, "generator.llm", "llm group"),
        ({"document": "{nmae}"}, "catalog.document", "{name}"),
        ({"splits": ["tset"]}, "generator.splits", "test"),
    ],
)
def test_bad_settings(tmp_path: Path, how: dict[str, Any], where: str, expected: str) -> None:
    data = source("one", [tool("p", "p", "P.")], {"test": [query("1", "x", "p")]})
    with pytest.raises(UserError) as caught:
        built(tmp_path, data, **how)
    assert caught.value.where == where
    assert expected in caught.value.expected


def test_bad_sources(tmp_path: Path) -> None:
    data = source("one", [tool("p", "p", "P.")], {"test": [query("1", " ", "p")]})
    for sources, what in (({}, "no source"), ({"a/b": data}, "no name of a source")):
        with pytest.raises(UserError, match=what):
            ToolRet(Encoder(), None, sources)
    with pytest.raises(UserError, match="run's own catalog and one of the sources"):
        ToolRet(Encoder(), data, {"one": data})
    with pytest.raises(UserError, match="no query is left"):
        built(tmp_path, data)


def test_the_fingerprint_tells_changed_sources() -> None:
    def of(text: str, description: str = "P.") -> str:
        data = source("one", [tool("p", "p", description)], {"test": [query("1", text, "p")]})
        return ToolRet(Encoder(), data).fingerprint()

    assert of("x") == of("x")
    assert len({of("x"), of("y"), of("x", "Q.")}) == 3


def test_real_sources_give_a_sound_set(tmp_path: Path) -> None:
    one, two = metatool.load(shared("metatool"), cap=2), sealtools.load(shared("sealtools"))
    product = ToolRet(Encoder(), one, {"sealtools": two}, per_source=None, corpus="gold").generate(a_run(tmp_path))
    assert [t.title.partition(":")[0] for t in product.tables] == ["toolret_style", "statistics", "leakage audit"]
    from toolsavvy.catalogs import beir, jsonl

    data = jsonl.load(tmp_path / "dataset" / "jsonl", name="toolret_style")
    originals = {f"metatool/{q.id}": q for rows in one.splits.values() for q in rows}
    assert len(every(data)) > 1500
    for q in every(data):
        assert q.instruction
        if q.subset == "metatool":
            assert originals[q.id].text == q.text
            assert {f"metatool/{t}" for t in originals[q.id].relevant} <= set(q.relevant)
    back = beir.load(tmp_path / "dataset" / "beir")
    assert back.catalog.documents == data.catalog.documents
    assert {s: [(q.id, q.text, q.relevant) for q in r] for s, r in back.splits.items()} == {
        s: [(q.id, q.text, q.relevant) for q in r] for s, r in data.splits.items()
    }
