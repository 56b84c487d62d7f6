"""Pass rates: what is offered, picked, filled and carried out, told apart; a toy world of four executed stories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executed_world import CATALOG, executed_set
from toolsavvy.catalog import Tool
from toolsavvy.errors import UserError
from toolsavvy.metrics import GoldMatrix, per_query
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking
from toolsavvy.suites.downstream import ORACLE, Downstream
from toolsavvy.suites.offers import Offers, drawn, oracle_ranking
from toolsavvy.tasks import ParamTask, TaskSet

pytest.importorskip("moto")


class Right:
    """Fills the right tool rightly, others with what they are told; remembers what it was asked."""

    def __init__(self, others: Mapping[str, Any] | None = None) -> None:
        self.others, self.asked = others, []

    def fill(self, wanted: Sequence[tuple[ParamTask, Tool]]) -> list[Mapping[str, Any] | None]:
        self.asked += [(task.id, tool.id) for task, tool in wanted]
        return [t.reference.arguments if tool.id == t.reference.name else self.others for t, tool in wanted]


class Likes:
    """Scores tools by a rule."""

    def __init__(self, rule: Any) -> None:
        self.rule, self.calls = rule, 0

    def scores(self, tasks: Sequence[ParamTask], tools: Sequence[Sequence[Tool]]) -> list[np.ndarray]:
        self.calls += 1
        return [
            np.array([self.rule(t, tool) for tool in own], dtype=float) for t, own in zip(tasks, tools, strict=True)
        ]


def ranked(*rows: Sequence[int]) -> dict[str, dict[str, Ranking]]:
    indices = np.array(rows)
    return {"": {"test": Ranking(indices, np.tile(-np.arange(indices.shape[1], dtype=float), (len(rows), 1)))}}


GOOD = ranked((0, 1, 2), (2, 1, 3), (0, 3, 2), (4, 0, 1))
"""The right tool is 1st, 2nd, 3rd, and absent."""


def suite(**more: Any) -> Downstream:
    made = Downstream(**{"ks": (1, 2, 3), "resamples": 50, "pick": "first", **more})
    made.filler = Right()
    return made


def values(outcome: Any, metric: str, system: str = "good", name: str = "test") -> list[float]:
    return [r.value for r in outcome.results if (r.system, r.metric, r.slice) == (system, metric, name)]


def test_the_first_tool_is_all_that_a_caller_without_a_choice_has() -> None:
    outcome = suite().run(executed_set(), {"good": GOOD})
    assert values(outcome, "pass_rate") == values(outcome, "picked") == [0.25] * 3
    assert values(outcome, "recall") == [0.25, 0.5, 0.75]
    assert values(outcome, "pass_rate", ORACLE) == [1.0] * 3
    assert values(outcome, "pass_rate", name="test/level=L1") == [0.5] * 3
    assert values(outcome, "pass_rate", name="test/level=L2") == [0.0] * 3
    assert values(outcome, "pass_rate", name="test/service=ec2") == [0.25] * 3


def test_an_oracle_pick_loses_nothing_but_what_was_not_found() -> None:
    outcome = suite(pick="oracle").run(executed_set(), {"good": GOOD})
    assert values(outcome, "pass_rate") == values(outcome, "picked") == values(outcome, "recall")
    gold = GoldMatrix.from_queries(CATALOG, executed_set().splits["test"])
    expected = [per_query(GOOD[""]["test"], gold, k) for k in (1, 2, 3)]
    assert values(outcome, "recall") == [float(e.recall.mean()) for e in expected]
    assert values(outcome, "ndcg") == [float(e.ndcg.mean()) for e in expected]


def test_a_model_picks_by_its_scores_and_is_asked_once_for_all_systems() -> None:
    made = suite(pick="model")
    made.picker = Likes(lambda task, tool: tool.id == "ec2:CreateDhcpOptions")
    outcome = made.run(executed_set(), {"good": GOOD, "other": ranked(*[(3, 2, 0)] * 4)})
    picked = {(a.query, a.k): a.picked for a in outcome.predictions["good"]}
    assert picked["t1", 1] == "ec2:CreateInternetGateway"  # it was not offered yet
    assert picked["t1", 2] == picked["t0", 2] == "ec2:CreateDhcpOptions"
    assert values(outcome, "picked") == [0.25, 0.25, 0.25]
    assert made.picker.calls == 1
    draw = suite(pick="model")
    draw.picker = Likes(lambda task, tool: 0.0)
    same = draw.run(executed_set(), {"good": GOOD})
    assert values(same, "picked") == [0.25] * 3  # of equal ones the earlier rank


def test_a_call_is_made_once_however_many_systems_lead_to_it() -> None:
    made = suite()
    made.run(executed_set(), {"good": GOOD, "same": GOOD})
    asked = made.filler.asked
    assert len(asked) == len(set(asked))
    made.run(executed_set(), {"good": GOOD})
    assert len(made.filler.asked) == len(asked)


def test_calls_pass_by_their_effect() -> None:
    made = suite()
    made.filler = Right({"CidrBlock": "10.0.0.0/16"})  # whatever is picked gets a VPC's arguments
    outcome = made.run(executed_set(), {"wrong": ranked(*[(4, 3, 2)] * 4)})
    assert values(outcome, "pass_rate", "wrong") == [0.0] * 3
    made.filler = Right(None)
    assert {a.passed for a in suite().run(executed_set(), {"w": ranked(*[(4, 3, 2)] * 4)}).predictions["w"]} == {False}


def test_free_output_that_is_no_tool_is_not_called() -> None:
    nothing = ranked(*[(NO_TOOL, NO_TOOL, 0)] * 4)
    outcome = suite().run(executed_set(), {"free": nothing})
    first = outcome.predictions["free"][0]
    assert (first.picked, first.offered, first.arguments, first.passed) == (None, (), None, False)
    assert values(outcome, "pass_rate", "free") == [0.0, 0.0, 0.25]


def test_systems_are_compared_in_pairs_and_the_oracle_is_no_rival() -> None:
    bad = ranked(*[(4, 3, 2)] * 4)
    outcome = suite(pairs=[["bad", "good"]]).run(executed_set(), {"good": GOOD, "bad": bad})
    assert outcome.pairs == (("bad", "good"),)
    assert {(c.system, c.rival) for c in outcome.comparisons} == {("good", "bad"), ("bad", "good")}
    found = next(c for c in outcome.comparisons if (c.system, c.metric, c.k) == ("good", "pass_rate", 1))
    assert found.difference == 0.25


def test_predictions_are_written_whole(tmp_path: Path) -> None:
    made = suite()
    outcome = made.run(executed_set(), {"good": GOOD})
    paths = made.write(tmp_path, executed_set(), {"good": GOOD}, outcome)
    assert [p.name for p in paths] == ["downstream.good.jsonl", f"downstream.{ORACLE}.jsonl"]
    rows = [json.loads(line) for line in paths[0].read_text().splitlines()]
    assert len(rows) == 12
    assert rows[0] | {"arguments": {"CidrBlock": "10.0.0.0/16"}, "passed": True, "gold": "ec2:CreateVpc"} == rows[0]


def test_the_oracle_arm_offers_the_right_tool_first_and_each_tool_once() -> None:
    queries = executed_set().splits["test"]
    found = oracle_ranking(CATALOG, queries, 4, seed=3)
    assert [CATALOG.tools[i].id for i in found.indices[:, 0]] == [min(q.gold) for q in queries]
    assert all(len(set(row)) == 4 for row in found.indices.tolist())
    assert (found.indices == oracle_ranking(CATALOG, queries, 4, seed=3).indices).all()


def test_some_of_the_queries_are_drawn_by_the_seed() -> None:
    outcome = suite(n=2, seed=1).run(executed_set(), {"good": GOOD})
    asked = {a.query for a in outcome.predictions["good"]}
    assert asked == {f"t{i}" for i in drawn(4, 2, 1)}
    assert {r.n for r in outcome.results if r.slice == "test"} == {2}
    assert drawn(3, 9, 0).tolist() == drawn(3, None, 0).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"caller": "gpt"}, "suite.downstream.caller"),
        ({"pick": "best"}, "suite.downstream.pick"),
        ({"n": 0}, "suite.downstream.n"),
        ({"max_tokens": 0}, "suite.downstream.max_tokens"),
        ({"ks": (0,)}, "suite.downstream.ks"),
        ({"pairs": [["a"]]}, "suite.downstream.pairs"),
    ],
)
def test_settings_that_cannot_be_are_refused(more: dict[str, Any], where: str) -> None:
    with pytest.raises(UserError) as error:
        Downstream(**more)
    assert error.value.where == where
    assert error.value.expected


def test_sets_that_cannot_be_executed_are_refused_before_anything_is_ranked() -> None:
    whole = executed_set()
    still = replace(whole, tasks=TaskSet("toy", tuple(replace(t, facts={}) for t in whole.tasks.calls)))
    for broken in (replace(whole, tasks=None), still):
        with pytest.raises(UserError, match="no task that can be executed") as error:
            suite().check(broken)
        assert "parambench_aws" in error.value.fix
        assert "'t0'" in error.value.what
    with pytest.raises(UserError, match="no test queries"):
        suite().check(replace(whole, splits={"train": (), "test": ()}))
    suite().check(whole)


def test_pairs_must_be_of_the_run_and_a_caller_there() -> None:
    with pytest.raises(UserError, match="no system of this run"):
        suite(pairs=[["good", "goood"]]).run(executed_set(), {"good": GOOD})
    with pytest.raises(ValueError, match="no filler"):
        Downstream(ks=(1,), pick="first").run(executed_set(), {"good": GOOD})
    with pytest.raises(ValueError, match="to depth 3"):
        suite().run(executed_set(), {"good": ranked(*[(0, 1)] * 4)})


def test_offers_leave_out_ranks_without_a_tool() -> None:
    whole = executed_set()
    ranking = Ranking(np.array([[NO_TOOL, 2]]), np.zeros((1, 2)))
    task = whole.tasks.calls[0]
    offers = Offers("test", CATALOG, whole.splits["test"][:1], [task], {"s": ranking}, (1, 2))
    assert [(k, tuple(t.id for t in tools)) for _, k, _, tools in offers] == [
        (1, ()),
        (2, ("ec2:CreateInternetGateway",)),
    ]
