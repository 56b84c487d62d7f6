"""Option likelihoods against the plainest forward loop with log_softmax, one sequence at a time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from tiny_models import random_prompts, tiny
from toolsavvy.decoding import options as module
from toolsavvy.decoding.options import ending_scores, next_token_scores, option_likelihoods
from toolsavvy.models.tuning import Tuning
from world import toy_set, toy_tools

VOCABULARY = 97
FAMILIES = ["llama", "gpt_neox", "qwen2"]


@torch.no_grad()
def after(model: Any, ids: list[int]) -> torch.Tensor:
    """Log-probabilities [time, vocabulary] of what follows each token."""
    return model(torch.tensor([ids])).logits[0].double().log_softmax(-1)


def mean_log_probability(model: Any, prompt: list[int], option: list[int]) -> float:
    scores = after(model, prompt + option)
    return float(np.mean([scores[len(prompt) - 1 + i, token] for i, token in enumerate(option)]))


def world(seed: int, n: int = 7, width: int = 4) -> tuple[list[list[int]], list[list[list[int]]]]:
    """Prompts, some with a long common start, and options of one to six tokens."""
    rng = random.Random(seed)
    common = [rng.randrange(3, VOCABULARY) for _ in range(6 * (seed % 2))]
    prompts = [common + p for p in random_prompts(n, VOCABULARY, seed)]
    return prompts, [random_prompts(width, VOCABULARY, 100 * seed + i, longest=6) for i in range(n)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_likelihoods_are_those_of_a_plain_loop(family: str, seed: int) -> None:
    model = tiny(family, VOCABULARY)
    prompts, options = world(seed)
    expected = [[mean_log_probability(model, p, o) for o in own] for p, own in zip(prompts, options, strict=True)]
    np.testing.assert_allclose(option_likelihoods(model, prompts, options), expected, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_next_tokens_and_endings_are_those_of_a_plain_loop(family: str) -> None:
    model, tokens = tiny(family, VOCABULARY), [5, 9, 44]
    prompts, endings = world(1)
    expected = [after(model, p)[-1, tokens].tolist() for p in prompts]
    np.testing.assert_allclose(next_token_scores(model, prompts, tokens), expected, atol=1e-5)
    both = zip(prompts, endings, strict=True)
    expected = [[after(model, p + e)[-1, tokens].tolist() for e in own] for p, own in both]
    np.testing.assert_allclose(ending_scores(model, prompts, endings, tokens), expected, atol=1e-5)


def test_what_stands_beside_a_prompt_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of any size, in any order, and alone."""
    model = tiny()
    prompts, options = world(1, n=9)
    whole = option_likelihoods(model, prompts, options)
    alone = [option_likelihoods(model, [p], [o])[0] for p, o in zip(prompts, options, strict=True)]
    np.testing.assert_allclose(whole, alone, atol=1e-5)
    np.testing.assert_allclose(option_likelihoods(model, prompts[::-1], options[::-1])[::-1], whole, atol=1e-5)
    sizes: list[int] = []
    real = module.Decoder
    monkeypatch.setattr(module, "Decoder", lambda m, p, s: sizes.append(len(p)) or real(m, p, s))
    monkeypatch.setattr(module, "CACHED_TOKENS", 200)
    monkeypatch.setattr(module, "SCORED_TOKENS", 60)
    np.testing.assert_allclose(option_likelihoods(model, prompts, options), whole, atol=1e-5)
    assert len(sizes) > 2
    assert max(sizes) > 1


def test_a_wrapped_model_with_its_new_rows_and_both_precisions() -> None:
    data = toy_set(6)
    tools = toy_tools(data, tuning=Tuning("lora", 4, 8.0))
    with torch.no_grad():
        for name, parameter in tools.model.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))))
    prompts = [tools.frame.wrap([*code, *tools.text.encode(" What?")]) for code in tools.codes]
    options = [[tools.text.encode(t.name), list(tools.codes[0]), [7]] for t in data.catalog.tools]
    expected = [[mean_log_probability(tools.model, p, o) for o in own] for p, own in zip(prompts, options, strict=True)]
    tools.model.train()
    found = option_likelihoods(tools.model, prompts, options)
    assert tools.model.training
    np.testing.assert_allclose(found, expected, atol=1e-5)
    rough = option_likelihoods(tools.model, prompts, options, precision="bf16")
    assert not np.array_equal(rough, found)
    np.testing.assert_allclose(rough, found, rtol=0.05)


@pytest.mark.parametrize(
    ("prompts", "options", "match"),
    [
        ([[]], [[[1]]], "empty prompt"),
        ([[1]], [[[]]], "empty option"),
        ([[1], [2]], [[[1]], [[1], [2]]], "as many options"),
        ([[1], [2]], [[[1]]], "2 prompts"),
    ],
)
def test_nonsense_is_refused(prompts: Any, options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        option_likelihoods(tiny(), prompts, options)


def test_nothing_asked_is_nothing_answered() -> None:
    assert option_likelihoods(tiny(), [], []).shape == (0, 0)
    assert next_token_scores(tiny(), [], [3]).shape == (0, 1)
