"""Item 4: N samples a question, against `generate(num_return_sequences=N)` one question at a time, as papers do it.

SmolLM2-135M, questions of small arithmetic, N = 10 at T = 0.7, float32 on both sides. The label asked for is the
released rule of 2605.14038: necessary iff fewer than 9 of 10 samples are right. `BENCH_QUESTIONS` makes it shorter.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml
from record import Record, Row, timed

from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.models.chat import Message
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.necessity.asking import Asked, ask_counted, decide
from toolsavvy.necessity.store import SampleStore

QUESTIONS, N, TEMPERATURE, TOKENS, THRESHOLD = int(os.environ.get("BENCH_QUESTIONS", "24")), 10, 0.7, 24, 9
SYSTEM = "You do arithmetic. Answer with the number alone."


def run() -> Record:
    model, tokenizer = smollm2()
    prompts, golds = questions()
    sampler = LocalSampler(model, tokenizer)
    ids = [torch.tensor([render(tokenizer, sampler.text, p).ids]) for p in prompts]
    with tempfile.TemporaryDirectory() as folder:
        asking(sampler, prompts[:2], Path(folder) / "warm")  # to warm up, and for the model's digest
        generate(model, tokenizer, ids[0])
        slices = range(0, QUESTIONS, max(1, QUESTIONS // 3))
        full = labels = theirs = 0.0
        counted = decided = Asked(())
        same = True
        for start in slices:  # one after the other, so that a busy moment meets all of them
            part = slice(start, start + max(1, QUESTIONS // 3))
            some, truth = prompts[part], golds[part]
            seconds, _ = timed(lambda some=ids[part]: [generate(model, tokenizer, one) for one in some])
            theirs += seconds
            seconds, counted = timed(lambda s=some, i=start: asking(sampler, s, Path(folder) / f"full{i}"))
            full += seconds
            rule = decide(N, THRESHOLD)
            watch = rule.watch(lambda q, s, g=truth: answer(s.text) == g[q])
            seconds, decided = timed(lambda s=some, i=start, w=watch: asking(sampler, s, Path(folder) / f"l{i}", w))
            labels += seconds
            same &= [label(s, g) for s, g in zip(counted.samples, truth, strict=True)] == [
                label(s, g) for s, g in zip(decided.samples, truth, strict=True)
            ]
        sweep, more = timed(lambda: asking(sampler, some, Path(folder) / f"full{start}"))
        pairs = list(zip(prompts, ids, strict=True))[:6]
        greedy = all(first_greedy(sampler, p) == greedily(model, tokenizer, i) for p, i in pairs)
    share = 1 / len(list(slices))
    rows = [
        Row("labels only, stopped once decided", labels, theirs, 3.0, {"questions": QUESTIONS, "N": N}),
        Row("all N samples", full, theirs, None),
        Row("N sweep again from the store", sweep, full * share, None, {"drawn": more.drawn, "reused": more.reused}),
    ]
    return Record(
        "4_sampling", "necessity labels from N samples at least 3 times faster than generate(num_return_sequences=N)",
        "labels are those of all N samples; greedy answers are generate's; a sweep draws nothing again",
        same and greedy and not more.drawn, rows,
        "float32 on both sides. The rival takes one question at a time with its N answers as a batch. "
        f"Threads: {torch.get_num_threads()}.",
    )  # fmt: skip


def smollm2() -> tuple[Any, Any]:
    from toolsavvy.config.schema import ModelConfig
    from toolsavvy.models.loading import load_base

    file = Path(__file__).parents[2] / "conf" / "model" / "smollm2_135m.yaml"
    model, tokenizer = load_base(ModelConfig(**yaml.safe_load(file.read_text(encoding="utf-8"))))
    return model.eval(), tokenizer


def questions() -> tuple[list[Prompt], list[int]]:
    """Sums and products, and their values."""
    rng, prompts, golds = random.Random(0), [], []
    for k in range(QUESTIONS):
        a, b = (rng.randrange(2, 10 ** (1 + k % 3)) for _ in range(2))
        text, gold = (f"What is {a} + {b}?", a + b) if k % 2 else (f"What is {a} * {b}?", a * b)
        prompts.append(Prompt((Message("system", SYSTEM), Message("user", text))))
        golds.append(gold)
    return prompts, golds


def answer(text: str) -> int | None:
    """The last whole number."""
    found = re.findall(r"-?\d+", text.replace(",", ""))
    return int(found[-1]) if found and len(found[-1]) < 20 else None


def label(samples: Any, gold: int) -> bool:
    """Whether the question needs no tool, from as many samples as there are."""
    correct = sum(answer(s.text) == gold for s in samples)
    return bool(decide(N, THRESHOLD).label(correct, len(samples) - correct, THRESHOLD))


def asking(sampler: LocalSampler, prompts: list[Prompt], folder: Path, decided: Any = None) -> Asked:
    store = SampleStore(folder, sampler.key, TEMPERATURE, TOKENS)
    how = {"temperature": TEMPERATURE, "max_tokens": TOKENS, "decided": decided}
    return ask_counted(sampler, store, prompts, N, **how)


@torch.inference_mode()
def generate(model: Any, tokenizer: Any, ids: torch.Tensor, **how: Any) -> list[list[int]]:
    how = how or {"do_sample": True, "temperature": TEMPERATURE, "num_return_sequences": N, "top_k": 0}
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, pad_token_id=tokenizer.pad_token_id, **how
    )
    return out[:, ids.shape[1] :].tolist()


def greedily(model: Any, tokenizer: Any, ids: torch.Tensor) -> str:
    (out,) = generate(model, tokenizer, ids, do_sample=False)
    end = tokenizer.eos_token_id
    return tokenizer.decode(out[: out.index(end)] if end in out else out)


def first_greedy(sampler: LocalSampler, prompt: Prompt) -> str:
    found: list[str] = []
    sampler.draw([prompt], [[0]], temperature=0, max_tokens=TOKENS, heard=lambda _, s: bool(found.append(s.text)))
    return found[0]
