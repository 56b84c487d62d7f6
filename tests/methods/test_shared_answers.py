from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from toolsavvy.methods.shared_answers import SharedAnswers
from toolsavvy.models.digest import weights_digest
from toolsavvy.models.tuning import Tuning, adapt, plain
from world import toy_set, toy_tools

DATA = toy_set(12)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))


def test_answers_come_back_for_the_same_model_facts_and_questions_alone() -> None:
    first = SharedAnswers("model", ("facts",))
    first.save("questions", {"yes": np.array([0.25, -1.0])})
    again = SharedAnswers("model", ("facts",)).load("questions")
    assert again is not None
    assert again["yes"].tolist() == [0.25, -1.0]
    assert SharedAnswers("other", ("facts",)).load("questions") is None
    assert SharedAnswers("model", ("others",)).load("questions") is None
    assert first.load("others") is None


def test_a_torn_file_is_no_answer() -> None:
    shared = SharedAnswers("model", ())
    shared.save("questions", {"yes": np.zeros(3)})
    path = shared.path("questions")
    path.write_bytes(path.read_bytes()[:60])
    assert shared.load("questions") is None


def test_adapters_change_no_digest_before_training_and_weights_do() -> None:
    bare = weights_digest(plain(toy_tools(DATA).model))
    tools = adapt(toy_tools(DATA), Tuning("lora", 4, 8.0, 0.0, "all-linear"), seed=3)
    assert weights_digest(plain(tools.model)) == bare
    with torch.no_grad():
        next(p for n, p in plain(tools.model).named_parameters() if "lora_" not in n and p.ndim == 2)[0, 0] += 1
    assert weights_digest(plain(tools.model)) != bare
