from __future__ import annotations

import collections
import csv
import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from conftest import SHARED
from toolsavvy.config.compose import build, compose, typed
from toolsavvy.errors import UserError
from toolsavvy.necessity.labels import labels_of, quadrants
from toolsavvy.necessity.questions.recorded import RELEASED, Recorded

COLUMNS = "domain,model,id,correct_count,total_samples,necessary,called,has_output"
ARITHMETIC = "math_arithmetic_union"
TOOL = {"type": "function", "function": {"name": "calculator", "parameters": {}}}
ROWS = [
    f"{ARITHMETIC},A,m1,10,10,0,0,1",
    f"{ARITHMETIC},A,m2,9,10,0,1,1",
    f"{ARITHMETIC},A,m3,0,10,1,1,0",
    f"{ARITHMETIC},A,m4,8,10,1,0,1",
    f"{ARITHMETIC},B,m1,3,5,1,0,0",
    "truthfulqa,A,t1,1,10,1,0,1",
]
QUESTIONS = [
    {"domain": ARITHMETIC, "id": f"m{i}", "question": f"What is {e}?", "correct_answer": gold, "expression": e}
    for i, (e, gold) in enumerate([("4 * 21", 84), ("3 + 4", 7), ("135 % 7", 2), ("12 * 345", 1)], start=1)
] + [{"domain": "truthfulqa", "id": "t1", "question": "Who?", "best_answer": "B", "correct_answers": "A; B; see a;b",
      "incorrect_answers": "C; D", "category_topic": "Law"}]  # fmt: skip
ANSWERS = {"m1": "84", "m2": "<tool_call>", "m3": "not listed", "m4": "4140"}


def lines(path: Path, rows: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), encoding="utf-8")
    return path


def table(folder: Path, rows: Iterable[str] = ROWS) -> Path:
    """The layout with labels.csv."""
    lines(folder / "labels.csv", [COLUMNS, *rows])
    lines(folder / "questions.jsonl", QUESTIONS)
    lines(folder / "prompts.jsonl", [{"domain": ARITHMETIC, "model": "A", "system": "Be good.", "function": [TOOL]}])
    raw = folder / "raw" / ARITHMETIC / "A"
    raw.mkdir(parents=True)
    outputs = [{"id": id, "output": text} for id, text in ANSWERS.items()]
    (raw / "necessary_A_outputs.json").write_text(json.dumps(outputs[2:]))
    (raw / "unnecessary_A_outputs.json").write_text(json.dumps(outputs[:2]))
    return folder


def record(id: str, correct: int, **metadata: Any) -> dict[str, Any]:
    question = next(q for q in QUESTIONS if q["id"] == id)
    about = {k: v for k, v in question.items() if k not in ("domain", "id", "question")}
    turns = [{"role": "system", "content": "Be good."}, {"role": "user", "content": question["question"]}]
    counts = {"correct_count": correct, "total_samples": 10, **about, **metadata}
    return {"id": id, "history": turns, "function": [TOOL], "metadata": counts}


def folders(root: Path, **splits: list[Any]) -> Path:
    """The release's own layout of the same rows."""
    own = {
        "unnecessary_Notcalled": [record("m1", 10)],
        "unnecessary_called": [record("m2", 9)],
        "necessary_called": [record("m3", 0)],
        "necessary_Notcalled": [record("m4", 8)],
        "necessary_A_outputs": [{"id": "m4", "output": ANSWERS["m4"]}],
        "unnecessary_A_outputs": [{"id": id, "output": ANSWERS[id]} for id in ("m1", "m2")],
    } | splits
    folder = root / "raw_data" / ARITHMETIC / "A"
    folder.mkdir(parents=True)
    for name, records in own.items():
        (folder / f"{name}.json").write_text(json.dumps(records))
    return root


def fault(call: Callable[[], Any], *, what: str, where: str, expected: str = "") -> None:
    with pytest.raises(UserError) as caught:
        call()
    error = caught.value
    assert what in error.what
    assert where in error.where
    assert expected in error.expected
    assert error.expected
    assert error.fix


