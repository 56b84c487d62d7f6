"""Values as BFCL holds them: Java and JavaScript that models write as text, read as its checker does, and written back.

The Berkeley Function Calling Leaderboard (bfcl-eval 2026.3.23) has every argument of its Java and JavaScript records
written as source text, and compares what the text stands for. What does not look like its type stays text, which then
equals only a variable's name. Elements are told apart by commas alone, as there, also inside quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TYPES: Mapping[str, Mapping[str, type]] = {
    "python": {
        "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
        "any": str,
    },
    "java": {
        "byte": int, "short": int, "integer": int, "long": int, "float": float, "double": float, "boolean": bool,
        "char": str, "String": str, "any": str, "Array": list, "ArrayList": list, "HashMap": dict,
    },
    "javascript": {
        "String": str, "integer": int, "float": float, "Bigint": int, "Boolean": bool, "dict": dict, "array": list,
        "any": str,
    },
}  # fmt: skip
"""Language -> a type as BFCL names it -> what values are held as."""
ARRAYS = ("array", "tuple", "Array", "ArrayList")
"""Types whose elements have a type of their own."""
_WHOLE = r"-?\d+"
_REAL = r"-?\d+(?:\.\d+)?"
_SCALARS: Mapping[str, Mapping[str, tuple[re.Pattern[str], int]]] = {
    "java": {
        **dict.fromkeys(("byte", "short", "integer"), (re.compile(_WHOLE), 0)),
        "long": (re.compile(_WHOLE + "[lL]"), 1),
        "float": (re.compile(_REAL + r"(?:[eE][+-]?\d+)?[fF]"), 1),
        "double": (re.compile(_REAL + r"(?:[eE][+-]?\d+)?"), 0),
    },
    "javascript": {
        "integer": (re.compile(_WHOLE), 0),
        "Bigint": (re.compile(_WHOLE + "n"), 1),
        "float": (re.compile(_REAL), 0),
    },
}
"""Numbers: what they look like and how many letters end them."""
_JAVA_LIST = re.compile(r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)")
_JAVA_ADDED = re.compile(r"new\s+ArrayList<\w*>\(\)\s*\{\{(.+?)\}\}", re.DOTALL)
_JAVA_EMPTY = re.compile(r"new\s+ArrayList<\w*>\(\)")
_JAVA_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{(.*?)\}")
_JAVA_MAP = re.compile(r"new\s+HashMap<.*?>\s*\(\)\s*\{\s*\{?([^}]*)\}", re.DOTALL)
_JAVA_EMPTY_MAP = re.compile(r"new\s+HashMap<.*?>\s*\(\)")
_JAVA_ADD, _JAVA_PUT = re.compile(r"add\((.+?)\)"), re.compile(r"put\(\"(.*?)\",\s*(.*?)\)")
_JS_ROWS = re.compile(r"(?:\[|new\s+Array\()\s*(?=\[)")
_JS_NEXT, _JS_CLOSE = re.compile(r"\s*,\s*(?=\[)"), {"[": re.compile(r"\s*\]"), "(": re.compile(r"\s*\)")}
_JS_ARRAY = re.compile(r"\[(.*?)\]|\bnew\s+Array\((.*?)\)")
_JS_OBJECT, _JS_PAIR = re.compile(r"\{(.*?)\}"), re.compile(r"([^:]+):\s*(.*?)(?:,\s*(?=[^,]+:)|$)")
_LONGEST = 4_000
"""Characters of a value that are read; a longer one stays text."""


def from_source(text: str, kind: str, language: str, items: str = "") -> Any:
    """What a value written in Java or JavaScript stands for; the text itself where it is none of its type.

    Args:
        text: as the model wrote it.
        kind: BFCL's type.
        language: java | javascript.
        items: BFCL's type of the elements, "" where the source names none.
    """
    if len(text) > _LONGEST:
        return text
    return _java(text, kind, items) if language == "java" else _javascript(text, kind, items)


def to_source(value: Any, kind: str, language: str, items: str = "") -> str:
    """A value as it is written in a language, so that `from_source` gives it back; text where no notation does.

    Args:
        value: any JSON value.
        kind: BFCL's type.
        language: java | javascript.
        items: BFCL's type of the elements.
    """
    return _to_java(value, kind, items) if language == "java" else _to_javascript(value, kind)


def _scalar(text: str, kind: str, language: str) -> Any:
    """A number or truth value of its type, else the text."""
    if kind in ("boolean", "Boolean"):
        return text == "true" if text in ("true", "false") else text
    looks, tail = _SCALARS[language][kind]
    # A line break at the end is taken with `$` in the checker; int() and float() drop it.
    if not looks.fullmatch(text.removesuffix("\n")):
        return text
    digits = text.removesuffix("\n")
    digits = digits[: len(digits) - tail] if tail else digits
    try:
        return float(digits) if TYPES[language][kind] is float else int(digits)
    except ValueError:  # thousands of digits
        return text


def _java(text: str, kind: str, items: str) -> Any:
    if kind in _SCALARS["java"] or kind == "boolean":
        return _scalar(text, kind, "java")
    if kind == "ArrayList":
        return _java_list(text, items)
    if kind == "Array":
        found = _JAVA_ARRAY.search(text)
        parts = [part.strip() for part in found[1].split(",")] if found else []
        return [_java_element(part, items) for part in parts if part] if found else text
    if kind == "HashMap":
        return _java_map(text)
    return text


def _java_list(text: str, items: str) -> Any:
    """`new ArrayList<>(Arrays.asList(…))`, or with `{{ add(…); }}`."""
    if found := _JAVA_LIST.search(text):
        parts = found[1].split(",")
    elif found := _JAVA_ADDED.search(text):
        parts = _JAVA_ADD.findall(found[1])
    else:
        return [] if _JAVA_EMPTY.search(text) else text
    if items in ("char", "String"):
        return [part.strip()[1:-1] for part in parts]
    return [_java_element(part.strip(), items) for part in parts]


def _java_element(text: str, items: str) -> Any:
    return _java(text, items, "") if items else _java_literal(text)


def _java_map(text: str) -> Any:
    """`new HashMap<…>() {{ put("key", value); }}`."""
    if found := _JAVA_MAP.search(text):
        return {key: _java_literal(value.strip()) for key, value in _JAVA_PUT.findall(found[1])}
    return {} if _JAVA_EMPTY_MAP.search(text) else text


def _java_literal(text: str) -> Any:
    """A value that says its type itself."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    for kind in ("long", "float"):
        if not isinstance(value := _scalar(text, kind, "java"), str):
            return value
    return _number_or_text(text)


