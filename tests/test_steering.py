"""Steering: exactly alpha times the vector at exactly the named positions, and the model as it was afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tiny_models import random_prompts, tiny
from toolsavvy.decoding.prefill import Decoder, common_start
from toolsavvy.decoding.steering import Push, Written, answers, random_directions, scale_of, steering

IDS = torch.tensor([[5, 9, 11, 4], [7, 3, 8, 6]])
ENDS = list(range(2, 97, 6))
VECTOR = np.random.default_rng(0).standard_normal(32).astype(np.float32)


def states(model: Any, ids: torch.Tensor = IDS) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        return model(ids, output_hidden_states=True).hidden_states


def by_hand(model: Any, hidden: torch.Tensor, start: int) -> torch.Tensor:
    """Logits when the blocks from `start` on and the head go on from states (llama)."""
    base = model.model
    positions = torch.arange(hidden.shape[1])[None]
    rotary = base.rotary_emb(hidden, position_ids=positions)
    with torch.no_grad():
        for block in base.layers[start:]:
            out = block(hidden, position_embeddings=rotary, position_ids=positions, attention_mask=None)
            hidden = out if isinstance(out, torch.Tensor) else out[0]
        return model.lm_head(base.norm(hidden))


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("where", ["answer", "all"])
def test_what_is_added_is_alpha_times_the_vector_at_the_named_positions_alone(layer: int, where: Any) -> None:
    model = tiny()
    taken: list[torch.Tensor] = []
    model.model.layers[0].register_forward_pre_hook(lambda _m, args: taken.append(args[0]))
    for block in model.model.layers:
        block.register_forward_hook(lambda _m, _i, out: taken.append(out))
    plain = model(IDS)
    hidden = taken[layer].clone()
    where_added = slice(None) if where == "all" else slice(-1, None)
    hidden[:, where_added] += 1.5 * torch.from_numpy(VECTOR)
    with torch.no_grad(), steering(model, layer, VECTOR, 1.5, where=where):
        steered = model(IDS).logits
    np.testing.assert_allclose(steered.numpy(), by_hand(model, hidden, layer).numpy(), atol=2e-5)
    assert not torch.allclose(steered, plain.logits, atol=1e-2)
    if where == "answer":
        assert torch.equal(steered[:, :-1], plain.logits[:, :-1])
    assert torch.equal(model(IDS).logits, plain.logits)  # the hook is gone


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt_neox"])
def test_every_family_and_every_row_of_a_batch(family: str) -> None:
    model = tiny(family)
    vectors = np.stack([VECTOR, -2 * VECTOR])
    together = torch.stack(
        [_steered(model, IDS[i : i + 1], v, a)[0] for i, (v, a) in enumerate(zip(vectors, (0.5, 3), strict=True))]
    )
    np.testing.assert_allclose(_steered(model, IDS, vectors, [0.5, 3]).numpy(), together.numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="2 shifts for a batch of 1"), steering(model, 1, vectors, 1.0):
        model(IDS[:1])
    assert not model(IDS[:1]).logits.isnan().any()


def _steered(model: Any, ids: torch.Tensor, vector: Any, alpha: Any) -> torch.Tensor:
    with torch.no_grad(), steering(model, 1, vector, alpha):
        return model(ids).logits


def test_in_bf16_the_sum_is_rounded_once() -> None:
    model = tiny().bfloat16()
    taken: list[torch.Tensor] = []
    with torch.no_grad():
        model.model.layers[0].register_forward_hook(lambda _m, _i, out: taken.append(out))
        model(IDS)
        with steering(model, 1, VECTOR, 0.3):
            model.model.layers[0].register_forward_hook(lambda _m, _i, out: taken.append(out))  # after the steering
            model(IDS)
    wanted = (taken[0].float()[:, -1] + torch.tensor(0.3) * torch.from_numpy(VECTOR)).bfloat16()
    assert torch.equal(taken[-1][:, -1], wanted)
    assert taken[-1].dtype == torch.bfloat16


def test_an_adapted_model_is_steered_like_the_merged_one() -> None:
    from peft import LoraConfig, get_peft_model

    wrapped: Any = get_peft_model(tiny(), LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, weight in wrapped.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, 0.3)
    wrapped.eval()
    steered = _steered(wrapped, IDS, VECTOR, 2.0)
    merged = wrapped.merge_and_unload()
    np.testing.assert_allclose(steered.numpy(), _steered(merged, IDS, VECTOR, 2.0).numpy(), atol=1e-4)
    assert not np.allclose(steered.numpy(), merged(IDS).logits.detach().numpy(), atol=1e-2)


def test_hooks_go_even_when_the_block_breaks() -> None:
    model = tiny()
    before = model(IDS).logits
    with pytest.raises(RuntimeError, match="boom"), steering(model, 0, VECTOR), steering(model, 2, VECTOR):
        raise RuntimeError("boom")
    assert torch.equal(model(IDS).logits, before)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("alpha", [0.0, -0.0, [0, 0]])
def test_alpha_zero_installs_nothing(alpha: Any) -> None:
    model = tiny()
    before = model(IDS).logits
    with steering(model, 1, VECTOR, alpha):
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        assert torch.equal(model(IDS).logits, before)


def test_a_row_with_alpha_zero_is_exactly_unsteered_in_a_batch_that_is() -> None:
    model = tiny()
    with torch.no_grad():
        assert torch.equal(_steered(model, IDS, VECTOR, [0, 4.0])[0], model(IDS).logits[0])


@pytest.mark.parametrize(
    ("layer", "vector", "alpha", "message"),
    [
        (3, VECTOR, 1.0, "layer 3 of a model with 2 blocks"),
        (-1, VECTOR, 1.0, "layer -1"),
        (1, VECTOR[:5], 1.0, "5 numbers for a model of width 32"),
        (1, VECTOR * np.nan, 1.0, "NaN"),
        (1, VECTOR, np.inf, "infinity"),
        (1, np.stack([VECTOR] * 3), [1, 2], "2 factors for 3"),
    ],
)
def test_what_cannot_be_added_is_refused_before_anything_runs(
    layer: int, vector: np.ndarray, alpha: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message), steering(tiny(), layer, vector, alpha):
        pytest.fail("entered")


def heard_by(model: Any, prompts: list[list[int]], pushes: list[Push], **how: Any) -> dict[tuple[int, int], Written]:
    found: dict[tuple[int, int], Written] = {}
    answers(
        model,
        prompts,
        pushes,
        1,
        max_tokens=6,
        ends=ENDS,
        heard=lambda w: found.update({(w.prompt, w.push): w}),
        **how,
    )
    return found


@pytest.mark.parametrize("where", ["answer", "all"])
@pytest.mark.parametrize("rows", [1, 5, 64])
def test_answers_equal_generate_under_the_same_hook_prompt_by_prompt(where: Any, rows: int) -> None:
    """Shared prompts, pushes of several directions in one batch and rows that leave change no token."""
    model = tiny(seed=3)
    prompts = [[9, 8, 7, 6, 5, *p] for p in random_prompts(5, 97, seed=1)]
    pushes = [Push("x", VECTOR, a) for a in (0.0, 1.0, -2.0)] + [Push("y", VECTOR[::-1].copy(), 1.5)]
    found = heard_by(model, prompts, pushes, where=where, rows=rows)
    assert set(found) == {(i, j) for i in range(5) for j in range(4)}
    lengths = set()
    for (i, j), written in found.items():
        with torch.no_grad(), steering(model, 1, pushes[j].vector, pushes[j].alpha, where=where):
            ids = torch.tensor([prompts[i]])
            how: Any = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": ENDS}
            out = model.generate(ids, attention_mask=torch.ones_like(ids), **how)
        tokens = out[0, len(prompts[i]) :].tolist()
        end = next((k for k, token in enumerate(tokens) if token in ENDS), None)
        assert written.finished == (end is not None)
        assert list(written.tokens) == tokens[:end]
        lengths.add(len(written.tokens))
    assert len(lengths) > 1, "no row left its batch early: the test shows nothing"
    assert len({found[0, j].tokens for j in range(4)}) > 1


def test_a_prompt_of_one_token_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than two tokens"):
        heard_by(tiny(), [[4]], [Push("x", VECTOR, 1.0)])


def test_the_scale_is_the_median_norm_and_one_huge_or_missing_state_moves_it_not() -> None:
    lines = np.eye(4, dtype=np.float32) * np.array([1, 2, 3, 1e6])[:, None]
    assert scale_of(np.vstack([lines, np.full((1, 4), np.nan)])) == 2.5
    with pytest.raises(ValueError, match="no finite state"):
        scale_of(np.full((2, 4), np.nan))


def test_random_directions_have_the_norm_and_are_the_same_for_any_number() -> None:
    drawn = random_directions(VECTOR, 5, seed=4)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), np.linalg.norm(VECTOR), rtol=1e-5)
    np.testing.assert_allclose(drawn @ VECTOR, 0, atol=1e-4)
    np.testing.assert_array_equal(drawn[:2], random_directions(VECTOR, 2, seed=4))
    assert np.abs(random_directions(VECTOR, 5, seed=4, orthogonal=False) @ VECTOR).max() > 0.1
    assert not np.allclose(drawn, random_directions(VECTOR, 5, seed=5))
    with pytest.raises(ValueError, match="norm 0"):
        random_directions(VECTOR * 0, 1)


def test_a_pass_that_reads_what_prompts_share_is_left_alone() -> None:
    """Its last token is no prompt's last; whoever prefills prompts under steering must get each prompt's own logits."""
    model = tiny()
    prompts = [[9, 8, 7, 6, 5, *rest] for rest in ([3, 4], [11], [12, 13, 14])]
    with torch.no_grad(), steering(model, 1, VECTOR, 2.0):
        start = common_start(model, prompts)
        assert start is not None
        together = Decoder(model, prompts, start).logits
        alone = torch.cat([model(torch.tensor([ids])).logits[:, -1] for ids in prompts])
    np.testing.assert_allclose(together.numpy(), alone.numpy(), atol=1e-4)
