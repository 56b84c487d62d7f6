"""The codes of all tools as one flat trie (CSR), so that a beam's next tokens are a slice and never a Python loop.

Layout after STATIC (arXiv 2602.22647): nodes are numbered level by level, edges are sorted by (parent, token), and a
node's children are therefore contiguous, edge `e` leading to node `e + 1`. The root's children, by far the widest set
(every tool for atomic codes), are kept ready as one tensor that all rows of a batch share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from toolsavvy.errors import UserError
from toolsavvy.retrieval.ranking import NO_TOOL

_KEY = 1 << 32
"""Edges are looked up by parent * _KEY + token; token ids are far below it."""


@dataclass(frozen=True)
class ToolTrie:
    """All codes, each ended by `eos_id`; a state is the node of the *full* prefix, the root is 0.

    Args:
        offsets: int64 [nodes + 1], the edges of node v are `offsets[v]:offsets[v + 1]`.
        tokens: int64 [edges], ascending within a node.
        terminal: int64 [nodes], tool index where an end-of-sequence edge arrives, else `NO_TOOL`.
        widths: per depth, the most children that any node has (known ahead, so that no step waits for the device).
        eos_id: the token that ends every code.
    """

    offsets: Tensor
    tokens: Tensor
    terminal: Tensor
    widths: tuple[int, ...]
    eos_id: int

    @classmethod
    def build(cls, codes: Sequence[Sequence[int]], eos_id: int) -> ToolTrie:
        """Build from one token sequence per tool (without end of sequence); position = tool index.

        Raises:
            UserError: a code is empty, holds `eos_id` or a negative id, or two tools share one.
        """
        rows, lengths = _matrix(codes, eos_id)
        order = np.lexsort(rows.T[::-1])
        rows, lengths = rows[order], lengths[order]
        new, depths = _first_of_prefix(rows, lengths)
        _refuse_duplicates(new, lengths, order)
        node = np.cumsum(new.T.ravel()).reshape(new.T.shape)  # [depth, row]: id of the node a row is in after `depth`
        parent = np.vstack([np.zeros((1, len(rows)), dtype=np.int64), node[:-1]])[new.T]
        children = np.bincount(parent, minlength=int(node[-1, -1]) + 1)
        terminal = np.full(len(children), NO_TOOL, dtype=np.int64)
        terminal[node[lengths - 1, np.arange(len(rows))]] = order
        level = np.concatenate([[0], depths + 1])  # depth of every node
        widths = tuple(int(children[level == d].max()) for d in range(rows.shape[1]))
        offsets = np.concatenate([[0], np.cumsum(children)])
        tensors = (torch.from_numpy(a.astype(np.int64)) for a in (offsets, rows.T[new.T], terminal))
        return cls(*tensors, widths=widths, eos_id=eos_id)

    @property
    def max_length(self) -> int:
        """Tokens of the longest code with its end of sequence."""
        return len(self.widths)

    @cached_property
    def root_tokens(self) -> Tensor:
        """int64 [width], the first tokens of all codes."""
        return self.tokens[: self.widths[0]]

    @cached_property
    def _columns(self) -> Tensor:
        """int64 [widest], counts a node's children."""
        return torch.arange(max(self.widths), device=self.tokens.device)

    @cached_property
    def _keys(self) -> Tensor:
        """int64 [edges], ascending (parent, token) keys."""
        counts = self.offsets.diff()
        parents = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        return parents * _KEY + self.tokens

    def to(self, device: torch.device | str) -> ToolTrie:
        """The same trie on a device (itself when it is there)."""
        if self.tokens.device == torch.device(device):
            return self
        moved = (t.to(device) for t in (self.offsets, self.tokens, self.terminal))
        return ToolTrie(*moved, widths=self.widths, eos_id=self.eos_id)

    def expand(self, logits: Tensor, nodes: Tensor, depth: int) -> tuple[Tensor, Tensor, Tensor]:
        """The constraint: each row's allowed next tokens, instead of a mask as wide as the vocabulary.

        Args:
            logits: [row, vocab].
            nodes: int64 [row], all at `depth`.
            depth: tokens decoded so far.

        Returns:
            The allowed tokens' logits [row, width] (-inf beyond a node's children), their ids and their nodes.
        """
        if depth == 0:
            tokens = self.root_tokens.expand(len(logits), -1)
            following = torch.arange(1, 1 + tokens.shape[1], device=tokens.device).expand_as(tokens)
            return logits.index_select(1, self.root_tokens), tokens, following
        width = self.widths[depth] if depth < len(self.widths) else 1
        edges = self.offsets.index_select(0, nodes)[:, None] + self._columns[:width]
        beyond = edges >= self.offsets.index_select(0, nodes + 1)[:, None]
        edges.clamp_(max=len(self.tokens) - 1)
        tokens = self.tokens.take(edges)
        return logits.gather(1, tokens).masked_fill_(beyond, -torch.inf), tokens, edges + 1

    def mask(self, nodes: Tensor, vocabulary: int) -> Tensor:
        """The same constraint as a mask, bool [row, vocabulary], for samplers that need one."""
        counts = self.offsets[nodes + 1] - self.offsets[nodes]
        rows = torch.arange(len(nodes), device=nodes.device).repeat_interleave(counts)
        within = torch.arange(len(rows), device=nodes.device) - (counts.cumsum(0) - counts)[rows]
        mask = torch.zeros(len(nodes), vocabulary, dtype=torch.bool, device=nodes.device)
        mask[rows, self.tokens[self.offsets[nodes][rows] + within]] = True
        return mask

    def step(self, nodes: Tensor, tokens: Tensor) -> Tensor:
        """Follow one token from each node; -1 where there is no such edge (or the node was -1)."""
        keys = nodes * _KEY + tokens
        edges = torch.searchsorted(self._keys, keys.contiguous()).clamp_(max=len(self._keys) - 1)
        found = (self._keys[edges] == keys) & (nodes >= 0) & (tokens >= 0)
        return torch.where(found, edges + 1, -1)

    def lookup(self, sequences: Tensor) -> Tensor:
        """Tool index of each sequence [..., time] that is exactly a code and its end, else `NO_TOOL`.

        What follows the first end of sequence is ignored.
        """
        nodes = torch.zeros(sequences.shape[:-1], dtype=torch.int64, device=sequences.device)
        found = torch.full_like(nodes, NO_TOOL)
        for tokens in sequences.unbind(-1):
            nodes = self.step(nodes, tokens)
            arrived = self.terminal[nodes.clamp(min=0)]
            found = torch.where((nodes >= 0) & (arrived != NO_TOOL), arrived, found)
        return found


