from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_blocks import build

from toolsavvy.errors import UserError
from toolsavvy.hidden.blocks import backbone, blocks
from toolsavvy.hidden.capture import capture
from toolsavvy.hidden.layout import sidecar
from toolsavvy.hidden.states import States, open_states
from toolsavvy.models.loading import toy_model
from toolsavvy.models.prompts import Rendered

TOLERANCE = {"rtol": 1e-4, "atol": 2e-5}


def rendered(count: int, *, start: int = 0, shortest: int = 3, longest: int = 14, seed: int = 0) -> list[Rendered]:
    """Prompts of mixed lengths that may share their first tokens; a question ends up to two tokens before the end."""
    rng = np.random.default_rng(seed)
    common = rng.integers(3, 97, start).tolist()
    rests = [rng.integers(3, 97, rng.integers(shortest, longest + 1)).tolist() for _ in range(count)]
    return [Rendered((*common, *rest), start + len(rest) - int(rng.integers(0, 3))) for rest in rests]


@torch.inference_mode()
def oracle(model: Any, prompts: Sequence[Rendered], positions: int) -> dict[str, np.ndarray]:
    """By kind [layer, position, item, d], one prompt at a time and without padding; the last layer before the norm."""
    out = {}
    for kind in ("prompt", "question"):
        rows = []
        for prompt in prompts:
            last: list[Any] = []
            hook = blocks(model)[-1].register_forward_hook(lambda *a, last=last: last.append(a[-1]))
            ids = torch.tensor([prompt.ids])
            states = backbone(model)(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
            hook.remove()
            last = [x[0] if isinstance(x, tuple) else x for x in last]
            stacked = torch.stack([*states[:-1], last[0]])[:, 0]  # theirs ends after the final norm
            end = len(prompt.ids) if kind == "prompt" else prompt.question_end
            row = torch.full((len(stacked), positions, stacked.shape[-1]), float("nan"))
            for back in range(1, min(positions, end) + 1):
                row[:, -back] = stacked[:, end - back]
            rows.append(row)
        out[kind] = torch.stack(rows, 2).numpy()
    return out


def assert_equal_to(states: States, expected: dict[str, np.ndarray], **tolerance: float) -> None:
    positions = next(iter(expected.values())).shape[1]
    for i, cell in enumerate(states.cells):
        found = states.read(i)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected[cell.of][cell.layer, positions + cell.position], **tolerance)


@pytest.mark.parametrize("family", ["gemma", "gemma2", "gemma3", "gemma4", "gpt2", "llama", "neox", "qwen2", "qwen3"])
@pytest.mark.parametrize("padding", ["right", "left"])
def test_states_equal_the_librarys_at_every_layer_and_position(family: str, padding: Any, tmp_path: Path) -> None:
    model, prompts = build(family), rendered(7, start=6)
    expected = oracle(model, prompts, 5)
    states = capture(model, prompts, tmp_path / "a", positions=5, dtype="float32", padding=padding, batch_size=3)
    assert len(states) == 7
    assert len(states.cells) == 2 * 4 * 5
    assert_equal_to(states, expected, **TOLERANCE)


@pytest.mark.parametrize("settings", [
    {"batch_size": 1}, {"batch_size": 2}, {"batch_tokens": 1}, {"batch_tokens": 40, "padding": "left"},
    {"share_start": False}, {"share_start": False, "padding": "left"},
])  # fmt: skip
def test_batches_padding_and_the_shared_start_do_not_matter(settings: dict[str, Any], tmp_path: Path) -> None:
    model, prompts = build("llama"), rendered(9, start=8, seed=1)
    expected = oracle(model, prompts, 4)
    assert_equal_to(
        capture(model, prompts, tmp_path / "a", positions=4, dtype="float32", **settings), expected, **TOLERANCE
    )


def test_what_all_prompts_start_with_is_run_once(tmp_path: Path) -> None:
    model, prompts = build("llama"), rendered(9, start=30, shortest=6)
    with counted(model) as tokens:
        capture(model, prompts, tmp_path / "a", positions=4, batch_size=1)
    shared = 30  # the wanted tokens all stand behind it
    assert sum(tokens) == shared + sum(len(p.ids) - shared for p in prompts)


def test_short_prompts_have_missing_positions(tmp_path: Path) -> None:
    model = build("qwen2")
    prompts = [Rendered((5, 6), 1), *rendered(3), Rendered((7,), 1)]
    states = capture(model, prompts, tmp_path / "a", positions=6, dtype="float32")
    expected = oracle(model, prompts, 6)
    assert np.isnan(expected["prompt"][:, 0, 0]).all()
    assert_equal_to(states, expected, **TOLERANCE)


