"""Ways through method=necessity beside the usual one: labels alone, no checker, likelihoods, a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chat_server import Answer, chat_server
from planted_models import CALCULATOR, CALL, planted_model, planted_questions
from toolsavvy.__main__ import main
from toolsavvy.config.compose import compose, typed
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.decoding.served import ServerSampler
from toolsavvy.methods import necessity
from toolsavvy.methods.knowing import subject as subjects
from toolsavvy.methods.knowing.comparing import compare, label_rows
from toolsavvy.methods.knowing.observations import read_observed
from toolsavvy.models.server import ServerChat
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.tracking import Run
from toolsavvy.tracking.run import Identity

SETTINGS = (
    "method=necessity", "questions=arithmetic", "model=toy", "logger=none", "probe.positions=1", "probe.layers=[1]",
    "probe.kinds=[prompt]", "probe.splits=[random]", "probe.shuffles=0", "probe.halvings=1", "method.sampling.n=4",
    "method.sampling.temperature=0.02", "method.sampling.max_tokens=4", "method.action.max_tokens=4",
    "method.resamples=30",
)  # fmt: skip
PUSHED = ("method.steering.alphas=[1.0]", "method.steering.random=1", "method.prefill=8")
MODEL, TOKENIZER, _ = planted_model()
ASKED = QuestionSet("planted", tuple(planted_questions(60)), (CALCULATOR,), "", {"neutral": "", "encouraging": "Yes."})


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path_factory.mktemp("cache")))
    sampler = LocalSampler(MODEL, TOKENIZER, name="planted", batch_size=64)
    monkeypatch.setattr(subjects, "subject_of", lambda *_: subjects.Subject("planted", sampler, MODEL, TOKENIZER))
    yield


def measured(folder: Path, *overrides: str, asked: QuestionSet = ASKED) -> dict[tuple[str, str, str], dict[str, Any]]:
    job = compose([*SETTINGS, *overrides])
    run = Run(typed(job.config), job.config, folder, Identity({"model": "toy", "method": "necessity"}, (), "group"))
    with run:
        necessity.tell_questions(run, asked)
        necessity.measured(typed(job.config), run, asked)
    lines = (folder / "results.jsonl").read_text().splitlines()
    return {(r["suite"], r["slice"], r["metric"]): r for r in map(json.loads, lines)}


def test_labels_alone_of_questions_that_all_stop_at_once(tmp_path: Path) -> None:
    hopeless = replace(ASKED, questions=tuple(replace(q, gold=7) for q in ASKED.questions))
    how = ("probe=none", "method.sampling.labels_only=true", "method.sampling.min_correct=3")
    found = measured(tmp_path / "run", *how, asked=hopeless)
    (seen,) = read_observed(tmp_path / "run")
    assert set(seen.observed.samples.tolist()) == {2}  # two wrong ones of four settle 3 of 4 and 4 of 4
    assert found["necessity", "min_correct_3", "need_rate"]["value"] == 1
    assert not any(metric == "soft_need" for _, _, metric in found)  # counts that were cut off tell no chances
    assert ("self_assessment", "necessity (strict)", "accuracy") in found


def likely(asked: QuestionSet) -> QuestionSet:
    """The same questions with answers to compare."""
    questions = [replace(q, gold=None, correct=("42",), incorrect=("7", "about 9")) for q in asked.questions]
    return replace(asked, questions=tuple(questions), checker="likelihood")


def test_likelihoods_give_the_soft_need_and_leave_answers_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolsavvy.necessity import truthful

    mass = np.linspace(0.1, 0.9, 60)
    scored = truthful.Likelihoods(
        tuple(q.id for q in ASKED.questions), mass, mass > np.random.default_rng(0).random(60)
    )
    monkeypatch.setattr(truthful.Likelihood, "score", lambda *_: scored)
    found = measured(tmp_path / "run", *PUSHED, asked=likely(ASKED))
    assert found["necessity", "all", "soft_need"]["value"] == pytest.approx(0.5)
    assert found["necessity", "strict", "need_rate"]["value"] == pytest.approx(1 - scored.best.mean())
    never = found["prefill", "never", "accuracy"]
    assert never["value"] is None or never["value"] == 0  # malformed calls alone are known to be wrong
    assert any(suite == "steering" for suite, _, _ in found)


def test_a_benchmarks_labels_stand_beside_self_assessment_steering_and_prefills(tmp_path: Path) -> None:
    questions = tuple(replace(q, gold=None, needs_tool=i % 2 == 0) for i, q in enumerate(ASKED.questions))
    found = measured(tmp_path / "run", *PUSHED, asked=replace(ASKED, questions=questions, checker="none"))
    assert ("self_assessment", "necessity (benchmark)", "accuracy") in found
    assert any(s == "steering" and m == "mismatch_rate" and "/benchmark/" in where for s, where, m in found)
    assert ("prefill", "always", "calls") in found


def test_without_a_checker_and_labels_nothing_is_said_about_necessity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = measured(tmp_path / "run", *PUSHED, "method.sampling.checker=none")
    told = " ".join(capsys.readouterr().out.split())
    assert "nobody said which questions are necessary" in told
    assert "questions are necessary: necessity has one class" not in told
    assert ("probes", "action/random", "auc") in found


def test_a_models_server_is_asked_for_labels_actions_and_self_assessment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behave(body: dict[str, Any], _: int) -> Answer:
        if body["messages"][0]["role"] == "system":  # the questions have no system prompt here
            return Answer("Yes.")
        return Answer(CALL if body.get("tools") and "a case" in body["messages"][-1]["content"] else "It is 42")

    with chat_server(behave) as server:
        sampler = ServerSampler(ServerChat("far", server.url, key_env="NONE", cache=False))
        monkeypatch.setattr(subjects, "subject_of", lambda *_: subjects.Subject("far", sampler))
        asked = replace(ASKED, questions=ASKED.questions[:16], action_prompts={"neutral": ""})
        found = measured(tmp_path / "run", "method.action.samples=2", asked=asked)
    assert found["necessity", "strict", "need_rate"]["value"] == 0
    assert 0 < found["necessity", "strict", "call_rate"]["value"] < 1
    assert found["self_assessment", "all", "yes_share"]["value"] == 1
    assert found["self_assessment", "necessity (strict)", "accuracy"]["value"] == 0


def test_runs_over_several_question_sets_are_told_apart(tmp_path: Path) -> None:
    for name in ("first", "second"):
        measured(tmp_path / name, "probe=none", "method.action.self_assessment=false", asked=replace(ASKED, name=name))
    head, body = label_rows(compare([tmp_path / "first", tmp_path / "second"], resamples=20))
    assert head[1] == "set"
    assert [row[1] for row in body] == ["first", "second"]


def test_a_layer_that_was_not_captured_is_named_with_those_that_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(tmp_path / "run", "method.steering.alphas=[1.0]", "method.steering.layer=2")
    told = " ".join(capsys.readouterr().out.split())
    assert "the last prompt token of layer 2 was not captured; layers of which it was: 1" in told


MISTAKES = {
    "numbers in TruthfulQA": (("questions=truthfulqa", "method.sampling.checker=number"), "method.sampling.checker"),
    "a judge of sums": (("method.sampling.checker=judge",), "method.sampling.checker"),
    "a threshold of likelihoods": (
        ("questions=truthfulqa", "method.sampling.checker=likelihood", "method.sampling.min_correct=2"),
        "method.sampling.min_correct",
    ),
    "a server's likelihoods": (
        ("questions=truthfulqa", "method.sampling.checker=likelihood", "method.sampling.backend=server"),
        "method.sampling.checker",
    ),
    "identical actions": (
        ("method.sampling.n=1", "method.sampling.temperature=0", "method.action.samples=3"), "method.action.samples",
    ),
    "no halves": (("probe.halvings=0",), "probe.halvings"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_what_could_not_end_well_is_refused_at_the_start(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides, where = MISTAKES[name]
    base = ("method=necessity", "questions=arithmetic", "model=toy", "logger=none", f"paths.outputs={tmp_path}")
    assert main([*base, *overrides]) == 2
    told = capsys.readouterr().err
    assert where in told
    assert "expected:" in told
    assert "fix:" in told or name == "no halves"
