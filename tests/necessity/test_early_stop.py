"""Questions asked N times: labels are those of the full count, and no finished sample is drawn twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.decoding.samples import Heard, Sample
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Message
from toolsavvy.models.loading import toy_model
from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.asking import EarlyStop, ask, ask_counted, decide
from toolsavvy.necessity.store import SampleStore


class Scripted:
    """A sampler whose answers are planned: sample k of prompt i is `answers[i][k]`, of 10 + k tokens."""

    name, key = "scripted", "scripted"

    def __init__(self, answers: Sequence[Sequence[str]], order: Sequence[int] | None = None) -> None:
        self.answers, self.order, self.drawn = answers, order, list[tuple[int, int]]()

    def draw(
        self,
        prompts: Sequence[Prompt],
        indices: Sequence[Sequence[int]],
        *,
        temperature: float,
        max_tokens: int,
        heard: Heard,
    ) -> None:
        for place, (prompt, own) in enumerate(zip(prompts, indices, strict=True)):
            which = int(prompt.messages[-1].content)
            rank = {k: r for r, k in enumerate(self.order or range(99))}
            for k in sorted(own, key=lambda k: rank[k]):
                self.drawn.append((which, k))
                if heard(place, Sample(k, self.answers[which][k], 10 + k)):
                    break


def prompts(count: int) -> list[Prompt]:
    return [Prompt((Message("user", str(i)),)) for i in range(count)]


def store(folder: Path, key: str = "scripted") -> SampleStore:
    return SampleStore(folder, key, 0.7, 64)


HOW = {"temperature": 0.7, "max_tokens": 64}


@given(
    right=st.lists(st.booleans(), min_size=1, max_size=20),
    data=st.data(),
)
def test_labels_are_those_of_the_full_count_for_any_order(right: list[bool], data: st.DataObject) -> None:
    n = len(right)
    thresholds = data.draw(st.lists(st.integers(1, n), min_size=1, max_size=3))
    rule, correct, wrong = decide(n, *thresholds), 0, 0
    for taken, is_right in enumerate(data.draw(st.permutations(right)), start=1):
        correct, wrong = correct + is_right, wrong + (not is_right)
        for threshold in thresholds:
            label = rule.label(correct, wrong, threshold)
            could_miss, could_reach = correct, correct + n - taken
            assert label == (True if could_miss >= threshold else False if could_reach < threshold else None)
        if rule.is_decided(correct, wrong):
            break
    assert [rule.label(correct, wrong, t) for t in thresholds] == [sum(right) >= t for t in thresholds]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), n=st.integers(1, 8), count=st.integers(1, 4))
def test_asking_less_gives_the_labels_of_asking_all(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, n: int, count: int
) -> None:
    answers = data.draw(
        st.lists(st.lists(st.sampled_from(["yes", "no"]), min_size=n, max_size=n), min_size=count, max_size=count)
    )
    threshold = data.draw(st.integers(1, n))
    rule = decide(n, threshold)
    own = Scripted(answers, data.draw(st.permutations(range(n))))
    checked: list[tuple[int, int]] = []

    def is_correct(question: int, sample: Sample) -> bool:
        checked.append((question, sample.index))
        return sample.text == "yes"

    kept = store(tmp_path_factory.mktemp("samples"))
    found = ask_counted(own, kept, prompts(count), n, decided=rule.watch(is_correct), **HOW)
    for samples, truth in zip(found.samples, answers, strict=True):
        correct = sum(s.text == "yes" for s in samples)
        assert rule.label(correct, len(samples) - correct, threshold) == (truth.count("yes") >= threshold)
        assert [s.index for s in samples] == sorted(s.index for s in samples)
    assert len(checked) == len(set(checked)) == len(own.drawn) == found.drawn
    assert found.drawn + found.unneeded == n * count
    full = ask_counted(own, kept, prompts(count), n, **HOW)
    assert len(own.drawn) == len(set(own.drawn)) == n * count
    assert [[s.text for s in samples] for samples in full.samples] == answers
    assert (full.reused, full.tokens_reused) == (found.drawn, found.tokens_drawn)


def test_a_larger_n_another_threshold_and_a_restart_draw_only_what_is_missing(tmp_path: Path) -> None:
    own = Scripted([["yes"] * 20, ["no"] * 20])
    assert ask_counted(own, store(tmp_path), prompts(2), 5, **HOW).drawn == 10
    more = ask_counted(own, store(tmp_path), prompts(2), 20, **HOW)
    assert (more.drawn, more.reused, more.unneeded) == (30, 10, 0)
    assert more.tokens_reused == 2 * sum(range(10, 15))
    assert more.tokens_drawn == 2 * sum(range(15, 30))
    fewer = ask_counted(own, store(tmp_path), prompts(2), 10, **HOW)
    assert (fewer.drawn, [len(s) for s in fewer.samples]) == (0, [10, 10])
    rule = decide(20, 18, 20).watch(lambda _, s: s.text == "yes")
    assert ask_counted(own, store(tmp_path), prompts(2), 20, decided=rule, **HOW).drawn == 0
    assert len(own.drawn) == len(set(own.drawn)) == 40


def test_what_is_saved_is_told(tmp_path: Path) -> None:
    own = Scripted([["no"] * 10])
    rule = decide(10, 9).watch(lambda _, s: s.text == "yes")
    found = ask_counted(own, store(tmp_path), prompts(1), 10, decided=rule, **HOW)
    assert (found.drawn, found.unneeded, found.tokens_drawn, found.tokens_unneeded) == (2, 8, 10 + 11, 84)


def test_equal_questions_are_asked_once(tmp_path: Path) -> None:
    own = Scripted([["a", "b"], ["c", "d"]])
    first, second = prompts(2)
    found = ask(own, store(tmp_path), [first, second, first], 2, **HOW)
    assert [[s.text for s in samples] for samples in found] == [["a", "b"], ["c", "d"], ["a", "b"]]
    assert len(own.drawn) == 4


@pytest.mark.parametrize(
    ("n", "temperature", "what"), [(0, 0.7, "n=0"), (-3, 0.7, "n=-3"), (2, 0.0, "2 samples at temperature 0")]
)
def test_senseless_numbers_are_refused(tmp_path: Path, n: int, temperature: float, what: str) -> None:
    kept = SampleStore(tmp_path, "scripted", temperature, 64)
    with pytest.raises(UserError) as caught:
        ask(Scripted([["a"]]), kept, prompts(1), n, temperature=temperature, max_tokens=64)
    assert what in caught.value.what
    assert caught.value.where.startswith("method.sampling.")
    assert caught.value.expected
    assert caught.value.fix
    assert not kept.path.exists()


def test_one_greedy_sample_is_fine(tmp_path: Path) -> None:
    kept = SampleStore(tmp_path, "scripted", 0, 64)
    assert ask(Scripted([["a"]]), kept, prompts(1), 1, temperature=0, max_tokens=64)[0][0].text == "a"


@pytest.mark.parametrize(("n", "thresholds"), [(10, (11,)), (10, (0,)), (10, ()), (0, (1,)), (10, (9, 11))])
def test_thresholds_that_decide_nothing_are_refused(n: int, thresholds: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="min_correct") as caught:
        EarlyStop(n, thresholds)
    assert caught.value.where == "method.sampling.min_correct"


def test_a_store_of_another_sampler_is_no_place_for_these(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="another sampler"):
        ask(Scripted([["a"]]), store(tmp_path, "other"), prompts(1), 1, **HOW)


def sample_all(folder: Path, pause: float = 0.0) -> list[list[Sample]]:
    """Eight samples of six questions by a toy model (random weights); `pause` before each batch of answers is told."""
    sampler = LocalSampler(*toy_model(), batch_size=4)
    tell = sampler._tell
    sampler._tell = lambda *args: (time.sleep(pause), tell(*args))[1]  # pyright: ignore[reportAttributeAccessIssue]
    questions = [Prompt((Message("user", "what is " + "9" * k),)) for k in range(1, 7)]
    kept = SampleStore(folder, sampler.key, 1.0, 8)
    return ask(sampler, kept, questions, 8, temperature=1.0, max_tokens=8)


def test_killed_and_started_again_no_finished_sample_is_drawn_twice(tmp_path: Path) -> None:
    code = "import sys, pathlib, test_early_stop as t; t.sample_all(pathlib.Path(sys.argv[1]), 0.1)"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    first = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "killed")], env=os.environ | {"PYTHONPATH": path}
    )
    until = time.monotonic() + 120
    lines = 0
    while lines < 12 and first.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
        lines = sum(file.read_bytes().count(b"\n") for file in (tmp_path / "killed").glob("*.jsonl"))
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    (file,) = (tmp_path / "killed").glob("*.jsonl")
    kept = file.read_bytes().rpartition(b"\n")[0].splitlines()
    assert 12 <= len(kept) < 1 + 48
    assert sample_all(tmp_path / "killed") == sample_all(tmp_path / "whole"), "as if it had never been killed"
    now = file.read_bytes().splitlines()
    assert now[: len(kept)] == kept
    assert len(now) == 1 + 48, "every sample once"
