"""Readers that know where every value came from, so that a fault is reported with file, line and field."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from toolsavvy.errors import UserError, did_you_mean

_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true/false", int: "a number", float: "a number"}
_MISSING = object()
_CONVERT = "convert it: iconv -f LATIN1 -t UTF-8 {} > fixed"
_SIGNATURES = {
    b"\xff\xfe": "convert it: iconv -f UTF-16 -t UTF-8 {} > fixed",
    b"\xfe\xff": "convert it: iconv -f UTF-16 -t UTF-8 {} > fixed",
    b"PAR1": "it is Parquet: give it a name that ends in .parquet",
    b"\x1f\x8b": "unpack it: gunzip -c {} > fixed",
    b"PK": "unpack it: unzip {}",
}
"""First bytes -> what to do with a file that is no text."""
_LONGEST_PATH = 300
"""Characters of a path in a message."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Record:
    """One object of a source file and where it stands.

    Args:
        value: the parsed object.
        place: "tools.jsonl, line 3" or "spec.json, record 2".
    """

    value: Mapping[str, Any]
    place: str

    def where(self, field: str) -> str:
        """Place and field, as errors spell it."""
        return f"{self.place}, field {field!r}"

    def wrong(self, field: str, what: str, expected: str, fix: str = "") -> UserError:
        """An error about one field of this record."""
        return UserError(
            what, where=self.where(field), expected=expected, fix=fix or f"correct {field!r} in this record"
        )

    def get(self, field: str, kind: type | tuple[type, ...], default: Any = _MISSING) -> Any:
        """A field of a given type; null counts as absent.

        Raises:
            UserError: the field is absent and has no default, or has another type.
        """
        value = self.value.get(field)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if value is None:
            if default is not _MISSING:
                return default
            near = did_you_mean(field, self.value) if field not in self.value else ""
            hint = near if near.startswith("did you mean") else f"add {field!r} to this record"
            raise self.wrong(field, "the field is missing", _any_of(kinds), hint)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = _any_of(kinds)
            fix = f'write "{value}" with quotes' if str in kinds and isinstance(value, int | float) else ""
            raise self.wrong(field, f"{kind_name(type(value))} ({shorten(value)})", expected, fix)
        return value

    def text(self, field: str, default: str | None = "") -> str:
        """A text field, verbatim; `default=None` means that it must be there and not be blank."""
        if default is not None:
            return self.get(field, str, default)
        value = self.get(field, str)
        if not value.strip():
            raise self.wrong(field, "the text is empty", "text with at least one letter", f"fill in {field!r}")
        return value


def kind_name(kind: type) -> str:
    """What a person calls a JSON type."""
    return "nothing (null)" if kind is type(None) else _KINDS.get(kind, kind.__name__)


def _any_of(kinds: Sequence[type]) -> str:
    """What a person calls several types, each name once."""
    return " or ".join(dict.fromkeys(kind_name(kind) for kind in kinds))


def shorten(value: Any, limit: int = 60) -> str:
    """A value for an error message: one line, no control characters, bounded."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def existing(path: str | Path | None, what: str = "the catalog's file or folder", key: str = "catalog.path") -> Path:
    """The path, if something is there.

    Raises:
        UserError: no path was given, or nothing is there.
    """
    if path is None or not str(path).strip():
        raise UserError("not set", where=key, expected=what, fix=f"add {key}=/where/it/is")
    found = Path(path).expanduser()
    try:
        found.stat()
    except (OSError, ValueError) as fault:  # also a name that is too long, or below a folder that may not be entered
        why = "no such file or folder" if isinstance(fault, FileNotFoundError | NotADirectoryError) else _reason(fault)
        near = did_you_mean(found.name, _beside(found))
        fix = f"set {key}=… to {what}" + (f"; {near}" if near.startswith("did you mean") else "")
        shown = str(found) if len(str(found)) <= _LONGEST_PATH else shorten(str(found), _LONGEST_PATH)
        raise UserError(f"{why}: {shown}", where=key, expected=what, fix=fix) from fault
    return found


def _reason(fault: OSError | ValueError) -> str:
    """Why a path can't be looked at, in the system's words."""
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)


def _beside(path: Path) -> list[str]:
    """Names of what stands in a path's folder; none where that can't be told."""
    try:
        return [other.name for other in path.parent.iterdir() if other.name != path.name]
    except (OSError, ValueError):
        return []


def member(folder: Path, name: str, key: str = "catalog.path") -> Path:
    """A file that a source's folder must hold.

    Raises:
        UserError: `folder` is a file, or lacks it.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is a file", where=key, expected=f"a folder that holds {name}", fix=f"set {key}=…")
    if not (folder / name).exists():
        raise UserError(
            f"{folder} has no {name}", where=key, expected=f"a folder that holds {name}", fix=f"set {key}=…"
        )
    return folder / name


