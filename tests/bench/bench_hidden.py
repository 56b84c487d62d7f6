"""Item 5: hidden states at all layers and the last 20 positions, against a plain forward pass of the same batches.

Memory is measured in processes of their own, on a random model whose states are large beside everything else, next to
what is usually done: `output_hidden_states=True`, wanted positions kept in a list.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from record import Record, Row, median, timed
from transformers import LlamaConfig, LlamaForCausalLM

from toolsavvy.hidden.batches import batch_of, plan
from toolsavvy.hidden.blocks import backbone, blocks
from toolsavvy.hidden.capture import capture
from toolsavvy.hidden.positions import token_indices
from toolsavvy.hidden.states import States
from toolsavvy.models.digest import model_digest
from toolsavvy.models.prompts import Rendered

POSITIONS, TEMPLATE, BATCH_TOKENS, ROUNDS = 20, 5, 256, 5
ITEMS = (100, 400, 1600)
SHAPE = {
    "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 64, "num_hidden_layers": 16, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 1024,
}  # fmt: skip
"""Of the model that memory is measured on: thin blocks, wide states (1,600 items are 560 MB)."""


def run() -> Record:
    model, weights = smollm2()
    with tempfile.TemporaryDirectory() as folder:
        prompts, shared = made(12, 0), made(4, 150)
        ours, plain = rounds(model, prompts, Path(folder) / "a", share_start=False)
        started, whole = rounds(model, shared, Path(folder) / "b", share_start=True, count=2)
        states = capture(model, prompts, Path(folder) / "c", key="bench", batch_tokens=BATCH_TOKENS)
        error = largest_error(model, prompts[:3], states)
    seconds, _ = timed(lambda: model_digest(model))
    few, some, many = (memory("hooks", n) for n in ITEMS)
    usual = memory("library", ITEMS[-1])
    rows = [
        Row("capture / plain forward pass, same batches", median(ours), median(plain), 1 / 1.2, spread(ours, plain)),
        Row("the same, prompts that share 150 tokens", median(started), median(whole), None, spread(started, whole)),
        Row("digest of the model, once a capture", seconds, None, None),
        Row("peak memory, 400 items / 100", some, few, 0.9, {}, "MB"),
        Row("peak memory, 1,600 items / 100", many, few, 0.9, {}, "MB"),
        Row("beside the usual way, 1,600 items", many, usual, None, {}, "MB"),
    ]
    return Record(
        "5_hidden", "all layers x 20 prompt and 20 question positions: at most 1.2 times a plain forward pass",
        f"equal to output_hidden_states within float16, largest error {error:.1e} of a state's largest entry",
        error < 1e-3, rows,
        f"Weights: {weights}. A ratio of 0.83 or more is 1.2 times or less. {len(prompts)} prompts of 30 to 50 tokens.",
    )  # fmt: skip


def spread(ours: list[float], plain: list[float]) -> dict[str, Any]:
    """Captures over plain passes, round by round."""
    return {"rounds": [round(a / b, 3) for a, b in zip(ours, plain, strict=True)]}


def smollm2() -> tuple[Any, str]:
    """SmolLM2-135M; its real weights where they can be had, else random ones of its shape."""
    from bench_atomic import SMOLLM2

    try:
        from toolsavvy.config.schema import ModelConfig
        from toolsavvy.models.loading import load_base

        file = Path(__file__).parents[2] / "conf" / "model" / "smollm2_135m.yaml"
        return load_base(ModelConfig(**yaml.safe_load(file.read_text(encoding="utf-8"))))[0].eval(), "SmolLM2-135M"
    except Exception as error:  # any failure to fetch or load: the speed is that of the shape
        print(f"  real weights not available ({type(error).__name__}: {error}); random ones of the same shape")
        return LlamaForCausalLM(LlamaConfig(**SMOLLM2)).eval(), "random, shape of SmolLM2-135M"


def made(count: int, start: int, vocabulary: int = 1000) -> list[Rendered]:
    """Random prompts of 30 to 50 tokens behind a common start; the question ends before the template's last tokens."""
    rng = np.random.default_rng(0)
    common = rng.integers(3, vocabulary, start).tolist()
    rests = [rng.integers(3, vocabulary, rng.integers(30, 51)).tolist() for _ in range(count)]
    return [Rendered((*common, *rest), start + len(rest) - TEMPLATE) for rest in rests]


def rounds(
    model: Any, prompts: Sequence[Rendered], path: Path, *, share_start: bool, count: int = ROUNDS
) -> tuple[list[float], list[float]]:
    """Seconds of captures and of plain passes, in turns, so that a busy moment meets both."""
    ours, plain = [], []
    for i in range(count + 1):
        seconds, _ = timed(
            lambda: capture(
                model, prompts, path, key="bench", batch_tokens=BATCH_TOKENS, share_start=share_start, resume=False
            )
        )
        theirs, _ = timed(lambda: passes(model, prompts, lambda *_: None))
        if i:  # the first is to warm up
            ours.append(seconds)
            plain.append(theirs)
    return ours, plain


@torch.inference_mode()
def passes(model: Any, prompts: Sequence[Rendered], told: Callable[[Any, torch.Tensor], None], **options: Any) -> None:
    """Run the backbone over the same batches as a capture does."""
    ordered = sorted(prompts, key=lambda p: -len(p.ids))
    wanted = token_indices(ordered, POSITIONS, ("prompt", "question")).reshape(len(ordered), -1)
    for part in plan([len(p.ids) for p in ordered], 64, BATCH_TOKENS):
        batch = batch_of(model, ordered[part], wanted[part], None, "right")
        told(backbone(model)(**batch.inputs, **options), batch.columns)


@torch.inference_mode()
def largest_error(model: Any, prompts: Sequence[Rendered], states: States) -> float:
    """Against the library's own states, one prompt at a time; relative to a state's largest entry."""
    worst = 0.0
    for item, prompt in enumerate(prompts):
        before: list[torch.Tensor] = []
        hook = blocks(model)[-1].register_forward_hook(lambda *a, before=before: before.append(a[-1]))
        found = backbone(model)(torch.tensor([prompt.ids]), output_hidden_states=True).hidden_states
        hook.remove()
        expected = [*found[:-1], before[0]]  # theirs ends after the final norm
        for i, cell in enumerate(states.cells):
            end = len(prompt.ids) if cell.of == "prompt" else prompt.question_end
            truth = expected[cell.layer][0, end + cell.position].numpy()
            worst = max(worst, float(np.abs(states.read(i)[item] - truth).max() / np.abs(truth).max()))
    return worst


def memory(mode: str, items: int) -> float:
    """Megabytes of a process of its own at the peak, libraries and model (16 MB) included."""
    command = [sys.executable, __file__, mode, str(items)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def child(mode: str, items: int) -> float:
    torch.manual_seed(0)
    model, prompts = LlamaForCausalLM(LlamaConfig(**SHAPE)).eval(), made(items, 0)
    kept: list[np.ndarray] = []

    def keep(out: Any, columns: torch.Tensor) -> None:
        rows = torch.arange(len(columns))[:, None]
        kept.append(torch.stack([layer[rows, columns] for layer in out.hidden_states]).half().numpy())

    with tempfile.TemporaryDirectory() as folder:
        capture(model, prompts[:4], Path(folder) / "warm", key="bench")
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        if mode == "hooks":
            capture(model, prompts, Path(folder) / "a", key="bench", batch_tokens=BATCH_TOKENS)
        else:
            passes(model, prompts, keep, output_hidden_states=True)
        return peak()


def peak() -> float:
    """Of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], int(sys.argv[2]))))
