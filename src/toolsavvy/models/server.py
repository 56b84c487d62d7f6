"""Conversations with any OpenAI-compatible server: in parallel, with retries, and never asked the same thing twice."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from toolsavvy import assets
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Heard, Message, Reply, Usage
from toolsavvy.models.connection import Connection, holds_all, worth_retrying
from toolsavvy.models.pacing import Pace, each
from toolsavvy.models.responses import ResponseStore, Stored, request_key

log = logging.getLogger("toolsavvy")

GIVEN_UP = "given up, as another request showed that the server can't be used"
"""Of a request that was not asked (again)."""


@dataclass(frozen=True)
class Ask:
    """One request of its own.

    Args:
        messages: the turns; a last one of the assistant is what its answer begins with.
        max_tokens: longest answer.
        temperature: 0 is greedy.
        fields: further fields of the request: tools, seed.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float
    fields: Mapping[str, Any] = field(default_factory=dict)


class ServerChat:
    """Answers of an OpenAI-compatible server (`/chat/completions`).

    Time-outs, refused connections, 408, 409, 429, 5xx and answers that are no JSON are tried again, after what
    `Retry-After` says or a doubling pause. What still fails is a `Reply` without text; a server that cannot be reached
    at all, a refused key and an unknown model stop the run with one message. What the server asks of one request
    (429, `Retry-After`) and what shows that it is gone hold all of them (`Pace`); requests are made when it is their
    turn, so that a hundred thousand take no more memory than their answers.

    Args:
        model: name of the model on the server.
        base_url: of the API, usually ending in /v1.
        key_env: environment variable that holds the key; servers without keys need none.
        timeout: seconds for one attempt.
        retries: further attempts after the first.
        backoff: seconds before the first retry; doubled each time, with jitter.
        max_wait: longest pause in seconds; a server that asks for a longer one is not asked again.
        concurrency: requests at once.
        cache: keep answers in the cache folder, keyed by model, messages and parameters.
        parameters: further fields of every request ({"top_p": 0.9}); null takes a field out that is there by default.
        token_parameter: what the server calls the limit of an answer: max_tokens | max_completion_tokens.

    Raises:
        UserError: no base_url or a number out of range.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "http://127.0.0.1:8000/v1",
        key_env: str = "OPENAI_API_KEY",
        timeout: float = 120.0,
        retries: int = 5,
        backoff: float = 1.0,
        max_wait: float = 60.0,
        concurrency: int = 8,
        cache: bool = True,
        parameters: Mapping[str, Any] | None = None,
        token_parameter: str = "max_tokens",
    ) -> None:
        self._connection = Connection("llm", base_url, key_env, timeout, backoff, max_wait)
        for key, value, least in (("timeout", timeout, 1e-3), ("retries", retries, 0), ("concurrency", concurrency, 1)):
            if not value >= least:
                raise UserError(f"{value} is out of range", where=f"llm.{key}", expected=f">= {least}")
        self.name, self.base_url = model, base_url
        self.retries, self.concurrency, self.cache = retries, concurrency, cache
        self.parameters, self.token_parameter = dict(parameters or {}), token_parameter
        self.usage, self.pace = Usage(), Pace(concurrency)
        self._lock = threading.Lock()

    @cached_property
    def _store(self) -> ResponseStore | None:
        if not self.cache:
            return None
        assets.cache_dir("responses")
        return ResponseStore(assets.responses_file(self.name))

    def answer(
        self,
        conversations: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        heard: Heard | None = None,
    ) -> list[Reply]:
        """As `Chat.answer`; every answer is kept the moment it arrives, and equal requests are sent once."""
        keys = _keys((self._request(c, max_tokens, temperature) for c in conversations), apart=temperature > 0)
        if self._store:
            self._store.refresh()
        found = {key: stored for key in keys if self._store and (stored := self._store.get(key))}
        places: dict[str, list[int]] = {}
        for i, key in enumerate(keys):
            places.setdefault(key, []).append(i)

        def tell(key: str, reply: Reply) -> None:
            if heard:
                for i in places[key]:
                    heard(i, reply)

        missing = [key for key in places if key not in found]
        replies = {key: Reply(a.text, "", a.prompt_tokens, a.completion_tokens, True) for key, a in found.items()}
        self._count_cached(list(replies.values()))
        for key, reply in replies.items():
            tell(key, reply)
        body = lambda key: self._request(conversations[places[key][0]], max_tokens, temperature)  # noqa: E731
        replies |= self._ask_all(missing, body, tell)
        failed = [r for r in replies.values() if r.text is None]
        self._count(failed=len(failed))
        if failed:
            log.warning(
                "%d of %d conversations have no answer; the first: %s", len(failed), len(replies), failed[0].error
            )
        return [replies[key] for key in keys]

    def ask(self, asks: Sequence[Ask], *, heard: Heard) -> None:
        """Send requests that each have fields of their own; answers are told, and kept by nobody here.

        Calls that the server has taken out of an answer (`tool_calls`) are written back into its text.

        Args:
            asks: what to send; none is left out, however alike they are.
            heard: told of each reply as soon as it is there, also of those without text.

        Raises:
            UserError: the server can't be used at all.
        """

        def body(key: str) -> dict[str, Any]:
            own = asks[int(key)]
            return {**self._request(own.messages, own.max_tokens, own.temperature), **own.fields}

        keys = [str(i) for i in range(len(asks))]
        replies = self._ask_all(keys, body, lambda key, reply: heard(int(key), reply), keep=False)
        self._count(failed=sum(reply.text is None and not reply.finish_reason for reply in replies.values()))

    def _request(self, conversation: Sequence[Message], max_tokens: int, temperature: float) -> dict[str, Any]:
        """Body of a request."""
        body: dict[str, Any] = {"model": self.name, "messages": [asdict(m) for m in conversation]}
        body |= {self.token_parameter: max_tokens, "temperature": temperature} | self.parameters
        return {name: value for name, value in body.items() if value is not None}

    def _ask_all(
        self,
        keys: Sequence[str],
        body: Callable[[str], Mapping[str, Any]],
        tell: Callable[[str, Reply], None],
        *,
        keep: bool = True,
    ) -> dict[str, Reply]:
        """Ask for what is missing, several at once; the first fault that holds for all of them ends it."""
        replies: dict[str, Reply] = {}
        stop = threading.Event()

        def hear(key: str, reply: Reply) -> None:
            replies[key] = reply
            if reply.error != GIVEN_UP:
                tell(key, reply)

        def work(key: str) -> Reply:
            return self._ask(key if keep else None, body(key), stop)

        if keys:
            each(keys, work, hear, workers=min(self.concurrency, len(keys)), stop=stop)
        return {key: replies[key] for key in keys}

    def _ask(self, key: str | None, request: Mapping[str, Any], stop: threading.Event) -> Reply:
        """One conversation, with retries; its answer is kept where it has a key.

        Raises:
            UserError: the server is down, or refuses the key or the model.
        """
        error: Exception = RuntimeError("not asked")
        for attempt in range(self.retries + 1):
            try:
                with self.pace.turn(stop) as mine:
                    if not mine:
                        return Reply(None, GIVEN_UP)
                    answer = self._connection.client.post("/chat/completions", cast_to=object, body=dict(request))
                reply = self._keep(key, answer)
                self.pace.went_well()
                return reply
            except Exception as fault:
                error = fault
                if not worth_retrying(fault):
                    break
            pause = self._connection.pause(error, attempt)
            if attempt == self.retries or pause is None:
                break
            if holds_all(error) or _unreachable(error):
                self.pace.hold(pause)
            else:
                stop.wait(pause)
        if general := self._for_all(error):
            stop.set()
            raise general from error
        return Reply(None, self._connection.told(error))

    def _keep(self, key: str | None, body: Any) -> Reply:
        """Read an answer and store it, where it has a key.

        Raises:
            ValueError: it is not what the API promises.
        """
        try:
            message = body["choices"][0]["message"]
            text, refusal = message.get("content"), message.get("refusal")
            ending = str(body["choices"][0].get("finish_reason") or "stop"), str(refusal or "")
            calls = [_written(call) for call in message.get("tool_calls") or ()]
            usage = body.get("usage") or {}
            counts = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        except (TypeError, KeyError, IndexError, AttributeError, ValueError) as fault:
            raise ValueError(f"the server's answer has no choices[0].message: {str(body)[:80]!r}") from fault
        self._count(calls=1, prompt_tokens=counts[0], completion_tokens=counts[1])
        if calls:
            text = "\n".join([text, *calls] if isinstance(text, str) and text.strip() else calls)
        if not isinstance(text, str):
            why = f"refused: {str(refusal or body['choices'][0].get('finish_reason'))[:200]}"
            return Reply(None, why, *counts, False, *ending)
        if self._store and key is not None:
            self._store.put(key, Stored(text, *counts))
        return Reply(text, "", *counts, False, *ending)

    def _for_all(self, error: Exception) -> UserError | None:
        """The message where every other request would fail the same way, else None."""
        if isinstance(error, UserError):
            return error
        if _unreachable(error):
            where = f"llm.base_url={self._connection.base_url}"
            fix = "start the server, or correct llm.base_url; answers so far are kept"
            return UserError(f"the server can't be reached ({self._connection.told(error)})", where=where, fix=fix)
        return self._connection.refusal(error, self.name)

    def _count_cached(self, replies: Sequence[Reply]) -> None:
        tokens = {"cached_prompt_tokens": sum(r.prompt_tokens for r in replies)}
        tokens["cached_completion_tokens"] = sum(r.completion_tokens for r in replies)
        self._count(cached=len(replies), **tokens)

    def _count(self, **more: int) -> None:
        with self._lock:
            old = asdict(self.usage)
            self.usage = Usage(**{name: value + more.get(name, 0) for name, value in old.items()})


def _keys(requests: Iterable[Mapping[str, Any]], *, apart: bool) -> list[str]:
    """Key of every request; when sampling, equal ones are told apart by how often they stood before."""
    seen: dict[str, int] = {}
    keys = []
    for request in requests:
        key = request_key(request)
        repeat = seen.get(key, 0)
        seen[key] = repeat + 1
        keys.append(request_key(request, repeat) if apart else key)
    return keys


def _written(call: Any) -> str:
    """A call that the server has parsed, as models write it; arguments that are no JSON stay the text that they are."""
    function = call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            log.debug("a call's arguments are no JSON: %.80r", arguments)
    written = json.dumps({"name": function.get("name"), "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{written}\n</tool_call>"


def _unreachable(error: Exception) -> bool:
    """Whether no connection could be made, as against one that broke off or took too long."""
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "ProxyError"):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
