"""A real sweep of tiny models with its report: one job fails, the others are told; resumed, and told again.

Commands run in this process: loading the libraries anew for each of them would take longer than the jobs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from commands import lines, record, runs, status

from toolsavvy.__main__ import main

TINY = (
    "-m", "+sweep=five_configurations", "configuration=tg_lora,tg_h,tg_5fm_lora", "catalog=toy", "model=toy",
    "encoder=toy", "retriever=bm25", "trainer.precision=fp32", "trainer.threads=1", "logger=none",
    "memorization.epochs=1", "method.recipes.plain.epochs=1", "method.recipes.plain.kl=0.1", "method.depth=10",
    "suite.catalog_test.ks=[1,5,10]", "suite.rrb.ks=[1,5,10]",
    *(f"suite.{s}.resamples=20" for s in ("catalog_test", "rrb", "mcq", "qa")),
    *(f"suite.{s}.n=24" for s in ("rrb", "mcq", "qa")),
)  # fmt: skip
"""A divergence needs tools of one token each: the hierarchical configuration is refused once it has its catalog."""


def command(folder: Path, *args: str) -> tuple[int, str]:
    """Exit code, and what was printed."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        code = main([*args, f"paths.outputs={folder}"])
    return code, out.getvalue()


@pytest.fixture(scope="module", autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of its own, and wide lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["toolsavvy"])
        patch.setenv("TOOLSAVVY_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("COLUMNS", "200")
        yield


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The sweep's folder, and what was printed."""
    outputs = tmp_path_factory.mktemp("sweep")
    code, told = command(outputs, *TINY)
    assert code == 1, told
    return runs(outputs)[0].parent, told


def test_a_sweep_ends_with_its_report_and_says_what_failed(sweep: tuple[Path, str]) -> None:
    folder, told = sweep
    jobs = runs(folder)
    assert [status(job)["status"] for job in jobs] == ["done", "failed", "done"]
    assert folder.parent.name == "five_configurations"
    rows = lines(folder / "dissociation.jsonl")
    stages = {(r["configuration"], r["stage"]) for r in rows}
    for name in ("TG-LoRA", "TG-5FM-LoRA"):
        assert {(name, stage) for stage in ("untrained", "stage 1", "stage 2")} <= stages
    assert {("bm25", "rival"), ("prior", "control"), ("document", "control")} <= stages
    assert {r["suite"] for r in rows} == {"catalog_test", "rrb", "mcq", "qa"}
    text = (folder / "dissociation.md").read_text(encoding="utf-8")
    for part in ("- missing: job 1 (configuration=tg_h): failed", "TG-5FM-LoRA, stage 1, free"):
        assert part in text
    for part in ("3 jobs", "Knowledge and retrieval on toy, toy", "missing: job 1 (configuration=tg_h): failed"):
        assert part in told
    assert (folder / "knowledge_retrieval.jsonl").is_file()


def test_numbers_are_those_of_the_jobs(sweep: tuple[Path, str]) -> None:
    folder, _ = sweep
    own = {(r["system"], r["slice"]): r["value"] for r in lines(folder / "0" / "results.jsonl") if r["suite"] == "mcq"}
    for row in lines(folder / "dissociation.jsonl"):
        if (row["configuration"], row["suite"]) == ("TG-LoRA", "mcq"):
            assert row["value"] == own[row["system"], row["slice"]]
    easy = {r["system"]: r["value"] for r in lines(folder / "2" / "results.jsonl")
            if (r["slice"], r["metric"], r["k"]) == ("rrb/tier=easy", "recall", 5)}  # fmt: skip
    told = {r["system"]: r["value"] for r in lines(folder / "dissociation.jsonl")
            if (r["configuration"], r["suite"], r["slice"], r["metric"], r["k"])
            == ("TG-5FM-LoRA", "rrb", "tier=easy", "recall", 5)}  # fmt: skip
    assert len(told) == 4 and all(easy[system] == pytest.approx(value, abs=1e-12) for system, value in told.items())


def test_a_resumed_sweep_trains_nothing_again_and_reports_the_same(sweep: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = sweep
    names = ("dissociation.jsonl", "dissociation.md", "knowledge_changes.jsonl", "knowledge_retrieval.jsonl")
    before = {name: (folder / name).read_bytes() for name in names}
    ended = (folder / "0" / "status.json").stat().st_mtime_ns
    (folder / "dissociation.jsonl").unlink()
    code, told = command(folder.parents[1], *TINY, "resume=true")
    assert code == 1, told
    assert (folder / "0" / "status.json").stat().st_mtime_ns == ended
    assert {name: (folder / name).read_bytes() for name in names} == before

    code, told = command(tmp_path, "method=report", "method.kind=dissociation", f"runs=[{folder}]", "logger=none")
    assert code == 0, told
    (run,) = runs(tmp_path)
    assert (run / "dissociation.jsonl").read_bytes() == before["dissociation.jsonl"]
    assert record(run)["runs"] == [str(folder / "0"), str(folder / "2")]
    assert "missing: 1: not done" in told


def test_a_sweep_of_seeds_is_pooled_at_its_end(tmp_path: Path) -> None:
    args = ("-m", "+sweep=seeds", "seed=0,1", "method=evaluate", "catalog=toy", "retriever=bm25", "logger=none")
    code, told = command(tmp_path, *args, "suite.catalog_test.resamples=20")
    assert code == 0, told
    folder = runs(tmp_path)[0].parent
    assert folder.parent.name == "seeds"
    assert {tuple(r["seeds"]) for r in lines(folder / "pooled.jsonl")} == {(0, 1)}
    assert "seeds 0, 1" in told and (folder / "pooled.md").is_file()