def read_text(path: Path) -> str:
    """A file as text: UTF-8, a byte order mark is dropped, line ends are kept.

    Raises:
        UserError: it can't be read, is not UTF-8 (with line and byte), or is empty.
    """
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise UserError(
            f"can't be read ({fault.strerror})",
            where=str(path),
            expected="a readable file",
            fix="name a file in it" if path.is_dir() else "check its permissions",
        ) from fault
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        start = fault.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        line = data.count(b"\n", 0, start) + 1
        raise UserError(
            f"byte 0x{data[start]:02x} at offset {start} is not UTF-8",
            where=f"{path}, line {line}",
            expected="UTF-8 text",
            fix=next((fix for start, fix in _SIGNATURES.items() if data.startswith(start)), _CONVERT).format(path.name),
        ) from fault
    if not text.strip():
        raise UserError(
            "the file is empty", where=str(path), expected="at least one record", fix="check how it was made"
        )
    return text


def read_jsonl(path: Path) -> Iterator[Record]:
    """One record a line; blank lines are skipped, CRLF and a byte order mark accepted.

    Raises:
        UserError: a line is not JSON, or not an object.
    """
    # Not str.splitlines: it would also cut at U+2028 and the like, which JSON allows inside strings.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            place = f"{path}, line {number}"
            yield as_record(parse(line, place), place)


def read_parquet(path: Path) -> Iterator[Record]:
    """One record a row.

    Raises:
        UserError: it is no Parquet file.
    """
    import polars

    try:
        frame = polars.read_parquet(path)
    except (polars.exceptions.PolarsError, OSError) as fault:
        what = f"no readable Parquet ({shorten(str(fault))})"
        raise UserError(what, where=str(path), expected="Parquet", fix="write or fetch it again") from fault
    for number, row in enumerate(frame.iter_rows(named=True), start=1):
        yield Record(row, f"{path}, row {number}")


def read_json(path: Path, *, unique_keys: bool = False) -> Any:
    """A whole JSON file; one that holds an object a line (BFCL names those .json) comes back as a list.

    `unique_keys` refuses keys that repeat, of which JSON readers silently keep the last.

    Raises:
        UserError: it is not JSON, with line and column.
    """
    text = read_text(path)
    hook = partial(_unique, place=str(path)) if unique_keys else None
    try:
        return _checked(json.loads(text, object_pairs_hook=hook), text, str(path))
    except json.JSONDecodeError as fault:
        lines = [line for line in text.split("\n") if line.strip()]
        if fault.msg == "Extra data" and len(lines) > 1 and lines[0].strip().endswith("}"):
            return [record.value for record in read_jsonl(path)]
        raise _broken(fault, f"{path}, line {fault.lineno}") from fault
    except (RecursionError, ValueError) as fault:
        raise _absurd(fault, str(path)) from fault


def read_records(path: Path) -> Iterator[Record]:
    """The objects of a JSON array.

    Raises:
        UserError: the file is not an array of objects, or is an empty one.
    """
    for number, value in enumerate(as_list(read_json(path), str(path)), start=1):
        place = f"{path}, record {number}"
        yield as_record(value, place)


def read_rows(path: Path, columns: Sequence[str], *, delimiter: str = ",", header: bool = True) -> Iterator[Record]:
    """The rows of a CSV or TSV file as records; `header=False` names the columns by `columns`.

    Raises:
        UserError: a column is missing or there twice, or a row is of another length.
    """
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter)
    names = list(columns) if not header else next(reader)
    if header and (not set(columns) <= set(names) or any(names.count(column) > 1 for column in columns)):
        raise _header(path, names, columns, delimiter)
    before = reader.line_num
    for row in reader:
        place, before = f"{path}, line {before + 1}", reader.line_num
        if not row:
            continue
        if len(row) != len(names):
            raise UserError(
                f"{len(row)} columns", where=place, expected=f"{len(names)}: {', '.join(names)}", fix="quote the texts"
            )
        yield Record(dict(zip(names, row, strict=True)), place)


