"""Beams and one-pass ranking on tiny models: properties that hold without any other implementation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny_models import EOS, random_codes, random_prompts, tiny
from toolsavvy.decoding import Beams, ToolTrie, beam_search, free_atomic, rank_atomic, rank_both, to_ranking
from toolsavvy.decoding.atomic import top_k
from toolsavvy.retrieval.ranking import NO_TOOL, tie_ranks

VOCABULARY = 97
MODEL = tiny("llama", VOCABULARY)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 60), k=st.integers(1, 7), length=st.integers(1, 4))
def test_every_constrained_output_is_a_distinct_tool(seed: int, count: int, k: int, length: int) -> None:
    codes = random_codes(min(count, 9**length), VOCABULARY, length, seed)
    trie = ToolTrie.build(codes, EOS)
    prompts = random_prompts(3, VOCABULARY, seed)
    beams = beam_search(MODEL, prompts, k=k, max_new_tokens=trie.max_length, eos_id=EOS, trie=trie)
    ranking = to_ranking(beams, trie)
    live = np.isfinite(ranking.scores)
    assert live[:, : min(k, 1)].all()
    assert (ranking.indices[live] != NO_TOOL).all()
    assert (ranking.indices[~live] == NO_TOOL).all()
    for row, ok in zip(ranking.indices, live, strict=True):
        assert len(set(row[ok])) == ok.sum()
    assert (np.diff(np.where(live, ranking.scores, -1e9), axis=1) <= 0).all()


def test_beams_as_wide_as_the_catalog_rank_every_tool_by_its_likelihood() -> None:
    """With a beam for every prefix nothing is pruned, so scores are those of teacher forcing."""
    codes = random_codes(20, VOCABULARY)
    trie = ToolTrie.build(codes, EOS)
    prompt = [5, 6, 7, 8]
    ranking = to_ranking(beam_search(MODEL, [prompt], k=60, max_new_tokens=9, eos_id=EOS, trie=trie), trie)
    expected = np.array([_log_likelihood(prompt, [*code, EOS]) for code in codes])
    order = np.argsort(-expected)
    assert ranking.indices[0, :20].tolist() == order.tolist()
    np.testing.assert_allclose(ranking.scores[0, :20], expected[order], atol=1e-4)
    assert (ranking.indices[0, 20:] == NO_TOOL).all()


def _log_likelihood(prompt: list[int], target: list[int]) -> float:
    with torch.inference_mode():
        logp = MODEL(torch.tensor([prompt + target])).logits[0].log_softmax(-1)
    return sum(logp[len(prompt) - 1 + i, t].item() for i, t in enumerate(target))


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("family", ["llama", "gpt_neox", "qwen2"])
def test_a_prompt_alone_gives_what_it_gives_in_a_padded_batch(family: str, constrained: bool) -> None:
    model = tiny(family, VOCABULARY)
    trie = ToolTrie.build(random_codes(40, VOCABULARY), EOS)
    prompts = random_prompts(6, VOCABULARY, longest=20)

    def decode(some: list[list[int]], batch_size: int) -> Beams:
        mask = trie if constrained else None
        return beam_search(model, some, k=4, max_new_tokens=5, eos_id=EOS, trie=mask, batch_size=batch_size)

    together, alone = decode(prompts, 6), decode(prompts, 1)
    assert torch.equal(together.sequences, alone.sequences)
    torch.testing.assert_close(together.scores, alone.scores, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "qwen2"])
def test_a_start_that_all_prompts_share_is_read_once_and_changes_nothing(family: str) -> None:
    model, shared = tiny(family, VOCABULARY), list(range(20, 32))
    prompts = [shared + p for p in random_prompts(7, VOCABULARY)] + [shared]
    fed: list[int] = []
    model.get_input_embeddings().register_forward_hook(lambda _, args, __: fed.append(args[0].numel()))
    ranking = rank_atomic(model, prompts, list(range(40, 90)), 5, ids=[str(i) for i in range(50)], batch_size=3)
    assert sum(fed) < sum(map(len, prompts)) / 1.5
    free = free_atomic(model, prompts, 4, eos_id=EOS, batch_size=3)
    trie = ToolTrie.build(random_codes(40, VOCABULARY), EOS)
    held = beam_search(model, prompts, k=4, max_new_tokens=5, eos_id=EOS, trie=trie, batch_size=3)
    for i, prompt in enumerate(prompts):
        alone = rank_atomic(model, [prompt], list(range(40, 90)), 5, ids=[str(i) for i in range(50)])
        np.testing.assert_array_equal(ranking.indices[i], alone.indices[0])
        np.testing.assert_allclose(ranking.scores[i], alone.scores[0], atol=1e-4)
        assert torch.equal(free.sequences[i], free_atomic(model, [prompt], 4, eos_id=EOS).sequences[0])
        one = beam_search(model, [prompt], k=4, max_new_tokens=5, eos_id=EOS, trie=trie)
        assert torch.equal(held.sequences[i], one.sequences[0])
        torch.testing.assert_close(held.scores[i], one.scores[0], atol=1e-4, rtol=0)


def test_free_and_constrained_agree_where_the_free_output_is_a_tool() -> None:
    """The mask takes outputs away; it never changes the score of one that stays."""
    codes = random_codes(9, VOCABULARY, 1) + random_codes(60, VOCABULARY, 2)
    codes = list(dict.fromkeys(codes))
    trie = ToolTrie.build(codes, EOS)
    prompts = random_prompts(30, VOCABULARY)
    free = to_ranking(beam_search(MODEL, prompts, k=40, max_new_tokens=3, eos_id=EOS), trie)
    held = to_ranking(beam_search(MODEL, prompts, k=40, max_new_tokens=3, eos_id=EOS, trie=trie), trie)
    shared = 0
    for f, fs, h, hs in zip(free.indices, free.scores, held.indices, held.scores, strict=True):
        known = dict(zip(h, hs, strict=True))
        for tool, score in zip(f, fs, strict=True):
            if tool != NO_TOOL and tool in known:
                shared += 1
                assert score == pytest.approx(known[tool], abs=1e-4)
    assert shared > 0


def test_a_free_output_that_is_no_tool_keeps_its_rank() -> None:
    trie = ToolTrie.build([(4,), (5, 6)], EOS)
    sequences = torch.tensor([[[7, EOS, -1], [5, 6, EOS], [5, EOS, -1], [5, 6, 9], [4, EOS, -1]]])
    scores = torch.tensor([[-0.5, -1.0, -2.0, -3.0, -torch.inf]])
    ranking = to_ranking(Beams(sequences, scores), trie)
    assert ranking.indices.tolist() == [[NO_TOOL, 1, NO_TOOL, NO_TOOL, NO_TOOL]]


def test_equal_beam_scores_come_in_descending_order_of_id() -> None:
    trie = ToolTrie.build([(4,), (5,), (6,)], EOS)
    beams = Beams(torch.tensor([[[4, EOS], [5, EOS], [6, EOS]]]), torch.tensor([[-1.0, -1.0, -1.0]]))
    assert to_ranking(beams, trie, ids=["b", "c", "a"]).indices.tolist() == [[1, 0, 2]]


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "qwen2"])
def test_free_atomic_is_free_beam_search_of_two_tokens(family: str) -> None:
    model = tiny(family, VOCABULARY)
    model.resize_token_embeddings(VOCABULARY + 50)
    prompts = random_prompts(7, VOCABULARY, longest=14)
    fast = free_atomic(model, prompts, 6, eos_id=EOS, batch_size=4)
    slow = beam_search(model, prompts, k=6, max_new_tokens=2, eos_id=EOS, batch_size=4)
    assert torch.equal(fast.sequences, slow.sequences)
    torch.testing.assert_close(fast.scores, slow.scores, atol=1e-4, rtol=0)


def test_free_atomic_is_exact_where_attention_takes_no_mask_of_ours() -> None:
    """Sliding windows keep a shorter cache: the shared prefix must not be used there."""
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, initializer_range=0.4, sliding_window=4,
    )  # fmt: skip
    model = MistralForCausalLM(config).eval()
    prompts = random_prompts(5, VOCABULARY, longest=12)
    fast = free_atomic(model, prompts, 4, eos_id=EOS)
    slow = beam_search(model, prompts, k=4, max_new_tokens=2, eos_id=EOS)
    assert torch.equal(fast.sequences, slow.sequences)


def test_both_rankings_from_one_reading_are_those_of_two() -> None:
    model = tiny("llama")
    prompts, tokens = random_prompts(7, 97, seed=3), list(range(20, 50))
    ids = [str(t) for t in tokens]
    alone = rank_atomic(model, prompts, tokens, 5, ids=ids, batch_size=3)
    free = free_atomic(model, prompts, 5, eos_id=EOS, batch_size=3)
    both, free_too = rank_both(model, prompts, tokens, 5, ids=ids, eos_id=EOS, batch_size=3)
    np.testing.assert_array_equal(both.indices, alone.indices)
    np.testing.assert_allclose(both.scores, alone.scores, atol=1e-6)
    assert torch.equal(free_too.sequences, free.sequences)
    empty, none = rank_both(model, [], tokens, 5, ids=ids, eos_id=EOS)
    assert empty.indices.shape == (0, 5) and none.sequences.shape[0] == 0


def test_one_pass_equals_beams_over_the_trie() -> None:
    tokens = list(range(40, 90))
    ids = [f"tool {i}" for i in range(50)]
    prompts = random_prompts(5, VOCABULARY)
    ranking = rank_atomic(MODEL, prompts, tokens, 5, ids=ids)
    trie = ToolTrie.build([(t,) for t in tokens], EOS)
    beams = beam_search(MODEL, prompts, k=5, max_new_tokens=1, eos_id=EOS, trie=trie)
    assert (beams.sequences[:, :, 0].numpy() - 40 == ranking.indices).all()
    np.testing.assert_allclose(ranking.scores, beams.scores.numpy(), atol=1e-5)


def test_one_pass_through_an_adapter_and_back_to_training_mode() -> None:
    from peft import LoraConfig, get_peft_model

    model = tiny("llama", VOCABULARY, seed=3)
    plain = rank_atomic(model, [[5, 6]], [40, 41, 42], 9, ids=["a", "b", "c"])
    wrapped = get_peft_model(model, LoraConfig(target_modules=["q_proj"], lora_dropout=0.5)).train()
    adapted = rank_atomic(wrapped, [[5, 6]], [40, 41, 42], 9, ids=["a", "b", "c"])
    assert plain.indices.shape == (1, 3), "no more ranks than tools"
    np.testing.assert_array_equal(plain.indices, adapted.indices)
    np.testing.assert_allclose(plain.scores, adapted.scores, atol=1e-6)
    assert wrapped.training


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 12), st.randoms(use_true_random=False))
def test_top_k_keeps_the_tie_rule_across_the_cut(values: list[int], k: int, rng: object) -> None:
    ids = [f"id{i:02d}" for i in range(len(values))]
    rng.shuffle(ids)  # type: ignore[attr-defined]
    k = min(k, len(values))
    indices, scores = top_k(torch.tensor([values], dtype=torch.float32), k, tie_ranks(ids))
    expected = sorted(range(len(values)), key=lambda i: (values[i], ids[i]), reverse=True)[:k]
    assert indices[0].tolist() == expected
    assert scores[0].tolist() == [values[i] for i in expected]


def test_no_prompts_and_empty_prompts() -> None:
    trie = ToolTrie.build([(4,)], EOS)
    assert beam_search(MODEL, [], k=2, max_new_tokens=2, eos_id=EOS, trie=trie).scores.shape == (0, 2)
    assert rank_atomic(MODEL, [], [4], 1, ids=["a"]).indices.shape == (0, 1)
    with pytest.raises(ValueError, match="empty prompt"):
        rank_atomic(MODEL, [[]], [4], 1, ids=["a"])