@pytest.mark.parametrize("layout", [table, folders])
def test_both_layouts_say_the_same(layout: Callable[[Path], Path], tmp_path: Path) -> None:
    source = Recorded(layout(tmp_path), ARITHMETIC, "A")
    asked, seen = source.load(), source.observed()
    by_id = {q.id: q for q in asked.questions}
    assert tuple(q.id for q in asked.questions) == seen.ids
    found = {id: (c, n, o) for id, c, n, o in zip(seen.ids, seen.correct, seen.samples, seen.outcomes, strict=True)}
    assert found == {
        "m1": (10, 10, "not_called"), "m2": (9, 10, "called"), "m3": (0, 10, "called"), "m4": (8, 10, "not_called")
    }  # fmt: skip
    assert seen.families == tuple(by_id[id].family for id in seen.ids)
    assert by_id["m3"].text == "What is 135 % 7?"
    assert (by_id["m3"].gold, by_id["m3"].expression, by_id["m3"].family) == (2, "135 % 7", "small_mod")
    assert source.outputs() == {id: ANSWERS[id] for id in ("m1", "m2", "m4")}
    assert (asked.name, asked.checker, asked.tools) == (ARITHMETIC, "number", (TOOL,))
    assert asked.action_prompts[RELEASED] == "Be good."
    audit = asked.audit
    assert (audit["labelled_necessary"], audit["called"], audit["answers_released"]) == (2, 2, 3)
    assert (audit["labels_against_all_right"], audit["labels_against_nine_of_ten_right"]) == (1, 0)
    assert audit["gold_against_expression"] == 1, "12 * 345 is not 1"


def test_questions_with_texts_for_answers(tmp_path: Path) -> None:
    asked = Recorded(table(tmp_path), "truthfulqa", "A").load()
    (question,) = asked.questions
    assert (question.family, question.text) == ("Law", "Who?")
    assert (question.correct, question.incorrect) == (("B", "A", "see a;b"), ("C", "D"))
    assert (asked.checker, asked.tools, RELEASED in asked.action_prompts) == ("similarity", (), False)


def test_the_table_alone_is_enough(tmp_path: Path) -> None:
    lines(tmp_path / "labels.csv", [COLUMNS, *ROWS])
    source = Recorded(tmp_path, ARITHMETIC, "B")
    assert source.observed().samples.tolist() == [5]
    assert source.load().audit["questions_without_text"] == 1
    assert source.load().families == (ARITHMETIC,)
    assert source.outputs() == {}


def test_a_model_that_never_calls_has_empty_files(tmp_path: Path) -> None:
    source = Recorded(folders(tmp_path, necessary_called=[], unnecessary_called=[]), ARITHMETIC, "A")
    assert source.observed().outcomes == ("not_called", "not_called")


def test_what_is_not_there_is_said_with_what_is(tmp_path: Path) -> None:
    path = table(tmp_path)
    fault(lambda: Recorded().load(), what="not set", where="questions.path")
    fault(lambda: Recorded(path / "no").load(), what="no such file or folder", where="questions.path")
    fault(
        lambda: Recorded(path, "math", "A").load(),
        what="no domain 'math'", where="questions.domain", expected=f"one of: {ARITHMETIC}, truthfulqa",
    )  # fmt: skip
    fault(
        lambda: Recorded(path, "truthfulqa", "B").load(),
        what="no model 'B'",
        where="questions.model",
        expected="one of: A",
    )
    fault(lambda: Recorded(path).load(), what="not set", where="questions.model", expected="one of: A, B")
    empty = tmp_path / "empty"
    empty.mkdir()
    fault(
        lambda: Recorded(empty, ARITHMETIC, "A").load(), what="neither", where="questions.path", expected="labels.csv"
    )


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    path = folders(tmp_path)
    (path / "raw_data" / ARITHMETIC / "A" / "unnecessary_called.json").unlink()
    fault(
        lambda: Recorded(path, ARITHMETIC, "A").load(),
        what="no unnecessary_called.json", where="questions.path", expected="necessary_called.json",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "what", "where", "expected"),
    [
        (f"{ARITHMETIC},A,m9,11,10,0,0,0", "11 of 10 answers are right", "line 8, field 'correct_count'", "0 to 10"),
        (f"{ARITHMETIC},A,m9,1,0,0,0,0", "no samples", "line 8, field 'total_samples'", "at least 1"),
        (f"{ARITHMETIC},A,m9,-1,10,0,0,0", "'-1' is no count", "line 8, field 'correct_count'", "whole number"),
        (f"{ARITHMETIC},A,m9,1.5,10,0,0,0", "'1.5' is no count", "line 8, field 'correct_count'", "whole number"),
        (f"{ARITHMETIC},A,m9,1,10,yes,0,0", "'yes' is no label", "line 8, field 'necessary'", "0 or 1"),
        (f"{ARITHMETIC},A,m9,1,10,1,2,0", "'2' is no label", "line 8, field 'called'", "0 or 1"),
        (f"{ARITHMETIC},A,m9,1,10,1,0,", "'' is no label", "line 8, field 'has_output'", "0 or 1"),
        (f"{ARITHMETIC},A,,1,10,1,0,0", "empty", "line 8, field 'id'", "text"),
        (f"{ARITHMETIC},A,m1,1,10,1,0,0", "'m1' occurs twice", "line 8, field 'id'", "once"),
        (f"{ARITHMETIC},A,m9,1", "4 columns", "line 8", "8: domain"),
    ],
)
def test_a_bad_row_is_refused_with_its_place(tmp_path: Path, row: str, what: str, where: str, expected: str) -> None:
    path = table(tmp_path, [*ROWS, row])
    fault(lambda: Recorded(path, ARITHMETIC, "A").load(), what=what, where=f"labels.csv, {where}", expected=expected)


