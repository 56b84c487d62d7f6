"""Our beams against `transformers.generate`, the oracle.

`length_penalty=0` makes a score the plain sum, as ours. `early_stopping` must be False or "never": both go on until no
running beam can beat the worst finished one, which is exact for sums of log-probabilities. True would stop as soon as k
beams have ended and could return a shorter, worse code while a better one is still running.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tiny_models import EOS, allowed_after, random_codes, random_prompts, tiny
from toolsavvy.decoding import ToolTrie, beam_search, free_atomic, rank_atomic

VOCABULARY = 97
FAMILIES = ["llama", "gpt_neox", "qwen2"]
Outputs = list[list[tuple[list[int], float]]]


def generate(
    model: Any, prompts: list[list[int]], k: int, steps: int, codes: list[tuple[int, ...]] | None, stopping: bool | str
) -> Outputs:
    """(new tokens, score) per prompt, best first; beams that stand for nothing (-1e9 or less) are dropped."""
    longest = max(map(len, prompts))
    inputs = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    constraint = {}
    if codes is not None:
        constraint["prefix_allowed_tokens_fn"] = lambda _, ids: allowed_after(codes, ids[longest:].tolist())
    out = model.generate(
        inputs, attention_mask=mask, num_beams=k, num_return_sequences=k, max_new_tokens=steps, do_sample=False,
        length_penalty=0.0, early_stopping=stopping, eos_token_id=EOS, pad_token_id=0, return_dict_in_generate=True,
        output_scores=True, **constraint,
    )  # fmt: skip
    rows = [until_end(s[longest:].tolist()) for s in out.sequences]
    pairs = list(zip(rows, out.sequences_scores.tolist(), strict=True))
    return [[p for p in pairs[i * k : (i + 1) * k] if p[1] > -1e8] for i in range(len(prompts))]


def ours(model: Any, prompts: list[list[int]], k: int, steps: int, trie: ToolTrie | None) -> Outputs:
    beams = beam_search(model, prompts, k=k, max_new_tokens=steps, eos_id=EOS, trie=trie)
    return [
        [(until_end(s.tolist()), v.item()) for s, v in zip(ss, vs, strict=True) if v > -1e8]
        for ss, vs in zip(beams.sequences, beams.scores, strict=True)
    ]


def until_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else [t for t in tokens if t >= 0]


def assert_same(left: Outputs, right: Outputs) -> None:
    for one, other in zip(left, right, strict=True):
        assert [s for s, _ in one] == [s for s, _ in other]
        np.testing.assert_allclose([v for _, v in one], [v for _, v in other], atol=1e-4)


@pytest.mark.parametrize("stopping", [False, "never"])
@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("family", FAMILIES)
def test_constrained_beams_and_scores(family: str, k: int, stopping: bool | str) -> None:
    model, codes = tiny(family, VOCABULARY), random_codes(80, VOCABULARY, 4, seed=k)
    trie = ToolTrie.build(codes, EOS)
    prompts = random_prompts(4, VOCABULARY, seed=k)
    theirs = generate(model, prompts, k, trie.max_length, codes, stopping) if k > 1 else None
    mine = ours(model, prompts, k, trie.max_length, trie)
    assert_same(mine, theirs or greedy(model, prompts, codes, trie.max_length))


def greedy(model: Any, prompts: list[list[int]], codes: list[tuple[int, ...]], steps: int) -> Outputs:
    """`generate` with one beam is greedy search and returns no scores: followed here by hand."""
    results: Outputs = []
    for prompt in prompts:
        new, score = [], 0.0
        while EOS not in new and len(new) < steps:
            with torch.inference_mode():
                logp = model(torch.tensor([prompt + new])).logits[0, -1].log_softmax(-1)
            token = max(allowed_after(codes, new), key=lambda t: logp[t].item())
            new.append(token)
            score += logp[token].item()
        results.append([(new, score)])
    return results


@pytest.mark.parametrize("family", FAMILIES)
def test_free_beams_and_scores(family: str) -> None:
    model, prompts = tiny(family, VOCABULARY), random_prompts(5, VOCABULARY)
    for steps in (2, 5):
        assert_same(ours(model, prompts, 5, steps, None), generate(model, prompts, 5, steps, None, False))


def test_a_catalog_smaller_than_the_beam() -> None:
    model, codes = tiny(vocabulary=VOCABULARY), random_codes(3, VOCABULARY, 3)
    trie = ToolTrie.build(codes, EOS)
    theirs = generate(model, [[5, 6, 7]], 6, trie.max_length, codes, False)
    assert_same(ours(model, [[5, 6, 7]], 6, trie.max_length, trie), theirs)
    assert len(theirs[0]) == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_one_pass_is_generate_with_one_new_token(family: str) -> None:
    model, prompts = tiny(family, VOCABULARY), random_prompts(6, VOCABULARY)
    tokens = list(range(30, VOCABULARY))
    ranking = rank_atomic(model, prompts, tokens, 5, ids=[str(t) for t in tokens])
    theirs = generate(model, prompts, 5, 1, [(t,) for t in tokens], False)
    assert [[tokens[i] for i in row] for row in ranking.indices] == [[s[0] for s, _ in row] for row in theirs]
    np.testing.assert_allclose(ranking.scores, [[v for _, v in row] for row in theirs], atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_free_atomic_is_generate_with_two_new_tokens(family: str) -> None:
    model, prompts = tiny(family, VOCABULARY), random_prompts(6, VOCABULARY)
    beams = free_atomic(model, prompts, 5, eos_id=EOS)
    mine = [
        [(until_end(s.tolist()), v.item()) for s, v in zip(ss, vs, strict=True)]
        for ss, vs in zip(beams.sequences, beams.scores, strict=True)
    ]
    assert_same(mine, generate(model, prompts, 5, 2, None, False))
