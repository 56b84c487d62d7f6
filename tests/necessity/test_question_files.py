"""TruthfulQA and benchmarks with fixed labels: small files, bad ones, and the real ones."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import SHARED
from toolsavvy import assets, unpacking
from toolsavvy.errors import UserError
from toolsavvy.necessity.question import Question
from toolsavvy.necessity.questions.labelled import Labelled
from toolsavvy.necessity.questions.subset import subset
from toolsavvy.necessity.questions.truthfulqa import TruthfulQA

COLUMNS = ["Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source"]
ROW = ["Adversarial", "Law", "May I?", "No", "No; Never; https://x.org/a;b says no", "Yes; Sure;", "https://x.org"]
shared = pytest.mark.skipif(not SHARED.is_dir(), reason="shared data is absent")


def write_csv(
    path: Path, *rows: list[str], columns: list[str] = COLUMNS, encoding: str = "utf-8", end: str = "\n"
) -> Path:
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, lineterminator=end).writerows([columns, *rows])
    return path


@pytest.mark.parametrize(("encoding", "end"), [("utf-8", "\n"), ("utf-8-sig", "\r\n")])
def test_a_csv_is_read_with_its_lists_whatever_its_line_ends(tmp_path: Path, encoding: str, end: str) -> None:
    path = write_csv(
        tmp_path / "t.csv", ROW, ["a", "Health", "Is it; or not?", "Yes", "Yes", "No", ""], encoding=encoding, end=end
    )
    data = TruthfulQA(path).load()
    first, second = data.questions
    assert first.correct == ("No", "Never", "https://x.org/a;b says no")
    assert first.incorrect == ("Yes", "Sure")
    assert (first.id, second.id) == ("truthfulqa_0", "truthfulqa_1")
    assert (first.family, second.family, second.text) == ("Law", "Health", "Is it; or not?")
    assert data.tools[0]["function"]["name"] == "web_search"
    assert data.checker == "similarity"
    assert set(data.action_prompts) == {"neutral", "discouraging", "encouraging"}


def test_columns_are_found_by_name_and_given_ids_kept(tmp_path: Path) -> None:
    columns = ["tca_id", *reversed(COLUMNS)]
    path = write_csv(tmp_path / "t.csv", ["truthfulqa_9", *reversed(ROW)], ["", *reversed(ROW)], columns=columns)
    questions = TruthfulQA(path).load().questions
    assert [q.id for q in questions] == ["truthfulqa_9", "truthfulqa_1"]
    assert questions[0].correct[0] == "No"


def test_the_best_answer_comes_first_and_no_answer_is_both(tmp_path: Path) -> None:
    row = ["a", "Law", "Q?", "B", "A; B; C; A", "C; D; B; D", ""]
    data = TruthfulQA(write_csv(tmp_path / "t.csv", row)).load()
    assert data.questions[0].correct == ("B", "A")
    assert data.questions[0].incorrect == ("D",)
    assert data.audit["answers_true_and_false"] == 2


def test_the_hubs_parquet_gives_the_same_questions(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    pl.DataFrame({
        "type": ["Adversarial"], "category": ["Law"], "question": ["May I?"], "best_answer": ["No"],
        "correct_answers": [["No", "Never", "https://x.org/a;b says no"]], "incorrect_answers": [["Yes", "Sure"]],
    }).write_parquet(folder / "validation.parquet")  # fmt: skip
    assert TruthfulQA(folder).load().questions == TruthfulQA(write_csv(tmp_path / "t.csv", ROW)).load().questions


def change(place: int, value: str) -> list[str]:
    return [value if i == place else v for i, v in enumerate(ROW)]


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (change(1, " "), "category"),
        (change(2, ""), "question"),
        (change(3, ""), "best_answer"),
        (change(4, " ; "), "correct_answers"),
        (change(5, ""), "incorrect_answers"),
        (change(5, "No; Never"), "incorrect_answers"),
    ],
)
def test_a_bad_row_is_named_with_line_and_field(tmp_path: Path, row: list[str], field: str) -> None:
    path = write_csv(tmp_path / "t.csv", ROW, row)
    with pytest.raises(UserError) as caught:
        TruthfulQA(path).load()
    assert caught.value.where == f"{path}, line 3, field {field!r}"
    assert caught.value.expected
    assert caught.value.fix


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"questions\.path"):
        TruthfulQA(tmp_path / "none.csv").load()
    short = write_csv(tmp_path / "short.csv", ROW[:-1])
    with pytest.raises(UserError, match="line 2: 6 columns"):
        TruthfulQA(short).load()
    header = write_csv(tmp_path / "header.csv", ROW, columns=[*COLUMNS[:-2], "Wrong Answers", "Source"])
    with pytest.raises(UserError, match="line 1: the header"):
        TruthfulQA(header).load()
    twice = write_csv(tmp_path / "twice.csv", [*ROW, "x"], [*ROW, "x"], columns=[*COLUMNS, "tca_id"])
    with pytest.raises(UserError, match=r"line 3, field 'tca_id': 'x' occurs twice"):
        TruthfulQA(twice).load()
    with pytest.raises(UserError, match=r"TruthfulQA\.csv"):
        TruthfulQA(tmp_path / ".." / tmp_path.name, n=1).load()


def test_a_hub_that_cannot_be_reached_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError) as caught:
        TruthfulQA(hub="nobody/nothing", revision="0" * 40).load()
    assert caught.value.where == "questions.hub"
    assert "questions.path" in caught.value.fix


def test_subsets_are_nested_seeded_and_in_order() -> None:
    questions = [Question(str(i), "?", "f") for i in range(50)]
    small, large = subset(questions, 10, 1), subset(questions, 30, 1)
    assert set(small) < set(large)
    assert [int(q.id) for q in large] == sorted(int(q.id) for q in large)
    assert subset(questions, 10, 2) != small
    assert subset(questions, None, 0) == tuple(questions)
    for wrong in (0, 51, True, 1.5):
        with pytest.raises(UserError, match=r"questions\.n"):
            subset(questions, wrong, 0)  # type: ignore[arg-type]


PARAMETERS = {
    "type": "dict",
    "properties": {
        "type": {"type": "string"},
        "at": {"type": "tuple", "items": {"type": "float"}},
        "more": {"type": "any"},
        "deep": {"type": "dict", "properties": {"n": {"type": "int"}}},
    },
    "required": ["at"],
}


def bfcl_record(**changes: Any) -> dict[str, Any]:
    function = {"name": "a.b", "description": "d", "parameters": PARAMETERS}
    return {"id": "x_0", "question": [[{"role": "user", "content": "Hi"}]], "function": [function], **changes}


def write_lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_bfcls_schemas_become_json_schema_and_its_files_are_labels(tmp_path: Path) -> None:
    write_lines(tmp_path / "BFCL_v4_irrelevance.json", bfcl_record())
    write_lines(tmp_path / "BFCL_v4_simple_python.json", bfcl_record(id="y_0"))
    write_lines(tmp_path / "BFCL_v4_multiple.json", bfcl_record(id="z_0"))  # not one of the labelled files
    no, yes = Labelled(tmp_path, "bfcl").load().questions
    assert (no.id, no.family, no.needs_tool) == ("x_0", "irrelevance", False)
    assert (yes.id, yes.family, yes.needs_tool) == ("y_0", "simple_python", True)
    function = no.tools[0]["function"]
    assert no.tools[0]["type"] == "function"
    assert function["name"] == "a_b"
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "at": {"type": "array", "items": {"type": "number"}},
            "more": {},
            "deep": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "required": ["at"],
    }


def test_without_a_path_bfcl_is_its_pinned_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "BFCL_v4_live_relevance.json", bfcl_record())
    asked: list[tuple[str, str]] = []

    def extract(wheel: assets.Wheel, prefix: str) -> Path:
        asked.append((wheel.name, prefix))
        return tmp_path

    monkeypatch.setattr(unpacking, "extract", extract)
    assert [q.needs_tool for q in Labelled().load().questions] == [True]
    assert asked == [("bfcl-eval", "bfcl_eval/data")]


def test_bfcls_system_turns_are_kept_and_what_cannot_be_asked_is_counted(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    path = write_lines(
        tmp_path / "BFCL_v4_live_irrelevance.json",
        bfcl_record(question=[turns]),
        bfcl_record(id="x_1", question=[talk]),
        bfcl_record(id="x_2", function=[]),
    )
    data = Labelled(path, "bfcl").load()
    assert [q.text for q in data.questions] == ["Be kind.\n\nHi"]
    assert data.audit == {"system_turns": 1, "dialogues_left_out": 1, "without_tools": 1, "needs_tool": 0}
    assert data.checker == "none"


def test_when2calls_tools_are_json_in_texts_and_only_a_call_is_a_need(tmp_path: Path) -> None:
    bare = json.dumps({"name": "f", "description": "d", "parameters": {"type": "dict", "properties": {}}})
    wrapped = {"type": "function", "function": {"name": "g"}}
    base = {"question": "Q?", "source_id": "live_multiple_819-177-2", "answers": {}, "target_tool": None}
    labels = ["tool_call", "request_for_info", "cannot_answer", "direct"]
    rows = [{**base, "uuid": label, "correct_answer": label, "tools": [bare, wrapped]} for label in labels]
    path = write_lines(tmp_path / "when2call_test_llm_judge.jsonl", *rows, {**rows[2], "uuid": "none", "tools": []})
    data = Labelled(path, "when2call").load()
    assert {q.id: q.needs_tool for q in data.questions} == {label: label == "tool_call" for label in labels}
    assert {q.family for q in data.questions} == {"live_multiple_177"}
    assert [t["function"]["name"] for t in data.questions[0].tools] == ["f", "g"]
    assert data.questions[0].tools[1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert data.audit["without_tools"] == 1


def metatool(folder: Path, records: list[dict[str, str]], plugins: dict[str, str]) -> Path:
    (folder / "task1_necessity.json").write_text(json.dumps(records))
    (folder / "plugin_des.json").write_text(json.dumps(plugins))
    return folder


def test_metatools_negatives_are_offered_the_positives_tools_as_often(tmp_path: Path) -> None:
    positives = [{"label": "positive", "query": f"p{i}", "tool": f"T&{i % 7}"} for i in range(40)]
    negatives = [{"label": "negative", "query": f"n{i}"} for i in range(40)]
    folder = metatool(tmp_path, [*positives, *negatives], {f"T&{i}": f"about {i}" for i in range(9)})
    data = Labelled(folder, "metatool", seed=1).load()
    by_label = {label: Counter(q.family for q in data.questions if q.needs_tool is label) for label in (True, False)}
    assert by_label[True] == by_label[False]
    assert all(q.tools[0]["function"]["name"] == q.family.replace("&", "_") for q in data.questions)
    assert all(q.tools[0]["function"]["description"] == f"about {q.family[2:]}" for q in data.questions)
    assert [q.family for q in data.questions[:40]] == [p["tool"] for p in positives]
    again, other = Labelled(folder, "metatool", seed=1).load(), Labelled(folder, "metatool", seed=2).load()
    assert again == data
    assert other != data


def broken(tmp_path: Path, kind: str) -> tuple[Labelled, str]:
    """A source with one fault, and where it is."""
    file = tmp_path / "BFCL_v4_irrelevance.json"
    if kind == "no tools field":
        record = bfcl_record()
        del record["function"]
        write_lines(file, bfcl_record(id="a"), record)
        return Labelled(tmp_path, "bfcl"), f"{file}, line 2, field 'function'"
    if kind == "turns":
        write_lines(file, bfcl_record(question=[7]))
        return Labelled(tmp_path, "bfcl"), f"{file}, line 1, field 'question'"
    if kind == "same id":
        write_lines(file, bfcl_record(), bfcl_record())
        return Labelled(tmp_path, "bfcl"), f"{file}, line 2, field 'id'"
    if kind == "same names":
        function = bfcl_record()["function"][0]
        write_lines(file, bfcl_record(function=[function, {**function, "name": "a_b"}]))
        return Labelled(tmp_path, "bfcl"), f"{file}, line 1, field 'function'"
    if kind == "label":
        file = write_lines(tmp_path / "when2call_test.jsonl", {"uuid": "a", "correct_answer": "maybe", "tools": []})
        return Labelled(file, "when2call"), f"{file}, line 1, field 'correct_answer'"
    if kind == "tool text":
        file = write_lines(tmp_path / "when2call_test.jsonl", {"uuid": "a", "correct_answer": "direct", "tools": ["{"]})
        return Labelled(file, "when2call"), f"{file}, line 1, field 'tools'"
    folder = metatool(tmp_path, [{"label": "positive", "query": "q", "tool": "B"}], {"A": "about"})
    return Labelled(folder, "metatool"), f"{folder / 'task1_necessity.json'}, record 1, field 'tool'"


@pytest.mark.parametrize("kind", ["no tools field", "turns", "same id", "same names", "label", "tool text", "tool"])
def test_faults_in_labelled_files_are_named(tmp_path: Path, kind: str) -> None:
    source, where = broken(tmp_path, kind)
    with pytest.raises(UserError) as caught:
        source.load()
    assert caught.value.where == where
    assert caught.value.expected
    assert caught.value.fix


def test_wrong_settings_of_labelled_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"questions\.source.*'bfc'"):
        Labelled(tmp_path, "bfc").load()
    with pytest.raises(UserError, match=r"questions\.path"):
        Labelled(None, "when2call").load()
    write_lines(tmp_path / "BFCL_v4_multiple.json", bfcl_record())
    with pytest.raises(UserError, match=r"questions\.path.*with a label"):
        Labelled(tmp_path, "bfcl").load()
    with pytest.raises(UserError, match=r"plugin_des\.json"):
        Labelled(tmp_path, "metatool").load()


@shared
def test_the_real_truthfulqa_is_read_whole() -> None:
    data = TruthfulQA(SHARED / "truthfulqa").load()
    assert len(data) == 661
    assert len(set(data.families)) == 38
    assert all(q.correct and q.incorrect and not set(q.correct) & set(q.incorrect) for q in data.questions)
    with (SHARED / "truthfulqa" / "TruthfulQA.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [q.id for q in data.questions] == [row["tca_id"] for row in rows]
    assert [q.correct[0] for q in data.questions] == [row["Best Answer"].strip() for row in rows]
    assert data.audit["answers_true_and_false"] == 1
    odd = TruthfulQA(SHARED / "truthfulqa" / "odd_bom_sample.csv").load()
    assert len(odd) == 30
    assert "\ufeff" not in repr(odd)
    assert "\\r" not in repr(odd)


@shared
def test_the_real_labelled_sets_are_read() -> None:
    bfcl = Labelled(SHARED / "bfcl", "bfcl").load()
    kinds = Counter((q.family, q.needs_tool) for q in bfcl.questions)
    assert kinds[("irrelevance", False)] == 202
    assert kinds[("simple_python", True)] == 325
    assert kinds[("live_relevance", True)] == 11
    assert len(bfcl) + bfcl.audit["dialogues_left_out"] + bfcl.audit["without_tools"] >= 202 + 710 + 11 + 325 + 211
    when = Labelled(SHARED / "when2call", "when2call").load()
    assert len(when) == 246 - 16
    assert when.audit["needs_tool"] == 83
    meta = Labelled(SHARED / "metatool", "metatool").load()
    assert Counter(q.needs_tool for q in meta.questions) == {True: 520, False: 520}
    allowed = {"object", "array", "string", "number", "integer", "boolean", "null"}
    for question in (*bfcl.questions, *when.questions, *meta.questions):
        assert question.tools
        for tool in question.tools:
            assert types(tool["function"]["parameters"]) <= allowed


def types(schema: dict[str, Any]) -> set[str]:
    """Every type that a schema names; parameters that are called "type" are none."""
    found = {schema["type"]} if "type" in schema else set()
    for inner in schema.get("properties", {}).values():
        found |= types(inner)
    return found | (types(schema["items"]) if isinstance(schema.get("items"), dict) else set())
