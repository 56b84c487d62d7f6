"""Secrets come from the environment and never reach a file, a log or W&B.

A secret is known by the name of its variable or key, by its place in an address or a header, or because it was learnt
(a key of the command line, the key of a server). What is known is hidden wherever it turns up, also as JSON, URLs,
Python or HTML write it, and in base64.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

from toolsavvy.errors import plain

MASK = "***"
_NAMES = (
    r"(?:x[_\-]?)?api[_\-]?key|(?:access|secret|private|auth|signing|encryption|account|service|session)[_\-]?key"
    r"|[\w\-]*token|pass(?:wd|word|phrase|code)?|pwd|[\w\-]*secret|credentials?|authorization|auth|cookie"
)
_SECRET_NAME = re.compile(rf"(?:^|[_\-.])(?:{_NAMES})$", re.I)
_OF_VOCABULARY = re.compile(
    r"(?:^|[_\-.])(?:bos|eos|eot|pad|unk|sep|cls|mask|image|virtual|special|first|last|next|start|end|max|per)_?token$",
    re.I,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_VARIABLE = re.compile(
    r"(?:(?:^|_)(?:PASS|PWD|AUTH|COOKIE)|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(?:_?V?\d+)?$", re.I
)
_NOT_SECRET = ("PWD", "OLDPWD")
_SHORTEST = 6
_WORDS = frozenset(("", "null", "none", "true", "false", "???", MASK))

_SECRET_PARAMETER = r"(?:[\w\-]*(?:token|key|secret|password|passwd|signature|credential)|sig|auth|pwd|pass)"
_PLACES = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"(?<=://)[^\s/@:'\"<>]*:[^\s/@'\"<>]+(?=@)",  # https://user:password@host
        r"(?<=://)[^\s/@:'\"<>]{16,}(?=@)",  # https://token@host
        rf"(?<=[?&;]){_SECRET_PARAMETER}=[^\s&;#'\"<>{{}}]+",  # https://host/?token=...
        r"\b(?:Bearer|Basic)\s+(?=[\w.~+/\-]*\d)[\w.~+/\-]{8,}=*",  # headers
    )
)
_FORMATS = re.compile(
    r"\b(?:sk-[\w\-]{20,}|hf_\w{20,}|gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|xox[abprs]-[\w\-]{10,}"
    r"|eyJ[\w\-]{8,}\.eyJ[\w\-]{8,}\.[\w\-]+)|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?(?:-----END [A-Z ]+-----|$)"
)
"""What well-known services' keys look like."""

_learnt: set[str] = set()


def is_secret_name(name: str) -> bool:
    """Whether a key holds a secret: `api_key`, `hf_token`, `apiKey`; not `batch_tokens` or `eos_token`."""
    name = _CAMEL.sub("_", name.strip())
    return _SECRET_NAME.search(name) is not None and _OF_VOCABULARY.search(name) is None


def learn(*values: str) -> None:
    """Hide these values from now on, in all that this process writes; very short ones would hide ordinary words."""
    parts = (part for v in values for part in (v, re.sub(r"^(?:Bearer|Basic|Token)\s+", "", v, flags=re.I)))
    _learnt.update(part for part in parts if len(part) >= _SHORTEST and part.lower() not in _WORDS)


def learn_from(node: Any) -> None:
    """Learn what stands under names of secrets in plain data."""
    for name, value in _named(node):
        if is_secret_name(name):
            learn(*_leaves(value))
    for text in _leaves(node):
        _learn_from_addresses(text)


def _learn_from_addresses(text: str) -> None:
    """Learn passwords and keys that stand in addresses, as written and as they are meant."""
    found = [m[0].rpartition(":")[2] for m in _PLACES[0].finditer(text)] if "@" in text else []
    values = (m[0].partition("=")[2] for m in _PLACES[2].finditer(text)) if "://" in text else ()
    found += [v for v in values if len(v) >= 8 and re.search(r"\d", v)]  # `sort_key=name` is no secret
    learn(*found, *map(unquote_plus, found))


def learn_from_overrides(overrides: Iterable[str]) -> None:
    """Learn what overrides set under names of secrets, and what variables they fetch for them."""
    for override in overrides:
        _learn_from_addresses(override)
        for start, end in _assignments(override):
            value = override[start:end].strip().strip("'\"")
            learn(value, value.replace("\\", ""), *value.strip("[]").split(","))
            learn(*(os.environ.get(name.strip("'\" "), "") for name in re.findall(r"oc\.env:([^,}]+)", value)))


def secrets_in_environment() -> tuple[str, ...]:
    """Values of variables that are named like secrets, passwords in addresses, and what was learnt; longest first."""
    values = set(_learnt)
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _SECRET_VARIABLE.search(name) and name not in _NOT_SECRET:
            values.add(value)
        if "@" in value and (found := re.search(r"://[^\s/@:]*:([^\s/@]+)@", value)):
            values.update(v for v in (found[1], unquote_plus(found[1])) if len(v) >= _SHORTEST)
    return tuple(sorted(values - _WORDS, key=lambda v: (-len(v), v)))


