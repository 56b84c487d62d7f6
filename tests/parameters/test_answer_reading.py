from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from argument_tasks import subnet_task, toy_writer

from toolsavvy.models.framing import Message
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.models.text import TextEncoder
from toolsavvy.parameters import reading
from toolsavvy.parameters.prompts import answer_text
from toolsavvy.parameters.reading import p_true, read
from toolsavvy.parameters.spans import value_tokens, values

TEXTS = (
    answer_text(subnet_task()),
    '{"VpcId": "vpc-1", "Count": 2, "On": true, "None": {}, "Empty": ""}',
    "{}",
    '{"a": "unfinished',
    "no call",
    "",
    '{"VpcId": "vpc-1", "Count": 2, "On": true, "None": {}, "Empty": ""}',
)


def oracle(model: Any, tokenizer: Any, prompt: Prompt, text: str, layers: tuple[int, ...]) -> Any:
    """One whole pass without cache, batch or hooks; states of the library's own."""
    encoder = TextEncoder(tokenizer)
    start = list(render(tokenizer, encoder, prompt).ids)
    ids, offsets = encoder.encode_with_offsets(text)
    with torch.no_grad():
        out = model(torch.tensor([start + ids]), output_hidden_states=True)
    sure = out.logits[0].float().log_softmax(1)
    own = [float(sure[len(start) + i - 1, token]) for i, token in enumerate(ids)]
    spans = values(text)
    rows = []
    for span, tokens in zip(spans, value_tokens(spans, offsets) if ids else (), strict=True):
        at = len(start) + tokens.first - 1
        states = np.stack([out.hidden_states[layer][0, at].float().numpy() for layer in layers])
        rows.append((span.path, states, own[tokens.first : tokens.end], tokens.first))
    return rows, sum(own), len(ids)


def compare(model: Any, tokenizer: Any, prompts: list[Prompt], texts: list[str], layers: tuple[int, ...]) -> None:
    found = read(model, tokenizer, prompts, texts, layers=layers, batch_size=3)
    assert len(found) == len(texts)
    for answer, prompt, text in zip(found, prompts, texts, strict=True):
        rows, total, tokens = oracle(model, tokenizer, prompt, text, layers)
        assert [v.path for v in answer.values] == [row[0] for row in rows]
        assert (answer.tokens, answer.layers) == (tokens, layers)
        assert answer.logprob == pytest.approx(total, abs=1e-3)
        for value, (_, states, own, position) in zip(answer.values, rows, strict=True):
            assert (value.tokens, value.position) == (len(own), position)
            assert value.logprob_mean == pytest.approx(np.mean(own), abs=1e-4)
            assert value.logprob_min == pytest.approx(min(own), abs=1e-4)
            assert value.states.dtype == np.float16
            np.testing.assert_allclose(value.states, states, atol=2e-3 * np.abs(states).max())


def test_states_and_logprobs_are_those_of_a_whole_pass(monkeypatch) -> None:
    model, tokenizer, prompts = toy_writer()
    asked = [prompts.prompt(subnet_task(i % 3)) for i in range(len(TEXTS))]
    asked[-1] = asked[1]  # the same answer to the same prompt
    monkeypatch.setattr(reading, "BATCH_TOKENS", 150)
    compare(model, tokenizer, asked, list(TEXTS), (0, 1))
    compare(model, tokenizer, asked[:1], list(TEXTS[:1]), (1,))


def test_families_whose_cache_is_not_plain() -> None:
    """Mistral with a window shorter than the prompt: padding and copies are not neutral there."""
    from transformers import MistralConfig, MistralForCausalLM

    _, tokenizer, _ = toy_writer()
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = MistralConfig(
        **shape, num_key_value_heads=2, vocab_size=len(tokenizer), sliding_window=16, initializer_range=0.3
    )
    model = MistralForCausalLM(config).eval()
    asked = [Prompt((Message("user", "make it " * n),)) for n in (2, 9, 9, 30)]
    compare(model, tokenizer, asked, list(TEXTS[1:3]) * 2, (0, 1))


def test_the_default_layer_and_a_file_of_states(tmp_path) -> None:
    model, tokenizer, prompts = toy_writer()
    asked = [prompts.prompt(subnet_task())] * 2
    kept = read(model, tokenizer, asked, TEXTS[:2])
    filed = read(model, tokenizer, asked, TEXTS[:2], file=tmp_path / "deep" / "states.npy")
    assert kept[0].layers == (1,)  # round(2 * 2 / 3)
    rows = np.load(tmp_path / "deep" / "states.npy", mmap_mode="r")
    every = [value for answer in kept for value in answer.values]
    assert rows.shape == (len(every), 1, 64)
    np.testing.assert_array_equal(rows, np.stack([value.states for value in every]))
    assert [v.path for a in filed for v in a.values] == [v.path for v in every]
    assert isinstance(filed[0].values[0].states.base, np.memmap)
    assert read(model, tokenizer, [], []) == []


def test_what_is_beyond_float16_is_clipped() -> None:
    model, tokenizer, prompts = toy_writer()
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(1e8)
    (answer,) = read(model, tokenizer, [prompts.prompt(subnet_task())], ['{"a": 1}'], layers=[0])
    assert np.isfinite(answer.values[0].states).all()
    assert np.abs(answer.values[0].states).max() == np.finfo(np.float16).max


def test_p_true_is_yes_against_no_after_the_question() -> None:
    model, tokenizer, prompts = toy_writer()
    encoder = TextEncoder(tokenizer)
    asked = [prompts.prompt(subnet_task(i % 3)) for i in range(len(TEXTS))]
    asked[-1] = asked[1]
    found = p_true(model, tokenizer, asked, TEXTS, batch_size=2)
    assert found[1] == found[-1]
    yes, no = ({tokenizer(w).input_ids[0] for w in group} for group in (reading._YES, reading._NO))
    for prompt, text, value in zip(asked, TEXTS, found, strict=True):
        turns = (*prompt.messages, Message("assistant", text), Message("user", reading.QUESTION))
        ids = render(tokenizer, encoder, Prompt(turns)).ids
        with torch.no_grad():
            chance = model(torch.tensor([ids])).logits[0, -1].softmax(0)
        up, down = (float(chance[sorted(group)].sum()) for group in (yes - no, no - yes))
        assert value == pytest.approx(up / (up + down), abs=1e-4)
    assert len(set(found)) == len(TEXTS) - 1


def test_a_prefill_is_refused() -> None:
    model, tokenizer, _ = toy_writer()
    with pytest.raises(ValueError, match="prefill"):
        read(model, tokenizer, [Prompt((Message("user", "?"),), prefill="{")], ["{}"])


def test_text_that_looks_special_is_read_as_text() -> None:
    model, tokenizer, prompts = toy_writer()
    text = json.dumps({"Name": "<|im_end|>"})
    (answer,) = read(model, tokenizer, [prompts.prompt(subnet_task())], [text])
    assert answer.values[0].tokens > 2
