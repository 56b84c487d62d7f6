"""A sheet of items for two people to answer blind, and the way back from it.

The sheet and its key are two files, so that nobody sees an answer by scrolling.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.benchmark import ChoiceItem, ItemSet, RetrievalItem, ToolText, YesNoItem
from toolsavvy.catalogs.reading import Record, read_rows, shorten
from toolsavvy.catalogs.toolsense_items import KINDS, is_blank
from toolsavvy.errors import did_you_mean, plain
from toolsavvy.generators.agreement import OK, PEOPLE, Agreement, Key, agreement_of

COLUMNS = ("kind", "id", "item", "tool", *(column for person in PEOPLE for column in (person, person + OK)))
KEY_COLUMNS = ("kind", "id", "answer", "choices", "subject", "judge")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LONGEST = 1_500
"""Characters of a tool's text in the sheet: spreadsheets cut cells at 32,767, and a request shows a whole pool."""
_ACTIVE = re.compile(r"\s*[=+\-@＝＋－＠'\t\r]")  # noqa: RUF001 - full-width signs start formulas too
_YES_NO = {"yes": "Yes", "y": "Yes", "no": "No", "n": "No"}


@dataclass(frozen=True)
class Line:
    """One item of the sheet with its place in the key.

    Args:
        kind: rrb, mcq or qa.
        id: of the item.
        item: what people read, with what they are to fill in.
        tool: the text of the tool that a question is about; "" for requests, whose pool stands in the item.
        answer: right: a letter, "Yes" or "No", or the numbers of the gold tools, ascending.
        choices: how many options or pool tools there are.
        subject: tool that the item is about: what is independent.
    """

    kind: str
    id: str
    item: str
    tool: str
    answer: str
    choices: int
    subject: str


def key_beside(sheet: Path) -> Path:
    """Where the key of a sheet is written: `sheet.csv` has `sheet_key.csv`."""
    return sheet.with_name(f"{sheet.stem}_key{sheet.suffix}")


def write_sheet(
    path: Path,
    sets: Mapping[str, ItemSet[Any]],
    *,
    n: int = 100,
    seed: int = 0,
    verdicts: Mapping[str, str] | None = None,
    show_verdicts: bool = False,
) -> None:
    """Draw items, equally many of each kind as far as there are, and write the sheet and its key.

    Args:
        path: CSV; the key goes to `key_beside(path)`.
        sets: rrb, mcq, qa -> items.
        n: items in all.
        seed: of the draw and of the order of options and pools.
        verdicts: item id -> the judge's verdict ("Yes": sound), for the key.
        show_verdicts: whether people see it too; blind by default.
    """
    lines = [_line(kind, item, sets[kind].tools, seed) for kind, item in drawn(sets, n, seed)]
    told = verdicts or {}
    more = ("judge",) if show_verdicts else ()
    head = (*COLUMNS, "comment", *more)
    blank = [""] * (2 * len(PEOPLE) + 1)
    rows = [(r.kind, r.id, r.item, r.tool, *blank, *((told.get(r.id, ""),) if more else ())) for r in lines]
    keys = [(r.kind, r.id, r.answer, str(r.choices), r.subject, told.get(r.id, "")) for r in lines]
    _write(key_beside(path), KEY_COLUMNS, keys)
    _write(path, head, rows)


def drawn(sets: Mapping[str, ItemSet[Any]], n: int, seed: int) -> list[tuple[str, Any]]:
    """Kind and item of a random draw without replacement; a kind that has too few leaves its places to the others."""
    kinds = [kind for kind in KINDS if kind in sets and sets[kind].items]
    wanted, left = dict.fromkeys(kinds, 0), n
    while left and any(wanted[kind] < len(sets[kind].items) for kind in kinds):
        for kind in kinds:
            if left and wanted[kind] < len(sets[kind].items):
                wanted[kind], left = wanted[kind] + 1, left - 1
    rng = np.random.default_rng(seed)
    chosen = {kind: rng.permutation(len(sets[kind].items))[: wanted[kind]] for kind in kinds}
    return [(kind, sets[kind].items[i]) for kind in kinds for i in sorted(chosen[kind].tolist())]


