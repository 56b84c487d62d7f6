"""What a model or retriever is asked about a tool, and how its answers are read.

A prompt is what stands for the tool (its virtual tokens, its name, its document, or nothing), the question, and for
letters the lettered options, in the model's own frame. Pieces are encoded one by one, so that no text becomes a special
or virtual token and every order of the options has the same length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolsavvy.benchmark import OPTIONS, ChoiceItem, YesNoItem
from toolsavvy.catalog import Catalog, Query, Tool, split_words
from toolsavvy.decoding.options import ending_scores, next_token_scores, option_likelihoods
from toolsavvy.errors import UserError
from toolsavvy.models.text import TextEncoder
from toolsavvy.models.tuning import plain
from toolsavvy.models.virtual import ToolModel
from toolsavvy.retrieval.ranking import NO_TOOL, Retriever
from toolsavvy.suites.mcq import ChoiceAnswers

NOTHING, NAME, DOCUMENT, TOKEN = VIEWS = ("nothing", "name", "document", "token")
"""What stands for the tool."""
LETTERS = ("A", "B", "C", "D")
YES, NO = ("Yes", " Yes", "yes", " yes"), ("No", " No", "no", " no")
"""Surface forms whose probabilities are summed, by their first tokens."""
ASK_LETTER, ASK_YES_NO = "\nAnswer with one letter.", "\nAnswer yes or no."
DOCUMENT_TOKENS, QUESTION_TOKENS, OPTION_TOKENS = 1024, 128, 64
"""Budgets; a model with a short context gets shorter documents."""
DEPTH = 5000
"""Tools that a retriever ranks for an option at most; the others share the last place."""


@dataclass(frozen=True)
class Asker:
    """Asks one model, to which tools are shown in one way.

    Args:
        tools: the model; codes are needed for the view "token" alone.
        catalog: the tools.
        view: one of `VIEWS`.
        precision: fp32 | bf16, of the forward passes.
    """

    tools: ToolModel
    catalog: Catalog
    view: str
    precision: str = "fp32"

    def choices(self, items: Sequence[ChoiceItem]) -> ChoiceAnswers:
        """Score every option by its likelihood and by its letter; all cyclic orders are asked, so that no place wins.

        With each of the four orders every option stands at every place once. Probabilities of the letters among
        themselves are averaged over the orders, so a model that likes a place gives every option the same.
        """
        heads, suffix = self._heads(items), list(self.tools.frame.suffix)
        options = [self._encoded(item.options, OPTION_TOKENS) for item in items]
        likelihood = option_likelihoods(
            self.tools.model, [head + suffix for head in heads], options, precision=self.precision
        )
        labels = [self.tools.text.encode(f"\n{letter}.") for letter in LETTERS]
        listed = [self._encoded([f" {option}" for option in item.options], OPTION_TOKENS) for item in items]
        tail = [*self.tools.text.encode(ASK_LETTER), *suffix]
        endings = [[_lettered(own, labels, turn) + tail for turn in range(OPTIONS)] for own in listed]
        forms = first_tokens(self.tools.text, [(letter, f" {letter}") for letter in LETTERS])
        ids = [i for own in forms for i in own]
        scores = ending_scores(self.tools.model, heads, endings, ids, precision=self.precision)
        return ChoiceAnswers(likelihood, over_orders(summed(scores, forms)))

    def yes_no(self, items: Sequence[YesNoItem]) -> np.ndarray:
        """Log-odds of yes against no, each over all its surface forms: float64 [item]."""
        tail = [*self.tools.text.encode(ASK_YES_NO), *self.tools.frame.suffix]
        forms = first_tokens(self.tools.text, [YES, NO])
        ids = [i for own in forms for i in own]
        prompts = [head + tail for head in self._heads(items)]
        scores = summed(next_token_scores(self.tools.model, prompts, ids, precision=self.precision), forms)
        return scores[:, 0] - scores[:, 1]

    def _heads(self, items: Sequence[ChoiceItem] | Sequence[YesNoItem]) -> list[list[int]]:
        """Prompts up to the end of the question."""
        lead = {NOTHING: "", TOKEN: " "}.get(self.view, "\n")
        asked = self.tools.text.encode_batch([lead + item.question for item in items], QUESTION_TOKENS)
        shown = {tool: self._shown(self.catalog.index[tool]) for tool in dict.fromkeys(item.tool for item in items)}
        prefix = self.tools.frame.prefix
        return [[*prefix, *shown[item.tool], *ids] for item, ids in zip(items, asked, strict=True)]

    def _shown(self, tool: int) -> list[int]:
        """Ids of what stands for a tool."""
        if self.view == TOKEN:
            return list(self.tools.codes[tool])
        if self.view == NOTHING:
            return []
        text = self.catalog.documents[tool] if self.view == DOCUMENT else named(self.catalog.tools[tool])
        return self.tools.text.encode(text, self._room())

    def _room(self) -> int:
        """Tokens that a document may take."""
        config: Any = plain(self.tools.model).config
        context = getattr(config.get_text_config(), "max_position_embeddings", None)
        if context is None:
            return DOCUMENT_TOKENS
        others = len(self.tools.frame.wrap(())) + QUESTION_TOKENS + OPTIONS * (OPTION_TOKENS + 8) + 32
        return max(16, min(DOCUMENT_TOKENS, context - others))

    def _encoded(self, texts: Sequence[str], limit: int) -> list[list[int]]:
        """Ids of options; one that the vocabulary cannot spell is an answer that ends at once."""
        return [ids or [self.tools.eos_id] for ids in self.tools.text.encode_batch(texts, limit)]


def named(tool: Tool) -> str:
    """A tool's name in words, with its service: what its virtual token starts from."""
    return f"{split_words(tool.name)} ({tool.group})" if tool.group else split_words(tool.name)