def _number_or_text(text: str) -> Any:
    for make in (int, float):
        try:
            return make(text)
        except ValueError:
            continue
    return text


def _javascript(text: str, kind: str, items: str) -> Any:
    if kind == "String":
        return text[1:-1] if _is_quoted(text) else text
    if kind in _SCALARS["javascript"] or kind == "Boolean":
        return _scalar(text, kind, "javascript")
    if kind == "array":
        return _js_array(text.strip(), items)
    if kind == "dict":
        return _js_object(text.strip())
    return text


def _is_quoted(text: str) -> bool:
    return any(text.startswith(mark) and text.endswith(mark) for mark in "\"'")


def _js_array(code: str, items: str) -> Any:
    """`[…]` or `new Array(…)`, also of arrays."""
    if (whole := _js_rows(code)) is not None:
        rows = [row.strip() for row in re.findall(r"\[(.*?)\]", whole)]
        rows[0] = rows[0].removeprefix("[")
        return [[_js_literal(part) for part in row.split(",")] for row in rows]
    found = _JS_ARRAY.match(code)
    if found is None:
        return code
    inner = (found[1] if found[1] is not None else found[2]).strip()
    parts = [part.strip() for part in inner.split(",")] if inner else []
    if not items:
        return [_js_literal(part) for part in parts]
    if items not in TYPES["javascript"]:
        return code if parts else []
    return [_javascript(part, items, "String" if part[:1] in "\"'" and part else "") for part in parts]


def _js_rows(code: str) -> str | None:
    """The array of arrays at the start of a text; None where it is none.

    Rows end at the first bracket after which more rows, or the end, can follow; found from the right, in linear time.
    """
    opening = _JS_ROWS.match(code)
    if opening is None:
        return None
    close = _JS_CLOSE[opening[0].rstrip()[-1]]
    # Of every place: where the array ends if a row's text goes on there; None where it never does.
    ends: list[int | None] = [None] * (len(code) + 1)
    for at in range(len(code) - 1, -1, -1):
        ends[at] = None if code[at] == "\n" else ends[at + 1]
        if code[at] != "]":
            continue
        more, end = _JS_NEXT.match(code, at + 1), close.match(code, at + 1)
        here = ends[more.end() + 1] if more else None
        here = end.end() if here is None and end else here
        ends[at] = here if here is not None else ends[at]
    end = ends[opening.end() + 1]
    return None if end is None else code[:end]


def _js_object(code: str) -> Any:
    """`{"key": value}`, up to the first closing brace."""
    if code == "{}":
        return {}
    found = _JS_OBJECT.match(code)
    if found is None:
        return code
    made: dict[str, Any] = {}
    for key, value in _JS_PAIR.findall(found[1]):
        value = value.strip()
        if value.startswith("[") and value.endswith("]"):
            held = _js_array(value, "")
        elif value.startswith("{") and value.endswith("}"):
            held = _js_object(value)
        else:
            held = _js_literal(value.strip("'\""))
        made[key.strip().strip("'\"")] = held
    return made


def _js_literal(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    return text[1:-1] if _is_quoted(text) else _number_or_text(text)


def _to_java(value: Any, kind: str, items: str) -> str:
    if isinstance(value, Mapping):
        puts = " ".join(f'put("{key}", {_to_java(held, "", "")});' for key, held in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}" if puts else "new HashMap<>()"
    if isinstance(value, list | tuple):
        inner = ", ".join(_to_java(held, items, "") if items != "String" else f'"{held}"' for held in value)
        if kind == "ArrayList":
            return f"new ArrayList<>(Arrays.asList({inner}))" if value else "new ArrayList<>()"
        if items == "String":  # read with their quotes, which no accepted value has
            inner = ", ".join(str(held) for held in value)
        return f"new {_JAVA_NAMES.get(items, 'Object')}[]{{{inner}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value}{_JAVA_TAILS.get(kind, '')}"
    return f'"{value}"' if not kind else str(value)


_JAVA_NAMES = {"integer": "int", "String": "String", "boolean": "boolean", "double": "double", "long": "long"}
_JAVA_TAILS = {"long": "L", "float": "f"}


def _to_javascript(value: Any, kind: str) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{key}": {_to_javascript(held, "")}' for key, held in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_to_javascript(held, "") for held in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value}n" if kind == "Bigint" else str(value)
    return f'"{value}"' if not kind else str(value)
