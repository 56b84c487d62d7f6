"""How each family of models writes calls: Qwen, Hermes, Llama, Mistral, Gemma, plain JSON, Python.

Every reader runs in time proportional to the answer: what it tries over and over is bounded by `MOST`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.calls.attempts import Attempt, Flaw, Offered, from_code, from_value, json_at

MOST = 256
"""Calls that are read of one answer; also how many places are tried where one might begin."""
_TAG = re.compile(r"<tool_call>\s*")
_CLOSE = "</tool_call>"
_FUNCTION = re.compile(r"<function=([\w.\-]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([\w.\-]+)>")
_MISTRAL = re.compile(r"\[TOOL_CALLS\]\s*")
_MISTRAL_NAME = re.compile(r"([\w.\-]+)\s*(?:\[CALL_ID\]\s*[\w\-]*\s*)?(?:\[ARGS\]\s*(?=\{)|(?=\{))")
_PYTHON_TAG = "<|python_tag|>"
_GEMMA = re.compile(r"(?:<start_function_call>|<\|tool_call>)\s*call:([\w.\-]+)\s*")
_GEMMA_END = re.compile(r"<end_function_call>|<tool_call\|>")
_GEMMA_TEXT = re.compile(r"<escape>(.*?)<escape>|<\|\"\|>(.*?)<\|\"\|>", re.DOTALL)
_GEMMA_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")
_FENCE = re.compile(r"```[ \t]*(\w*)[ \t]*\r?\n?")
_LINE_OF_JSON = re.compile(r"^[ \t]{0,16}(?=[\[{])", re.MULTILINE)
_JSON_CALL = re.compile(
    r"\[?\s*\{\s*(?:\"type\"\s*:\s*\"function\"\s*,\s*)?\"(?:name|function)\"\s*:\s*(?:\{\s*\"name\"\s*:\s*)?\"([^\"\n]*)\""
)
_GIVEN = re.compile(r"\"(?:arguments|parameters)\"\s*:")
_CODE = re.compile(r"\[?\s*(?:print\(\s*)?([A-Za-z_][\w.]*)\s*\(")
_CODE_CUT = re.compile(r"\s*(?:[A-Za-z_]\w*\s*=|[\"'])")


def hermes(answer: str, offered: Offered) -> list[Attempt]:
    """`<tool_call>{…}</tool_call>` (Qwen, Hermes), also with `<function=…>` or Python inside."""
    found: list[Attempt] = []
    at = 0
    for _ in range(MOST):
        tag = _TAG.search(answer, at)
        if tag is None:
            break
        at = tag.end()
        if at == len(answer):
            found.append(Flaw("unclosed"))
        elif answer[at] in "{[":
            attempts, end = _json_values(answer, at, offered)
            if end >= 0 and answer.startswith(_CLOSE, end):
                found += attempts
            else:
                found.append(Flaw("broken" if answer.find(_CLOSE, at) >= 0 else "unclosed"))
            at = max(at, end)
        else:
            end = answer.find(_CLOSE, at, at + 20_000)
            found += _inside(answer[at : end if end >= 0 else at + 20_000], offered)
    return found


def _inside(body: str, offered: Offered) -> list[Attempt]:
    """What stands between the tags where it is no JSON; words about the tags are no attempt."""
    if _FUNCTION.match(body):
        return function(body, offered)
    body = body.partition("<tool_call>")[0]
    if attempts := from_code(body, offered):
        return attempts
    return [Flaw("broken")] if any(name in body for name in offered.parameters) else []


def function(answer: str, offered: Offered) -> list[Attempt]:
    """`<function=name>{…}</function>` (Llama), or with `<parameter=…>` elements (Qwen's coders)."""
    found: list[Attempt] = []
    at = 0
    while len(found) < MOST and (tag := _FUNCTION.search(answer, at)):
        end = answer.find("</function>", tag.end())
        if end < 0:
            return [*found, Flaw("unclosed")]
        body, at = answer[tag.end() : end].strip(), end
        if body.startswith("{"):
            value, stop = json_at(body, 0)
            found.append(offered.attempt(tag[1], value) if stop == len(body) else Flaw("broken"))
        else:
            given = _elements(body)
            found.append(Flaw("broken") if given is None else offered.attempt(tag[1], given))
    return found


def _elements(body: str) -> dict[str, Any] | None:
    """Arguments as `<parameter=name>value</parameter>`; None where something else stands between them."""
    given: dict[str, Any] = {}
    at = 0
    while at < len(body):
        opening = _PARAMETER.match(body, at)
        end = body.find("</parameter>", at)
        if opening is None or end < 0:
            return None
        given[opening[1]] = body[opening.end() : end].removeprefix("\n").removesuffix("\n")
        at = end + len("</parameter>")
        while body[at : at + 1].isspace():
            at += 1
    return given


def mistral(answer: str, offered: Offered) -> list[Attempt]:
    """`[TOOL_CALLS] [{…}]` or `[TOOL_CALLS]name[ARGS]{…}`, the latter also where the special tokens were dropped."""
    found: list[Attempt] = []
    at = 0
    bare = _MISTRAL_NAME.match(answer)
    if bare and bare[1] in offered:
        attempt, at = _named(answer, bare, offered)
        found.append(attempt)
    while len(found) < MOST and (mark := _MISTRAL.search(answer, at)):
        at = mark.end()
        if named := _MISTRAL_NAME.match(answer, at):
            attempt, at = _named(answer, named, offered)
            found.append(attempt)
        elif at == len(answer):
            found.append(Flaw("unclosed"))
        elif answer[at] in "{[":
            attempts, end = _json_values(answer, at, offered)
            found += attempts if end >= 0 else [Flaw("broken")]
            at = max(at, end)
    return found


def _named(answer: str, name: re.Match[str], offered: Offered) -> tuple[Attempt, int]:
    """A name before its object of arguments, and where the object ends."""
    value, end = json_at(answer, name.end())
    return (offered.attempt(name[1], value), end) if end >= 0 else (Flaw("broken"), name.end())


def python_tag(answer: str, offered: Offered) -> list[Attempt]:
    """`<|python_tag|>{…}` or `<|python_tag|>name.call(…)` (Llama 3)."""
    _, tag, body = answer.partition(_PYTHON_TAG)
    body = body.replace(_PYTHON_TAG, "\n").strip()
    if not tag:
        return []
    if body[:1] in ("{", "["):
        attempts, end = _json_values(body, 0, offered)
        return attempts if end >= 0 else [Flaw("broken")]
    return from_code(body, offered) or [Flaw("broken" if body else "unclosed")]


def gemma(answer: str, offered: Offered) -> list[Attempt]:
    """`<start_function_call>call:name{key:<escape>value<escape>}<end_function_call>`, also in Gemma 4's marks."""
    found: list[Attempt] = []
    for begin in _GEMMA.finditer(answer):
        end = _GEMMA_END.search(answer, begin.end())
        if end is None or len(found) == MOST:
            return [*found, Flaw("unclosed")]
        value = _gemma_object(answer[begin.end() : end.start()].strip())
        found.append(Flaw("broken") if value is None else offered.attempt(begin[1], value))
    return found


def _gemma_object(body: str) -> Any:
    """`{key:<escape>text<escape>,n:3}` as a value; None where it is none."""
    texts: list[str] = []

    def keep(found: re.Match[str]) -> str:
        texts.append(found[1] if found[1] is not None else found[2])
        return f"\x00{len(texts) - 1}\x00"

    bare = _GEMMA_KEY.sub(r'\1"\2":', _GEMMA_TEXT.sub(keep, body.replace("\x00", "")))
    text = re.sub("\x00(\\d+)\x00", lambda m: json.dumps(texts[int(m[1])]), bare)
    value, end = json_at(text, 0)
    return value if end == len(text) else None


def plain_json(answer: str, offered: Offered) -> list[Attempt]:
    """Calls as JSON, bare or fenced, that begin or end the answer."""
    parts = [answer, *(body for language, body, is_edge in _fences(answer) if is_edge and language in _JSON_FENCES)]
    for part in parts:
        if found := _json_here(part.lstrip(), offered):
            return found
    for tried, line in enumerate(_LINE_OF_JSON.finditer(answer)):
        if tried == MOST:
            break
        attempts, end = _json_values(answer, line.end(), offered, marked=False)
        if attempts and end == len(answer):
            return attempts
        if end < 0 and _is_broken_call(answer, line.end(), offered) and "\n\n" not in answer[line.end() :]:
            return [Flaw("broken")]
    return []


_JSON_FENCES = ("", "json", "tool_call", "tool_calls", "tool_code")


def _json_here(text: str, offered: Offered) -> list[Attempt]:
    """Calls as JSON at the start of a text; a broken one that was meant as a call is a flaw."""
    attempts, end = _json_values(text, 0, offered, marked=False)
    return [Flaw("broken")] if end < 0 and _is_broken_call(text, 0, offered) else attempts


def _is_broken_call(text: str, start: int, offered: Offered) -> bool:
    """Whether what is no JSON was meant as a call: it names a tool, or has arguments."""
    begin = _JSON_CALL.match(text, start)
    return begin is not None and (begin[1] in offered or _GIVEN.search(text, begin.end()) is not None)


def _json_values(text: str, at: int, offered: Offered, *, marked: bool = True) -> tuple[list[Attempt], int]:
    """Attempts of the JSON values that follow one another from `at`, and where they end; -1 where the first is none."""
    found: list[Attempt] = []
    end = -1
    while len(found) < MOST and text[at : at + 1] in ("{", "["):
        value, stop = json_at(text, at)
        attempts = from_value(value, offered, marked=marked) if stop >= 0 else []
        if not attempts:
            return found, stop if end < 0 else end
        found += attempts
        at = stop
        while text[at : at + 1] in (" ", "\n", "\r", "\t", ";", ","):
            at += 1
        end = at
    return found, end


def python(answer: str, offered: Offered) -> list[Attempt]:
    """Calls as Python: the whole answer, its first or last line, or a fence that begins or ends it."""
    for language, body, is_edge in _fences(answer):
        if not is_edge or language not in ("tool_code", "python", "py", ""):
            continue
        attempts = from_code(body, offered)
        if language == "tool_code":
            return attempts or [Flaw("broken")]
        if known := [a for a in attempts or [] if a != Flaw("unknown tool")]:
            return known
    lines = answer.splitlines() or [""]
    for part in dict.fromkeys((answer, *lines[:1], *lines[-1:])):
        if found := _line_of_code(part.strip(), offered, is_last=part in (answer, lines[-1])):
            return found
    return []


def _line_of_code(text: str, offered: Offered, *, is_last: bool) -> list[Attempt]:
    """Calls of a text that is Python and nothing else; of tools that nobody offered only in a list, by keyword."""
    begin = _CODE.match(text)
    if begin is None:
        return []
    attempts = from_code(text, offered)
    if attempts is None:
        is_cut = is_last and begin[1] in offered and _CODE_CUT.match(text, begin.end())
        return [Flaw("unclosed")] if is_cut else []
    listed = text.startswith("[") and "=" in text
    return attempts if listed or Flaw("unknown tool") not in attempts else []


def _fences(answer: str) -> list[tuple[str, str, bool]]:
    """(language, body, whether it begins or ends the answer) of every fenced block; one that is cut off ends it."""
    marks = list(_FENCE.finditer(answer))
    ends = [*marks[1::2], None] if len(marks) % 2 else marks[1::2]
    last = len(answer.rstrip())
    found = []
    for opening, closing in zip(marks[::2], ends, strict=True):
        is_edge = opening.start() == 0 or closing is None or closing.end() >= last
        body = answer[opening.end() : closing.start() if closing else len(answer)]
        found.append((opening[1].lower(), body, is_edge))
    return found


DIALECTS: Mapping[str, Callable[[str, Offered], list[Attempt]]] = {
    "hermes": hermes,
    "function": function,
    "mistral": mistral,
    "python_tag": python_tag,
    "gemma": gemma,
    "json": plain_json,
    "python": python,
}
"""Readers in the order in which they are tried; [] says that there was no attempt."""
