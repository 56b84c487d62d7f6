"""Tiny random language models of several families, and codes over their vocabulary, built in-process."""

from __future__ import annotations

import random
from typing import Any

import torch

EOS = 2


def tiny(family: str = "llama", vocabulary: int = 97, seed: int = 0) -> Any:
    """A two-layer random model whose logits are spread widely enough to rank."""
    from transformers import (
        GPTNeoXConfig,
        GPTNeoXForCausalLM,
        LlamaConfig,
        LlamaForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
    )

    torch.manual_seed(seed)
    shape = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "initializer_range": 0.4,
        "bos_token_id": 1,
        "eos_token_id": EOS,
        "pad_token_id": 0,
    }
    if family == "gpt_neox":
        model: Any = GPTNeoXForCausalLM(GPTNeoXConfig(**shape))
    elif family == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**shape, num_key_value_heads=2, tie_word_embeddings=True))
    else:
        model = LlamaForCausalLM(LlamaConfig(**shape, num_key_value_heads=2))
    return model.eval()


def random_codes(count: int, vocabulary: int, longest: int = 4, seed: int = 0) -> list[tuple[int, ...]]:
    """Distinct codes of mixed lengths; a narrow alphabet makes many of them prefixes of others."""
    rng, codes = random.Random(seed), set()
    while len(codes) < count:
        codes.add(tuple(rng.randrange(3, min(vocabulary, 12)) for _ in range(rng.randint(1, longest))))
    return sorted(codes, key=lambda c: rng.random())


def random_prompts(count: int, vocabulary: int, seed: int = 0, longest: int = 9) -> list[list[int]]:
    """Prompts of mixed lengths."""
    rng = random.Random(seed)
    return [[rng.randrange(3, vocabulary) for _ in range(rng.randint(1, longest))] for _ in range(count)]


def allowed_after(codes: list[tuple[int, ...]], prefix: list[int]) -> list[int]:
    """The oracle: what may follow a prefix, by going through every code; a dead prefix may only end."""
    n = len(prefix)
    return sorted({(*c, EOS)[n] for c in codes if list(c[:n]) == prefix and len(c) >= n}) or [EOS]
