"""What a language model's answer holds: drafts of items, read strictly and refused with a reason that it is told."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from toolsavvy.attacks import tokens
from toolsavvy.benchmark import GOLDS, OPTIONS
from toolsavvy.catalog import Catalog, Query, split_words
from toolsavvy.catalogs.audit import visible
from toolsavvy.generators.answers import printable
from toolsavvy.generators.instructions import names_tool
from toolsavvy.generators.overlap import Tokens, nearest
from toolsavvy.models.chat import parse_json

LEAST_WORDS = 3
"""Of a request or a question."""
MOST_WORDS = {"easy": 20, "medium": 25, "hard": 90}
"""Of a request, by tier."""
MOST_SENTENCES = 3
"""Of a hard request."""
QUESTION_WORDS, OPTION_WORDS = 40, (2, 8)
"""Most words of a question; fewest and most of an option."""
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")
_PLACEHOLDER = re.compile(r"\bthis tool\b", re.IGNORECASE)
_ANSWERS = {"yes": True, "no": False}


@dataclass(frozen=True)
class Fault:
    """Why something was refused.

    Args:
        reason: one word, for counts.
        told: a sentence for the writer's next attempt.
    """

    reason: str
    told: str


@dataclass(frozen=True)
class RequestDraft:
    """A request as it was written: gold tools by their positions in the catalog."""

    query: str
    gold: tuple[int, ...]


@dataclass(frozen=True)
class ChoiceDraft:
    """A multiple-choice question as it was written, with the words of the document that support it."""

    question: str
    correct: str
    wrong: tuple[str, ...]
    evidence: str


@dataclass(frozen=True)
class YesNoDraft:
    """A yes/no question as it was written, with the words of the document that decide it."""

    question: str
    answer: bool
    evidence: str


Draft = TypeVar("Draft", RequestDraft, ChoiceDraft, YesNoDraft)
_MALFORMED = Fault("malformed", "The answer was not one JSON object as asked for.")
_NO_ANSWER = Fault("no_answer", "There was no answer.")


def read_drafts(text: str | None, count: int, read: Callable[[dict[str, Any]], Draft | Fault]) -> list[Draft | Fault]:
    """The drafts in an answer `{"items": [...]}`; exactly one fault where the answer as a whole is no good.

    Args:
        text: the answer, None where there was none.
        count: drafts that were asked for.
        read: one entry as a draft.
    """
    if text is None:
        return [_NO_ANSWER]
    value = parse_json(text)
    items = value.get("items") if value else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return [_MALFORMED]
    if len(items) != count:
        return [Fault("wrong_count", f"The answer held {len(items)} items instead of {count}.")]
    return [read(item) for item in items]


def read_request(value: dict[str, Any], pool: Sequence[int]) -> RequestDraft | Fault:
    """A request with the numbers of its tools, which count the pool from 1."""
    query, numbers = _text(value.get("request")), value.get("tools")
    if query is None or not isinstance(numbers, list) or not all(type(n) is int for n in numbers):
        return _MALFORMED
    if not all(1 <= n <= len(pool) for n in numbers):
        return Fault("outside_pool", f"Tools must be numbers from 1 to {len(pool)}, not {numbers}.")
    return RequestDraft(query, tuple(pool[n - 1] for n in numbers))


def read_choice(value: dict[str, Any]) -> ChoiceDraft | Fault:
    """A question with its right and its wrong options."""
    wrong = value.get("wrong")
    texts = [_text(value.get(key)) for key in ("question", "correct", "evidence")]
    options = [_text(option) for option in wrong] if isinstance(wrong, list) else [None]
    if None in texts or None in options:
        return _MALFORMED
    question, correct, evidence = (text or "" for text in texts)
    return ChoiceDraft(question, correct, tuple(option or "" for option in options), evidence)


def read_yes_no(value: dict[str, Any]) -> YesNoDraft | Fault:
    """A question with its answer."""
    question, evidence, answer = (_text(value.get(key)) for key in ("question", "evidence", "answer"))
    if question is None or evidence is None or answer is None:
        return _MALFORMED
    if answer.lower() not in _ANSWERS:
        return Fault("no_yes_or_no", f"The answer must be Yes or No, not {answer[:40]!r}.")
    return YesNoDraft(question, _ANSWERS[answer.lower()], evidence)


def request_fault(draft: RequestDraft, tier: str, anchor: int, catalog: Catalog) -> Fault | None:
    """What is wrong with a request, before anybody is asked: arity, anchor, length, names.

    Args:
        draft: the request; its tools are of the pool.
        tier: one of `TIERS`.
        anchor: position of the tool that it is for.
        catalog: all tools.
    """
    least, most = GOLDS[tier]
    gold = set(draft.gold)
    if len(gold) != len(draft.gold):
        return Fault("repeated_tool", "A tool was given twice.")
    if len(gold) < least or (most is not None and len(gold) > most):
        wanted = f"exactly {least}" if least == most else f"{least} to {most}" if most else f"at least {least}"
        return Fault("arity", f"The request had {len(gold)} tools instead of {wanted}.")
    if anchor not in gold:
        return Fault("no_anchor", "The target tool was not among the tools.")
    if fault := _length_fault(draft.query, MOST_WORDS[tier]):
        return fault
    if tier == "hard" and len(_SENTENCE_END.findall(draft.query.rstrip(".!?") + ".")) > MOST_SENTENCES:
        return Fault("long", f"The request had more than {MOST_SENTENCES} sentences.")
    return _name_fault(draft.query, draft.gold, catalog)


def choice_fault(draft: ChoiceDraft, tool: int, catalog: Catalog) -> Fault | None:
    """What is wrong with a multiple-choice question: options, length, names, support by the document."""
    options = (draft.correct, *draft.wrong)
    if len(options) != OPTIONS:
        return Fault("options", f"There were {len(draft.wrong)} wrong options instead of {OPTIONS - 1}.")
    plain = [" ".join(tokens(unicodedata.normalize("NFKC", option))) for option in options]
    if not all(plain):
        return Fault("empty_option", "An option was empty.")
    if len(set(plain)) != OPTIONS:
        return Fault("same_options", "Two options were the same.")
    least, most = OPTION_WORDS
    for option in options:
        if not least <= len(option.split()) <= most:
            return Fault("option_length", f"An option had {len(option.split())} words instead of {least} to {most}.")
    return (
        _question_fault(draft.question)
        or _name_fault(draft.question, [tool], catalog)
        or next((f for option in options if (f := _name_fault(option, [tool], catalog))), None)
        or _evidence_fault(draft.evidence, catalog.documents[tool])
    )


def yes_no_fault(draft: YesNoDraft, target: bool, tool: int, catalog: Catalog) -> Fault | None:
    """What is wrong with a yes/no question: its answer, length, names, words of the document that decide it."""
    if draft.answer is not target:
        return Fault("other_answer", f"The answer must be {'Yes' if target else 'No'}.")
    return (
        _question_fault(draft.question)
        or _name_fault(draft.question, [tool], catalog)
        or _evidence_fault(draft.evidence, catalog.documents[tool])
    )


def repeat_fault(words: Tokens, accepted: Sequence[Tokens], novelty: float) -> Fault | None:
    """Whether an accepted item says nearly the same already."""
    if nearest(words, accepted, novelty)[0] < 0:
        return None
    return Fault("repeated", "Nearly the same has been written before; ask for something else in other words.")


def _question_fault(question: str) -> Fault | None:
    """A question speaks of this tool, and isn't endless."""
    if not _PLACEHOLDER.search(question):
        return Fault("no_this_tool", 'The question must say "this tool".')
    return _length_fault(question, QUESTION_WORDS)


