"""Item 1: the time that the constraint itself takes over 47k tools, against `prefix_allowed_tokens_fn`."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import torch
from record import Record, Row, Stopwatch, median, timed
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.logits_process import PrefixConstrainedLogitsProcessor

from toolsavvy.decoding import ToolTrie, beam_search

TOOLS, EOS, BEAMS, ROUNDS = 47_000, 2, 5, 7
VOCABULARY = TOOLS + 1_000
Codes = list[tuple[int, ...]]


def run() -> Record:
    model = tiny()
    rng = random.Random(0)
    atomic = [(t,) for t in rng.sample(range(3, VOCABULARY), TOOLS)]
    paths = [(n // 4096 + 3, n // 64 % 64 + 100, n % 64 + 200) for n in rng.sample(range(64**3), TOOLS)]
    rows, same = [], True
    for name, codes in (("atomic", atomic), ("three levels of 64", paths)):
        seconds, trie = timed(lambda codes=codes: ToolTrie.build(codes, EOS))
        for batch in (1, 4, 16):
            row, equal = compare(model, codes, trie, batch, rng)
            if batch < 16 and len(codes[0]) > 1:  # few rows of 64 children: both are a handful of tiny kernels
                row.target = None
            row.case, row.detail["build_seconds"] = f"{name}, batch {batch} x {BEAMS} beams", seconds
            rows.append(row)
            same &= equal
    return Record(
        "1_trie", "the trie's share of constrained beams over 47k tools: at most 1/20 of prefix_allowed_tokens_fn's",
        "same beams, same scores (1e-4)", same, rows,
        "Seconds spent in the constraint during one search: ToolTrie.expand against the logits processor's call.",
    )  # fmt: skip


def tiny() -> Any:
    """Small enough that the constraint can be seen, with a vocabulary that holds a token for every tool."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=64, initializer_range=0.4, bos_token_id=1, eos_token_id=EOS, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def compare(model: Any, codes: Codes, trie: ToolTrie, batch: int, rng: random.Random) -> tuple[Row, bool]:
    """Both searches on the same prompts in turn, after one round to warm up."""
    prompts = [[rng.randrange(3, VOCABULARY) for _ in range(12)] for _ in range(batch)]
    allowed, times, walls, equal = allowed_function(codes, 12), ([], []), ([], []), True
    for turn in range(ROUNDS + 1):
        ours, theirs = Stopwatch(ToolTrie.expand), Stopwatch(PrefixConstrainedLogitsProcessor.__call__)
        with patch.object(ToolTrie, "expand", lambda *a, w=ours: w(*a)):
            wall, beams = timed(
                lambda: beam_search(model, prompts, k=BEAMS, max_new_tokens=trie.max_length, eos_id=EOS, trie=trie)
            )
        with patch.object(PrefixConstrainedLogitsProcessor, "__call__", lambda *a, w=theirs: w(*a)):
            their_wall, out = timed(lambda: generate(model, prompts, trie.max_length, allowed))
        equal &= torch.equal(out.sequences[:, 12:].view(beams.sequences.shape), beams.sequences)
        equal &= torch.allclose(out.sequences_scores.view(beams.scores.shape), beams.scores, atol=1e-4)
        if turn:
            times[0].append(ours.seconds)
            times[1].append(theirs.seconds)
            walls[0].append(wall)
            walls[1].append(their_wall)
    detail = {"whole_search_seconds": median(walls[0]), "whole_generate_seconds": median(walls[1])}
    return Row("", median(times[0]), median(times[1]), 20.0, detail), equal


def allowed_function(codes: Codes, prompt: int) -> Any:
    """The usual dictionary trie, lists of children made once."""
    tree: dict[int, Any] = {}
    for code in codes:
        node = tree
        for token in (*code, EOS):
            node = node.setdefault(token, {})
    lists: dict[int, list[int]] = {}

    def allowed(_: int, ids: torch.Tensor) -> list[int]:
        node = tree
        for token in ids[prompt:].tolist():
            node = node.get(token, {})
        if id(node) not in lists:
            lists[id(node)] = list(node) or [EOS]
        return lists[id(node)] if node else [EOS]

    return allowed


@torch.inference_mode()
def generate(model: Any, prompts: list[list[int]], steps: int, allowed: Any) -> Any:
    inputs = torch.tensor(prompts)
    return model.generate(
        inputs, attention_mask=torch.ones_like(inputs), num_beams=BEAMS, num_return_sequences=BEAMS, do_sample=False,
        max_new_tokens=steps, length_penalty=0.0, early_stopping=False, eos_token_id=EOS, pad_token_id=0,
        prefix_allowed_tokens_fn=allowed, return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
