"""A catalog whose every text is an attack on the terminal, the report, the config reader: whole runs, in process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from commands import runs

from toolsavvy.__main__ import main
from toolsavvy.config.compose import quoted

ATTACKS = (
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07 \x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31m \x85 \x90p\x9c",
    "over\rwritten\x08\x7f",
    "\u202egpj.exe\u2066 x\u2069 \u200f\u061c",
    "[red]markup[/red] [link=http://evil.example]x[/link] [/] [bold",
    "${oc.env:BAIT} ${seed} ${",
    "<script>document.title='it ran'</script>",
    ":car: \\[x] \\",
    "=cmd|'/c calc'!A1",
    "../../outside/it",
)
TOY = ("model=toy", "encoder=toy", "trainer.threads=1", "trainer.precision=fp32")


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    monkeypatch.setenv("BAIT", "the variable was read")


def hostile_catalog(folder: Path) -> str:
    """Every attack as id, name, group, category, parameter, query, subset and tier."""
    folder.mkdir(parents=True)
    tools, queries = [], []
    for i, text in enumerate(ATTACKS):
        schema = {"type": "object", "properties": {text: {"type": "string", "description": text, "enum": [text]}}}
        tool = {"id": text, "name": text, "description": f"Finds {text} of number {i}.", "group": text}
        tools.append({**tool, "category": text, "parameters": schema})
        for split in ("train", "validation", "test"):
            row = {"id": f"{split}{text}", "text": f"please {text} {i}", "relevant": [text], "split": split}
            queries.append({**row, "subset": text, "tier": text, "instruction": text})
    for name, rows in (("tools", tools), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return f"catalog.path={folder}"


def harmless(text: str) -> None:
    """No byte that commands a terminal, no text turned around, no variable read."""
    for i, c in enumerate(text):
        assert c.isprintable() or c in "\n\t", f"{c!r} in {text[max(0, i - 60) : i + 60]!r}"
    assert "the variable was read" not in text


def check_outputs(folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """What was printed and logged is harmless, and nothing was written outside.

    Returns:
        What was printed.
    """
    told = capfd.readouterr()
    for text in told:
        harmless(text)
    for path in folder.rglob("*"):
        if path.suffix in (".log", ".md", ".html", ".csv", ".yaml", ".svg"):
            harmless(path.read_text(encoding="utf-8-sig"))
        if path.is_file() and path.suffix not in (".png", ".parquet", ".npz", ".safetensors", ".ckpt"):
            assert b"the variable was read" not in path.read_bytes(), path
    return told.out + told.err


def run(tmp_path: Path, *args: str) -> int:
    return main([*args, "logger=none", f"paths.outputs={tmp_path / 'out'}"])


def everything(tmp_path: Path) -> set[str]:
    return {p.name for p in tmp_path.iterdir()}


def test_evaluation(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = hostile_catalog(tmp_path / "catalog")
    args = ("method=evaluate", "catalog=jsonl", path, "retriever=[bm25,dense]", "encoder=toy", "show=20")
    assert run(tmp_path, *args, "suite.catalog_test.resamples=5") == 0
    told = check_outputs(tmp_path / "out", capfd)
    assert "\\x1b[2J\\x1b[31mred" in told
    assert "[red]markup[/red] [link=http://evil.example]x[/link] [/] [bold" in told
    assert ":car:" in told
    assert "${oc.env:BAIT} ${seed} ${" in told
    (done,) = runs(tmp_path / "out")
    text = (done / "predictions" / "catalog_test.bm25.jsonl").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.split("\n")[:-1]]  # not splitlines(), which takes U+0085 for an end
    assert {t for p in found for t in p["tools"]} == set(ATTACKS)  # files keep what they were given
    assert everything(tmp_path) == {"catalog", "out"}


def test_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = hostile_catalog(tmp_path / "catalog")
    args = ("method=toolgen", "catalog=jsonl", path, *TOY, "retriever=bm25", "memorization=multi", "show=20")
    args += ("memorization.epochs=1", "method.recipes.plain.epochs=1", "suite.catalog_test.resamples=5")
    assert run(tmp_path, *args) == 0
    check_outputs(tmp_path / "out", capfd)


@pytest.mark.parametrize(("name", "more"), [("mcq", "generator.n=3"), ("toolret", "seed=0")])
def test_generation(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, more: str) -> None:
    path = hostile_catalog(tmp_path / "catalog")
    code = run(tmp_path, "method=generate", "catalog=jsonl", path, "encoder=toy", f"generator={name}", more, "show=5")
    told = check_outputs(tmp_path / "out", capfd)
    assert code == 0 or told.count("error: ") == 1, told
    assert everything(tmp_path) == {"catalog", "out"}


def test_an_error_that_quotes_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, text = tmp_path / "catalog", "".join(ATTACKS)
    folder.mkdir()
    (folder / "tools.jsonl").write_text(json.dumps({"id": text, "name": "a", "description": "b"}) + "\n")
    (folder / "queries.jsonl").write_text(json.dumps({"id": "q", "text": "t", "relevant": [text + "x"]}) + "\n")
    assert run(tmp_path, "method=evaluate", "catalog=jsonl", f"catalog.path={folder}") == 2
    told = check_outputs(tmp_path / "out", capfd)
    assert told.startswith("error: ")
    assert "\\x1b[2J" in told


def test_names_of_folders_and_options(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ways = (
        ("method=evaluate", "catalog={}"),
        ("method=report", "runs=[{}]"),
        ("method=evaluate", "catalog=jsonl", "catalog.path={}", "catalog.name={}"),
        ("--{}",),
    )
    text = quoted("".join(a for a in ATTACKS if "/" not in a))
    for way in ways:
        assert run(tmp_path, *(part.replace("{}", text) for part in way)) == 2, way
        for part in capfd.readouterr():
            harmless(part)
    bad = quoted(str(tmp_path / ATTACKS[6]))
    assert main(["method=doctor", f"paths.outputs={bad}"]) == 2
    assert "'${' in an output folder" in capfd.readouterr().err
    one = ATTACKS[0] + ATTACKS[4] + "[red] [/]"
    outputs = quoted(str(tmp_path / "out" / one))
    for more in ("dry_run=true", "dry_run=false"):
        args = ["method=evaluate", "catalog=toy", "suite.catalog_test.resamples=5", "logger=none", more]
        assert main([*args, f"paths.outputs={outputs}"]) == 0
        for part in capfd.readouterr():
            harmless(part)
