"""Files of predictions: what is read, what is mended, what is refused, and what a model's text becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parameter_tasks import line, made
from toolsavvy.errors import UserError
from toolsavvy.methods.answering import answer_of
from toolsavvy.methods.plans import named_files
from toolsavvy.methods.predicted import PredictionFile, read_predictions

TASKS = made().records


def read(path: Path, *rows: Any, known: tuple[str, ...] = ()) -> PredictionFile:
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    path.joinpath("p.jsonl").write_text(text, encoding="utf-8")
    return read_predictions(path / "p.jsonl", TASKS, known)


def one(path: Path, arguments: Any) -> Any:
    return read(path, line(TASKS[0], calls=[{"name": "book", "arguments": arguments}])).answers["r0"]


def test_calls_are_read_in_order_and_none_is_no_call(tmp_path: Path) -> None:
    double = next(t for t in TASKS if len(t.references) == 2)
    found = read(tmp_path, line(double), line(TASKS[6]), {"id": "r0", "calls": [{"name": "book"}]})
    assert [c.name for c in found.answers[double.id].calls or ()] == ["book", "book"]
    assert found.answers["r6"].calls == ()
    assert [dict(c.arguments) for c in found.answers["r0"].calls or ()] == [{}]


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        ('{"a": 1}', ()),
        ('```json\n{"a": 1}\n```', ("fence",)),
        ('{"a": 1,}', ("trailing_comma",)),
        ('{"a": 1 // one\n}', ("comments",)),
        ("{'a': 1}", ("quotes",)),
    ],
)
def test_arguments_may_be_text(tmp_path: Path, text: str, repairs: tuple[str, ...]) -> None:
    found = read(tmp_path, line(TASKS[0], calls=[{"name": "book", "arguments": text}]))
    answer = found.answers["r0"]
    assert answer.calls is not None
    assert answer.calls[0].arguments == {"a": 1}
    assert answer.repairs == repairs
    assert found.texts == (not repairs)


def test_what_cant_be_read_is_an_answer_all_the_same(tmp_path: Path) -> None:
    for broken in ('{"a": ', "no idea", "", "[1, 2]"):
        answer = one(tmp_path, broken)
        assert (answer.calls, answer.missing) == (None, False)


def test_not_finite_numbers_and_absurd_depth_break_nothing(tmp_path: Path) -> None:
    row = '{"id": "r0", "calls": [{"name": "book", "arguments": {"a": NaN, "b": -Infinity}}]}'
    assert read(tmp_path, row).answers["r0"].calls is not None
    deep: Any = 1
    for _ in range(150):
        deep = {"a": deep}
    assert one(tmp_path, deep).calls is None
    assert one(tmp_path, json.dumps(deep)).calls is None


def test_lines_about_other_tasks_of_the_source_are_counted(tmp_path: Path) -> None:
    found = read(tmp_path, line(TASKS[0]), {"id": "train-1", "calls": []}, known=("train-1",))
    assert (len(found.answers), found.elsewhere) == (1, 1)


def test_marks_and_blank_lines_of_editors_are_let_pass(tmp_path: Path) -> None:
    rows = [json.dumps(line(t)) for t in TASKS[:3]]
    (tmp_path / "p.jsonl").write_bytes(("\ufeff" + "\r\n\r\n".join(rows)).encode())
    assert len(read_predictions(tmp_path / "p.jsonl", TASKS).answers) == 3


@pytest.mark.parametrize(
    ("rows", "what", "field", "number"),
    [
        ([line(TASKS[0]), line(TASKS[1]), line(TASKS[0])], "'r0' occurs twice (first: line 1)", "id", 3),
        ([line(TASKS[0]), {"id": "r999x", "calls": []}], "unknown task 'r999x'", "id", 2),
        ([{"calls": []}], "missing", "id", 1),
        ([{"id": 3, "calls": []}], "a number", "id", 1),
        ([{"id": "r0"}], "missing", "calls", 1),
        ([{"id": "r0", "calls": {"name": "book"}}], "an object", "calls", 1),
        ([{"id": "r0", "calls": ["book()"]}], "text", "calls[0]", 1),
        ([{"id": "r0", "calls": [{"arguments": {}}]}], "missing", "name", 1),
        ([{"id": "r0", "calls": [{"name": "book", "arguments": [1]}]}], "a list", "arguments", 1),
    ],
)
def test_faults_are_told_with_line_and_field(
    tmp_path: Path, rows: list[Any], what: str, field: str, number: int
) -> None:
    with pytest.raises(UserError) as told:
        read(tmp_path, *rows)
    error = told.value
    assert what in error.what
    assert f"line {number}" in error.where
    assert f"field {field!r}" in error.where
    assert error.expected
    assert error.fix


def test_broken_lines_and_empty_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError) as told:
        read(tmp_path, line(TASKS[0]), '{"id": "r1", "calls": [')
    assert "line 2" in told.value.where
    with pytest.raises(UserError, match="empty"):
        read(tmp_path)


def test_systems_are_called_as_their_files(tmp_path: Path) -> None:
    assert named_files(["a/qwen.jsonl"]) == {"qwen": "a/qwen.jsonl"}
    assert named_files(["a/one.jsonl", "b/two.jsonl"]) == {"one": "a/one.jsonl", "two": "b/two.jsonl"}
    both = named_files(["x/a/one.jsonl", "x/b/one.jsonl"])
    assert both == {"a/one": "x/a/one.jsonl", "b/one": "x/b/one.jsonl"}
    assert len(named_files(["one.jsonl", "x/one.jsonl", "one.json"])) == 3


def test_a_models_text_is_a_call_of_the_given_tool() -> None:
    task = made().calls[0]
    good, none = answer_of(task, '{"place": "x",}'), answer_of(task, "no")
    assert good.calls is not None
    assert (good.calls[0].name, good.repairs) == ("book", ("trailing_comma",))
    assert none.calls is None
