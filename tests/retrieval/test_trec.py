"""TREC files: what we write reads back the same, trec_eval agrees, and mistakes are named by file and line."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, nDCG

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.metrics import GoldMatrix, per_query
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, rank_scores
from toolsavvy.retrieval.trec import Run, distinct_scores, query_keys, read_qrels, read_run, write_qrels, write_run

IDS = ("plain", "has space", "Vimeo&&get/likes", "100%20", "ünï漢", "!none-1", "a\u00a0b", "tab\there", "<<x>>")
CATALOG = Catalog("c", tuple(Tool(id, "n") for id in IDS))
SPLITS = {
    "test seen": (Query("q 1", "one", {"has space": 2, "ünï漢": 1}), Query("q/2", "two", {"100%20": 1})),
    "test_unseen": (Query("q3", "three", {"!none-1": 1}),),
}


def ranking(rows: int, seed: int = 0) -> Ranking:
    scores = np.random.default_rng(seed).integers(-2, 3, size=(rows, len(IDS))).astype(float)
    return rank_scores(np.where(scores == -2, -np.inf, scores), IDS, len(IDS))


def test_a_written_run_reads_back_in_the_same_order(tmp_path: Path) -> None:
    rankings = {"test seen": ranking(2), "test_unseen": ranking(1, seed=1)}
    write_run(tmp_path / "a.run", SPLITS, rankings, CATALOG, "my system")
    run = Run(str(tmp_path / "a.run")).fit(CATALOG).check(SPLITS)
    for split, queries in SPLITS.items():
        assert np.array_equal(run.search(queries, 99).indices, rankings[split].indices)
    for line in (tmp_path / "a.run").read_text().splitlines():
        assert len(line.split()) == 6 and line.isascii()


def test_qrels_read_back(tmp_path: Path) -> None:
    write_qrels(tmp_path / "a.qrels", SPLITS)
    expected = {q.id: dict(q.relevant) for queries in SPLITS.values() for q in queries}
    assert read_qrels(tmp_path / "a.qrels") == expected


def test_ids_that_repeat_over_splits_are_told_apart(tmp_path: Path) -> None:
    splits = {"a/b": (Query("1", "x", {"plain": 1}),), "c": (Query("1", "y", {"has space": 1}),)}
    assert query_keys(splits) == {"a/b": ["a%2Fb/1"], "c": ["c/1"]}
    first, second = Ranking(np.array([[0]]), np.array([[1.0]])), Ranking(np.array([[1]]), np.array([[1.0]]))
    write_run(tmp_path / "a.run", splits, {"a/b": first, "c": second}, CATALOG, "s")
    run = Run(str(tmp_path / "a.run")).fit(CATALOG).check(splits)
    assert run.search(splits["a/b"], 1).indices.tolist() == [[0]]
    assert run.search(splits["c"], 1).indices.tolist() == [[1]]


def test_outputs_that_are_no_tool_keep_their_rank_and_padding_is_left_out(tmp_path: Path) -> None:
    free = Ranking(np.array([[NO_TOOL, 1, NO_TOOL]]), np.array([[-0.1, -0.2, -np.inf]]))
    queries = {"t": SPLITS["test_unseen"]}
    write_run(tmp_path / "a.run", queries, {"t": free}, CATALOG, "free")
    assert len((tmp_path / "a.run").read_text().splitlines()) == 2
    found = Run(str(tmp_path / "a.run")).fit(CATALOG).search(queries["t"], 3)
    assert found.indices.tolist() == [[NO_TOOL, 1, NO_TOOL]]
    assert np.isfinite(found.scores[0]).tolist() == [True, True, False]


@given(st.lists(st.sampled_from([0.0, 1.0, 1 + 1e-12, -1e-300, 1e300, 1e-45, -5.5, 1e38]), min_size=1, max_size=9))
@settings(max_examples=100, deadline=None)
def test_written_scores_fall_strictly_as_32_bit_floats(scores: list[float]) -> None:
    written = distinct_scores(np.array([sorted(scores, reverse=True)]))
    assert written.dtype == np.float32
    assert (np.diff(written.astype(np.float64)) < 0).all()
    assert np.isfinite(written).all()
    text = [float(str(x)) for x in written[0]]
    assert (np.diff(text) < 0).all()


def test_trec_eval_scores_our_files_as_we_do(tmp_path: Path) -> None:
    """Percent-encoding changes the order of ids, and 32 bits merge scores: neither may change a metric."""
    rng = np.random.default_rng(3)
    queries = tuple(Query(f"q {i}", "x", {IDS[i % len(IDS)]: 1, IDS[(i * 4 + 1) % len(IDS)]: 2}) for i in range(30))
    scores = 1.0 + rng.integers(0, 3, size=(30, len(IDS))) * 1e-12
    ranked = rank_scores(scores, IDS, 7)
    write_run(tmp_path / "a.run", {"t": queries}, {"t": ranked}, CATALOG, "s")
    write_qrels(tmp_path / "a.qrels", {"t": queries})
    qrels = ir_measures.read_trec_qrels(str(tmp_path / "a.qrels"))
    run = ir_measures.read_trec_run(str(tmp_path / "a.run"))
    theirs = ir_measures.calc_aggregate([nDCG @ 5, RR], list(qrels), list(run))
    ours = per_query(ranked, GoldMatrix.from_queries(CATALOG, queries), 5)
    assert ours.ndcg.mean() == pytest.approx(theirs[nDCG @ 5], abs=1e-9)
    assert per_query(ranked, GoldMatrix.from_queries(CATALOG, queries), 7).mrr.mean() == pytest.approx(theirs[RR])


def test_foreign_files_with_plain_ids_bom_crlf_and_any_line_order_are_read(tmp_path: Path) -> None:
    text = "q3 Q0 plain 9 0.5 s\r\n\r\nq3\tQ0  Vimeo&&get/likes 1 0.7 s\r\n"
    (tmp_path / "f.run").write_bytes(b"\xef\xbb\xbf" + text.encode())
    run = Run(str(tmp_path / "f.run")).fit(CATALOG).check(SPLITS)
    assert run.search(SPLITS["test_unseen"], 2).indices.tolist() == [[2, 0]]
    # Ties go to the greater id, whatever the rank column says.
    (tmp_path / "f.run").write_text("q Q0 a 1 1 s\nq Q0 c 2 1 s\nq Q0 b 3 1 s\n")
    assert [line.document for line in read_run(tmp_path / "f.run")["q"]] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("text", "where", "what", "expected"),
    [
        (b"q3 Q0 plain 1 0.5 s\nq3 Q0 has 1 0.5\n", "line 2", "5 fields", "6 fields"),
        (b"q3 Q0 plain 1 high s\n", "line 1, field 5", "'high'", "finite number"),
        (b"q3 Q0 plain 1 nan s\n", "line 1, field 5", "'nan'", "finite number"),
        (b"q3 Q0 plain 1 2 s\nq3 Q0 plain 2 1 s\n", "line 2", "twice (first in line 1)", "once"),
        (b"q3 Q0 plain 1 2 s\nq3 Q0 has%20spade 2 1 s\n", "line 2, field 3", "unknown tool 'has spade'", "catalog c"),
        (b"q3 Q0 plain 1 2 s\nq9 Q0 plain 2 1 s\n", "line 2, field 1", "unknown query 'q9'", "id of a query"),
        (b"", "bad.run", "empty", "lines of"),
        (b"q3 Q0 pl\xff 1 2 s\n", "bad.run", "not UTF-8 at byte 8", "UTF-8"),
    ],
)
def test_bad_runs_are_named(tmp_path: Path, text: bytes, where: str, what: str, expected: str) -> None:
    (tmp_path / "bad.run").write_bytes(text)
    with pytest.raises(UserError) as caught:
        Run(str(tmp_path / "bad.run")).fit(CATALOG).check(SPLITS)
    assert "bad.run" in caught.value.where and where in caught.value.where
    assert what in caught.value.what and expected in caught.value.expected
    if "spade" in what:
        assert "has space" in caught.value.fix


def test_a_missing_file_and_a_run_for_other_queries_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file") as caught:
        Run(str(tmp_path / "none.run")).fit(CATALOG)
    assert caught.value.fix
    (tmp_path / "a.run").write_text("q3 Q0 plain 1 2 s\n")
    run = Run(str(tmp_path / "a.run")).fit(CATALOG)
    assert run.search([*SPLITS["test_unseen"], *SPLITS["test seen"]], 1).indices.tolist() == [[0], [NO_TOOL], [NO_TOOL]]
    with pytest.raises(UserError, match="none of the 2 queries") as caught:
        run.search(SPLITS["test seen"], 1)
    assert "q%201" in caught.value.expected


def test_bad_qrels_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_text("q 0 t 1\nq 0 u yes\n")
    with pytest.raises(UserError, match="'yes'") as caught:
        read_qrels(tmp_path / "a.qrels")
    assert "line 2, field 4" in caught.value.where
