"""Our ranking metrics against ir-measures on random runs: ties, missed golds, short rankings, graded relevance."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, nDCG

from toolsavvy.metrics import GoldMatrix, per_query
from toolsavvy.retrieval.ranking import rank_scores

KS = (1, 5, 10, 50)
# Sortings by byte and by code point must agree, so ids mix cases, digits, blanks and letters beyond ASCII and the BMP.
STEMS = ("d", "D", "t_", "T-", "é", "漢", "😀", "z~", "9", "10", "a&&b", "x/y", "~", "ü", "A.b")
IDS = [f"{stem}{i}" for i, stem in enumerate(STEMS * 4)]
# trec_eval keeps scores as 32-bit floats: two that differ only beyond that are a tie to it. Eighths are exact in both.
SCORES = st.integers(min_value=-12, max_value=12).map(lambda i: i / 8)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[dict[str, float]], list[dict[str, int]]]:
    queries = draw(st.integers(1, 4))
    ids = st.sampled_from(IDS)
    run = [draw(st.dictionaries(ids, SCORES, min_size=1, max_size=60)) for _ in range(queries)]
    gold = [draw(st.dictionaries(ids, st.integers(1, 4), min_size=1, max_size=8)) for _ in range(queries)]
    return run, gold


@given(runs())
@settings(max_examples=120, deadline=None)
def test_metrics_equal_ir_measures(case: tuple[list[dict[str, float]], list[dict[str, int]]]) -> None:
    run, gold = case
    scores = np.full((len(run), len(IDS)), -np.inf)
    for row, scored in enumerate(run):
        for tool, score in scored.items():
            scores[row, IDS.index(tool)] = score
    ranked = rank_scores(scores, IDS, 60)
    matrix = GoldMatrix.of([{IDS.index(t): g for t, g in golds.items()} for golds in gold])

    measures = [RR, AP, *(m @ k for k in KS for m in (nDCG, R, P, AP))]
    qrels = [ir_measures.Qrel(str(q), t, g) for q, golds in enumerate(gold) for t, g in golds.items()]
    docs = [ir_measures.ScoredDoc(str(q), t, s) for q, scored in enumerate(run) for t, s in scored.items()]
    oracle = {(str(m.measure), int(m.query_id)): m.value for m in ir_measures.iter_calc(measures, qrels, docs)}
    names = {"ndcg": "nDCG", "recall": "R", "precision": "P", "map": "AP"}
    for q in range(len(run)):
        for k in KS:
            ours = dict(per_query(ranked, matrix, k).items())
            for name, theirs in names.items():
                assert ours[name][q] == pytest.approx(oracle[f"{theirs}@{k}", q], abs=1e-9), (name, k)
            # RR@k of ir-measures is another library with another tie rule; trec_eval's own RR, cut, is the definition.
            full = oracle["RR", q]
            assert ours["mrr"][q] == pytest.approx(full if full >= 1 / k - 1e-12 else 0.0, abs=1e-9)
        whole = per_query(ranked, matrix, 60)
        assert whole.map[q] == pytest.approx(oracle["AP", q], abs=1e-9)
        assert whole.completeness[q] == float(oracle["R@50", q] == 1.0 or whole.recall[q] == 1.0)


def test_trec_eval_compares_scores_as_32_bit_floats() -> None:
    """Why run files are written with scores that stay apart as 32-bit floats."""
    qrels = [ir_measures.Qrel("q", "a", 1)]
    docs = [ir_measures.ScoredDoc("q", "a", 1.0 + 1e-12), ir_measures.ScoredDoc("q", "b", 1.0)]
    assert ir_measures.calc_aggregate([RR], qrels, docs)[RR] == 0.5
    ours = rank_scores(np.array([[1.0 + 1e-12, 1.0]]), ["a", "b"], 2)
    assert ours.indices.tolist() == [[0, 1]]