def test_float16_files_are_as_near_as_float16_goes(tmp_path: Path) -> None:
    model, prompts = build("llama"), rendered(5)
    assert_equal_to(
        capture(model, prompts, tmp_path / "a", positions=3), oracle(model, prompts, 3), rtol=1e-3, atol=1e-4
    )


def test_states_beyond_float16_stay_finite_and_exact_to_float16(tmp_path: Path) -> None:
    model, prompts = build("llama"), rendered(5, shortest=6)
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[3] *= 1e9  # an outlier dimension, as large models have
    expected = oracle(model, prompts, 3)
    assert np.abs(expected["prompt"][2]).max() > 1e5
    states = capture(model, prompts, tmp_path / "a", positions=3)
    for i, cell in enumerate(states.cells):
        found, truth = states.read(i), expected[cell.of][cell.layer, 3 + cell.position]
        # Half a unit in float16's last place, also below its normal range, after the largest entry was brought to 2^15.
        scale = np.maximum(1, np.abs(truth).max(1, keepdims=True) / 2**14)
        assert (
            np.abs(found - truth) <= 2.0**-11 * np.abs(truth) + 2.0**-25 * scale + 1e-5 * np.abs(truth) + 1e-6
        ).all()
    plain = np.load(states.path, mmap_mode="r")
    assert plain.shape == (2, 4, 3, 5, 32)
    assert np.isfinite(plain).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_states_that_are_not_finite_name_prompt_and_layer(value: float, batch_size: int, tmp_path: Path) -> None:
    model = build("llama")
    prompts = [Rendered((5, 6, 7, last), 4) for last in (10, 11, 96, 12)]
    seen: list[torch.Tensor] = []

    def spoil(module: Any, args: Any, states: torch.Tensor) -> torch.Tensor:
        """Block 2 fails wherever token 96 was read."""
        return states.masked_fill((seen[-1] == 96)[..., None], value)

    backbone(model).register_forward_pre_hook(lambda m, a, kw: seen.append(kw["input_ids"]), with_kwargs=True)
    blocks(model)[1].register_forward_hook(spoil)
    with pytest.raises(UserError) as caught:
        capture(model, prompts, tmp_path / "a", positions=3, names=["a", "b", "c", "d"], batch_size=batch_size)
    assert "'c'" in caught.value.what
    assert "layer 2" in caught.value.what
    assert caught.value.fix
    with pytest.raises(UserError, match="cut off"):
        open_states(tmp_path / "a")


