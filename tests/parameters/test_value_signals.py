from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_answers import OTHER, PLANTED, candidate, read, task, world

from toolsavvy.parameters import probe as value_probe
from toolsavvy.parameters import signals
from toolsavvy.parameters.fields import table_of

ONE = task("t1", {"name": "a", "size": 2})


def table(*calls: dict | None, p: float | None = None):
    return table_of([ONE], [candidate("t1", i, call, p_true=p) for i, call in enumerate(calls)], OTHER)


def test_consistency_is_the_share_of_samples_that_say_the_same() -> None:
    a, b = {"name": "a", "size": 2}, {"name": "a", "size": 3}
    found = signals.consistency(table(a, {"size": 2, "name": "a"}, b, b, None))
    # Greedy: 3 of 4 samples name a, 1 has size 2; samples are counted among the other 3.
    expected = [3 / 4, 1 / 4, 0, 2 / 3, 2 / 3, 1 / 3, 2 / 3, 1 / 3]
    assert found.fields == pytest.approx(expected)
    assert found.calls == pytest.approx([1 / 4, 0, 1 / 3, 1 / 3, 0])


def test_consistency_needs_samples() -> None:
    with pytest.raises(ValueError, match="'t1' has none"):
        signals.consistency(table({"name": "a"}))


def test_one_and_true_and_one_point_zero_are_three_values() -> None:
    found = signals.consistency(table({"size": 1}, {"size": True}, {"size": 1.0}, {"size": 1}))
    assert found.fields[0] == pytest.approx(1 / 3)


def test_log_probabilities_become_probabilities() -> None:
    reading = read({"name": "a", "size": 2}, [np.log(0.5), np.log(0.25)])
    one = table_of([ONE], [candidate("t1", 0, {"name": "a", "size": 2}, reading=reading)], OTHER)
    found = signals.log_probability(one)
    assert found.fields == pytest.approx([0.5, 0.25])
    assert found.calls == pytest.approx([0.25])
    assert signals.log_probability(one, mean=True).fields == pytest.approx([0.5**0.5, 0.5])
    lost = table_of([ONE], [candidate("t1", 0, {"name": "a"}, reading=read({"name": "a"}, [-np.inf]))], OTHER)
    assert signals.log_probability(lost).fields.tolist() == [0]


def test_p_true_is_one_number_for_a_call() -> None:
    found = signals.p_true(table({"name": "a", "size": 2}, {"name": "b"}, None, p=0.3))
    assert found.fields == pytest.approx([0.3] * 3)
    assert found.calls == pytest.approx([0.3, 0.3, 0])
    with pytest.raises(ValueError, match="not asked"):
        signals.p_true(table({"name": "a"}))


def test_surface_features_see_kind_length_and_place_alone() -> None:
    found = signals.surface(table({"name": "a", "size": 2}, {"name": "b", "size": 7}))
    np.testing.assert_array_equal(found[:2], found[2:])
    assert (found[0] != found[1]).any()
    kinds = ("x", 1, 1.5, True, None, {}, [])
    assert [signals.kind_of(v) for v in kinds] == list(signals.KINDS)
    assert signals.surface(table(None)).shape == (0, 4 + len(signals.KINDS))


def test_all_signals_that_can_be_had() -> None:
    train = world(30, 2)
    probe, control = value_probe.fit(train.table, layer=PLANTED), signals.Control.fit(train.table)
    held = world(10, 2, prefix="held").table
    found = signals.all_signals(held, probe=probe, control=control)
    assert list(found) == ["probe", "logprob", "logprob_mean", "consistency", "control"]
    assert "consistency" not in signals.all_signals(held.greedy())
    names, scores = signals.stacked(found, calls=True)
    assert (len(names), scores.shape) == (5, (5, 30)[::-1])


VALUES = st.sampled_from(["a", "b", 1, 1.5, True, None])
CALLS = st.lists(st.none() | st.dictionaries(st.sampled_from(["name", "size", "zone"]), VALUES), min_size=2, max_size=6)


@settings(max_examples=40, deadline=None)
@given(CALLS)
def test_signals_lie_in_0_to_1_and_calls_below_their_fields(calls: list) -> None:
    one = table(*calls, p=0.5)
    for signal in signals.all_signals(one).values():
        assert ((signal.fields >= 0) & (signal.fields <= 1)).all()
        assert ((signal.calls >= 0) & (signal.calls <= 1)).all()
        assert (signal.calls[one.candidate] <= signal.fields + 1e-12).all()
        assert (signal.calls[~one.whole] == 0).all()
