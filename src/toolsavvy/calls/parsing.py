"""Tool calls in what models write, whatever the family: Qwen, Hermes, Llama, Mistral, Gemma, plain JSON, Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolsavvy.calls.attempts import Call, Flaw, Offered
from toolsavvy.calls.dialects import DIALECTS, MOST

Outcome = Literal["called", "not_called", "malformed", "refused"]
"""What an answer to a prompt with tools is; a malformed call is never "not called"."""

_ENDS = re.compile(
    r"(?:\s|<\|(?:eot_id|eom_id|im_end|end_of_text|endoftext|end|return)\|>|</s>|<eos>|<end_of_turn>|<turn\|>)*\Z"
)
_REFUSES = re.compile(
    r"(?:(?:i['\u2019]m|i am) (?:very |so |really )?sorry|sorry|unfortunately|i apologi[sz]e)?[,.;:]?\s*(?:but\s+)?"
    r"(?:as an? (?:ai|artificial|language|large)[^,.]{0,60},\s*)?"
    r"i(?:\s*(?:can['\u2019]t|cannot|can not|won['\u2019]t|will not)|(?: am|['\u2019]m) (?:unable to|not able to))\s+"
    r"(?:help|assist|answer|comply|provide|do that|do this|respond|discuss|engage|give|fulfil|complete)\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\b(?:however|but|instead|although|that said|nevertheless|generally|here (?:is|are))\b|\n", re.I)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Parsed:
    """The calls of one answer.

    Args:
        calls: that can be carried out, in order.
        malformed: there was an attempt that can't be.
        dialect: how they were written: hermes | function | mistral | python_tag | gemma | json | python; "" for none.
        problem: what is wrong with the first that is malformed: broken | unclosed | unknown tool | arguments.
    """

    calls: tuple[Call, ...] = ()
    malformed: bool = False
    dialect: str = ""
    problem: str = ""


def parse_calls(text: str, tools: Sequence[Mapping[str, Any]]) -> Parsed:
    """Read the calls of an answer, in time proportional to its length.

    A family's own marks count wherever they stand. What has none (JSON, fenced JSON, Python) counts only where it
    begins or ends the answer, on lines of its own: an explanation that mentions a call makes none. Reasoning in
    `<think>` is left out. An attempt that is cut off, not closed, not JSON, names a tool that was not offered or gives
    no object of arguments is malformed.

    Args:
        text: the answer, with or without the model's special tokens.
        tools: function schemas that were offered, wrapped or bare.
    """
    offered = Offered(tools)
    answer = _answer(text)
    for dialect, reader in DIALECTS.items():
        if attempts := reader(answer, offered)[:MOST]:
            calls = tuple(a for a in attempts if isinstance(a, Call))
            problems = [a.problem for a in attempts if isinstance(a, Flaw)]
            return Parsed(calls, bool(problems), dialect, problems[0] if problems else "")
    return Parsed()


def outcome_of(text: str, tools: Sequence[Mapping[str, Any]]) -> Outcome:
    """What an answer to a prompt with tools is.

    called: at least one call that can be carried out. malformed: attempts, and none that can be. refused: nothing but a
    refusal, see `is_refusal`. not_called: everything else, an empty answer too.
    """
    parsed = parse_calls(text, tools)
    if parsed.calls:
        return "called"
    if parsed.malformed:
        return "malformed"
    return "refused" if is_refusal(_answer(text)) else "not_called"


def is_refusal(answer: str) -> bool:
    """Whether an answer is a refusal and nothing else.

    Narrow on purpose: it opens with "I can't help/answer/provide …" (after an apology at most), is at most two
    sentences, offers and questions to the user aside, and neither turns ("however", "but", "instead") nor goes on.
    """
    answer = answer.strip()
    opening = _REFUSES.match(answer)
    if not opening or len(answer) > 400 or _GOES_ON.search(answer[opening.end() :]):
        return False
    return sum(not sentence.endswith("?") for sentence in _SENTENCE.split(answer)) <= 2


def _answer(text: str) -> str:
    """What was said after reasoning, without the tokens that end a turn."""
    for close, opens in (("</think>", "<think>"), ("[/THINK]", "[THINK]")):
        text = text.rpartition(close)[2].lstrip()
        if text.startswith(opens):
            return ""
    end = _ENDS.search(text, max(0, len(text) - 200))
    return (text[: end.start()] if end else text).strip()