def _line(kind: str, item: RetrievalItem | ChoiceItem | YesNoItem, texts: Mapping[str, ToolText], seed: int) -> Line:
    """What people see of an item; the order of its options depends on the seed and its id alone."""
    rng = np.random.default_rng([seed, zlib.crc32(f"{kind} {item.id}".encode())])
    if isinstance(item, YesNoItem):
        shown = f"{item.question}\n\nAnswer Yes or No."
        return Line(kind, item.id, shown, _shown(texts[item.tool]), "Yes" if item.answer else "No", 2, item.tool)
    if isinstance(item, ChoiceItem):
        order = rng.permutation(len(item.options))
        options = [f"{LETTERS[place]}. {item.options[i]}" for place, i in enumerate(order)]
        shown = "\n".join([item.question, "", *options, "", f"Answer with one letter, A-{LETTERS[len(order) - 1]}."])
        right = LETTERS[int(np.argmin(order))]
        return Line(kind, item.id, shown, _shown(texts[item.tool]), right, len(order), item.tool)
    pool = [item.pool[i] for i in rng.permutation(len(item.pool))]
    tools = [f"{place}. {_shown(texts[tool])}" for place, tool in enumerate(pool, start=1)]
    ask = "Answer with the numbers of all tools that are needed, separated by blanks."
    right = " ".join(str(place) for place, tool in enumerate(pool, start=1) if tool in item.gold)
    return Line(kind, item.id, "\n".join([item.query, "", *tools, "", ask]), "", right, len(pool), item.anchor)


def _shown(text: ToolText) -> str:
    """A tool as people see it, within bounds."""
    whole = ": ".join(part for part in (text.service, text.name) if part)
    own = "" if is_blank(text.own) or text.own in text.shown else text.own
    about = " ".join(f"{text.shown} {own}".split())
    return f"{whole} - {about if len(about) <= LONGEST else about[: LONGEST - 1] + '…'}"


