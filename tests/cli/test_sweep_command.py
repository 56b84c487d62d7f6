"""A real sweep of tiny models with its report: one job fails, the others are told; resumed, and told again."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import lines, record, runs, status, toolsavvy

TINY = (
    "-m", "+sweep=five_configurations", "configuration=tg_lora,tg_h,tg_5fm_lora", "catalog=toy", "model=toy",
    "encoder=toy", "retriever=bm25", "trainer.precision=fp32", "trainer.threads=1", "logger=none",
    "memorization.epochs=1", "method.recipes.plain.epochs=1", "method.recipes.plain.kl=0.1", "method.depth=10",
    "suite.catalog_test.ks=[1,5,10]", "suite.rrb.ks=[1,5,10]",
    *(f"suite.{s}.resamples=20" for s in ("catalog_test", "rrb", "mcq", "qa")),
    *(f"suite.{s}.n=24" for s in ("rrb", "mcq", "qa")),
)  # fmt: skip
"""A divergence needs tools of one token each: the hierarchical configuration is refused once it has its catalog."""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The sweep's folder, and what was printed."""
    outputs = tmp_path_factory.mktemp("sweep")
    done = toolsavvy(outputs, *TINY)
    assert done.returncode == 1, done.stderr
    return runs(outputs)[0].parent, done.stdout + done.stderr


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
    again = toolsavvy(folder.parents[1], *TINY, "resume=true")
    assert again.returncode == 1, again.stderr
    assert (folder / "0" / "status.json").stat().st_mtime_ns == ended
    assert {name: (folder / name).read_bytes() for name in names} == before

    done = toolsavvy(tmp_path, "method=report", "method.kind=dissociation", f"runs=[{folder}]", "logger=none")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    assert (run / "dissociation.jsonl").read_bytes() == before["dissociation.jsonl"]
    assert record(run)["runs"] == [str(folder / "0"), str(folder / "2")]
    assert "missing: 1: not done" in done.stdout


def test_a_sweep_of_seeds_is_pooled_at_its_end(tmp_path: Path) -> None:
    args = ("-m", "+sweep=seeds", "seed=0,1", "method=evaluate", "catalog=toy", "retriever=bm25", "logger=none")
    done = toolsavvy(tmp_path, *args, "suite.catalog_test.resamples=20")
    assert done.returncode == 0, done.stderr
    folder = runs(tmp_path)[0].parent
    assert folder.parent.name == "seeds"
    assert {tuple(r["seeds"]) for r in lines(folder / "pooled.jsonl")} == {(0, 1)}
    assert "seeds 0, 1" in done.stdout and (folder / "pooled.md").is_file()