@lru_cache(maxsize=4)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str] | None:
    """Every way to write every secret, longest first."""
    forms = {form for secret in secrets for form in _forms(secret) if len(form) >= _SHORTEST}
    return re.compile("|".join(re.escape(f) for f in sorted(forms, key=len, reverse=True))) if forms else None


def _forms(secret: str) -> Iterator[str]:
    """As it stands, line by line, and as JSON, Python, YAML, URLs, HTML and base64 write it."""
    whole = [secret, *(line for line in secret.split("\n") if len(line) >= 16)]
    for text in whole:
        for ascii_alone in (True, False):
            yield json.dumps(text, ensure_ascii=ascii_alone)[1:-1]
        yield from (text, repr(text)[1:-1], text.replace("'", "''"), html.escape(text), html.escape(text, quote=False))
        yield from (quote(text), quote(text, safe=""), quote_plus(text), quote(text, safe="").lower(), plain(text))
    raw = secret.encode("utf-8", "surrogatepass")
    for before in range(3):  # behind `user:` it starts at any of three places; what neighbours change is left off
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            coded = encode(b"\0" * before + raw).decode("ascii")
            core = coded[(0, 2, 3)[before] : len(coded) - (0, 3, 2)[(before + len(raw)) % 3]]
            yield from (core, quote(core, safe="")) if len(core) >= 8 else ()


def mask_text(text: str) -> str:
    """A text without the secrets of this process, and without what stands where secrets stand."""
    pattern = _pattern(secrets_in_environment())
    if pattern is not None:
        text = pattern.sub(MASK, text)
    if "://" in text or "=" in text or " " in text:
        text = _PLACES[0].sub(f"{MASK}:{MASK}", text)
        text = _PLACES[1].sub(MASK, text)
        text = _PLACES[2].sub(lambda found: f"{found[0].partition('=')[0]}={MASK}", text)
        text = _PLACES[3].sub(lambda found: f"{found[0].split()[0]} {MASK}", text)
    return _FORMATS.sub(MASK, text)


def mask_override(override: str) -> str:
    """An override whose values are hidden where their keys are named like secrets, also within {...}."""
    for start, end in reversed(list(_assignments(override))):
        override = f"{override[:start]}{MASK}{override[end:]}"
    return mask_text(override)


_KEY = re.compile(r"(['\"]?)([\w.\-/@]+)\1\s*[:=]\s*")
_VALUE = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\[[^\]]*\]|\$?\{[^{}]*\}|[^\s,{}\[\]'\"&#]+")


def _assignments(override: str) -> Iterator[tuple[int, int]]:
    """Where the values stand that an override sets under names of secrets: in `key=value` and `key={key:value}`."""
    name, _, value = override.partition("=")
    if value and is_secret_name(name.lstrip("+~-")):
        yield len(name) + 1, len(override)
        return
    end = 0
    for key in _KEY.finditer(override):
        found = _VALUE.match(override, key.end())
        if found is not None and found.start() >= end and is_secret_name(key[2]):
            end = found.end()
            yield found.span()


def mask(node: Any) -> Any:
    """A copy of plain data without secrets, by name of the key and by value."""
    if isinstance(node, Mapping):
        return {mask_text(k) if isinstance(k, str) else k: _under(str(k), v) for k, v in node.items()}
    if isinstance(node, list | tuple):
        return [mask(v) for v in node]
    return mask_text(node) if isinstance(node, str) else node


def _under(name: str, value: Any) -> Any:
    """The value of a key: all texts below the name of a secret are hidden, and numbers that are no counts."""
    if not is_secret_name(name):
        return mask(value)
    if isinstance(value, Mapping):
        return {k: _under(name, v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_under(name, v) for v in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_count = is_number and name.lower().endswith("token")
    return MASK if (isinstance(value, str) and value) or (is_number and not is_count) else value


def _named(node: Any) -> Iterator[tuple[str, Any]]:
    """Every key of plain data with its value, at any depth."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield str(key), value
            yield from _named(value)
    elif isinstance(node, Sequence) and not isinstance(node, str | bytes):
        for value in node:
            yield from _named(value)


def _leaves(value: Any) -> Iterator[str]:
    """The texts and numbers below a value."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def told(error: BaseException, limit: int = 300) -> str:
    """Type and message of an error in one line: masked whole, then cut, since half a secret is one too."""
    said = " ".join(str(error).split())
    return plain(mask_text(f"{type(error).__name__}: {said}"))[:limit]


class MaskingFormatter(logging.Formatter):
    """Formats a record, traceback included, and masks it; a log is read on terminals, so nothing in it commands one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line without secrets and control characters."""
        return plain(mask_text(super().format(record)))
