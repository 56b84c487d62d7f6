"""The whole of method=necessity on a tiny model whose calls hang on one planted direction of its hidden states."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted_models import CALCULATOR, planted_model, planted_questions
from toolsavvy.config.compose import compose, typed
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.errors import UserError
from toolsavvy.methods import necessity
from toolsavvy.methods.knowing import subject as subjects
from toolsavvy.methods.knowing.comparing import compare, label_rows
from toolsavvy.methods.knowing.observations import read_observed
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.tracking import Run
from toolsavvy.tracking.run import Identity

SETTINGS = (
    "method=necessity", "questions=arithmetic", "model=toy", "logger=none", "probe.positions=2", "probe.shuffles=1",
    "probe.halvings=1", "method.sampling.n=4", "method.sampling.temperature=0.02", "method.sampling.max_tokens=4",
    "method.action.max_tokens=4", "method.resamples=100",
)  # fmt: skip
EVERYTHING = (
    "method.action.samples=2", "method.steering.alphas=[1.0]", "method.steering.random=1", "method.prefill=16",
)  # fmt: skip
MODEL, TOKENIZER, _ = planted_model()
WORDINGS = {"neutral": "", "discouraging": "No.", "encouraging": "Yes."}
ASKED = QuestionSet("planted", tuple(planted_questions(120)), (CALCULATOR,), "", WORDINGS)


class Counting(LocalSampler):
    """Counts the samples that are really drawn."""

    drawn = 0

    def draw(self, prompts: Any, indices: Any, **how: Any) -> None:
        type(self).drawn += sum(map(len, indices))
        super().draw(prompts, indices, **how)


@contextmanager
def planted(cache: Path) -> Iterator[None]:
    """The planted model is asked, whatever the settings name, and keeps its samples in a cache of its own."""
    sampler = Counting(MODEL, TOKENIZER, name="planted", batch_size=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLSAVVY_CACHE", str(cache))
        patch.setattr(subjects, "subject_of", lambda *_: subjects.Subject("planted", sampler, MODEL, TOKENIZER))
        Counting.drawn = 0
        yield


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the random split alone, which several tests look at."""
    with planted(tmp_path_factory.mktemp("light_cache")):
        return measured(tmp_path_factory.mktemp("light") / "run", "probe.splits=[random]")


@pytest.fixture(autouse=True)
def _planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with planted(tmp_path_factory.mktemp("cache")):
        yield


def measured(folder: Path, *overrides: str, asked: QuestionSet = ASKED) -> Path:
    job = compose([*SETTINGS, *overrides])
    run = Run(typed(job.config), job.config, folder, Identity({"model": "toy", "method": "necessity"}, (), "group"))
    with run:
        necessity.measured(typed(job.config), run, asked)
    return folder