def _matrix(codes: Sequence[Sequence[int]], eos_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes with their end of sequence as int64 [tool, depth], padded with -1, and their lengths."""
    lengths = np.fromiter(map(len, codes), dtype=np.int64, count=len(codes))
    flat = np.fromiter(chain.from_iterable(codes), dtype=np.int64, count=int(lengths.sum()))
    owner = np.repeat(np.arange(len(codes)), lengths)
    for bad, what in ((np.flatnonzero(lengths == 0), "is empty"),
                      (owner[flat == eos_id], f"holds the end-of-sequence token {eos_id}"),
                      (owner[flat < 0], "holds a negative token id")):  # fmt: skip
        if len(bad):
            raise UserError(
                f"the code of tool {bad[0]} {what}",
                where="indexing",
                expected="one or more tokens, none of them the end of sequence",
                fix="choose another 'indexing', or give the tool a name that the tokenizer can spell",
            )
    if not len(codes):
        raise UserError("no tools to decode", where="indexing", expected="a catalog with at least one tool")
    rows = np.full((len(codes), int(lengths.max()) + 1), -1, dtype=np.int64)
    rows[owner, np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = flat
    rows[np.arange(len(codes)), lengths] = eos_id
    return rows, lengths + 1


def _first_of_prefix(rows: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a sorted row opens a new prefix, bool [tool, depth], and the depths of those places, level by level."""
    differs = np.ones_like(rows, dtype=bool)
    differs[1:] = np.logical_or.accumulate(rows[1:] != rows[:-1], axis=1)
    new = differs & (np.arange(rows.shape[1]) < lengths[:, None])
    return new, np.nonzero(new.T)[0]


def _refuse_duplicates(new: np.ndarray, lengths: np.ndarray, order: np.ndarray) -> None:
    """A row that opens nothing at its end repeats the one before it."""
    same = np.flatnonzero(~new[np.arange(len(new)), lengths - 1])
    if len(same):
        first, second = sorted((int(order[same[0] - 1]), int(order[same[0]])))
        raise UserError(
            f"tools {first} and {second} have the same code",
            where="indexing",
            expected="one code for each tool, so that every tool can be reached",
            fix="choose another 'indexing', or make their names differ",
        )
