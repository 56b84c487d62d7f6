"""`generator=rrb|mcq|qa` as commands: bytes that the seed decides alone, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import runs, toolsavvy

from toolsavvy.__main__ import main
from toolsavvy.catalogs.toolsense_items import read_items

BASE = ("method=generate", "catalog=toy", "logger=none")


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (("generator=mcq", "generator.n=0"), ("generator.n: 0 is out of range", "from 1")),
        (("generator=qa", "generator.backend=lmm"), ("generator.backend", "template, llm")),
        (("generator=qa", "generator.prices.input=-1"), ("generator.prices.input", "a number from 0")),
        (("generator=rrb", "generator.tiers={easy: 0.5, medium: 0.1, hard: 0.1}"), ("add up to 0.7",)),
        (("generator=rrb", "generator.pool=3"), ("generator.pool: 3 is out of range",)),
        (("generator=rrb", "generator.pol=14"), ("generator.pol", "did you mean 'pool'?")),
        (("generator=mcq", "generator.pool=14"), ("generator.pool",)),
        (("generator=rrb", "catalog.tools=3"), ("3 tools are too few for hard", "5 tools for hard", "generator.tiers")),
        (("generator=mcq", "model=toy", "generator.backend=llm"), ("generator.judge: nobody checks", "self_judging")),
    ],
)
def test_mistakes_are_told_with_their_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert main([*BASE, *args, f"paths.outputs={tmp_path}"]) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told, told
    assert "Traceback" not in told
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize("kind", ["rrb", "mcq", "qa"])
def test_two_processes_write_the_same_bytes(tmp_path: Path, kind: str) -> None:
    found = []
    for seed in ("1", "2"):
        args = (*BASE, f"generator={kind}", "generator.n=12")
        done = toolsavvy(tmp_path / seed, *args, **{"PYTHONHASHSEED": seed})
        assert done.returncode == 0, done.stderr
        found.append(runs(tmp_path / seed)[0])
    for name in (f"{kind}.jsonl", "audit.json", "sheet.csv", "sheet_key.csv"):
        assert (found[0] / name).read_bytes() == (found[1] / name).read_bytes(), name
    assert read_items(kind, found[0] / f"{kind}.jsonl").items
