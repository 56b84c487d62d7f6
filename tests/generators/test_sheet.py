"""The sheet for people: blind, safe in spreadsheets, read back with its agreement, mistakes told by line and column."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from toolsavvy.benchmark import ChoiceItem, ItemSet, RetrievalItem, ToolText, YesNoItem
from toolsavvy.errors import UserError
from toolsavvy.generators.agreement import Agreement, agreement_table, kappa
from toolsavvy.generators.sheet import drawn, guarded, key_beside, read_sheet, unguarded, write_sheet

TEXTS = {f"t{i}": ToolText(f"t{i}", "Maps", f"tool {i}", f"does {i}", "None") for i in range(20)}
POOL = tuple(f"t{i}" for i in range(14))


def sets(n: int = 10) -> dict[str, ItemSet[Any]]:
    rrb = [RetrievalItem(f"r{i}", f"want {i}", POOL[1:3], POOL, "medium", "t1") for i in range(n)]
    mcq = [ChoiceItem(f"m{i}", f"Which {i}?", f"right {i}", ("x", "y", "z"), f"t{i % 20}") for i in range(n)]
    qa = [YesNoItem(f"q{i}", f"Is it {i}?", i % 3 == 0, f"t{i % 20}") for i in range(n)]
    return {kind: ItemSet(tuple(rows), TEXTS) for kind, rows in (("rrb", rrb), ("mcq", mcq), ("qa", qa))}


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def save(path: Path, table: list[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def filled(path: Path, **changes: Any) -> Path:
    """The sheet at `path` answered right by both people, but for what `changes` do: column -> {row: cell}."""
    table, keys = rows(path), {(row["kind"], row["id"]): row["answer"] for row in rows(key_beside(path))}
    for row in table:
        row["person_1"] = row["person_2"] = keys[row["kind"], row["id"]]
        row["person_1_ok"] = row["person_2_ok"] = "yes"
    for column, cells in changes.items():
        for i, cell in cells.items():
            table[i][column] = cell
    save(path, table)
    return path


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    write_sheet(tmp_path / "sheet.csv", sets(), n=30)
    return tmp_path / "sheet.csv"


def test_the_key_says_what_the_sheet_shows_and_the_sheet_does_not(sheet: Path) -> None:
    shown, keys = rows(sheet), rows(key_beside(sheet))
    assert [row["id"] for row in shown] == [row["id"] for row in keys]
    assert not {"answer", "judge"} & set(shown[0])
    assert all(not row[column] for row in shown for column in ("person_1", "person_2", "person_1_ok", "person_2_ok"))
    letters, numbers = set(), set()
    for row, key in zip(shown, keys, strict=True):
        lines = row["item"].splitlines()
        if row["kind"] == "mcq":
            (right,) = [line for line in lines if line.startswith(f"{key['answer']}. ")]
            assert right == f"{key['answer']}. right {row['id'][1:]}"
            letters.add(key["answer"])
        elif row["kind"] == "qa":
            assert key["answer"] == ("Yes" if int(row["id"][1:]) % 3 == 0 else "No")
            assert "does" in row["tool"]
            assert "None" not in row["tool"]
        else:
            gold = {f"{n}. Maps: tool {i} - does {i}" for n in key["answer"].split() for i in (1, 2)}
            assert len(gold & set(lines)) == 2
            numbers.add(key["answer"])
    assert len(letters) > 1
    assert len(numbers) > 5


def test_the_draw_is_even_over_kinds_and_seeded() -> None:
    found = sets()
    found["qa"] = ItemSet(found["qa"].items[:2], TEXTS)
    picked = drawn(found, 16, 0)
    assert [sum(kind == k for kind, _ in picked) for k in ("rrb", "mcq", "qa")] == [7, 7, 2]
    assert len({(kind, item.id) for kind, item in picked}) == 16
    assert picked == drawn(found, 16, 0)
    assert picked != drawn(found, 16, 1)
    assert len(drawn(found, 1000, 0)) == 22
    assert drawn({}, 10, 0) == drawn({"qa": ItemSet(())}, 10, 0) == []


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+1", "-2", "@x", "\t=1", "\r=1", "  =cmd", "'quoted", "＝1", "plain", "", "a=b", "x\n=1"],  # noqa: RUF001
)
def test_no_cell_starts_a_formula(cell: str) -> None:
    safe = guarded(cell)
    assert not safe.lstrip().startswith(("=", "+", "-", "@", "＝"))  # noqa: RUF001
    assert unguarded(safe) == cell


def test_texts_that_look_like_formulas_and_ids_with_them_come_back(tmp_path: Path) -> None:
    text = ToolText("=t", "=cmd|' /C calc'!A0", "-x", "@sum\x00(1)")
    odd = [
        ChoiceItem("=1+1", "=HYPERLINK()", "+right", ("-a", "@b", "c"), "=t"),
        ChoiceItem("'2", "?", "1", ("2", "3", "4"), "=t"),
    ]
    path = tmp_path / "sheet.csv"
    write_sheet(path, {"mcq": ItemSet(tuple(odd), {"=t": text})})
    cells = [cell for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")) for cell in row]
    assert not [cell for cell in cells if cell.lstrip()[:1] in {"=", "+", "-", "@"} and cell]
    assert not any("\x00" in cell for cell in cells)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert read_sheet(filled(path)).accuracy["person_1"].value == 1.0


def test_line_ends_of_other_systems_and_pools_of_one_come_back(tmp_path: Path) -> None:
    text = ToolText("t", "s", "n", "About.")
    choice = ChoiceItem("1", "Which?\rSay.", "a\r\nb", ("c\rd", "e", "f"), "t")
    sets = {
        "mcq": ItemSet((choice,), {"t": text}),
        "rrb": ItemSet((RetrievalItem("2", "do\rit", ("t",), ("t",), "easy", "t"),), {"t": text}),
    }
    write_sheet(tmp_path / "sheet.csv", sets)
    assert b"\r" not in (tmp_path / "sheet.csv").read_bytes()
    assert read_sheet(filled(tmp_path / "sheet.csv")).accuracy["person_1"].value == 1.0


def test_answers_in_peoples_spelling(sheet: Path) -> None:
    keys = rows(key_beside(sheet))
    kinds = [row["kind"] for row in keys]
    mcq, qa, rrb = kinds.index("mcq"), kinds.index("qa"), kinds.index("rrb")
    a, b = keys[rrb]["answer"].split()
    cells = {mcq: f" {keys[mcq]['answer'].lower()}. ", qa: keys[qa]["answer"][0].lower(), rrb: f"{b}, {a}, {a}"}
    assert read_sheet(filled(sheet, person_1=cells)).accuracy["person_1"].value == 1.0
    assert read_sheet(filled(sheet, person_1={rrb: f"{a}.{b}"})).accuracy["person_1"].value == 1.0
    one = read_sheet(filled(sheet, person_1={rrb: f"{a}.0"}))
    assert one.overlap["person_1/rrb"].value == pytest.approx(0.95)


def test_agreement_by_hand(sheet: Path) -> None:
    kinds = [row["kind"] for row in rows(sheet)]
    qa = [i for i, kind in enumerate(kinds) if kind == "qa"]
    answers = [rows(key_beside(sheet))[i]["answer"] for i in qa]
    flipped = {qa[i]: "No" if answers[i] == "Yes" else "Yes" for i in (0, 1)}
    path = filled(sheet, person_1=flipped | {qa[2]: ""}, person_2_ok={0: "no", 1: "n", 2: ""})
    table = rows(path)
    save(path, table[:-1])
    found = read_sheet(path, resamples=200)
    assert (found.items, found.missing) == (30, 1)
    assert found.empty == {"person_1": 2, "person_1_ok": 1, "person_2": 1, "person_2_ok": 2}
    assert found.accuracy["person_1/qa"].value == pytest.approx(6 / 8)
    assert found.accuracy["person_1"].n == 28
    assert found.accuracy["person_2"].value == 1.0
    assert found.ok["person_2"].value == pytest.approx(26 / 28)
    assert found.kappa["person_2/key"].value == 1.0
    assert found.kappa["person_1_ok/person_2_ok"].value == 0.0
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert told["kappa"]["person_1_ok/judge"] == {"value": None, "interval": [None, None], "n": 0}
    low, high = told["accuracy"]["person_1/qa"]["interval"]
    assert 0 <= low <= 0.75 <= high <= 1
    assert len({len(row) for row in agreement_table(found).rows}) == 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kappa_is_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.choice([*"ABCD"], size=90, p=[0.5, 0.2, 0.2, 0.1])
    b = np.where(rng.random(90) < 0.6, a, rng.choice([*"ABCDE"], size=90))
    clusters = [str(i // 2) for i in range(90)]
    found = kappa(a.tolist(), b.tolist(), clusters, 300, seed)
    assert found.value == pytest.approx(cohen_kappa_score(a, b))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    draws = [
        cohen_kappa_score(a[keep], b[keep])
        for keep in (np.ravel([[2 * c, 2 * c + 1] for c in rng.integers(0, 45, 45)]) for _ in range(300))
    ]
    assert found.low == pytest.approx(np.quantile(draws, 0.025), abs=0.08)
    assert found.high == pytest.approx(np.quantile(draws, 0.975), abs=0.08)


def test_kappa_where_it_is_undefined() -> None:
    assert kappa(["A", "A"], ["A", "A"], ["1", "2"]).value is None
    assert kappa([], [], []).value is None
    assert kappa(["A", ""], ["", "B"], ["1", "2"]).n == 0
    single = kappa(["A"], ["B"], ["1"])
    assert (single.value, single.low) == (0.0, None)


def test_the_judge_is_in_the_key_and_shown_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    verdicts = {f"q{i}": "No" if i < 3 else "Yes" for i in range(10)}
    found = {"qa": sets()["qa"]}
    write_sheet(path, found, verdicts=verdicts)
    assert "judge" not in rows(path)[0]
    agreed = read_sheet(filled(path, person_1_ok=dict.fromkeys(range(3), "no"))).kappa
    assert agreed["person_1_ok/judge"].value == 1.0
    assert agreed["person_2_ok/judge"].value == 0.0
    write_sheet(path, found, verdicts=verdicts, show_verdicts=True)
    assert [row["judge"] for row in rows(path)] == [verdicts[row["id"]] for row in rows(path)]


@pytest.mark.parametrize(
    ("kind", "column", "cell", "what", "expected"),
    [
        ("mcq", "person_1", "E", "'E' is no answer", "one letter, A-D"),
        ("mcq", "person_2", "right 1", "'right 1' is no answer", "one letter, A-D"),
        ("qa", "person_1", "perhaps", "'perhaps' is no answer", "Yes or No"),
        ("rrb", "person_1", "15", "'15' is no answer", "numbers from 1 to 14"),
        ("rrb", "person_1", "0 1", "'0 1' is no answer", "numbers from 1 to 14"),
        ("rrb", "person_2", "tool 1", "'tool 1' is no answer", "numbers from 1 to 14"),
        ("qa", "person_2_ok", "2", "'2' is no verdict", "Yes or No"),
        ("qa", "id", "m77", "the key has no qa item 'm77'", "one of its 30"),
        ("qa", "kind", "aq", "the key has no 'aq' item", "one of its 30"),
    ],
)
def test_mistakes_in_a_sheet(sheet: Path, kind: str, column: str, cell: str, what: str, expected: str) -> None:
    path = filled(sheet)
    table = rows(path)
    place = next(i for i, row in enumerate(table) if row["kind"] == kind)
    line = 2 + sum(1 + sum(cell.count("\n") for cell in row.values()) for row in table[:place])
    table[place][column] = cell
    save(path, table)
    with pytest.raises(UserError) as caught:
        read_sheet(path)
    error = caught.value
    assert error.where == f"{path}, line {line}, field {'id' if column in ('id', 'kind') else column!r}".replace(
        "field id", "field 'id'"
    )
    assert what in error.what
    assert expected in error.expected
    assert error.fix


def test_rows_and_columns_that_are_no_sheet(sheet: Path) -> None:
    path = filled(sheet)
    table = rows(path)
    save(path, [*table, table[0]])
    with pytest.raises(UserError, match="stands there twice"):
        read_sheet(path)
    save(path, [table[0] | {"kind": "x" * 5000}])
    with pytest.raises(UserError, match=r"the key has no 'xxx.*… item") as caught:
        read_sheet(path)
    assert len(str(caught.value)) < 1000
    save(path, [{k: v for k, v in row.items() if k != "person_2"} for row in table])
    with pytest.raises(UserError, match="the header is"):
        read_sheet(path)
    save(path, [{k: v for k, v in row.items() if not k.endswith("_ok")} for row in table[::-1]])
    found = read_sheet(path)
    assert isinstance(found, Agreement)
    assert (found.empty["person_1_ok"], found.accuracy["person_1"].value) == (30, 1.0)


@pytest.mark.parametrize(
    ("column", "cell", "what"),
    [
        ("answer", "", "'' is no answer"),
        ("choices", "0", "'0'"),
        ("choices", "9" * 5000, "9999"),
        ("kind", "x", "unknown kind 'x'"),
        ("choices", "²", "'²'"),
    ],
)
def test_mistakes_in_a_key(sheet: Path, column: str, cell: str, what: str) -> None:
    key = key_beside(sheet)
    table = rows(key)
    table[3][column] = cell
    save(key, table)
    with pytest.raises(UserError) as caught:
        read_sheet(sheet)
    assert caught.value.where == f"{key}, line 5, field {column!r}"
    assert what in caught.value.what


def test_an_empty_sheet_gives_nulls(sheet: Path) -> None:
    told = read_sheet(sheet).as_json()
    assert told["empty"]["person_1"] == 30
    assert {one["value"] for group in ("accuracy", "ok", "kappa") for one in told[group].values()} == {None}