def _header(path: Path, names: Sequence[str], columns: Sequence[str], delimiter: str) -> UserError:
    """The error for a header that lacks a column or has it twice; other separators than ours are named."""
    whole = delimiter.join(names)
    others = [mark for mark in ",;\t|" if mark != delimiter and set(columns) <= set(whole.split(mark))]
    fix = f"separate columns by {delimiter!r} instead of {others[0]!r}" if others else "correct the header"
    expected = delimiter.join(columns).replace("\t", "<tab>") + ", each once"
    return UserError(f"the header is {shorten(names)}", where=f"{path}, line 1", expected=expected, fix=fix)


def as_list(value: Any, place: str, what: str = "a list of objects") -> list[Any]:
    """A list with something in it.

    Raises:
        UserError: it is something else, or empty.
    """
    if not isinstance(value, list):
        raise UserError(
            f"{kind_name(type(value))} ({shorten(value)})", where=place, expected=what, fix="check which file this is"
        )
    if not value:
        raise UserError("the list is empty", where=place, expected="at least one record", fix="check how it was made")
    return value


def as_record(value: Any, place: str) -> Record:
    """An object with its place.

    Raises:
        UserError: it is not an object.
    """
    if not isinstance(value, dict):
        raise UserError(
            f"{kind_name(type(value))} ({shorten(value)})",
            where=place,
            expected="an object {…}",
            fix="correct or remove it",
        )
    return Record(value, place)


def files(path: Path, *patterns: str, key: str = "catalog.path") -> list[Path]:
    """The file itself, or a folder's files of these patterns, sorted.

    Raises:
        UserError: the folder holds none.
    """
    if path.is_file():
        return [path]
    found = sorted({p for pattern in patterns for p in path.glob(pattern) if p.is_file()})
    if not found:
        raise UserError(f"{path} holds no such file", where=key, expected=" or ".join(patterns), fix=f"set {key}=…")
    return found


def parse(text: str, place: str) -> Any:
    """JSON of one line or field, with its place in any error.

    Raises:
        UserError: it is not JSON.
    """
    try:
        return _checked(json.loads(text), text, place)
    except json.JSONDecodeError as fault:
        raise _broken(fault, place) from fault
    except (RecursionError, ValueError) as fault:
        raise _absurd(fault, place) from fault


def _unique(pairs: Sequence[tuple[str, Any]], place: str) -> dict[str, Any]:
    """An object none of whose keys repeats."""
    value = dict(pairs)
    if len(value) < len(pairs):
        double = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        where = f"{place}, field {double!r}"
        raise UserError(f"key {double!r} occurs twice", where=where, expected="unique keys", fix="remove one of them")
    return value


def _checked(value: Any, text: str, place: str) -> Any:
    """The value, unless an escape left half a character in it, which no file or model could take."""
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as fault:
            half = ascii(fault.object[fault.start : fault.end])
            raise UserError(
                f"half of a surrogate pair ({half})", where=place, expected="whole characters", fix="remove it"
            ) from fault
    return value


def _absurd(fault: RecursionError | ValueError, place: str) -> UserError:
    """JSON that is right but that Python does not take: of absurd depth, or with a number of thousands of digits."""
    if isinstance(fault, RecursionError):
        return UserError("nested too deeply", where=place, expected="JSON of ordinary depth", fix="flatten it")
    expected = "numbers of ordinary length"
    return UserError("a number has too many digits", where=place, expected=expected, fix="write it as text, in quotes")


def _broken(fault: json.JSONDecodeError, place: str) -> UserError:
    """A JSON error in our own form."""
    shown = shorten(fault.doc.split("\n")[fault.lineno - 1].strip())
    return UserError(
        f"broken JSON at column {fault.colno}: {fault.msg} ({shown})",
        where=place,
        expected="valid JSON",
        fix="mend it (JSONL holds one object a line; an unfinished last line means the file was cut off)",
    )
