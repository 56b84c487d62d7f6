from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import matthews_corrcoef

from toolsavvy.errors import UserError
from toolsavvy.necessity.estimates import inverse_sampling_weights
from toolsavvy.necessity.labels import (
    Quadrants,
    decided,
    label_table,
    labels_of,
    necessary,
    quadrants,
    required,
    rule_name,
)
from toolsavvy.necessity.question import Observed, Outcome

SHARED = Path(os.environ.get("TOOLSAVVY_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.mark.parametrize(
    ("rule", "samples", "least"),
    [("strict", 10, 10), ("released", 10, 9), ("released", 20, 18), ("released", 5, 5), ("released", 11, 10),
     ("released", 1, 1), ("released", 30, 27), (7, 10, 7), (1, 1, 1)],
)  # fmt: skip
def test_how_many_must_be_right(rule: str | int, samples: int, least: int) -> None:
    assert required(rule, samples) == least
    counts = np.arange(samples + 1)
    assert necessary(counts, samples, required(rule, samples)).tolist() == (counts < least).tolist()


@pytest.mark.parametrize(
    ("rule", "samples", "what", "expected"),
    [("strickt", 10, "unknown necessity rule 'strickt'", "strict, released"),
     (11, 10, "min_correct is 11", "1 to 10"), (0, 10, "min_correct is 0", "1 to 10"),
     ("strict", 0, "0 samples", "at least 1")],
)  # fmt: skip
def test_rules_that_can_not_be(rule: str | int, samples: int, what: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        required(rule, samples)
    assert what in caught.value.what
    assert expected in caught.value.expected


def test_counts_that_can_not_be() -> None:
    for correct, samples in (([11], [10]), ([-1], [10])):
        with pytest.raises(ValueError, match="between 0 and"):
            necessary(np.array(correct), np.array(samples), 9)
    with pytest.raises(UserError, match="0 samples"):
        necessary(np.array([0]), np.array([0]), "strict")


def test_a_rule_by_name_looks_at_every_questions_own_number_of_samples() -> None:
    correct, samples = np.array([9, 9, 18, 5, 4]), np.array([10, 9, 20, 5, 5])
    assert necessary(correct, samples, "strict").tolist() == [True, False, True, False, True]
    assert necessary(correct, samples, "released").tolist() == [False, False, False, False, True]


@given(right=st.lists(st.booleans(), min_size=1, max_size=12), rule=st.sampled_from(["strict", "released", 1, 3]))
def test_a_decided_label_is_the_full_label_and_the_last_sample_always_decides(
    right: list[bool], rule: str | int
) -> None:
    planned = len(right)
    if isinstance(rule, int) and rule > planned:
        rule = planned
    full = sum(right) < required(rule, planned)
    seen = np.arange(planned + 1)
    counts = np.concatenate([[0], np.cumsum(right)])
    done = decided(counts, seen, planned, rule)
    assert done[-1]
    assert done.tolist() == sorted(done)  # once decided, always decided
    stopped = int(np.argmax(done))
    observed = observe([int(counts[stopped])], [int(seen[stopped])], ["called"]) if stopped else None
    if observed is not None:
        assert labels_of(observed, rule, planned).tolist() == [full]
    undecided = [i for i in range(planned) if not done[i]]
    for i in undecided:  # both labels are still possible: deciding any earlier would be a guess
        least, left = required(rule, planned), planned - i
        assert counts[i] < least <= counts[i] + left


def observe(correct: list[int], samples: list[int], outcomes: list[Outcome], families: str = "") -> Observed:
    ids = tuple(map(str, range(len(correct))))
    return Observed(
        ids, tuple(families or "f" * len(ids)), np.array(correct), np.array(samples), tuple(outcomes)
    )  # fmt: skip


def test_a_label_that_sampling_left_open_is_refused() -> None:
    """Stopped for the strict label after one wrong answer of 4: the released one is still open."""
    observed = observe([3], [4], ["called"])
    assert labels_of(observed, "strict", 10).tolist() == [True]
    with pytest.raises(ValueError, match="before the label was decided under 'released'"):
        labels_of(observed, "released", 10)


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60))
def test_counts_add_up_and_agree_with_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    need, call = (np.array([p[i] for p in pairs], dtype=bool) for i in (0, 1))
    found = quadrants(need, call, resamples=50)
    n = len(pairs)
    assert found.total == n == sum(found.counts)
    assert found.counts == tuple(int((need == a)[call == b].sum()) for a in (1, 0) for b in (1, 0))
    if not n:
        assert found.mismatch_rate.value is found.mcc.value is None
        return
    assert found.mismatch_rate.value == pytest.approx((need != call).mean())
    assert found.call_rate.value == pytest.approx(call.mean())
    assert found.need_rate.value == pytest.approx(need.mean())
    assert sum(s.value or 0 for s in found.shares) == pytest.approx(1)
    if 0 < need.mean() < 1 and 0 < call.mean() < 1:
        assert found.mcc.value == pytest.approx(matthews_corrcoef(need, call))
    else:
        assert found.mcc.value is None


