"""`generator=audit` as a command: files on disk, a sheet and back, mistakes, and what a dry run says."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from commands import record, runs, toolsavvy

from toolsavvy.__main__ import main
from toolsavvy.benchmark import ChoiceItem, RetrievalItem, ToolText, YesNoItem
from toolsavvy.catalogs.toolsense_items import write_items

AUDIT = ("method=generate", "generator=audit", "logger=none", "generator.resamples=50")
TEXTS = {f"t{i}": ToolText(f"t{i}", f"s{i % 5}", f"tool {i}", f"text {i}") for i in range(12)}


def files(folder: Path) -> dict[str, Path]:
    pool = tuple(TEXTS)
    sets: dict[str, list[Any]] = {
        "rrb": [
            RetrievalItem(f"{i}", f"want {i}", (pool[i],), pool[i:] + pool[:i], "easy", pool[i]) for i in range(12)
        ],
        "mcq": [ChoiceItem(f"{i}", f"Q{i}?", f"a{i}", ("b", "c", "d"), pool[i]) for i in range(12)],
        "qa": [YesNoItem(f"{i}", f"Is it {i}?", i % 2 == 0, pool[i]) for i in range(12)],
    }
    for kind, items in sets.items():
        write_items(folder / f"{kind}.jsonl", items, TEXTS)
    return {kind: folder / f"{kind}.jsonl" for kind in sets}


def test_an_audit_its_sheet_and_the_way_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path)
    named = [f"generator.{kind}={path}" for kind, path in paths.items()]
    done = toolsavvy(tmp_path / "first", *AUDIT, *named, "generator.sample=9")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path / "first")
    told = json.loads((run / "audit.json").read_text())
    assert set(told["mcq"]) >= {"n", "answer_prior", "name_overlap", "longest_option", "distinct_questions"}
    assert set(told["qa"]) >= {"n", "question_only", "yes_share"}
    assert set(told["rrb"]) >= {"n", "easy_identical_rival", "medium_anchor_missing", "easy_position_zero"}
    assert (told["mcq"]["n"], told["mcq"]["distinct_questions"], told["qa"]["yes_share"]) == (12, 12, 0.5)
    assert (told["rrb"]["easy_position_zero"], told["rrb"]["hard_position_zero"]) == (1.0, None)
    assert "rrb.easy_position_zero" in record(run)["audit_failed"]["this set"]
    for word in ("rrb: requests for tools", "easy position zero", "FAIL", "allowed", "audit.json", str(run)):
        assert word in done.stdout, word
    assert "| easy position zero | 1.000 [1.00, 1.00] FAIL |" in (run / "data_card.md").read_text()

    sheet = tmp_path / "filled.csv"
    table = list(csv.DictReader(io.StringIO((run / "sheet.csv").read_text(encoding="utf-8-sig"), newline="")))
    keys = list(csv.DictReader((run / "sheet_key.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert len(table) == len(keys) == 9
    for row, key in zip(table, keys, strict=True):
        row["person_1"] = row["person_2"] = key["answer"]
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    back = (f"generator.sheet={sheet}", f"generator.sheet_key={run / 'sheet_key.csv'}")
    beside = f"+generator.beside.other={{qa:{paths['qa']}}}"
    words = [*AUDIT, named[2], beside, *back, "generator.sample=0", f"paths.outputs={tmp_path / 'second'}"]
    assert main(words) == 0
    (run,) = runs(tmp_path / "second")
    told = json.loads((run / "audit.json").read_text())
    assert told["human"]["accuracy"]["person_1"]["value"] == 1.0
    assert told["human"]["kappa"]["person_1/person_2"]["value"] == 1.0
    assert told["beside"]["other"]["qa"] == told["qa"]
    assert not (run / "sheet.csv").exists()
    assert "human: people's answers" in capsys.readouterr().out


def spoilt(folder: Path, kind: str, **changes: Any) -> Path:
    """The kind's file with its third record changed."""
    path = files(folder)[kind]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[2] |= changes
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "changes", "parts"),
    [
        ("mcq", {"wrong_answers": ["a2", "c", "d"]}, ("line 3, field 'wrong_answers'", "is among the wrong ones")),
        ("qa", {"answer": "Maybe"}, ("line 3, field 'answer'", "'Yes' or 'No'")),
        ("rrb", {"tool": []}, ("line 3, field 'tool'", "0 gold tools in tier 'easy'", "expected: 1")),
    ],
)
def test_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, changes: dict[str, Any], parts: tuple[str, ...]
) -> None:
    path = spoilt(tmp_path / "files", kind, **changes)
    assert main([*AUDIT, f"generator.{kind}={path}", f"paths.outputs={tmp_path / 'out'}"]) == 2
    told = capsys.readouterr().err
    for part in (str(path), "fix:", *parts):
        assert part in told
    (run,) = runs(tmp_path / "out")
    assert not (run / "audit.json").exists()


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        ((), ("generator", "no file is given", "generator.mcq=FILE")),
        (("generator.mcq=nowhere.jsonl",), ("generator.mcq", "'nowhere.jsonl' does not exist")),
        (("+generator.beside.theirs={qa:nowhere}",), ("generator.beside.theirs.qa", "does not exist")),
        (("generator.sheet=nowhere.csv",), ("generator.sheet", "does not exist")),
        (("generator.mqc=x",), ("generator.mqc", "did you mean 'mcq'?")),
        (("generator.qa=nowhere", "generator.folds=few"), ("generator.folds", "a whole number")),
    ],
)
def test_mistakes_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert main([*AUDIT, *args, f"paths.outputs={tmp_path}"]) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told


def test_bad_files_as_a_command(tmp_path: Path) -> None:
    path = spoilt(tmp_path / "files", "mcq", wrong_answers=["c", "d"])
    done = toolsavvy(tmp_path / "out", *AUDIT, f"generator.mcq={path}")
    assert done.returncode == 2
    assert "2 wrong answers" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dry_run_names_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = files(tmp_path / "files")["mcq"]
    words = [*AUDIT, f"generator.mcq={path}", f"+generator.beside.mcq={{mcq:{path}}}", "dry_run=true"]
    assert main([*words, f"paths.outputs={tmp_path / 'out'}"]) == 0
    told = "".join(capsys.readouterr().out.replace("│", " ").split())  # long paths are folded
    for part in ("generator: Audit", f"read mcq: {path}", "read mcq beside it"):
        assert "".join(part.split()) in told
    assert not (tmp_path / "out").exists()
