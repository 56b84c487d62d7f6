"""Chat templates taken apart: what they write around turns and tools, so that no text can become a special token."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolsavvy.calls.schemas import wrapped
from toolsavvy.errors import UserError

if TYPE_CHECKING:
    from toolsavvy.models.text import TextEncoder

_EDGE = "\u241f"
_UNDATED = (
    "{%- macro strftime_now(format) -%}{{ format | replace('%d', '26') | replace('%B', 'July') | replace('%b', 'Jul')"
    " | replace('%m', '07') | replace('%Y', '2024') | replace('%H', '12') | replace('%M', '00') | replace('%S', '00')"
    " | replace('%A', 'Friday') }}{%- endmacro -%}"
)
"""Some templates write today's date. Prompts must be the same tomorrow, or stored samples would not be theirs."""
_DATE = "26 Jul 2024"
_MARKER = {
    "name": "marker_tool",
    "description": "Marks a tool.",
    "parameters": {
        "type": "object",
        "properties": {"marker_parameter": {"type": "string", "description": "Marks a parameter."}},
        "required": ["marker_parameter"],
    },
}


@dataclass(frozen=True)
class Message:
    """One turn.

    Args:
        role: system | user | assistant.
        content: its text.
    """

    role: str
    content: str


@dataclass(frozen=True)
class Span:
    """A stretch of a prompt.

    Args:
        text: what it says.
        turn: which turn's text it is; None for all else.
        is_frame: the template wrote it, so that its special tokens are meant.
    """

    text: str
    turn: int | None = None
    is_frame: bool = False


@dataclass(frozen=True)
class Framing:
    """A conversation as its template shows it, up to where the answer begins.

    Args:
        spans: in order.
        turns: the conversation after a system turn was merged where the template refuses one.
    """

    spans: tuple[Span, ...]
    turns: tuple[Message, ...]

    def encode(self, tokenizer: Any, text: TextEncoder) -> tuple[list[int], int]:
        """Token ids, one BOS first where the model has one, and the index after the last turn's last token."""
        ids: list[int] = []
        end = 0
        for span in self.spans:
            if span.text:
                ids += (
                    tokenizer(span.text, add_special_tokens=False).input_ids
                    if span.is_frame
                    else text.encode(span.text)
                )
            end = len(ids) if span.turn == len(self.turns) - 1 else end
        bos: Any = tokenizer.bos_token_id
        if bos is None:
            return ids, end
        doubled = 0
        while ids[doubled : doubled + 1] == [bos]:
            doubled += 1
        return [bos, *ids[doubled:]], end + 1 - doubled


def framed(
    tokenizer: Any, turns: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (), *, thinking: bool = False
) -> Framing:
    """Split what the tokenizer's template makes of a conversation into its own text and the turns'.

    A tokenizer without a template gets `role: text` lines, and a system turn that the template refuses goes to the
    start of the next turn.

    Args:
        tokenizer: the model's.
        turns: ending in a user's.
        tools: function schemas for the template's `tools`; give none where `shows_tools` is False.
        thinking: let the model reason first, where its template knows that.

    Raises:
        UserError: the template cannot show these turns.
    """
    spans = _spans(tokenizer, turns, tools, thinking=thinking)
    if spans is None and len(turns) > 1 and turns[0].role == "system":
        first, second, *rest = turns
        return framed(
            tokenizer, [Message(second.role, f"{first.content}\n\n{second.content}"), *rest], tools, thinking=thinking
        )
    if spans is None:
        roles = ", ".join(t.role for t in turns)
        raise UserError(
            f"the model's chat template does not show the turns {roles}", where="model",
            expected="a template for system, user and assistant turns", fix="choose an instruction-tuned model",
        )  # fmt: skip
    return Framing(tuple(spans), tuple(turns))


