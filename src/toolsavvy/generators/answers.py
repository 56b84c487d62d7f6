"""What language models were asked and said while a set was written, on file: a resumed run asks nothing twice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolsavvy.errors import UserError
from toolsavvy.models.chat import Chat, Heard, Message, Reply, Usage
from toolsavvy.tracking.records import append_lines, read_lines


@dataclass(frozen=True)
class Exchange:
    """One prompt and its answer.

    Args:
        model: who was asked.
        messages: the conversation.
        text: the answer; None when there is none.
        error: why there is none.
        prompt_tokens: as the model counted them.
        completion_tokens: of the answer.
        is_cached: the answer was there from an earlier run.
    """

    model: str
    messages: tuple[Message, ...]
    text: str | None
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_cached: bool = False


class AnswerLog:
    """A chat whose answers are kept in a file, each the moment it is there.

    Several chats may share a file. A reply without text is on file once all of its batch have come, so that a run that
    is continued goes the way it would have gone, and a server that was merely down has left nothing behind.

    Args:
        chat: who answers.
        path: append-only JSON lines, with every prompt.
        where: config key of the chat, for messages.
    """

    def __init__(self, chat: Chat, path: Path, where: str = "generator.llm") -> None:
        self.chat, self.path, self.where, self.name = chat, path, where, chat.name
        rows = [r for r in read_lines(path) if r.get("model", chat.name) == chat.name]
        try:
            self._known = {str(r["key"]): _reply(r) for r in rows}
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"a line is no answer ({error!r})", where=str(path), expected="the lines that this program wrote",
                fix="delete that line, or start a new run without resume=true",
            ) from error  # fmt: skip
        self.asked = 0

    def answer(
        self,
        conversations: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        heard: Heard | None = None,
    ) -> list[Reply]:
        """One reply per conversation; those on file are not asked for again. Failures are on file too.

        Raises:
            UserError: several were asked, none was answered, and none ever has been: nobody is there.
        """
        keys = [_key(self.name, c, max_tokens, temperature) for c in conversations]
        new = {k: c for k, c in zip(keys, conversations, strict=True) if k not in self._known}
        if new:
            self._ask(list(new), list(new.values()), max_tokens, temperature)
        replies = [self._known[key] for key in keys]
        if heard:
            for i, reply in enumerate(replies):
                heard(i, reply)
        return replies

    def _ask(
        self, keys: Sequence[str], conversations: Sequence[Sequence[Message]], max_tokens: int, temperature: float
    ) -> None:
        """Ask for what is not on file, and put it there."""

        def keep(i: int, reply: Reply) -> None:
            if keys[i] not in self._known:
                row = _row(self.name, keys[i], conversations[i], reply, max_tokens, temperature)
                append_lines(self.path, [row])
                self._known[keys[i]] = _reply(row)

        def answered(i: int, reply: Reply) -> None:
            if reply.text is not None:
                keep(i, reply)

        replies = self.chat.answer(conversations, max_tokens=max_tokens, temperature=temperature, heard=answered)
        if len(replies) > 1 and all(r.text is None for r in [*replies, *self._known.values()]):
            raise UserError(
                f"{self.name} answered none of the first {len(replies)} prompts ({replies[0].error})",
                where=self.where, expected="a language model that answers",
                fix="check the llm group, or write offline with generator.backend=template",
            )  # fmt: skip
        self.asked += len(replies)
        for i, reply in enumerate(replies):
            keep(i, reply)


def exchange(model: str, conversation: Sequence[Message], reply: Reply) -> Exchange:
    """A prompt and its reply, for the record."""
    counts = reply.prompt_tokens, reply.completion_tokens
    return Exchange(model, tuple(conversation), reply.text, reply.error, *counts, reply.is_cached)


def usage(exchanges: Sequence[Exchange]) -> Usage:
    """Count calls and tokens; cached answers and answers that were asked for now are told apart."""
    calls = [e for e in exchanges if not e.is_cached]
    cached = [e for e in exchanges if e.is_cached]
    return Usage(
        calls=sum(e.text is not None for e in calls),
        cached=len(cached),
        failed=sum(e.text is None for e in calls),
        prompt_tokens=sum(e.prompt_tokens for e in calls),
        completion_tokens=sum(e.completion_tokens for e in calls),
        cached_prompt_tokens=sum(e.prompt_tokens for e in cached),
        cached_completion_tokens=sum(e.completion_tokens for e in cached),
    )


def printable(text: str) -> str:
    """Text that UTF-8 can hold: a server may send half a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _row(
    name: str, key: str, conversation: Sequence[Message], reply: Reply, max_tokens: int, temperature: float
) -> dict[str, Any]:
    """A line of the file."""
    return {
        "key": key,
        "model": name,
        "text": reply.text if reply.text is None else printable(reply.text),
        "error": printable(reply.error),
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "is_cached": reply.is_cached,
        "messages": [{k: printable(v) for k, v in asdict(m).items()} for m in conversation],
        "max_tokens": max_tokens,
        "temperature": temperature,
    }


def _reply(row: dict[str, Any]) -> Reply:
    """The reply that a line holds."""
    counts = int(row.get("prompt_tokens", 0)), int(row.get("completion_tokens", 0))
    return Reply(row["text"], row["error"], *counts, bool(row.get("is_cached", False)))


def _key(name: str, conversation: Sequence[Message], max_tokens: int, temperature: float) -> str:
    """Hash of everything that an answer depends on."""
    digest = hashlib.sha256(f"{name} {max_tokens} {temperature}".encode("utf-8", "surrogatepass"))
    for message in conversation:
        digest.update(repr((message.role, message.content)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