def _length_fault(text: str, most: int) -> Fault | None:
    """Too short or too long a request or question."""
    words = len(text.split())
    if words < LEAST_WORDS:
        return Fault("short", f"It had {words} words; write a whole sentence.")
    return Fault("long", f"It had {words} words; {most} are allowed.") if words > most else None


def _name_fault(text: str, tools: Sequence[int], catalog: Catalog) -> Fault | None:
    """A tool's name, or all of its words wherever they stand."""
    words = set(tokens(text))
    for tool in (catalog.tools[i] for i in tools):
        name = set(tokens(split_words(tool.name)))
        if (name and name <= words) or names_tool(text, Query("", text, {tool.id: 1}), catalog):
            return Fault("names_tool", f"It held the words of the name {tool.name!r}; say it without them.")
    return None


def _evidence_fault(evidence: str, document: str) -> Fault | None:
    """The quoted words must stand in the document, one after another: what it does not say decides nothing."""
    quoted, words = tokens(evidence), tokens(document)
    least = min(2, len(words))
    starts = range(len(words) - len(quoted) + 1)
    if len(quoted) < least or not any(words[i : i + len(quoted)] == quoted for i in starts):
        return Fault("no_evidence", "The evidence was not copied word for word from the document.")
    return None


def _text(value: Any) -> str | None:
    """A value as one line of text that any file and terminal can hold, None where it is none."""
    return visible(printable(" ".join(value.split()))) if isinstance(value, str) and value.strip() else None