def shows_tools(tokenizer: Any) -> bool:
    """Whether the template writes the tools that it is given, found by giving it one."""
    if not tokenizer.chat_template:
        return False
    turns = [Message("user", "?")]
    shown = _rendered(tokenizer, turns, [wrapped(_MARKER)], thinking=False)
    return shown is not None and _MARKER["name"] in shown and "marker_parameter" in shown


def _spans(
    tokenizer: Any, turns: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, thinking: bool
) -> list[Span] | None:
    """The template's text split at the turns' contents; None where one of them is not shown."""
    marks = _Marks([t.content for t in turns], [wrapped(tool) for tool in tools], tokenizer)
    shown = [Message(t.role, marks.mark(i)) for i, t in enumerate(turns)]
    text = _rendered(tokenizer, shown, marks.tools, thinking=thinking)
    if text is None:
        return None
    spans = marks.split(text)
    return spans if {s.turn for s in spans} >= set(range(len(turns))) else None


def _rendered(tokenizer: Any, turns: Sequence[Message], tools: list[Any], *, thinking: bool) -> str | None:
    """The conversation as the template writes it; None where it refuses."""
    from jinja2 import TemplateError

    if not tokenizer.chat_template:
        return "".join(f"{t.role}: {t.content}\n" for t in turns) + "assistant:"
    offered = tools or None
    try:
        template = tokenizer.get_chat_template(None, offered)
        return str(
            tokenizer.apply_chat_template(
                [{"role": t.role, "content": t.content} for t in turns],
                tools=offered,
                chat_template=_UNDATED + template if "strftime_now" in template else template,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=thinking,
                thinking=thinking,
                date_string=_DATE,
            )
        )
    except (TemplateError, TypeError, ValueError):
        return None


class _Marks:
    """Stand for what must stay plain text while the template writes: turns, and special strings in schemas.

    Args:
        texts: of the turns.
        tools: wrapped function schemas.
        tokenizer: whose added tokens are looked for in the schemas.
    """

    def __init__(self, texts: Sequence[str], tools: Sequence[Any], tokenizer: Any) -> None:
        self.texts = list(texts)
        self.turns = len(texts)
        whole = "\0".join(_strings(tools))
        self.salt = next(n for n in range(len(whole) + 1) if f"{_EDGE}{n}:" not in whole)
        added = (str(token) for token in tokenizer.added_tokens_decoder.values()) if tools else ()
        special = sorted({t for t in added if t.strip() and t in whole}, key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, special))) if special else None
        self.tools = [self._marked(tool, pattern) for tool in tools]

    def mark(self, i: int) -> str:
        """What stands for text i."""
        return f"{_EDGE}{self.salt}:{i}{_EDGE}"

    def split(self, text: str) -> list[Span]:
        """A rendered text cut at its marks."""
        edge = r"(?:\u241f|\\u241f)"
        parts = re.split(rf"{edge}{self.salt}:(\d+){edge}", text)
        spans = []
        for at, part in enumerate(parts):
            if at % 2 == 0:
                spans.append(Span(part, is_frame=True))
            else:
                i = int(part)
                spans.append(Span(self.texts[i], turn=i if i < self.turns else None))
        return spans

    def _marked(self, value: Any, pattern: re.Pattern[str] | None) -> Any:
        """A schema as plain dicts and lists, its special strings replaced by marks."""
        if isinstance(value, Mapping):
            return {self._marked(k, pattern): self._marked(v, pattern) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._marked(v, pattern) for v in value]
        return pattern.sub(self._keep, value) if pattern and isinstance(value, str) else value

    def _keep(self, found: re.Match[str]) -> str:
        self.texts.append(found[0])
        return self.mark(len(self.texts) - 1)


def _strings(value: Any) -> list[str]:
    """Every string of a schema, keys and values."""
    if isinstance(value, Mapping):
        return [s for pair in value.items() for part in pair for s in _strings(part)]
    if isinstance(value, list | tuple):
        return [s for part in value for s in _strings(part)]
    return [value] if isinstance(value, str) else []
