"""From a language model to a ranking of tools: a trie of codes, beams with and without it, and one-pass ranking."""

from __future__ import annotations

from toolsavvy.decoding.atomic import free_atomic, rank_atomic, rank_both
from toolsavvy.decoding.beams import Beams, beam_search, to_ranking
from toolsavvy.decoding.trie import ToolTrie

__all__ = ["Beams", "ToolTrie", "beam_search", "free_atomic", "rank_atomic", "rank_both", "to_ranking"]
