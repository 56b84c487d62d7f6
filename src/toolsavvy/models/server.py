"""Conversations with any OpenAI-compatible server: in parallel, with retries, and never asked the same thing twice."""

from __future__ import annotations

import email.utils
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from toolsavvy import assets
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Message, Reply
from toolsavvy.models.responses import ResponseStore, Stored, request_key

log = logging.getLogger("toolsavvy")


@dataclass(frozen=True)
class Usage:
    """What talking to a server came to.

    Args:
        calls: answers that the server gave.
        cached: answers that were there already.
        failed: conversations without an answer.
        prompt_tokens: of the calls.
        completion_tokens: of the calls.
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ServerChat:
    """Answers of an OpenAI-compatible server (`/chat/completions`).

    Time-outs, refused connections, 408, 409, 429, 5xx and answers that are no JSON are tried again, after what
    `Retry-After` says or a doubling pause. What still fails is a `Reply` without text; a server that cannot be reached
    at all, a refused key and an unknown model stop the run with one message.

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
        if not base_url.startswith(("http://", "https://")):
            expected = "http://HOST:PORT/v1 or https://HOST/v1"
            raise UserError(f"{base_url!r} is no address", where="llm.base_url", expected=expected)
        for key, value, least in (("timeout", timeout, 1e-3), ("retries", retries, 0), ("concurrency", concurrency, 1)):
            if not value >= least:
                raise UserError(f"{value} is out of range", where=f"llm.{key}", expected=f">= {least}")
        self.name, self.base_url, self.key_env = model, base_url, key_env
        self.timeout, self.retries, self.backoff, self.max_wait = timeout, retries, backoff, max_wait
        self.concurrency, self.cache = concurrency, cache
        self.parameters, self.token_parameter = dict(parameters or {}), token_parameter
        self.usage = Usage()
        self._lock = threading.Lock()

    @cached_property
    def _store(self) -> ResponseStore | None:
        if not self.cache:
            return None
        assets.cache_dir("responses")
        return ResponseStore(assets.responses_file(self.name))

    @cached_property
    def _client(self) -> Any:
        from openai import OpenAI

        logging.getLogger("httpx").setLevel(logging.WARNING)  # a line a request
        return OpenAI(api_key=self._key or "none", base_url=self.base_url, timeout=self.timeout, max_retries=0)

    @property
    def _key(self) -> str:
        return os.environ.get(self.key_env, "")

    def answer(
        self, conversations: Sequence[Sequence[Message]], *, max_tokens: int, temperature: float = 0.0
    ) -> list[Reply]:
        """As `Chat.answer`; every answer is kept the moment it arrives, and equal requests are sent once."""
        requests = [self._request(c, max_tokens, temperature) for c in conversations]
        keys = _keys(requests, apart=temperature > 0)
        if self._store:
            self._store.refresh()
        found = {key: stored for key in keys if self._store and (stored := self._store.get(key))}
        self._count(cached=len(found))
        missing = {key: request for key, request in zip(keys, requests, strict=True) if key not in found}
        replies = {key: Reply(stored.text) for key, stored in found.items()}
        replies |= self._ask_all(missing)
        failed = [r for r in replies.values() if r.text is None]
        self._count(failed=len(failed))
        if failed:
            log.warning(
                "%d of %d conversations have no answer; the first: %s", len(failed), len(replies), failed[0].error
            )
        return [replies[key] for key in keys]

    def _request(self, conversation: Sequence[Message], max_tokens: int, temperature: float) -> dict[str, Any]:
        """Body of a request."""
        body: dict[str, Any] = {"model": self.name, "messages": [asdict(m) for m in conversation]}
        body |= {self.token_parameter: max_tokens, "temperature": temperature} | self.parameters
        return {name: value for name, value in body.items() if value is not None}

    def _ask_all(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Reply]:
        """Ask for what is missing, several at once; the first fault that holds for all of them ends it."""
        if not requests:
            return {}
        stop = threading.Event()
        pool = ThreadPoolExecutor(min(self.concurrency, len(requests)), thread_name_prefix="chat")
        try:
            futures = {key: pool.submit(self._ask, key, request, stop) for key, request in requests.items()}
            return {key: future.result() for key, future in futures.items()}
        finally:
            stop.set()  # nobody waits for an answer that is no longer wanted
            pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self, key: str, request: Mapping[str, Any], stop: threading.Event) -> Reply:
        """One conversation, with retries.

        Raises:
            UserError: the server is down, or refuses the key or the model.
        """
        error: Exception = RuntimeError("not asked")
        for attempt in range(self.retries + 1):
            if stop.is_set():
                return Reply(None, "given up, as another request showed that the server can't be used")
            try:
                return self._keep(key, self._client.post("/chat/completions", cast_to=object, body=dict(request)))
            except Exception as fault:
                error = fault
                if not _worth_retrying(fault):
                    break
            pause = self._pause(error, attempt)
            if attempt == self.retries or pause is None:
                break
            stop.wait(pause)
        if general := self._for_all(error):
            stop.set()
            raise general from error
        return Reply(None, self._told(error))

    def _keep(self, key: str, body: Any) -> Reply:
        """Read an answer and store it.

        Raises:
            ValueError: it is not what the API promises.
        """
        try:
            message = body["choices"][0]["message"]
            text, refusal = message.get("content"), message.get("refusal")
            usage = body.get("usage") or {}
            counts = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        except (TypeError, KeyError, IndexError, AttributeError, ValueError) as fault:
            raise ValueError(f"the server's answer has no choices[0].message: {str(body)[:80]!r}") from fault
        self._count(calls=1, prompt_tokens=counts[0], completion_tokens=counts[1])
        if not isinstance(text, str):
            return Reply(None, f"refused: {str(refusal or body['choices'][0].get('finish_reason'))[:200]}")
        if self._store:
            self._store.put(key, Stored(text, *counts))
        return Reply(text)

    def _pause(self, error: Exception, attempt: int) -> float | None:
        """Seconds before the next attempt; None where the server asks for more patience than there is."""
        asked = retry_after(getattr(getattr(error, "response", None), "headers", {}))
        if asked is not None:
            return asked if asked <= self.max_wait else None
        return min(self.max_wait, self.backoff * 2**attempt) * random.uniform(0.75, 1.0)

    def _for_all(self, error: Exception) -> UserError | None:
        """The message where every other request would fail the same way, else None."""
        if isinstance(error, UserError):
            return error
        status, where = getattr(error, "status_code", None), f"llm.base_url={self.base_url}"
        if _unreachable(error):
            fix = "start the server, or correct llm.base_url; answers so far are kept"
            return UserError(f"the server can't be reached ({self._told(error)})", where=where, fix=fix)
        if status in (401, 403):
            what = f"the server refuses the key in ${self.key_env}" if self._key else "the server wants a key"
            return UserError(f"{what} ({status})", where=where, fix=f"set the environment variable {self.key_env}")
        if status == 404:
            fix = "correct llm.model or llm.base_url (which usually ends in /v1)"
            return UserError(f"the server doesn't know {self.name!r} ({self._told(error)})", where=where, fix=fix)
        return None

    def _told(self, error: Exception) -> str:
        """A fault in one line, without the key."""
        status = getattr(error, "status_code", None)
        text = " ".join(f"{type(error).__name__}{f' {status}' if status else ''}: {error}".split())[:300]
        return text.replace(self._key, "***") if self._key else text

    def _count(self, **more: int) -> None:
        with self._lock:
            old = asdict(self.usage)
            self.usage = Usage(**{name: value + more.get(name, 0) for name, value in old.items()})


def _keys(requests: Sequence[Mapping[str, Any]], *, apart: bool) -> list[str]:
    """Key of every request; when sampling, equal ones are told apart by how often they stood before."""
    seen: dict[str, int] = {}
    keys = []
    for request in requests:
        key = request_key(request)
        repeat = seen.get(key, 0)
        seen[key] = repeat + 1
        keys.append(request_key(request, repeat) if apart else key)
    return keys


def _worth_retrying(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in (408, 409, 429) or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError | openai.APIResponseValidationError | ValueError)


def _unreachable(error: Exception) -> bool:
    """Whether no connection could be made, as against one that broke off or took too long."""
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "ProxyError"):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds that a server asks to wait (seconds or an HTTP date), None where it doesn't say."""
    with suppress(ValueError, TypeError):
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
    value = headers.get("retry-after")
    if value is None:
        return None
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now())
    return None
