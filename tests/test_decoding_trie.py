"""The trie against a search through all codes."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny_models import EOS, allowed_after, random_codes
from toolsavvy.decoding import ToolTrie
from toolsavvy.errors import UserError
from toolsavvy.retrieval.ranking import NO_TOOL

CODES = st.lists(st.lists(st.integers(3, 9), min_size=1, max_size=4).map(tuple), min_size=1, max_size=40, unique=True)


def walk(trie: ToolTrie, prefix: list[int]) -> torch.Tensor:
    node = torch.zeros(1, dtype=torch.int64)
    for token in prefix:
        node = trie.step(node, torch.tensor([token]))
    return node


@settings(max_examples=60, deadline=None)
@given(CODES)
def test_children_of_every_prefix_are_what_the_codes_allow(codes: list[tuple[int, ...]]) -> None:
    trie = ToolTrie.build(codes, EOS)
    logits = torch.randn(1, 12)
    for prefix in {c[:n] for c in codes for n in range(len(c) + 1)}:
        node, allowed = walk(trie, list(prefix)), allowed_after(codes, list(prefix))
        assert trie.mask(node, 12)[0].nonzero().flatten().tolist() == allowed
        scores, tokens, nodes = trie.expand(logits, node, len(prefix))
        live = ~scores[0].isneginf()
        assert tokens[0, live].tolist() == allowed
        assert torch.equal(scores[0, live], logits[0, allowed])
        assert torch.equal(nodes[0, live], trie.step(node.expand(len(allowed)), torch.tensor(allowed)))


@settings(max_examples=60, deadline=None)
@given(CODES)
def test_each_code_and_its_end_is_its_tool_and_nothing_else_is(codes: list[tuple[int, ...]]) -> None:
    trie = ToolTrie.build(codes, EOS)
    longest = max(map(len, codes)) + 2
    ended = torch.tensor([[*c, EOS] + [-1] * (longest - len(c) - 1) for c in codes])
    assert trie.lookup(ended).tolist() == list(range(len(codes)))
    open_ended = torch.tensor([[*c] + [-1] * (longest - len(c)) for c in codes])
    assert set(trie.lookup(open_ended).tolist()) == {NO_TOOL}
    assert trie.lookup(torch.tensor([[11, EOS]])).tolist() == [NO_TOOL]


def test_mask_serves_rows_at_different_nodes() -> None:
    codes = random_codes(60, 30)
    trie = ToolTrie.build(codes, EOS)
    prefixes = [[], [codes[0][0]], [3], [9], list(codes[5])]
    mask = trie.mask(torch.cat([walk(trie, p) for p in prefixes]), 30)
    assert [row.nonzero().flatten().tolist() for row in mask] == [allowed_after(codes, p) for p in prefixes]


def test_state_is_the_whole_prefix() -> None:
    """A constraint that looks at the last token alone would let 3 5 7 through."""
    trie = ToolTrie.build([(3, 5, 6), (4, 5, 7)], EOS)
    assert walk(trie, [3, 5, 7]).item() == -1
    assert walk(trie, [4, 5, 7]).item() > 0


@pytest.mark.parametrize(
    ("codes", "what"),
    [
        ([(3,), (4, 5), (3,)], "tools 0 and 2 have the same code"),
        ([(3,), ()], "tool 1 is empty"),
        ([(3, EOS)], "tool 0 holds the end-of-sequence token"),
        ([(3,), (4, -1)], "tool 1 holds a negative token id"),
        ([], "no tools"),
    ],
)
def test_bad_codes_are_refused(codes: list[tuple[int, ...]], what: str) -> None:
    with pytest.raises(UserError) as caught:
        ToolTrie.build(codes, EOS)
    assert what in caught.value.what
    assert caught.value.where == "indexing"
    assert caught.value.expected


def test_47k_codes_build_within_a_second() -> None:
    numbers = np.random.default_rng(0).permutation(64**3)[:47_000]
    codes = [(int(n) // 4096 + 3, int(n) // 64 % 64 + 70, int(n) % 64 + 140) for n in numbers]
    start = time.perf_counter()
    trie = ToolTrie.build(codes, EOS)
    assert time.perf_counter() - start < 1.0
    assert trie.widths[0] == 64
    some = torch.tensor([[*c, EOS] for c in codes[:500]])
    assert trie.lookup(some).tolist() == list(range(500))