def results(folder: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    lines = (folder / "results.jsonl").read_text().splitlines()
    return {(r["suite"], r["slice"], r["metric"]): r for r in map(json.loads, lines)}


def test_everything_is_told_once_and_agrees_with_what_was_seen(tmp_path: Path) -> None:
    folder = measured(tmp_path / "run", *EVERYTHING)
    found = results(folder)
    (seen,) = read_observed(folder)
    called = seen.observed.called()
    for rule, least in (("strict", 4), ("released", 4)):  # nine tenths of four answers are four
        need = seen.observed.correct < least
        counts = [int((need & called).sum()), int((need & ~called).sum())]
        counts += [int((~need & called).sum()), int((~need & ~called).sum())]
        assert [found["necessity", rule, m]["value"] for m in ("n_c", "n_nc", "un_c", "un_nc")] == counts
        assert found["necessity", rule, "mismatch_rate"]["value"] == pytest.approx((counts[1] + counts[2]) / 120)
    assert found["probes", "action/random", "auc"]["value"] > 0.95  # the planted direction is found
    assert found["probes", "action/random/shuffled", "auc"]["value"] < 0.9
    assert found["necessity", "action=sampled", "call_rate"]["n"] == 120
    suites = {suite for suite, _, _ in found}
    assert suites == {"necessity", "self_assessment", "probes", "attribution", "steering", "prefill"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    for name in ("labels", "costs", "mcc_prompt", "mcc_question", "confidences", "sankey", "attribution", "prefill"):
        assert (folder / "figures" / f"{name}.png").stat().st_size > 5_000, name
    assert page.count("<img") >= 8
    card = json.loads((folder / "model" / "probe.json").read_text())
    assert card["questions"] == "planted"


def test_attribution_counts_every_question_once(light: Path) -> None:
    found = results(light)
    kinds = ("n_aligned", "n_cancelled", "n_stage_1", "n_stage_2")
    counts = [found["attribution", "random/half", kind]["value"] for kind in kinds]
    assert sum(counts) == 120
    mismatched = sum(found["necessity", "strict", m]["value"] for m in ("n_nc", "un_c"))
    assert counts[2] + counts[3] == mismatched


def test_a_larger_n_and_another_threshold_only_add_what_is_missing(tmp_path: Path) -> None:
    measured(tmp_path / "first", "probe=none")
    first = Counting.drawn
    assert first == 120 * (4 + 1)
    measured(tmp_path / "again", "probe=none", "method.sampling.min_correct=2")
    assert Counting.drawn == first
    measured(tmp_path / "more", "probe=none", "method.sampling.n=6")
    assert Counting.drawn == first + 120 * 2
    rows = compare([tmp_path / "first", tmp_path / "again", tmp_path / "more"], resamples=50)
    head, body = label_rows(rows)
    assert head[1] == "N"
    assert [row[1] for row in body] == ["4", "4", "6"]


def test_labels_alone_are_those_of_the_full_count(tmp_path: Path) -> None:
    full = results(measured(tmp_path / "full", "probe=none"))
    Counting.drawn = 0
    early = results(measured(tmp_path / "early", "probe=none", "method.sampling.labels_only=true", "seed=0"))
    for metric in ("n_c", "n_nc", "un_c", "un_nc"):
        assert early["necessity", "strict", metric]["value"] == full["necessity", "strict", metric]["value"]


def test_a_class_that_never_occurs_is_said_and_the_rest_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hopeless = replace(ASKED, questions=tuple(replace(q, gold=7) for q in ASKED.questions))
    found = results(measured(tmp_path / "run", *EVERYTHING, asked=hopeless))
    told = " ".join(capsys.readouterr().out.split())
    assert "all 120 questions are necessary: necessity has one class, and no probe can be trained for it" in told
    assert ("probes", "action/random", "auc") in found
    assert not any(suite in ("attribution", "prefill") for suite, _, _ in found)
    assert not any(slice_.startswith("necessity/") for suite, slice_, _ in found if suite == "probes")
    assert found["necessity", "strict", "mcc"]["value"] is None


def test_answers_that_nobody_can_read_end_the_run_with_an_example(tmp_path: Path) -> None:
    class Blind:
        name = "number"

        def check(self, questions: Any, texts: Any) -> Any:
            from toolsavvy.necessity.question import Verdict

            return [Verdict(None) for _ in texts]

    from toolsavvy.methods.knowing import behaviour

    with pytest.MonkeyPatch.context() as patch, pytest.raises(UserError) as caught:
        patch.setattr(behaviour, "checker_of", lambda *_: Blind())
        measured(tmp_path / "run", "probe=none")
    assert "no answer could be read" in str(caught.value)
    assert "method.sampling.max_tokens" in str(caught.value)


def test_labels_of_a_benchmark_stand_beside_the_action(tmp_path: Path) -> None:
    labelled = replace(
        ASKED, checker="none", questions=tuple(replace(q, needs_tool=i % 2 == 0) for i, q in enumerate(ASKED.questions))
    )
    folder = measured(tmp_path / "run", "probe=none", asked=labelled)
    found = results(folder)
    (seen,) = read_observed(folder)
    called = seen.observed.called()
    assert found["necessity", "benchmark", "n_c"]["value"] == int(called[::2].sum())
    assert found["necessity", "benchmark", "un_c"]["value"] == int(called[1::2].sum())
    assert ("necessity", "strict", "n_c") not in found


def test_a_run_that_was_cut_off_before_its_probes_gives_the_same_numbers(light: Path, tmp_path: Path) -> None:
    whole = results(light)
    from toolsavvy.methods.knowing import probed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(probed, "study", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("killed")))
        measured(tmp_path / "cut", "probe.splits=[random]")
    Counting.drawn = 0
    again = results(measured(tmp_path / "cut", "probe.splits=[random]"))
    assert Counting.drawn == 0
    assert {k: v["value"] for k, v in again.items()} == {k: v["value"] for k, v in whole.items()}


def test_the_deployed_probe_says_what_the_study_said(light: Path) -> None:
    from toolsavvy.necessity.deployed import load_probe

    probe = load_probe(light / "model")
    probe.check(MODEL, TOKENIZER)
    scores = np.array([probe.needs_tool(MODEL, TOKENIZER, q.text) for q in ASKED.questions[:24]])
    (seen,) = read_observed(light)
    need = seen.observed.correct[:24] < 4
    assert scores[need].mean() > scores[~need].mean() + 0.3
