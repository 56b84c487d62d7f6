from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from argument_tasks import subnet_task, toy_writer
from planted_answers import OTHER, candidate, read, task, world

from toolsavvy.errors import UserError
from toolsavvy.parameters import generating, reading, signals
from toolsavvy.parameters.fields import Candidate, Origin, candidates_of, cross_fits, joined, table_of
from toolsavvy.parameters.prompts import answer_text

ONE = task("t1", {"name": "a", "size": 2}, cluster="story")
TWO = task("t2", {"name": "b", "filter": {}})


def table(*candidates: Candidate, origin: Origin = OTHER, labelled: bool = True):
    return table_of([ONE, TWO], candidates, origin, labelled=labelled)


def test_every_predicted_value_is_a_row_with_its_label() -> None:
    found = table(candidate("t1", 1, {"name": "a", "size": 3}), candidate("t1", 0, {"name": "a", "size": 2}))
    assert found.paths == (("name",), ("size",)) * 2
    assert found.right.tolist() == [True, False, True, True]
    assert found.exact.tolist() == [False, True]
    assert found.whole.all()
    assert [members.tolist() for members in found.groups] == [[1, 0], []]
    assert found.clusters == ("story", "story")
    assert found.position.tolist() == [0, 3, 0, 3]


def test_a_call_has_its_lowest_score_and_what_cannot_be_read_has_none() -> None:
    hidden = candidate("t2", 0, {"name": "b", "filter": {}}, reading=read({"name": "b"}))
    unread = Candidate("t2", 1, "{}", {"name": "b"}, None)
    found = table(candidate("t1", 0, {"name": "a", "size": 2}), candidate("t1", 1, None), hidden, unread)
    assert found.whole.tolist() == [True, False, False, False]
    assert found.calls(np.array([0.9, 0.4, 0.8])).tolist() == [0.4, 0, 0, 0]
    assert table(candidate("t1", 0, None)).calls(np.zeros(0)).tolist() == [0]


def test_a_call_without_arguments_is_one_value() -> None:
    bare = task("t3", {})
    found = table_of([bare], [candidate("t3", 0, {})], OTHER)
    assert (found.paths, found.right.tolist(), found.exact.tolist()) == (((),), [True], [True])


def test_unlabelled_answers_have_no_right_ones() -> None:
    found = table(candidate("t1", 0, {"name": "a", "size": 2}), labelled=False)
    assert not found.right.any()
    assert not found.exact.any()
    assert not found.labelled


def test_candidates_of_other_tasks_or_twice_the_same_are_refused() -> None:
    with pytest.raises(ValueError, match="'t9'"):
        table(candidate("t9", 0, {}))
    with pytest.raises(ValueError, match="same index"):
        table(candidate("t1", 0, {"name": "a"}), candidate("t1", 0, {"name": "b"}))


def test_parts_and_their_union_keep_rows_together() -> None:
    whole = world(10, 2).table
    first, second = (whole.of_tasks(f"task {i}" for i in part) for part in (range(4), range(4, 10)))
    again = joined([first, second])
    assert again.paths == whole.paths
    assert [t.id for t in again.tasks] == [t.id for t in whole.tasks]
    for name in ("task", "candidate", "right", "exact", "states", "logprob_min"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    assert [o.name for o in again.origins] == [OTHER.name] * 2
    assert (whole.greedy().index == 0).all()
    assert len(whole.greedy().candidates) == 10
    assert whole.of_tasks([]).states.shape[0] == 0
    with pytest.raises(ValueError, match="same layers"):
        joined([first, replace(second, layers=(5,))])


def test_a_layer_that_was_not_kept_is_named() -> None:
    with pytest.raises(ValueError, match="layer 9 was not kept"):
        world(2, 1).table.layer(9)


def test_answers_to_tasks_that_the_model_was_trained_on_are_refused() -> None:
    told = table(candidate("t1", 0, {"name": "a"}), origin=Origin("seed model", frozenset({"t1"})))
    with pytest.raises(UserError) as caught:
        told.check_cross_fitted()
    assert "'t1'" in str(caught.value)
    assert "seed model" in str(caught.value)
    assert "cross-fitting" in caught.value.expected
    table(candidate("t2", 0, {"name": "b"}), origin=Origin("seed model", frozenset({"t1"}))).check_cross_fitted()


def test_cross_fits_cover_every_task_once_and_keep_stories_together() -> None:
    tasks = [task(str(i), {"name": "a"}, cluster=f"story {i // 3}") for i in range(20)]
    parts = cross_fits(tasks, 4, seed=3)
    assert sorted(t.id for _, held in parts for t in held) == sorted(t.id for t in tasks)
    for trained, held in parts:
        assert not {t.cluster for t in trained} & {t.cluster for t in held}
        assert len(trained) + len(held) == 20
    assert parts == cross_fits(tasks, 4, seed=3)
    with pytest.raises(UserError, match="1 clusters"):
        cross_fits(tasks[:2], 4)


def test_states_are_those_of_the_value() -> None:
    rows = np.arange(4, dtype=np.float16).reshape(2, 1, 2)
    found = table(candidate("t1", 0, {"name": "a", "size": 2}, reading=read({"name": 1, "size": 1}, states=rows)))
    np.testing.assert_array_equal(found.layer(0), [[0, 1], [2, 3]])


def test_answers_that_were_generated_and_read_line_up() -> None:
    """The whole way on a toy model: texts of our own, since a random model writes no JSON."""
    model, tokenizer, prompts = toy_writer()
    asked = [subnet_task(0), subnet_task(1)]
    texts = (
        answer_text(asked[0]),
        '{"VpcId": "vpc-0", "Tags": [{"Key": "a"}, {}], "VpcId": "vpc-1",}',
        "no call",
        "{}",
    )
    generated = [generating.Generated(asked[i // 2].id, i % 2, text, True) for i, text in enumerate(texts)]
    wanted = [prompts.prompt(asked[i // 2]) for i in range(4)]
    answers = reading.read(model, tokenizer, wanted, texts, layers=(0, 1))
    sure = reading.p_true(model, tokenizer, wanted, texts)
    found = table_of(asked, candidates_of(generated, answers, sure), OTHER)
    assert found.whole.tolist() == [True, True, False, True]
    assert found.exact.tolist() == [True, False, False, False]
    assert found.right[found.rows[0]].all()
    assert found.paths[found.rows[1]] == (("VpcId",), ("Tags", 0, "Key"), ("Tags", 1))
    assert found.values[found.rows[1]][0] == "vpc-1"
    assert found.states.shape[1:] == (2, model.config.hidden_size)
    assert set(signals.all_signals(found)) == {"logprob", "logprob_mean", "consistency", "p_true"}