def test_lengths_and_weights_are_checked() -> None:
    yes = np.ones(3, dtype=bool)
    for weights, message in (([1, -1, 1], "not negative"), ([1, np.nan, 1], "finite"), ([1, 1], "shape")):
        with pytest.raises(ValueError, match=message):
            quadrants(yes, yes, np.array(weights, dtype=float))
    with pytest.raises(ValueError, match="3 labels but 2 actions"):
        quadrants(yes, yes[:2])
    with pytest.raises(ValueError, match="3 items but 2 clusters"):
        quadrants(yes, yes, clusters=["a", "b"])


def drawn(seed: int, n: int = 4000, need: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Necessity of 20 %, called in 70 % of those and 30 % of the others."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < need
    return labels, rng.random(n) < np.where(labels, 0.7, 0.3)


def test_reweighting_a_balanced_set_recovers_the_natural_rates() -> None:
    need, call = drawn(0, n=20_000)
    rng = np.random.default_rng(1)
    few = min(need.sum(), (~need).sum())
    kept = np.concatenate([rng.choice(np.flatnonzero(need == v), few // 2, replace=False) for v in (True, False)])
    natural = quadrants(need, call, resamples=20)
    balanced = quadrants(need[kept], call[kept], resamples=100)
    weights = inverse_sampling_weights(need[kept].tolist(), need.tolist())
    again = quadrants(need[kept], call[kept], weights, resamples=100)
    assert (balanced.need_rate.value, weights.mean()) == (pytest.approx(0.5), pytest.approx(1))
    assert again.need_rate.value == pytest.approx(natural.need_rate.value)
    assert again.counts == balanced.counts  # counts are never weighted
    for rate in ("call_rate", "mcc"):
        found, true, wrong = (getattr(q, rate) for q in (again, natural, balanced))
        assert found.low <= true.value <= found.high
        assert not wrong.low <= true.value <= wrong.high
    with pytest.raises(ValueError, match="in one of the two sets alone: \\['b'\\]"):
        inverse_sampling_weights(["a"], ["a", "b"])


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    truth = {"mismatch_rate": 0.2 * 0.3 + 0.8 * 0.3, "call_rate": 0.2 * 0.7 + 0.8 * 0.3, "need_rate": 0.2}
    truth["mcc"] = (0.14 * 0.56 - 0.06 * 0.24) / np.sqrt(0.2 * 0.8 * 0.38 * 0.62)
    runs = [quadrants(*drawn(seed, n=200), resamples=200) for seed in range(150)]
    for name, value in truth.items():
        ends = [(getattr(q, name).low, getattr(q, name).high) for q in runs]
        share = np.mean([low <= value <= high for low, high in ends])
        assert 0.9 <= share <= 0.99, name


def test_families_as_clusters_widen_the_interval_where_they_decide_the_action() -> None:
    families = np.repeat(np.arange(20), 50)
    need = np.random.default_rng(0).random(1000) < 0.4
    call = families % 2 == 0
    alone, grouped = (quadrants(need, call, clusters=c).call_rate for c in (None, families))
    assert (grouped.high - grouped.low) > 3 * (alone.high - alone.low)


def table(**more) -> dict[tuple[str, str, str], Quadrants]:
    observed = observe(
        [10, 9, 8, 10, 0, 10, 3], [10] * 7,
        ["called", "not_called", "called", "malformed", "malformed", "refused", "not_called"], "aabbbba",
    )  # fmt: skip
    return {(r.rule, r.treatment, r.family): r.quadrants for r in label_table(observed, resamples=20, **more)}


def test_both_rules_and_both_treatments_of_broken_calls_stand_side_by_side() -> None:
    rows = table()
    assert rows["strict", "parsed", ""].counts == (1, 2, 1, 0)
    assert rows["released", "parsed", ""].counts == (1, 1, 1, 1)
    assert rows["strict", "malformed_called", ""].counts == (2, 2, 2, 0)  # the refusal is in neither
    for rule in ("strict", "released"):
        for treatment in ("parsed", "malformed_called"):
            parts = [rows[rule, treatment, family].counts for family in "ab"]
            assert tuple(map(sum, zip(*parts, strict=True))) == rows[rule, treatment, ""].counts
    assert {k[0] for k in table(rules=(7, "strict"))} == {"min_correct_7", "strict"}
    assert rule_name(7) == "min_correct_7"


def test_the_released_labels_of_the_paper_are_the_released_rule() -> None:
    path = SHARED / "tool_cognition_action" / "labels.csv"
    if not path.exists():
        pytest.skip(f"shared data is absent: no {path}")
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {c: np.array([int(r[c]) for r in rows]) for c in ("correct_count", "total_samples", "necessary")}
    for name in dict.fromkeys((r["domain"], r["model"]) for r in rows):
        here = np.array([(r["domain"], r["model"]) == name for r in rows])
        correct, samples, published = (columns[c][here] for c in columns)
        assert (necessary(correct, samples, "released") == published.astype(bool)).all()
        strict = necessary(correct, samples, "strict")
        assert (strict != published.astype(bool)).sum() == (correct == 9).sum() > 0


def test_nothing_heavy_is_loaded() -> None:
    modules = ("labels", "flips", "attribution", "need")
    code = f"import sys; {'; '.join(f'import toolsavvy.necessity.{m}' for m in modules)}; "
    code += "sys.exit(', '.join({'torch', 'scipy', 'matplotlib', 'transformers'} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