def _lettered(options: Sequence[Sequence[int]], labels: Sequence[Sequence[int]], turn: int) -> list[int]:
    """All options under their letters, the list turned so that option `turn` stands first."""
    return [i for place, label in enumerate(labels) for i in (*label, *options[(turn + place) % OPTIONS])]


def over_orders(scores: np.ndarray) -> np.ndarray:
    """Probability of each option, the mean over cyclic orders: float64 [item, option].

    Args:
        scores: log-probabilities of the letters, [item, order, letter]; in order r letter j is option r + j.
    """
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    turns = np.arange(OPTIONS)
    return np.stack([shares[:, turns, (option - turns) % OPTIONS].mean(axis=1) for option in turns], axis=1)


def summed(scores: np.ndarray, forms: Sequence[Sequence[int]]) -> np.ndarray:
    """Log-probability of each answer over its forms, whose log-probabilities stand side by side in the last axis."""
    ends = np.cumsum([len(own) for own in forms])
    parts = [scores[..., end - len(own) : end] for own, end in zip(forms, ends, strict=True)]
    return np.stack([np.logaddexp.reduce(part, axis=-1) for part in parts], axis=-1)


def first_tokens(text: TextEncoder, forms: Sequence[Sequence[str]]) -> list[list[int]]:
    """First token ids of every answer's surface forms, without those that could begin another answer too.

    Raises:
        UserError: the vocabulary cannot tell the answers apart by their first token.
    """
    found = [{ids[0] for form in own if (ids := text.encode(form))} for own in forms]
    kept = [sorted(own - set().union(*(o for o in found if o is not own))) for own in found]
    if not all(kept):
        raise UserError(
            f"no first token tells {', '.join(own[0] for own in forms)} apart", where="model",
            expected="a vocabulary that spells short answers differently", fix="probe another model",
        )  # fmt: skip
    return kept


def retrieved_choices(retriever: Retriever, catalog: Catalog, items: Sequence[ChoiceItem]) -> ChoiceAnswers:
    """Open book: every option is a query, and the better its tool ranks, the better the option.

    Ranks, since scores of different queries do not compare. Scores are minus the rank; tools that are not ranked
    within `DEPTH` share the place after it.
    """
    texts = list(dict.fromkeys(option for item in items for option in item.options))
    depth = min(len(catalog), DEPTH)
    ranking = retriever.search([Query(f"option{i}", text, {}) for i, text in enumerate(texts)], depth)
    ranks = {text: {t: r for r, t in enumerate(row, 1) if t != NO_TOOL} for text, row in zip(
        texts, ranking.indices.tolist(), strict=True
    )}  # fmt: skip
    scores = [[-ranks[o].get(catalog.index[item.tool], depth + 1) for o in item.options] for item in items]
    return ChoiceAnswers(np.array(scores, dtype=np.float64).reshape(len(items), -1 if items else OPTIONS))