def _write(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A CSV file that spreadsheets read as text: with a byte order mark, and no cell that starts a formula."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    # A lone carriage return would end a row: the csv module does not quote cells for it.
    whole = ([cell.replace("\r\n", "\n").replace("\r", "\n") for cell in row] for row in rows)
    writer.writerows([guarded(cell) for cell in row] for row in whole)
    with atomic_write(path, text=True) as file:
        file.write("\ufeff" + buffer.getvalue())


def guarded(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe goes before what could start one."""
    shown = "\r".join(map(plain, cell.split("\r")))  # line ends are the writer's
    return f"'{shown}" if _ACTIVE.match(shown) else shown


def unguarded(cell: str) -> str:
    """What `guarded` was given; control characters stay spelled out."""
    return cell[1:] if cell.startswith("'") else cell


def read_sheet(path: Path, key: Path | None = None, *, resamples: int = 2000, seed: int = 0) -> Agreement:
    """Read a filled-in sheet back and measure agreement; columns may stand in any order, empty cells are counted.

    Args:
        path: the sheet.
        key: its key; None is the file beside it.
        resamples: bootstrap replicates; items about one tool are drawn together.
        seed: of the resampling.

    Raises:
        UserError: an unknown or repeated item, or an answer that is none, with line and column.
    """
    keys = _read_key(key or key_beside(path))
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for record in read_rows(path, ("kind", "id", *PEOPLE)):
        place = _place(record, keys)
        if place in cells:
            raise record.wrong("id", f"item {shorten(place[1])} stands there twice", "one row an item")
        filled = {person: _answer(record, person, keys[place]) for person in PEOPLE}
        cells[place] = filled | {person + OK: _yes_no(record, person + OK) for person in PEOPLE}
    return agreement_of(
        list(keys.values()), [cells.get(place, {}) for place in keys], len(keys) - len(cells), resamples, seed
    )


def _read_key(path: Path) -> dict[tuple[str, str], Key]:
    """The key's rows by kind and id."""
    keys: dict[tuple[str, str], Key] = {}
    for record in read_rows(path, KEY_COLUMNS):
        row = {column: unguarded(str(record.value[column])) for column in KEY_COLUMNS}
        place = (row["kind"], row["id"])
        if row["kind"] not in KINDS:
            raise record.wrong("kind", f"unknown kind {shorten(row['kind'])}", ", ".join(KINDS))
        if place in keys:
            raise record.wrong("id", f"item {shorten(row['id'])} stands there twice", "one row an item")
        least = 1 if row["kind"] == "rrb" else 2  # other people's requests may have a pool of one
        if not re.fullmatch(r"\d{1,5}", row["choices"]) or not least <= int(row["choices"]) <= 10_000:
            raise record.wrong("choices", shorten(row["choices"]), f"a whole number from {least}")
        probe = Key(row["kind"], "", int(row["choices"]), row["subject"], _verdict(row["judge"]))
        answer = _normal(row["answer"], probe)
        if not answer:
            raise record.wrong("answer", f"{shorten(row['answer'])} is no answer", _expected(probe))
        keys[place] = Key(probe.kind, answer, probe.choices, probe.subject, probe.judge)
    return keys


def _verdict(text: str) -> str:
    """A judge's verdict as Yes or No; "" where it is neither."""
    return _YES_NO.get(text.strip().lower(), "")


def _place(record: Record, keys: Mapping[tuple[str, str], Key]) -> tuple[str, str]:
    """Kind and id of a row that the key knows."""
    place = (unguarded(str(record.value["kind"])).strip(), unguarded(str(record.value["id"])))
    if place not in keys:
        near = did_you_mean(place[1], [key for kind, key in keys if kind == place[0]])
        fix = near if near.startswith("did you mean") else "use the key that was written with this sheet"
        shown = place[0] if place[0] in KINDS else shorten(place[0])
        raise record.wrong("id", f"the key has no {shown} item {shorten(place[1])}", f"one of its {len(keys)}", fix)
    return place


def _answer(record: Record, person: str, key: Key) -> str:
    """A person's answer in the key's spelling; "" for an empty cell."""
    cell = unguarded(str(record.value[person])).strip()
    answer = _normal(cell, key)
    if cell and not answer:
        raise record.wrong(person, f"{shorten(cell)} is no answer", _expected(key), "correct or empty this cell")
    return answer


def _expected(key: Key) -> str:
    """What an answer looks like."""
    if key.kind == "mcq":
        return f"one letter, A-{LETTERS[key.choices - 1]}"
    return "Yes or No" if key.kind == "qa" else f"numbers from 1 to {key.choices}, separated by blanks"


def _normal(cell: str, key: Key) -> str:
    """An answer as the key spells it; "" where it is none."""
    if key.kind == "qa":
        return _YES_NO.get(cell.strip().lower().rstrip("."), "")
    if key.kind == "mcq":
        letter = cell.strip().upper().rstrip(".):")
        return letter if len(letter) == 1 and letter in LETTERS[: key.choices] else ""
    whole = re.sub(r"^(\d+)\.0$", r"\1", cell.strip())  # spreadsheets make 3.0 of a 3
    if re.fullmatch(r"\d{1,5}(?:[\s,;.]+\d{1,5})*[\s,;.]*", whole) is None:
        return ""
    numbers = sorted({int(number) for number in re.findall(r"\d+", whole)})
    return " ".join(map(str, numbers)) if numbers[0] >= 1 and numbers[-1] <= key.choices else ""


def _yes_no(record: Record, column: str) -> str:
    """Whether a person calls an item sound; the column may be absent."""
    cell = unguarded(str(record.value.get(column, ""))).strip()
    if cell and not _verdict(cell):
        raise record.wrong(column, f"{shorten(cell)} is no verdict", "Yes or No", "correct or empty this cell")
    return _verdict(cell)
