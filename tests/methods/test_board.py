from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, RetrievalSet
from toolsavvy.errors import UserError
from toolsavvy.methods.board import Board
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.retrieval.fusion import fuse
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking
from toolsavvy.retrieval.toolgen import ToolGen
from toolsavvy.suites.catalog_test import CONSTRAINED, FREE, CatalogTest
from world import toy_set, toy_tools

DATA = toy_set(10, taught_share=0.5)
SPLITS = ("test_seen", "test_unseen")


class FakeRun:
    """What a board needs of a run."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        self.config = SimpleNamespace(predictions=True)
        self.is_writer = True
        self.stages: list[str] = []
        self.results: list[Any] = []

    @property
    def checkpoints(self) -> Path:
        return self.dir / "checkpoints"

    @property
    def predictions(self) -> Path:
        folder = self.dir / "predictions"
        folder.mkdir(exist_ok=True)
        return folder

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.stages.append(name)
        yield

    def record(self, results: Sequence[Any]) -> None:
        self.results += results


class Scripted:
    """A retriever that ranks every query alike, and counts how often it is asked."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order, self.asked = list(order), 0

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Scripted:
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        self.asked += 1
        order = np.array(self.order[:k] + [NO_TOOL] * (k - len(self.order)))
        scores = np.where(order == NO_TOOL, -np.inf, -np.arange(k, dtype=np.float64))
        return Ranking(np.tile(order, (len(queries), 1)), np.tile(scores, (len(queries), 1)))


def board_in(folder: Path, data: RetrievalSet = DATA, depth: int = 5) -> tuple[Board, FakeRun]:
    run: Any = FakeRun(folder)
    return Board(data, [CatalogTest(resamples=50)], run, depth), run


def same(first: Ranking, second: Ranking) -> bool:
    return np.array_equal(first.indices, second.indices) and np.array_equal(first.scores, second.scores)


def test_rankings_are_stored_and_reloaded_as_they_were(tmp_path: Path) -> None:
    board, run = board_in(tmp_path)
    generator = ToolGen(toy_tools(DATA))
    board.add("bm25", BM25())
    board.add("short", Scripted([3, 1]))
    board.add_generator("gen", generator)
    assert run.stages == ["rank bm25", "rank short", "rank gen"]
    assert set(board.systems["gen"]) == {CONSTRAINED, FREE}

    again, resumed = board_in(tmp_path)
    never = Scripted([0])
    again.add("bm25", never)
    again.add("short", never)
    forbidden: Any = never
    again.add_generator("gen", forbidden)
    assert never.asked == 0
    assert resumed.stages == []
    for system, modes in board.systems.items():
        assert again.systems[system].keys() == modes.keys()
        for mode, rankings in modes.items():
            assert again.systems[system][mode].keys() == rankings.keys() == set(SPLITS)
            assert all(same(again.systems[system][mode][s], rankings[s]) for s in SPLITS)


def test_a_set_without_test_queries_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no test queries") as caught:
        board_in(tmp_path, RetrievalSet(DATA.catalog, {"train": DATA.train}))
    assert caught.value.where == f"catalog {DATA.catalog.name}"


@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "inside", "half", "other set", "other depth"])
def test_damaged_or_foreign_rankings_are_made_again(damage: str, tmp_path: Path) -> None:
    board, _ = board_in(tmp_path)
    board.add("x", Scripted(range(10)))
    path = tmp_path / "checkpoints" / "x.npz"
    whole = path.read_bytes()
    with np.load(path) as stored:
        arrays = dict(stored)
    if damage == "half":
        arrays.pop("/test_seen/scores")
        np.savez(path, **arrays)
    elif damage in ("other set", "other depth"):
        cut = {k: v[:-1] if damage == "other set" else v[:, :-1] for k, v in arrays.items()}
        np.savez(path, **cut)
    else:
        middle = bytearray(whole)
        middle[200:260] = b"\x00" * 60
        path.write_bytes({"empty": b"", "cut": whole[:-40], "noise": b"\xff" * 99, "inside": bytes(middle)}[damage])
    again, _ = board_in(tmp_path)
    fresh = Scripted(range(10))
    again.add("x", fresh)
    assert fresh.asked == len(SPLITS)
    assert all(same(again.systems["x"][""][s], board.systems["x"][""][s]) for s in SPLITS)
    third, _ = board_in(tmp_path)
    assert third.has("x")


def test_nothing_is_left_half_written_when_ranking_fails(tmp_path: Path) -> None:
    class Failing(Scripted):
        def search(self, queries: Sequence[Query], k: int) -> Ranking:
            raise RuntimeError("boom")

    board, _ = board_in(tmp_path)
    with pytest.raises(RuntimeError, match="boom"):
        board.add("x", Failing([]))
    assert not board.has("x")
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize(("depth", "expected"), [(1, 10), (7, 10), (50, 10)])
def test_one_depth_for_all_capped_by_the_catalog_raised_to_the_suites(
    depth: int, expected: int, tmp_path: Path
) -> None:
    board, _ = board_in(tmp_path, depth=depth)
    assert board.depth == expected
    board.add("bm25", BM25())
    board.add_generator("gen", ToolGen(toy_tools(DATA)))
    for modes in board.systems.values():
        for rankings in modes.values():
            assert all(rankings[s].indices.shape == (len(DATA.splits[s]), expected) for s in SPLITS)


def test_a_fusion_is_the_fusion_of_its_members_constrained_rankings(tmp_path: Path) -> None:
    board, _ = board_in(tmp_path)
    board.add("bm25", BM25())
    board.add_generator("gen", ToolGen(toy_tools(DATA)))
    board.fuse("both", ["bm25", "gen"], rule="zscore", weights={"gen": 2.0})
    for split in SPLITS:
        parts = {"bm25": board.systems["bm25"][""][split], "gen": board.systems["gen"][CONSTRAINED][split]}
        expected = fuse(parts, DATA.catalog, board.depth, rule="zscore", weights={"gen": 2.0})
        assert same(board.systems["both"][""][split], expected)
    board.fuse("again", ["both", "bm25"])
    assert "again" in board.systems


