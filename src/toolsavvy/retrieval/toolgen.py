"""ToolGen as a retriever: rank tools by the likelihood of their codes, constrained or free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import torch

from toolsavvy.catalog import Catalog, Query
from toolsavvy.decoding import ToolTrie, beam_search, free_atomic, rank_atomic, rank_both, to_ranking
from toolsavvy.errors import UserError
from toolsavvy.models.loading import resolve_precision
from toolsavvy.models.tuning import load
from toolsavvy.models.virtual import ToolModel
from toolsavvy.retrieval.ranking import Ranking


class ToolGen:
    """Search by generation (ToolGen section 3.3).

    Atomic codes are ranked exactly in one forward pass; other codes by beams over the catalog's trie. Free decoding is
    the same search without the mask: an output that is not exactly a tool's code and the end holds its rank as a miss.

    Args:
        tools: a trained tool model.
        max_tokens: budget of a query's tokens.
        batch_size: queries a forward pass.
        precision: fp32 | bf16, of the forward passes.
    """

    def __init__(
        self, tools: ToolModel, *, max_tokens: int = 128, batch_size: int = 32, precision: str = "fp32"
    ) -> None:
        self.tools, self.max_tokens, self.batch_size, self.precision = tools, max_tokens, batch_size, precision
        self._trie: ToolTrie | None = None

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Check that the model holds this very catalog; nothing is indexed, the tools are in the weights.

        Raises:
            UserError: the model was trained on another catalog.
        """
        if catalog.fingerprint != self.tools.fingerprint:
            raise UserError(
                "the model holds another catalog", where=f"catalog {catalog.name}",
                expected=f"fingerprint {self.tools.fingerprint[:12]}, this catalog has {catalog.fingerprint[:12]}",
                fix="use the catalog settings that the model was trained with",
            )  # fmt: skip
        return self

    @property
    def trie(self) -> ToolTrie:
        """The codes as a trie, built when first needed."""
        if self._trie is None:
            self._trie = ToolTrie.build(self.tools.codes, self.tools.eos_id)
        return self._trie

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Constrained decoding: the k most likely tools of every query."""
        k = min(k, len(self.tools.codes))
        prompts, ids = self.prompts(queries), self.tools.tool_ids
        with self._numbers():
            if self.tools.atomic:
                tokens = [code[0] for code in self.tools.codes]
                return rank_atomic(self.tools.model, prompts, tokens, k, ids=ids, batch_size=self.batch_size)
            beams = beam_search(
                self.tools.model, prompts, k=k, max_new_tokens=self.trie.max_length, eos_id=self.tools.eos_id,
                trie=self.trie, batch_size=self._beam_batch(k),
            )  # fmt: skip
        return to_ranking(beams, self.trie, ids)

    def search_free(self, queries: Sequence[Query], k: int) -> Ranking:
        """Free decoding: the k most likely outputs of every query, tools or not."""
        k = min(k, len(self.tools.codes))
        prompts = self.prompts(queries)
        with self._numbers():
            if self.tools.atomic:
                beams = free_atomic(self.tools.model, prompts, k, eos_id=self.tools.eos_id, batch_size=self.batch_size)
            else:
                beams = beam_search(
                    self.tools.model, prompts, k=k, max_new_tokens=self.trie.max_length, eos_id=self.tools.eos_id,
                    batch_size=self._beam_batch(k),
                )  # fmt: skip
        return to_ranking(beams, self.trie, self.tools.tool_ids)

    def search_both(self, queries: Sequence[Query], k: int) -> tuple[Ranking, Ranking]:
        """Constrained and free decoding; of atomic codes from one reading of the prompts."""
        if not self.tools.atomic:
            return self.search(queries, k), self.search_free(queries, k)
        tokens = [code[0] for code in self.tools.codes]
        with self._numbers():
            constrained, free = rank_both(
                self.tools.model, self.prompts(queries), tokens, min(k, len(tokens)), ids=self.tools.tool_ids,
                eos_id=self.tools.eos_id, batch_size=self.batch_size,
            )  # fmt: skip
        return constrained, to_ranking(free, self.trie, self.tools.tool_ids)

    def prompts(self, queries: Sequence[Query]) -> list[list[int]]:
        """Token ids of every query in the frame that training used."""
        texts = self.tools.text.encode_batch([q.text for q in queries], self.max_tokens)
        return [self.tools.frame.wrap(ids) for ids in texts]

    def _beam_batch(self, k: int) -> int:
        """Prompts decoded together so that beams, not prompts, bound the memory."""
        return max(1, self.batch_size * 8 // max(1, k))

    @contextmanager
    def _numbers(self) -> Iterator[None]:
        self.tools.model.eval()
        device = next(self.tools.model.parameters()).device.type
        with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            yield


def from_folder(path: str, max_tokens: int = 128, batch_size: int = 32, precision: str = "auto") -> ToolGen:
    """A trained model from the model/ folder of a finished run, as a retriever.

    Args:
        path: the folder.
        max_tokens: budget of a query's tokens.
        batch_size: queries a forward pass.
        precision: fp32 | bf16 | auto (bf16 where the processor multiplies it natively).

    Raises:
        UserError: the folder holds no tool model.
    """
    tools = load(Path(path).expanduser())
    return ToolGen(tools, max_tokens=max_tokens, batch_size=batch_size, precision=resolve_precision(precision))
