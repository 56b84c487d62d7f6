"""What a model is asked when a tool is given and its arguments are wanted, and the answer that it should learn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolsavvy.calls.flattening import Path, leaves
from toolsavvy.decoding.json_schema import normalised
from toolsavvy.models.framing import Message
from toolsavvy.models.prompts import Prompt
from toolsavvy.parameters.schema_text import schema_text
from toolsavvy.parameters.trimming import context_text
from toolsavvy.tasks import ParamTask, Upstream

if TYPE_CHECKING:
    from toolsavvy.models.text import TextEncoder

SYSTEM = "Write the arguments of the call as one JSON object, nothing else."
_FIELDS = "Tool and its fields (* required; text unless a type is given):"
_CONTEXT = "Earlier calls and what came back:"
_REQUEST = "Request:"


class ArgumentPrompts:
    """Prompts for the arguments of a given tool: schema, earlier calls with their results, and the instruction.

    Schema and results are cut to budgets of the model's own tokens by what the instruction says, the same way every
    time; the reference is never looked at. All text stays text: `models.prompts.render` lets none become a special
    token.

    Args:
        tokenizer: the model's.
        text: its encoder of plain text.
        schema_tokens: most tokens of the schema.
        context_tokens: most tokens of earlier calls and results.
        shots: solved tasks that come first, as turns.
    """

    def __init__(
        self,
        tokenizer: Any,
        text: TextEncoder,
        *,
        schema_tokens: int = 256,
        context_tokens: int = 384,
        shots: Sequence[ParamTask] = (),
    ) -> None:
        self.tokenizer, self.text = tokenizer, text
        self.schema_tokens, self.context_tokens = schema_tokens, context_tokens
        self.shots = tuple(shots)
        self._earlier = tuple(
            turn
            for shot in self.shots
            for turn in (Message("user", self.question(shot)), Message("assistant", answer_text(shot)))
        )

    def prompt(self, task: ParamTask) -> Prompt:
        """What is asked of a task in per-call form."""
        return Prompt((Message("system", SYSTEM), *self._earlier, Message("user", self.question(task))))

    def question(self, task: ParamTask) -> str:
        """The user's turn."""
        keys = sorted(_keys(task.upstream))
        schema = schema_text(task.tool, task.instruction, self.schema_tokens, self._count, keys)
        fields = sorted(_names(normalised(task.tool.parameters)))
        context = context_text(task.upstream, task.instruction, fields, self.context_tokens, self._count)
        parts = [f"{_FIELDS}\n{schema.text}"]
        if context.text:
            parts.append(f"{_CONTEXT}\n{context.text}")
        return "\n\n".join([*parts, f"{_REQUEST} {task.instruction}"])

    def _count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.text.encode_batch(texts)] if texts else []


def answer_text(task: ParamTask) -> str:
    """The reference's arguments on one line, keys in the schema's order, unknown ones last."""
    ordered = _ordered(task.reference.arguments, normalised(task.tool.parameters))
    return json.dumps(ordered, ensure_ascii=False)


def _ordered(value: Any, schema: Any) -> Any:
    schema = schema if isinstance(schema, Mapping) else {}
    if isinstance(value, Mapping):
        inner = schema.get("properties") or {}
        rest = schema.get("additionalProperties")
        keys = [*(k for k in inner if k in value), *(k for k in value if k not in inner)]
        return {k: _ordered(value[k], inner.get(k, rest)) for k in keys}
    if isinstance(value, list | tuple):
        return [_ordered(v, schema.get("items")) for v in value]
    return value


def _names(schema: Mapping[str, Any]) -> set[str]:
    """Names of all fields, nested ones too."""
    found = set()
    for name, inner in (schema.get("properties") or {}).items():
        found |= {name} | _names(inner)
    for inner in (schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())):
        found |= _names(inner) if isinstance(inner, Mapping) else set()
    return found


def _keys(upstream: Sequence[Upstream]) -> set[str]:
    parts = (part for call in upstream for leaf in leaves(call.output) for part in leaf.path)
    return {part for part in parts if isinstance(part, str)}


@dataclass(frozen=True)
class Kept:
    """Whether prompts still hold what the reference took from earlier results.

    Args:
        tasks: that have such a value.
        whole: of them, whose every such value is in the prompt.
        lost: (task id, path) of the others' values.
    """

    tasks: int
    whole: int
    lost: tuple[tuple[str, Path], ...]

    @property
    def share(self) -> float:
        """Tasks that lost nothing; 1 where there was nothing to lose."""
        return self.whole / self.tasks if self.tasks else 1.0


def kept_share(tasks: Sequence[ParamTask], prompts: ArgumentPrompts) -> Kept:
    """Of tasks whose reference holds values that earlier calls hold too: in how many are all of them in the prompt.

    Values are compared as JSON; constants and texts of one character, which stand anywhere, don't count.
    """
    lost: list[tuple[str, Path]] = []
    total = 0
    for task in tasks:
        earlier = {v for call in task.upstream for part in (call.arguments, call.output) for _, v in _said(part)}
        wanted = [(path, value) for path, value in _said(task.reference.arguments) if value in earlier]
        if not wanted:
            continue
        total += 1
        said = prompts.question(task)
        request = task.instruction.lower()
        lost += [(task.id, p) for p, v in wanted if v not in said and v.strip('"').lower() not in request]
    return Kept(total, total - len({task for task, _ in lost}), tuple(lost))


def _said(value: Any) -> Iterator[tuple[Path, str]]:
    for leaf in leaves(value):
        if isinstance(leaf.value, str | int | float) and not isinstance(leaf.value, bool) and len(str(leaf.value)) > 1:
            yield leaf.path, json.dumps(leaf.value, ensure_ascii=False)
