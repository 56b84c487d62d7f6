"""What models are told: one set of prompts for all of them, so that their call rates are on one scale.

The published runs used another system prompt for some models than for others (2605.14038's released data); here the
wording is an option of the run, never of the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolsavvy.models.chat import Message, final_text
from toolsavvy.necessity.question import Question

ANSWER: Mapping[str, str] = {
    "arithmetic": (
        "Work out the value of the expression in the question. You may reason first. "
        "End with the value, and nothing else, in \\boxed{}."
    ),
    "truthfulqa": (
        "Answer the question in one or two sentences. Say only what is true; when nobody can know the answer, say so."
    ),
    "labelled": "Answer the user's request as well as you can.",
}
"""Kind of questions -> system prompt for answering without tools."""
_FORMAT: Mapping[str, str] = {
    "arithmetic": " Without a call, end your answer with the value, and nothing else, in \\boxed{}.",
    "truthfulqa": " Without a call, answer in one or two sentences.",
    "labelled": "",
}
_STANCE: Mapping[str, str] = {
    "neutral": "You can answer questions yourself or call a tool first. Call one where it is needed, and only there.",
    "discouraging": (
        "You can answer questions yourself or call a tool first. The user would rather not have tools used: "
        "call one only if you could not give a reliable answer by yourself."
    ),
    "encouraging": (
        "You can answer questions yourself or call a tool first. The user likes answers to rest on tools: "
        "call one unless you are certain of the answer without it."
    ),
}
WORDINGS = tuple(_STANCE)
"""Names of the wordings of the action prompt, the default one first."""
ASSESSMENT = (
    "You will be shown a question and what tools there are. Do not answer the question and do not call a tool. "
    "Say whether you would need a tool to answer it correctly. Reply with one word: yes or no."
)
"""System prompt of the verbalised self-assessment."""


def action(kind: str) -> dict[str, str]:
    """The action prompts of one kind of questions: wording -> system prompt.

    Args:
        kind: arithmetic | truthfulqa | labelled.
    """
    return {wording: stance + _FORMAT[kind] for wording, stance in _STANCE.items()}


def assessment(question: Question, tools: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """The turns that ask whether a tool is needed; the tools are named in the text, since none may be called.

    Args:
        question: what would be asked.
        tools: function schemas that would be offered.
    """
    offered = "\n".join(f"- {name}: {description}" for name, description in map(_named, tools))
    text = (
        f"Question: {question.text}\n\nTools:\n{offered or '(none)'}\n\nWould you need a tool to answer it correctly?"
    )
    return (Message("system", ASSESSMENT), Message("user", f"{text} Reply yes or no."))


def assessed(text: str) -> bool | None:
    """Whether an answer to `assessment` says yes; None where it says neither, or both.

    The first word counts where it is yes or no; else the only one of the two that occurs.
    """
    words = re.findall(r"[a-z]+", final_text(text).lower())
    said = {word for word in words[:1] if word in ("yes", "no")} or {word for word in words if word in ("yes", "no")}
    return said == {"yes"} if len(said) == 1 else None


def _named(tool: Mapping[str, Any]) -> tuple[str, str]:
    """Name and description of a function schema, bare or wrapped."""
    function = tool.get("function", tool)
    return str(function.get("name", "")), str(function.get("description", ""))
