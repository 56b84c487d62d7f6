"""Prompts with tools: turns, the functions offered, and what the answer is made to begin with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolsavvy.calls.schemas import wrapped
from toolsavvy.models.framing import Message, framed, shows_tools

if TYPE_CHECKING:
    from toolsavvy.models.text import TextEncoder

_TOOLS = """Functions that you can call, one JSON schema a line:
<tools>
{schemas}
</tools>
To call one, write nothing but this, with the function's name and its arguments as one JSON object:
<tool_call>
{{"name": "…", "arguments": {{"…": …}}}}
</tool_call>"""


@dataclass(frozen=True)
class Prompt:
    """What a model is asked.

    Args:
        messages: ending in a user's turn.
        tools: OpenAI-style function schemas that are offered; () offers none.
        prefill: text that the answer is made to begin with; it is part of the answer's text.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    prefill: str = ""


@dataclass(frozen=True)
class Rendered:
    """A prompt as a model reads it.

    Args:
        ids: token ids, one BOS where the model has one, up to where its own text begins.
        question_end: index after the last token of the last user turn's text; what follows is the template's.
    """

    ids: tuple[int, ...]
    question_end: int


def render(tokenizer: Any, text: TextEncoder, prompt: Prompt, *, thinking: bool = False) -> Rendered:
    """Turn a prompt into the token ids that a model reads.

    Turns and what schemas say are encoded apart from the template, so that none of it becomes a special token. The
    prefill is the experimenter's: it may hold the model's own marks, such as the start of a call.

    Args:
        tokenizer: the model's; its chat template shows the tools, or else the system turn describes them.
        text: the encoder of plain text.
        prompt: what is asked.
        thinking: let models that can reason before they answer.

    Raises:
        UserError: the template cannot show these turns.
        ValueError: the last turn is not a user's.
    """
    if not prompt.messages or prompt.messages[-1].role != "user":
        raise ValueError("a prompt ends in a user's turn")
    turns = list(prompt.messages)
    native = bool(prompt.tools) and shows_tools(tokenizer)
    if prompt.tools and not native:
        turns = _with_tools_described(turns, prompt.tools)
    framing = framed(tokenizer, turns, prompt.tools if native else (), thinking=thinking)
    ids, end = framing.encode(tokenizer, text)
    if prompt.prefill:
        ids += tokenizer(prompt.prefill, add_special_tokens=False).input_ids
    return Rendered(tuple(ids), end)


def describe_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """What a model whose template knows no tools is told of them: one schema a line, and how a call is written.

    The form of a call is that of Hermes and Qwen; the words are ours.
    """
    schemas = "\n".join(json.dumps(wrapped(tool), ensure_ascii=False, default=dict) for tool in tools)
    return _TOOLS.format(schemas=schemas)


def _with_tools_described(turns: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    about = describe_tools(tools)
    if turns[0].role == "system":
        return [Message("system", f"{turns[0].content}\n\n{about}"), *turns[1:]]
    return [Message("system", about), *turns]