def test_adapters_change_the_states_and_are_looked_through(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    prompts = rendered(4)
    before = capture(build("llama"), prompts, tmp_path / "a", positions=2, dtype="float32")
    wrapped: Any = get_peft_model(
        build("llama"), LoraConfig(target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    ).eval()
    after = capture(wrapped, prompts, tmp_path / "b", positions=2, dtype="float32")
    assert_equal_to(after, oracle(wrapped, prompts, 2), **TOLERANCE)
    assert not np.allclose(before.read(6), after.read(6), atol=1e-3)
    assert before.layout.model != after.layout.model


def test_chosen_layers_end_the_pass_early(tmp_path: Path) -> None:
    model, prompts = build("llama"), rendered(4)
    ran: list[int] = []
    hook = blocks(model)[2].register_forward_hook(lambda *a: ran.append(1))
    states = capture(
        model,
        prompts,
        tmp_path / "a",
        positions=2,
        layers=[2, 0],
        kinds=["question"],
        dtype="float32",
        share_start=False,
    )
    hook.remove()
    assert not ran
    assert [(c.layer, c.position, c.of) for c in states.cells] == [
        (layer, position, "question") for layer in (0, 2) for position in (-2, -1)
    ]
    assert_equal_to(states, oracle(model, prompts, 2), **TOLERANCE)


def test_a_model_in_training_mode_is_captured_without_dropout_and_left_as_it_was(tmp_path: Path) -> None:
    model, prompts = build("gpt2"), rendered(3)
    expected = oracle(model, prompts, 2)
    model.train()
    before = hooks_on(model)
    assert_equal_to(capture(model, prompts, tmp_path / "a", positions=2, dtype="float32"), expected, **TOLERANCE)
    assert model.training
    assert hooks_on(model) == before


def hooks_on(model: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_bfloat16_products_are_near_and_are_another_file(tmp_path: Path) -> None:
    model, prompts = build("llama"), rendered(4)
    states = capture(model, prompts, tmp_path / "a", positions=2, precision="bf16")
    assert_equal_to(states, oracle(model, prompts, 2), rtol=0.1, atol=0.05)
    with pytest.raises(UserError, match="precision"):
        capture(model, prompts, tmp_path / "a", positions=2)


@contextmanager
def counted(model: Any) -> Iterator[list[int]]:
    """Tokens that go through the first block."""
    tokens: list[int] = []
    hook = blocks(model)[0].register_forward_pre_hook(
        lambda m, args, kwargs: tokens.append(args[0].shape[0] * args[0].shape[1]), with_kwargs=True
    )
    yield tokens
    hook.remove()


@pytest.mark.parametrize(("change", "named"), [
    ({"model": build}, "model"), ({"prompts": rendered}, "prompts"), ({"positions": 3}, "positions"),
    ({"layers": [1]}, "layers"), ({"kinds": ("prompt",)}, "kinds"), ({"dtype": "float32"}, "dtype"),
])  # fmt: skip
def test_a_file_of_something_else_is_refused_and_made_again_when_asked(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"model": build("llama"), "prompts": rendered(4), "positions": 2}
    first = capture(path=tmp_path / "a", **options)
    kept = first.path.read_bytes()
    other = {"model": toy_model(layers=3, width=32)[0], "prompts": rendered(4, seed=5)}
    options |= {k: other.get(k, v) for k, v in change.items()}
    with pytest.raises(UserError) as caught:
        capture(path=tmp_path / "a", **options)
    assert caught.value.where == str(tmp_path / "a")
    assert named in caught.value.what
    assert "resume" in caught.value.fix
    assert first.path.read_bytes() == kept
    again = capture(path=tmp_path / "a", resume=False, **options)
    assert again.path.read_bytes() == capture(path=tmp_path / "b", **options).path.read_bytes()


def test_a_finished_capture_is_opened_without_a_pass(tmp_path: Path) -> None:
    model, prompts = build("llama"), rendered(4)
    first = capture(model, prompts, tmp_path / "a", positions=2)
    with counted(model) as tokens:
        second = capture(model, prompts, tmp_path / "a", positions=2)
    assert not tokens
    assert np.array_equal(first.read(3), second.read(3))


def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(UserError, match="not made by a capture"):
        capture(build("llama"), rendered(2), tmp_path / "a")
    assert (tmp_path / "a").read_text() == "mine"


def test_a_damaged_file_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, prompts = build("llama"), rendered(4)
    states = capture(model, prompts, tmp_path / "a", positions=2)
    whole = states.path.read_bytes()
    states.path.write_bytes(whole[:-7])
    with pytest.raises(UserError, match="bytes"):
        open_states(states.path)
    capture(model, prompts, tmp_path / "a", positions=2)
    assert states.path.read_bytes() == whole
    assert "damaged" in caplog.text


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 9}', '{"format": 1, "done": 3}'])
def test_a_sidecar_that_says_nothing_is_named(content: str, tmp_path: Path) -> None:
    sidecar(tmp_path / "a").write_text(content)
    with pytest.raises(UserError) as caught:
        open_states(tmp_path / "a")
    assert caught.value.where == str(tmp_path / "a.json")
    assert caught.value.fix


def test_too_little_space_is_said_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shutil import disk_usage

    real = disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: real._replace(free=1000))
    model = build("llama")
    with counted(model) as tokens, pytest.raises(UserError) as caught:
        capture(model, rendered(4), tmp_path / "a")
    assert not tokens
    assert not (tmp_path / "a").exists()
    assert "GB" in caught.value.what
    assert "fewer positions" in caught.value.fix


@pytest.mark.parametrize(("options", "where"), [
    ({"layers": [4]}, "probe.layers"), ({"layers": [-1]}, "probe.layers"), ({"layers": []}, "probe.layers"),
    ({"positions": 0}, "probe.positions"), ({"kinds": ["answer"]}, "probe.kinds"), ({"kinds": []}, "probe.kinds"),
    ({"dtype": "int8"}, "dtype"), ({"precision": "fp8"}, "precision"),
])  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, Any], where: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        capture(build("llama"), rendered(2), tmp_path / "a", **options)
    assert caught.value.where == where
    assert caught.value.expected
    assert not (tmp_path / "a").exists()


def test_no_prompts_and_prompts_beyond_the_models_reach_are_refused(tmp_path: Path) -> None:
    model = build("gpt2")
    with pytest.raises(UserError, match="no prompts"):
        capture(model, [], tmp_path / "a")
    with pytest.raises(UserError) as caught:
        capture(model, [Rendered((5,) * 2000, 2000)], tmp_path / "a", names=["arithmetic-7"])
    assert "arithmetic-7" in caught.value.what
    assert "1024" in caught.value.expected


def test_the_sidecar_is_plain_json(tmp_path: Path) -> None:
    states = capture(build("llama"), rendered(4), tmp_path / "a", positions=2)
    content = json.loads(sidecar(states.path).read_text())
    assert content["done"] == 4
    assert content["layers"] == [0, 1, 2, 3]
    assert sorted(content["order"]) == [0, 1, 2, 3]