def test_a_fusion_of_an_unknown_member_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    board, _ = board_in(tmp_path)
    board.add("toolgen_plain", Scripted(range(10)))
    board.add("dense", Scripted(range(10)))
    with pytest.raises(UserError) as error:
        board.fuse("mine", ["dense", "toolgen_plan"])
    assert "'toolgen_plan'" in error.value.what
    assert error.value.where == "method.fusions.mine.members"
    assert "toolgen_plain" in error.value.expected
    assert "dense" in error.value.expected
    assert error.value.fix == "did you mean 'toolgen_plain'?"
    assert "mine" not in board.systems


def test_scores_predictions_and_comparisons_are_written(tmp_path: Path) -> None:
    board, run = board_in(tmp_path)
    board.add("good", Scripted(range(10)))
    board.add("odd [name]/x", Scripted([9, 8]))
    (outcome,) = board.score()
    assert tuple(run.results) == outcome.results
    assert {r.system for r in run.results} == {"good", "odd [name]/x"}
    assert {r.slice for r in run.results} >= set(SPLITS)
    lines = (tmp_path / "comparisons.jsonl").read_text().splitlines()
    assert len(lines) == len(outcome.comparisons) > 0
    assert {json.loads(line)["system"] for line in lines} == {"good", "odd [name]/x"}
    assert (tmp_path / "predictions" / "catalog_test.good.jsonl").is_file()
    assert (tmp_path / "predictions" / "catalog_test.qrels").is_file()
    silent, quiet = board_in(tmp_path / "silent")
    quiet.config.predictions = False
    silent.add("good", Scripted(range(10)))
    silent.score()
    assert not (tmp_path / "silent" / "predictions").exists()


def test_a_split_may_have_a_slash_in_its_name(tmp_path: Path) -> None:
    data = RetrievalSet(DATA.catalog, {"G1/tool": DATA.splits["test_seen"], "G1/category": DATA.splits["test_unseen"]})
    board, _ = board_in(tmp_path, data)
    board.add("x", Scripted(range(10)))
    again, _ = board_in(tmp_path, data)
    assert again.has("x")
    assert set(again.systems["x"][""]) == {"G1/tool", "G1/category"}


class Oracle:
    """A retriever that knows every gold but for a share of the queries, where it puts it last."""

    def __init__(self, wrong: float) -> None:
        self.wrong = wrong

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Oracle:
        self.catalog = catalog
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        rows = []
        for i, query in enumerate(queries):
            gold = [self.catalog.index[t] for t in query.relevant]
            others = [t for t in range(len(self.catalog)) if t not in gold]
            rows.append(others + gold if i < self.wrong * len(queries) else gold + others)
        indices = np.array(rows)[:, :k]
        return Ranking(indices, np.tile(-np.arange(indices.shape[1], dtype=float), (len(rows), 1)))


def test_weights_of_a_fusion_are_chosen_on_the_validation_queries(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.note = lambda **facts: run.results.append(facts)  # type: ignore[attr-defined]
    board = Board(DATA, [CatalogTest(ks=(1, 5))], run, 10, fused={"good", "bad"})  # type: ignore[arg-type]
    board.add("good", Oracle(0.0))
    board.add("bad", Oracle(1.0))
    board.fuse("both", ["bad", "good"])
    (noted,) = [r for r in run.results if isinstance(r, dict)]
    weights = noted["both_weights"]
    assert weights["good"] > weights["bad"]
    top = board.systems["both"][""]["test_seen"].indices[:, 0]
    assert all(DATA.catalog.tools[t].id in q.relevant for t, q in zip(top, DATA.splits["test_seen"], strict=True))
    assert "validation" not in board.systems["both"][""]
    again = Board(DATA, [CatalogTest(ks=(1, 5))], run, 10, fused={"good"})  # type: ignore[arg-type]
    assert again.has("good") and "validation" in again.systems["good"][""]
    unfused = Board(DATA, [CatalogTest(ks=(1, 5))], run, 10)  # type: ignore[arg-type]
    assert not unfused.has("good")  # other splits than are wanted: ranked again


class Telling(Scripted):
    """A retriever that has a number of its own to tell."""

    def facts(self) -> dict[str, float]:
        return {"asked": float(self.asked)}


def test_what_a_retriever_tells_reaches_the_record_and_outlives_an_interruption(tmp_path: Path) -> None:
    for attempt in ("first", "resumed"):
        board, run = board_in(tmp_path)
        noted: dict[str, Any] = {}
        run.note = noted.update  # type: ignore[attr-defined]
        board.add("silent", Scripted(range(10)))
        board.add("telling", Telling(range(10)) if attempt == "first" else Telling([]))
        assert noted["facts"] == board.facts == {"telling": {"asked": float(len(SPLITS))}}, attempt
    (tmp_path / "checkpoints" / "telling.facts.json").write_text('{"asked": ')
    torn, run = board_in(tmp_path)
    assert torn.has("telling") and torn.facts == {}


def test_a_model_of_another_catalog_is_asked_nothing(tmp_path: Path) -> None:
    def ask(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("codes of other tools were shown")

    probing: Any = SimpleNamespace(ask=ask)
    board = Board(DATA, [CatalogTest(resamples=5)], FakeRun(tmp_path), 5, probing=probing)  # pyright: ignore
    with pytest.raises(UserError, match="another catalog"):
        board.add_generator("gen", ToolGen(toy_tools(toy_set(9))))
