from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from commands import lines, runs, status, toolsavvy

from toolsavvy.__main__ import main

SHARED = Path(__file__).parents[3] / "shared" / "data" / "tool_cognition_action"
FIELDS = ("domain", "model", "id", "correct_count", "total_samples", "necessary", "called", "has_output")
TOY = ("method=necessity", "model=toy", "questions.n=26", "logger=none", "method.resamples=50")
SHORT = ("method.sampling.n=3", "method.sampling.max_tokens=4", "method.action.max_tokens=4")


def recorded(folder: Path, counts: list[tuple[int, int]], model: str = "Qwen3-4B") -> Path:
    """A folder as the released data's index: (right answers of ten, called) of every question."""
    folder.mkdir()
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for i, (right, called) in enumerate(counts):
            writer.writerow(["math_arithmetic_union", model, f"q{i}", right, 10, int(right < 9), called, 0])
    with (folder / "questions.jsonl").open("w") as file:
        for i in range(len(counts)):
            text = {"domain": "math_arithmetic_union", "id": f"q{i}", "question": f"What is {i} + 1?"}
            file.write(json.dumps({**text, "expression": f"{i} + 1", "correct_answer": i + 1}) + "\n")
    return folder


def values(run: Path) -> dict[tuple[str, str], Any]:
    return {(r["slice"], r["metric"]): r["value"] for r in lines(run / "results.jsonl") if r["suite"] == "necessity"}


def test_recorded_labels_under_both_rules_without_a_model(tmp_path: Path) -> None:
    counts = [(10, 0), (10, 1), (9, 0), (9, 1), (9, 1), (8, 0), (3, 1), (0, 0), (0, 0), (10, 0)]
    data = recorded(tmp_path / "data", counts)
    done = toolsavvy(
        tmp_path / "out", "method=necessity", "questions=recorded", f"questions.path={data}",
        "questions.model=Qwen3-4B", "model.source=path", "model.path=nowhere", "logger=none",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path / "out")
    found = values(run)
    assert [found["released", m] for m in ("n_c", "n_nc", "un_c", "un_nc")] == [1, 3, 3, 3]
    assert [found["strict", m] for m in ("n_c", "n_nc", "un_c", "un_nc")] == [3, 4, 1, 2]
    assert found["released", "mismatch_rate"] == pytest.approx(0.6)
    assert found["strict", "mismatch_rate"] == pytest.approx(0.5)
    assert found["strict|released", "flips"] == pytest.approx(0.3)
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared data")
def test_the_released_data_give_the_counts_that_their_index_implies(tmp_path: Path) -> None:
    done = toolsavvy(
        tmp_path / "out", "method=necessity", "questions=recorded", f"questions.path={SHARED}",
        "questions.domain=math_arithmetic_union", "questions.model=Qwen3-4B", "logger=none", "method.resamples=50",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path / "out")
    with (SHARED / "labels.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["domain"], r["model"]) == ("math_arithmetic_union", "Qwen3-4B")]
    found = values(run)
    for rule, least in (("strict", 10), ("released", 9)):
        pairs = [(int(r["correct_count"]) < least, r["called"] == "1") for r in rows]
        counts = [pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]
        assert [found[rule, m] for m in ("n_c", "n_nc", "un_c", "un_nc")] == counts
        assert found[rule, "mismatch_rate"] == pytest.approx((counts[1] + counts[2]) / len(rows))


def test_a_sweep_over_n_and_t_ends_in_one_table(tmp_path: Path) -> None:
    done = toolsavvy(
        tmp_path / "out", "-m", "+sweep=necessity_n_t", *TOY, "method.sampling.max_tokens=3",
        "method.action.max_tokens=3",
        "method.sampling.n=1,2", "method.sampling.temperature=0.7,1.0", "method.action.self_assessment=false",
        f"paths.cache={tmp_path / 'cache'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    jobs = runs(tmp_path / "out")
    assert [status(j)["status"] for j in jobs] == ["done"] * 4
    (table,) = (tmp_path / "out").rglob("necessity.md")
    text = table.read_text()
    assert "| model | N | T | questions |" in text
    assert text.count("| toy |") == 4
    assert (table.parent / "figures" / "quadrants.png").is_file()


MISTAKES = {
    "no samples": (("method.sampling.n=0",), "method.sampling.n", ">= 1"),
    "identical samples": (("method.sampling.temperature=0",), "method.sampling.temperature", "above 0, or n=1"),
    "a rule out of reach": (("method.sampling.min_correct=11",), "method.sampling.min_correct", "between 1 and 10"),
    "an unknown wording": (("method.action.wording=rude",), "method.action.wording", "discouraging"),
    "an unknown checker": (("method.sampling.checker=eyes",), "method.sampling.checker", "number"),
    "an unknown split": (("probe.splits=[coin]",), "probe.splits", "family"),
    "no kinds": (("probe.kinds=[]",), "probe.kinds", "at least one"),
    "an unknown family": (("questions.families=[long_division]",), "families", "single_op_easy"),
    "no question": (("questions.n=0",), "questions.n", "1"),
    "lessons on other questions": (
        ("questions=truthfulqa", "questions.path=pyproject.toml", "method.teach.questions=5"),
        "method.teach.questions", "0 with questions=truthfulqa",
    ),
    "lessons for a server": (("method.sampling.backend=server", "method.teach.questions=5"),
                             "method.teach.questions", "0 with a server"),
    "no file": (("questions=truthfulqa", "questions.path=nowhere.csv"), "questions.path", "nowhere.csv"),
    "no folder": (
        ("questions=recorded", "questions.path=nowhere", "questions.model=Qwen3-4B"), "questions.path", "nowhere",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_before_anything_is_loaded(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides, where, expected = MISTAKES[name]
    words = ["method=necessity", "model=toy", "logger=none", f"paths.outputs={tmp_path}", *overrides]
    assert main(words) == 2
    told = capsys.readouterr().err
    assert where in told
    assert expected in told
    assert "Traceback" not in told


def test_a_model_that_the_record_lacks_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    data = recorded(tmp_path / "data", [(10, 0), (0, 1)])
    done = toolsavvy(
        tmp_path / "out", "method=necessity", "questions=recorded", f"questions.path={data}", "questions.model=Qwen9",
        "logger=none",
    )  # fmt: skip
    assert done.returncode == 2
    assert "Qwen3-4B" in done.stderr


def test_a_count_above_the_samples_is_refused_with_file_and_line(tmp_path: Path) -> None:
    data = recorded(tmp_path / "data", [(10, 0), (12, 1)])
    done = toolsavvy(
        tmp_path / "out", "method=necessity", "questions=recorded", f"questions.path={data}",
        "questions.model=Qwen3-4B", "logger=none",
    )  # fmt: skip
    assert done.returncode == 2
    assert "labels.csv" in done.stderr
    assert "3" in done.stderr
