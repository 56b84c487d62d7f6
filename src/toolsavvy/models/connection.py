"""What every client of an OpenAI-compatible server needs: address, key, patience, and faults told without the key."""

from __future__ import annotations

import email.utils
import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolsavvy.errors import UserError
from toolsavvy.tracking.masking import MASK, learn, mask_text


@dataclass(frozen=True)
class Connection:
    """A server, and how long it is waited for.

    Args:
        group: config group that names it in messages (llm, encoder).
        base_url: of the API, usually ending in /v1.
        key_env: environment variable that holds the key; servers without keys need none.
        timeout: seconds for one attempt.
        backoff: seconds before the first retry; doubled each time, with jitter.
        max_wait: longest pause in seconds; a server that asks for a longer one is not asked again.

    Raises:
        UserError: the address is none.
    """

    group: str
    base_url: str
    key_env: str
    timeout: float
    backoff: float
    max_wait: float

    def __post_init__(self) -> None:
        """An address starts with http."""
        if not self.base_url.startswith(("http://", "https://")):
            expected = "http://HOST:PORT/v1 or https://HOST/v1"
            raise UserError(f"{self.base_url!r} is no address", where=f"{self.group}.base_url", expected=expected)

    @cached_property
    def client(self) -> Any:
        """The library's client, which does not retry by itself."""
        from openai import OpenAI

        logging.getLogger("httpx").setLevel(logging.WARNING)  # a line a request
        return OpenAI(api_key=self.key or "none", base_url=self.base_url, timeout=self.timeout, max_retries=0)

    @property
    def key(self) -> str:
        """The secret, read where it is needed and kept nowhere."""
        key = os.environ.get(self.key_env, "")
        learn(key)
        return key

    def pause(self, error: Exception, attempt: int) -> float | None:
        """Seconds before the next attempt; None where the server asks for more patience than there is."""
        asked = retry_after(getattr(getattr(error, "response", None), "headers", {}))
        if asked is not None:
            return asked if asked <= self.max_wait else None
        return min(self.max_wait, self.backoff * 2**attempt) * random.uniform(0.75, 1.0)

    def told(self, error: Exception) -> str:
        """A fault in one line, without the key."""
        status = getattr(error, "status_code", None)
        text = " ".join(f"{type(error).__name__}{f' {status}' if status else ''}: {error}".split())
        return mask_text(text.replace(self.key, MASK) if self.key else text)[:300]

    def refusal(self, error: Exception, name: str) -> UserError | None:
        """The message where the server refuses the key or does not know the model, else None."""
        status, where = getattr(error, "status_code", None), f"{self.group}.base_url={self.base_url}"
        if status in (401, 403):
            what = f"the server refuses the key in ${self.key_env}" if self.key else "the server wants a key"
            return UserError(f"{what} ({status})", where=where, fix=f"set the environment variable {self.key_env}")
        if status == 404:
            fix = f"correct {self.group}.model or {self.group}.base_url (which usually ends in /v1)"
            return UserError(f"the server doesn't know {name!r} ({self.told(error)})", where=where, fix=fix)
        return None


def worth_retrying(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in (408, 409, 429) or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError | openai.APIResponseValidationError | ValueError)


def holds_all(error: Exception) -> bool:
    """Whether a fault says that the server has too much to do, whoever asks."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    return getattr(error, "status_code", None) == 429 or retry_after(headers) is not None


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
