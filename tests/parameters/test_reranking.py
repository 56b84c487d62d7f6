from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_answers import OTHER, PLANTED, SCHEMA, candidate, read, task, world

from toolsavvy.calls.flattening import leaves
from toolsavvy.parameters import probe as value_probe
from toolsavvy.parameters import rerank
from toolsavvy.parameters.assembling import Option, assemble, required
from toolsavvy.parameters.fields import table_of

ONE = task("t1", {"name": "a", "size": 2})


def picked(strategy: str, *calls: dict | None, scores: list[float], logprobs: list[float] | None = None) -> Any:
    """What a strategy makes of calls with these field scores, in order."""
    given_probabilities = logprobs or [-0.1] * len(calls)
    made = [
        candidate("t1", i, call, reading=None if call is None else read(call, p))
        for i, (call, p) in enumerate(zip(calls, given_probabilities, strict=True))
    ]
    table = table_of([ONE], made, OTHER)
    (found,) = rerank.rerank(table, np.array(scores), strategy)
    return found


A, B = {"name": "a", "size": 2}, {"name": "b", "size": 2}


def test_whole_calls_by_score_vote_probability_and_reference() -> None:
    scores = [0.9, 0.1, 0.5, 0.5, 0.4, 0.9]
    C = {"name": "b", "size": 3}
    assert picked("greedy", C, A, B, scores=scores) == C
    assert picked("candidate", C, A, B, scores=scores) == A
    assert picked("majority", C, A, {"size": 2, "name": "a"}, scores=scores) == A
    assert picked("majority", C, A, B, scores=scores) == C
    assert picked("logprob", C, A, B, scores=scores, logprobs=[-2.0, -1.0, -0.5]) == B
    assert picked("oracle", C, B, A, scores=scores) == A
    assert picked("oracle", C, B, B, scores=scores) == C


def test_values_are_taken_path_by_path() -> None:
    found = picked("field", {"name": "a", "size": 3}, {"name": "b", "size": 2}, scores=[0.9, 0.1, 0.2, 0.7])
    assert found == {"name": "a", "size": 2}


def test_a_field_set_keeps_the_greedy_values() -> None:
    calls = ({"name": "a", "size": 3, "note": "x"}, {"name": "b", "size": 2, "zone": "z"}, {"name": "b", "zone": "z"})
    scores = [0.1, 0.2, 0.05, 0.9, 0.5, 0.8, 0.9, 0.7]
    # `size` is in two of three, `zone` in two of three, `note` in one: its 0.05 does not keep it.
    assert picked("field_set", *calls, scores=scores) == {"name": "a", "size": 3, "zone": "z"}
    assert picked("field", *calls, scores=scores) == {"name": "b", "size": 2, "zone": "z"}


def test_required_fields_stay_whatever_their_score() -> None:
    for strategy in ("field", "field_set"):
        assert picked(strategy, {"name": "q", "size": 1}, scores=[0.0, 0.0]) == {"name": "q"}


def test_with_scores_that_say_nothing_presence_is_a_vote() -> None:
    calls = [
        {"name": "a", "note": "x"},
        {"name": "a"},
        {"name": "a"},
        {"name": "a", "size": 1},
        {"name": "a", "size": 1},
    ]
    scores = [0.5] * 8
    assert picked("field", *calls, scores=scores) == {"name": "a"}
    assert picked("field", *[*calls[3:], calls[4]], scores=[0.5] * 6) == {"name": "a", "size": 1}


def test_what_cannot_be_read_is_passed_over() -> None:
    assert picked("greedy", None, A, scores=[0.5, 0.5]) is None
    for strategy in ("candidate", "field", "field_set", "majority", "logprob"):
        assert picked(strategy, None, A, scores=[0.5, 0.5]) == A
        assert picked(strategy, None, None, scores=[]) is None
    assert picked("field", {}, scores=[0.5]) == {}
    with pytest.raises(ValueError, match=r"'best': one of greedy"):
        picked("best", A, scores=[0.5, 0.5])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def options(value: Any, score: float = 1.0) -> list[Option]:
    return [Option(leaf.path, leaf.value, score, 1, 0) for leaf in leaves(value)]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_leaves_put_together_are_the_object(value: dict) -> None:
    assert json.dumps(assemble(options(value))) == json.dumps(value)