@pytest.mark.parametrize(
    ("bad", "what", "where"),
    [
        (record("m1", 11), "11 of 10", "record 1, metadata, field 'correct_count'"),
        (record("m1", 1, total_samples=None), "missing", "record 1, metadata, field 'total_samples'"),
        (record("m1", 1, correct_answer="84"), "text", "record 1, metadata, field 'correct_answer'"),
        (record("m1", 1) | {"metadata": None}, "missing", "record 1, field 'metadata'"),
        (record("m1", 1) | {"history": []}, "no user turn", "record 1, field 'history'"),
        (record("m2", 1), "occurs twice", "record 1, field 'id'"),
        ("m1", "text", "record 1"),
    ],
)
def test_a_bad_record_is_refused_with_its_place(tmp_path: Path, bad: Any, what: str, where: str) -> None:
    path = folders(tmp_path, unnecessary_Notcalled=[bad])
    fault(lambda: Recorded(path, ARITHMETIC, "A").load(), what=what, where=f"unnecessary_Notcalled.json, {where}")


def test_the_option_of_the_group(tmp_path: Path) -> None:
    overrides = ["method=necessity", "questions=recorded", f"questions.path={table(tmp_path)}", "questions.model=A"]
    source = build(typed(compose(overrides).config).questions)
    assert len(source.load()) == 4


REAL = SHARED / "tool_cognition_action"
source_of = functools.cache(Recorded)
MODELS = ("Qwen3-4B", "Qwen3-8B", "Llama-3.1-8B-Instruct", "Llama-3.2-3B-Instruct")


@pytest.mark.skipif(not REAL.is_dir(), reason="shared data is absent")
@pytest.mark.parametrize("domain", [ARITHMETIC, "truthfulqa"])
@pytest.mark.parametrize("model", MODELS)
def test_quadrants_of_the_paper(domain: str, model: str) -> None:
    """What labels.csv implies, counted here with the csv module alone."""
    counts: dict[str, collections.Counter[tuple[bool, bool]]] = {
        r: collections.Counter() for r in ("strict", "released")
    }
    with (REAL / "labels.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (row["domain"], row["model"]) == (domain, model):
                right = int(row["correct_count"])
                counts["strict"][right < 10, row["called"] == "1"] += 1
                counts["released"][right < 9, row["called"] == "1"] += 1
                assert (right < 9) == (row["necessary"] == "1")
    source = source_of(REAL, domain, model)
    seen = source.observed()
    for rule, found in counts.items():
        table = quadrants(labels_of(seen, rule), seen.called(), resamples=20)
        expected = tuple(found[key] for key in ((True, True), (True, False), (False, True), (False, False)))
        assert table.counts == expected
        assert table.mismatch_rate.value == pytest.approx((expected[1] + expected[2]) / sum(expected))
    audit = source.load().audit
    assert audit["labels_against_nine_of_ten_right"] == 0
    assert audit["labels_against_all_right"] == sum(
        counts["strict"][True, c] - counts["released"][True, c] for c in (0, 1)
    )
    assert audit["gold_against_expression"] == audit["questions_without_text"] == 0
    assert "other" not in audit["families"]


@pytest.mark.skipif(not REAL.is_dir(), reason="shared data is absent")
@pytest.mark.parametrize("pair", sorted(f"{d.parent.name}/{d.name}" for d in REAL.glob("raw/*/*")) or ["absent"])
def test_the_releases_own_files_agree_with_the_table(pair: str) -> None:
    domain, model = pair.split("/")
    own, table = (source_of(path, domain, model) for path in (REAL / "raw", REAL))
    facts = []
    for seen in (own.observed(), table.observed()):
        facts.append(dict(zip(seen.ids, zip(seen.correct.tolist(), seen.outcomes, strict=True), strict=True)))
    assert len(facts[0]) > 600
    assert facts[0].items() <= facts[1].items()
    questions = {q.id: q for q in table.load().questions}
    assert all(questions[q.id] == q for q in own.load().questions)
    assert own.outputs().items() <= table.outputs().items()
    assert set(own.load().tools[0]) == {"type", "function"}
