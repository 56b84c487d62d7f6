"""`toolsavvy method=evaluate suite=parameters`: files of predictions without torch, and the run's own model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import environment, lines, record, runs, toolsavvy

BOOK = {
    "name": "book",
    "description": "Book a table",
    "query_parameters": {
        "place": {"type": "string", "required": True},
        "people": {"type": "integer", "required": True},
    },
    "output_parameters": {"id": {"type": "string"}},
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Twelve requests of two calls each."""
    folder = tmp_path / "source"
    folder.mkdir()
    rows = []
    for i in range(12):
        calls = [
            {"name": "book", "arguments": {"place": f"place {i}", "people": i}, "label": "var1"},
            {"name": "book", "arguments": {"place": "$var1.id$", "people": 2}, "label": "var2"},
        ]
        rows.append({"input": f"Book place {i} for {i}.", "output": calls})
    (folder / "executable-data.json").write_text(json.dumps(rows))
    (folder / "executable-spec.json").write_text(json.dumps([BOOK]))
    return folder


def write(path: Path, wrong: int = 0, left_out: int = 0) -> Path:
    rows = []
    for i in range(12 - left_out):
        rows.append(
            {"id": f"executable-{i}/0", "calls": [{"name": "book", "arguments": {"place": f"place {i}", "people": i}}]}
        )
        text = json.dumps({"place": "$var1.id$", "people": 3 if i < wrong else 2})
        rows.append({"id": f"executable-{i}/1", "calls": [{"name": "book", "arguments": text[:-1] + ",}"}]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def call(source: Path) -> list[str]:
    return [
        "method=evaluate", "suite=parameters", "catalog=nestful", f"catalog.path={source}",
        "catalog.kinds=[executable]", "logger=none",
    ]  # fmt: skip


def test_files_are_scored_without_torch(source: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    for name in ("torch", "transformers", "moto"):
        (blocked / name).mkdir(parents=True)
        (blocked / name / "__init__.py").write_text(f"raise AssertionError('{name} was imported')")
    mine, theirs = write(tmp_path / "mine.jsonl"), write(tmp_path / "theirs.jsonl", wrong=6, left_out=2)
    done = toolsavvy(
        tmp_path / "out", *call(source), f"predictions=[{mine},{theirs}]", "show=1",
        PYTHONPATH=f"{blocked}:{environment()['PYTHONPATH']}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = runs(tmp_path / "out")
    results = {(r["system"], r["slice"], r["metric"]): r for r in lines(run / "results.jsonl")}
    assert results["mine", "all", "exact_match"]["value"] == 1
    theirs_exact = results["theirs", "all", "exact_match"]
    assert theirs_exact["value"] == pytest.approx(14 / 24)
    assert theirs_exact["low"] < theirs_exact["value"] < theirs_exact["high"]
    assert results["mine", "all", "error_mended"]["value"] == 0.5
    assert {("mine", "level=L1", "field_f1"), ("mine", "level=L2", "field_f1")} <= set(results)
    assert "no answer to 4 of 24 tasks" in done.stdout
    assert "trailing_comma 12" in done.stdout
    items = lines(run / "predictions" / "parameters.theirs.jsonl")
    assert len(items) == 24
    assert items[1]["faults"] == ["wrong_value"]
    assert items[-1]["faults"] == ["missing"]
    pairs = lines(run / "comparisons.jsonl")
    assert any(p["system"] == "mine" and p["rival"] == "theirs" and p["difference"] > 0 for p in pairs)
    assert record(run)["coverage"]["theirs"]["missing"] == 4


def test_faults_in_a_file_end_the_run_with_line_and_field(source: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl")
    with file.open("a") as out:
        out.write('{"id": "executable-0/0", "calls": []}\n')
    done = toolsavvy(tmp_path / "out", *call(source), f"predictions={file}")
    assert done.returncode == 2
    assert "mine.jsonl, line 25, field 'id'" in done.stderr
    assert "occurs twice (first: line 1)" in done.stderr
    missing = toolsavvy(tmp_path / "out", *call(source), f"predictions={tmp_path}/mime.jsonl")
    assert missing.returncode == 2
    assert "mine.jsonl" in missing.stderr
    bare = toolsavvy(tmp_path / "out", "method=evaluate", "suite=parameters", "catalog=toy", f"predictions={file}")
    assert bare.returncode == 2
    assert "no parameter tasks" in bare.stderr


def test_without_a_file_the_model_answers(source: Path, tmp_path: Path) -> None:
    settings = ("model=toy", "method.answers.max_tokens=8", "show=1")
    done = toolsavvy(tmp_path / "out", *call(source), *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = runs(tmp_path / "out")
    items = lines(run / "predictions" / "parameters.model.jsonl")
    assert len(items) == 24
    assert {r["system"] for r in lines(run / "results.jsonl")} == {"model"}