@settings(max_examples=100, deadline=None)
@given(*[st.dictionaries(st.sampled_from("ab"), JSON, max_size=2)] * 2)
def test_any_mixture_is_an_object_and_holds_what_scores_highest(first: dict, second: dict) -> None:
    found = assemble([*options(first, 0.4), *options(second, 0.6)])
    assert json.loads(json.dumps(found)) == found
    kept = {leaf.value if not isinstance(leaf.value, list | dict) else str(leaf.value) for leaf in leaves(found)}
    for leaf in leaves(second) if second else ():
        assert (str(leaf.value) if isinstance(leaf.value, list | dict) else leaf.value) in kept


def test_elements_close_up_and_conflicts_go_to_the_higher_score() -> None:
    tags = [Option(("Tags", 0, "Key"), "a", 0.9, 1, 0), Option(("Tags", 2, "Key"), "c", 0.9, 1, 0)]
    assert assemble(tags) == {"Tags": [{"Key": "a"}, {"Key": "c"}]}
    assert assemble([*tags, Option(("Tags",), "text", 0.95, 1, 0)]) == {"Tags": "text"}
    assert assemble([*tags, Option(("Tags", "Key"), "b", 0.5, 1, 0)]) == {"Tags": [{"Key": "a"}, {"Key": "c"}]}


def test_required_all_the_way() -> None:
    inner = {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x"]}
    schema = {"properties": {"a": inner, "b": inner, "c": True}, "required": ["a", "c"]}
    assert required(("a", "x"), schema)
    assert not any(required(p, schema) for p in [("a", "y"), ("b", "x"), ("a", 0), ("c", "x"), ("z",), ()])
    assert required(("name",), SCHEMA)


TRAIN, HELD = world(120, 4, seed=1).table, world(120, 4, seed=2, prefix="held").table


def test_reranking_by_the_planted_probe_beats_the_greedy_answer_and_stays_below_the_oracle() -> None:
    probe = value_probe.fit(TRAIN, layer=PLANTED)
    choice = rerank.choose_strategy(TRAIN, value_probe.held_out_scores(TRAIN, PLANTED))
    assert choice.strategy == "field"  # values go wrong one by one, and are told one by one
    scores = probe.score_fields(HELD)
    found = rerank.evaluate(HELD, {s: rerank.rerank(HELD, scores, s) for s in rerank.STRATEGIES}, n=300)
    every = {r.strategy: r for r in found if r.slice == "all"}
    assert every["field"].exact_lead.interval.low > 0.1
    assert every["candidate"].exact_lead.interval.low > 0
    assert every["oracle"].exact.value >= max(every[s].exact.value for s in ("greedy", "candidate", "majority"))
    assert every["greedy"].exact_lead.interval.value == 0
    assert every["greedy"].exact.value == pytest.approx(HELD.exact[HELD.index == 0].mean())
    assert every["field"].field_f1_lead.interval.low > 0
    assert {r.slice for r in found} == {"all", "L1", "L2", "L3", "L4", "L5"}
    assert {r.samples for r in found} == {4}
    assert choice.nested.value == pytest.approx(choice.exact["field"].value)


def test_a_probe_that_says_nothing_leaves_the_greedy_answer() -> None:
    bare = world(120, 4, told=0, spurious=0).table  # with fields too many, even noise would favour the shorter calls
    scores = value_probe.held_out_scores(bare, PLANTED)
    choice = rerank.choose_strategy(bare, scores, strategies=("greedy", "candidate"))
    assert choice.strategy == "greedy"
    assert set(choice.folds) == {"greedy"}
    assert choice.nested.value == pytest.approx(choice.exact["greedy"].value)


def test_choosing_is_honest_about_ties_and_refuses_the_oracle() -> None:
    same = table_of([ONE], [candidate("t1", 0, A), candidate("t1", 1, A)], OTHER)
    choice = rerank.choose_strategy(same, np.full(4, 0.9))
    assert (choice.strategy, "first one" in choice.told) == ("greedy", True)
    with pytest.raises(ValueError, match="oracle"):
        rerank.choose_strategy(same, np.full(4, 0.9), strategies=("greedy", "oracle"))


def test_fewer_samples_are_the_first_ones() -> None:
    assert rerank.first_samples(HELD, 2).index.max() == 2
    assert len(rerank.first_samples(HELD, 0).candidates) == len(HELD.tasks)


def test_answers_of_other_tasks_are_noticed() -> None:
    with pytest.raises(ValueError, match="1 answers of 'field' to 120 tasks"):
        rerank.evaluate(HELD, {"field": [A]})


def test_another_judge_may_say_what_is_right() -> None:
    found = rerank.judged(HELD, [{"name": "x"}, *[None] * 119], lambda arguments, task: True)
    assert (found.sum(), found[0]) == (1, True)
