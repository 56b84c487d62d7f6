"""Pass rates of several runs: seeds averaged, settings kept apart, gains on the same requests, correlations per k."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from toolsavvy.errors import UserError
from toolsavvy.methods.passing import before_and_after, gather
from toolsavvy.methods.passing_report import panels, show_passing, tables
from toolsavvy.suites.downstream import EXECUTED, ORACLE, Attempt
from toolsavvy.suites.table import Result, write_jsonl

KS = (1, 3)
N = 8


def run_of(
    folder: Path, systems: dict[str, dict[int, int]], pick: str = "first", seed: int = 0, answers: bool = True
) -> Path:
    """A run folder whose systems pass the first so many of eight requests at each k."""
    (folder / "predictions").mkdir(parents=True)
    node = {"_target_": EXECUTED, "caller": "oracle_arguments", "pick": pick, "n": None, "seed": 0}
    nodes = {name: {"_target_": f"x.{name}"} for name in systems if name != ORACLE}
    config = {"suite": {"downstream": node}, "retriever": nodes, "seed": seed}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    choices = {"catalog": "parambench_aws", "model": "toy"}
    (folder / "run.json").write_text(json.dumps({"choices": choices, "seed": seed}))
    (folder / "status.json").write_text(json.dumps({"status": "done"}))
    rows = []
    for system, passed in systems.items():
        for k in KS:
            share = passed[k] / N
            numbers = {"pass_rate": share, "picked": share, "recall": min(1.0, share + 0.1), "ndcg": share}
            rows += [Result(system, "downstream", "test", m, k, v, None, None, N) for m, v in numbers.items()]
            rows.append(Result(system, "downstream", "test/level=L1", "pass_rate", k, 0.0, None, None, 2))
        if answers:
            records = [
                Attempt("downstream", system, "test", f"q{i}", "L1", k, f"tool{i // 2}", (), None, None, i < passed[k])
                for k in KS
                for i in range(N)
            ]
            write_jsonl(folder / "predictions" / f"downstream.{system}.jsonl", records)
    write_jsonl(folder / "results.jsonl", rows)
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """A job a retriever, as a sweep leaves them; the arm of the right tool is in each."""
    passed = {"bm25": {1: 1, 3: 2}, "dense": {1: 2, 3: 4}, "finetuned": {1: 5, 3: 7}}
    oracle = {ORACLE: {1: N, 3: N}}
    return [run_of(tmp_path / name, {name: of_k, **oracle}) for name, of_k in passed.items()]


def test_jobs_of_a_sweep_stand_in_one_table(folders: list[Path]) -> None:
    found = gather(folders, resamples=200)
    assert {(r.system, r.k): r.pass_rate for r in found.rows} == {
        ("bm25", 1): 1 / 8, ("bm25", 3): 2 / 8, ("dense", 1): 2 / 8, ("dense", 3): 4 / 8,
        ("finetuned", 1): 5 / 8, ("finetuned", 3): 7 / 8, (ORACLE, 1): 1.0, (ORACLE, 3): 1.0,
    }  # fmt: skip
    assert {r.runs for r in found.rows if r.system == ORACLE} == {3}
    first = next(r for r in found.rows if r.system == "dense")
    assert first.low is not None and first.low < first.pass_rate < first.high
    assert first.recall == pytest.approx(0.35)


def test_training_is_what_the_arrow_shows(folders: list[Path]) -> None:
    found = gather(folders, resamples=200)
    assert found.pairs == (("finetuned", "dense"),)
    gains = {(g.system, g.rival, g.k): g for g in found.gains}
    assert gains["finetuned", "dense", 1].pass_rate == pytest.approx(3 / 8)
    assert gains["finetuned", "dense", 3].recall == pytest.approx(3 / 8)
    chosen = gather(folders, [["dense", "bm25"]], 200)
    assert {(g.system, g.rival) for g in chosen.gains} == {("dense", "bm25")}
    assert all(panel.arrows == chosen.pairs for row in panels(chosen) for panel in row)


def test_names_of_several_encoders_are_paired_each_with_its_own() -> None:
    systems = ("dense (minilm)", "dense (e5)", "finetuned (e5)", "zero_shot", "contrastive_hard", "bm25")
    assert before_and_after(dict.fromkeys(systems)) == (
        ("finetuned (e5)", "dense (e5)"), ("contrastive_hard", "zero_shot"),
    )  # fmt: skip
    assert before_and_after(["finetuned"]) == ()


def test_correlations_are_over_systems_at_one_k_without_the_right_tools_arm(folders: list[Path]) -> None:
    found = gather(folders, resamples=200)
    assert {(c.k, c.metric, c.kind) for c in found.correlations} == {
        (k, m, kind) for k in KS for m in ("recall", "ndcg") for kind in ("spearman", "kendall")
    }
    assert [c.value for c in found.correlations] == pytest.approx([1.0] * 8)
    assert {c.n for c in found.correlations} == {3}
    assert all("no conclusion" in c.verdict for c in found.correlations)


def test_seeds_are_averaged_and_settings_stand_apart(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path / "a", {"dense": {1: 2, 3: 4}}),
        run_of(tmp_path / "b", {"dense": {1: 4, 3: 4}}, seed=1),
        run_of(tmp_path / "c", {"dense": {1: 8, 3: 8}}, pick="model"),
    ]
    found = gather(runs, resamples=200)
    cells = {(r.setting.partition("pick=")[2], r.k): (r.pass_rate, r.runs) for r in found.rows}
    assert cells["first", 1] == (3 / 8, 2)
    assert cells["model (toy)", 1] == (1.0, 1)
    assert len(panels(found)) == 2


def test_without_kept_answers_there_is_a_value_and_no_interval(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / "a", {"dense": {1: 2, 3: 4}, "finetuned": {1: 3, 3: 4}}, answers=False)]
    found = gather(runs, resamples=200)
    assert {(r.low, r.high) for r in found.rows} == {(None, None)}
    assert found.gains == ()


def test_the_report_is_written_whole(folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report"
    out.mkdir()
    show_passing(folders, out, resamples=200, missing=["job 4 (retriever=[x]): failed"])
    said = capsys.readouterr().out
    assert "job 4" in said and "finetuned - dense" in said
    text = (out / "pass_rates.md").read_text()
    for title, head, body in tables(gather(folders, resamples=200)):
        assert f"**{title}**" in text
        assert f"| {' | '.join(head)} |" in text
        assert all(len(row) == len(head) for row in body)
    rows = [json.loads(line) for line in (out / "pass_rates.jsonl").read_text().splitlines()]
    assert rows == [asdict(r) for r in gather(folders, resamples=200).rows]
    svg = (out / "figures" / "pass_rate.svg").read_text()
    assert all(name in svg for name in ("finetuned", "dense", "bm25", "recall@k", "nDCG@k", "pass rate@k"))
    assert (out / "figures" / "pass_rate.png").read_bytes().startswith(b"\x89PNG")


def test_runs_without_the_suite_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    with pytest.raises(UserError, match="no run has a pass rate") as error:
        gather([folder])
    assert error.value.where == "runs"
    assert "pass_rate" in error.value.fix
