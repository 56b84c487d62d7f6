from __future__ import annotations

from pathlib import Path

import pytest
from commands import lines, record, runs, toolsavvy

TOY = ("catalog=toy", "logger=none")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one evaluation, in one sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    done = toolsavvy(folder, "-m", "method=evaluate", *TOY, "retriever=bm25", "seed=0,1")
    assert done.returncode == 0, done.stderr
    return runs(folder)[0].parent


def test_seeds_are_pooled_from_their_folders_alone(sweep: Path, tmp_path: Path) -> None:
    done = toolsavvy(
        tmp_path, "method=report", "method.kind=seeds", f"runs=[{sweep}]", "method.ratios=[[bm25,bm25]]",
        "method.slices=[test_seen]", "logger=none",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    assert run.parent.name == "report"
    rows = lines(run / "pooled.jsonl")
    assert {(tuple(r["seeds"]), r["slice"], r["cell"]) for r in rows} == {
        ((0, 1), "test_seen", record(sweep / "0")["cell"])
    }
    told = {(r["metric"], r["k"]): r for r in lines(sweep / "0" / "results.jsonl") if r["slice"] == "test_seen"}
    for row in rows:
        if row["kind"] == "mean":
            assert row["value"] == pytest.approx(told[row["metric"], row["k"]]["value"], abs=1e-12)
    for part in ("evaluate on toy", "seeds 0, 1", "bm25", "chosen pairs"):
        assert part in done.stdout
    assert "**test_seen**" in (run / "pooled.md").read_text()
    assert record(run)["runs"] == [str(sweep / "0"), str(sweep / "1")]


def test_the_page_is_the_default_and_takes_one_place(sweep: Path, tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, "method=report", f"runs={sweep.parent}", "logger=none", "method.resamples=50")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    assert {p.name for p in run.glob("report.*")} == {"report.html", "report.md", "report.csv"}
    assert record(run)["runs"] == [str(sweep / "0"), str(sweep / "1")]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "toolsavvy method=evaluate catalog=toy logger=none retriever=bm25 seed=1" in page
    assert "The best system" in done.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ("runs: no run is named", "fix: add runs=")),
        (("runs=[nowhere]",), ("'nowhere' holds no run", "expected: run folders")),
        (("runs=[x]", "method.metrics=[recal@5]"), ("method.metrics", "did you mean 'recall'?")),
        (("runs=[x]", "method.ratios=[toolgen]"), ("method.ratios", "pairs of systems")),
        (("runs=x", "method.ratios=[[a,b]]"), ("method.ratios", "fix: add method.kind=seeds, or pass_rate")),
    ],
)
def test_a_report_without_runs_is_refused_before_it_starts(
    tmp_path: Path, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = toolsavvy(tmp_path, "method=report", *args)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []
