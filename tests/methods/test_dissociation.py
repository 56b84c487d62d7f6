from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from run_folders import DATA, TOOLS, knowledge, retrieval, run_folder, several, trained

from toolsavvy.errors import UserError
from toolsavvy.methods.dissociation import EVERY, Dissociation, gather
from toolsavvy.methods.dissociation_report import markdown, predicted_table, render, show
from toolsavvy.methods.dissociation_tables import Numbers, main_grid
from toolsavvy.methods.trained import Number
from toolsavvy.tracking.records import read_lines


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two configurations: one finds what it knows, the other finds what it does not know."""
    base = tmp_path_factory.mktemp("sweep")
    first, second = trained(base / "0", "tg", known=12, found=12), run_folder(base / "1", "tg_5fm_lora")
    retrieval(
        second,
        {s: {"constrained": several(12, 12), "free": several(3, 12)} for s in ("toolgen_stage1", "toolgen_plain")},
    )
    knowledge(second, {"untrained": several(7), "toolgen_stage1": several(12), "toolgen_plain": several(11)})
    return [first, second]


@pytest.fixture(scope="module")
def found(folders: list[Path]) -> Dissociation:
    return gather(folders, ["job 2 (configuration=tg_h): failed"], 200)


def number(found: Dissociation, *key: object) -> Number:
    """By configuration, system, suite, slice, metric, k."""
    (one,) = (n for n in found.numbers if (n.configuration, n.system, n.suite, n.slice, n.metric, n.k) == key)
    return one


def test_test_splits_are_pooled_and_every_number_is_the_share_of_golds_that_are_found(found: Dissociation) -> None:
    queries = [q for split in DATA.test_splits for q in DATA.splits[split]]
    for name, part in (("all", queries), ("short", [q for q in queries if q.subset == "short"])):
        share = np.mean([len(set(q.gold) & several(12)) / len(q.gold) for q in part])
        n = number(found, "TG", "toolgen_plain-constrained", "catalog_test", name, "recall", 5)
        assert n.value == pytest.approx(share) and n.n == len(part) and n.stage == "stage 2"
        assert n.low is not None and n.high is not None and n.low < share < n.high
    easy = number(found, "TG", "toolgen_plain-free", "rrb", "tier=easy", "recall", 5)
    assert easy.value == pytest.approx(0.5) and easy.n == 12
    ratio = number(found, "TG", "toolgen_plain", "rrb", "tier=easy", "internalization", 5)
    assert ratio.value == pytest.approx(0.5)
    lost = number(found, "TG-5FM-LoRA", "toolgen_plain", "rrb", "tier=easy", "internalization", 1)
    assert lost.value is None  # 0/0


def test_rivals_and_controls_stand_once_and_knowledge_stage_by_stage(found: Dissociation) -> None:
    numbers = Numbers(found.numbers)
    assert numbers.configurations == ["TG", "TG-5FM-LoRA"]
    assert numbers.rows("rival") == ["bm25", "dense (toy)"]
    assert numbers.rows("control") == ["prior", "document", "blind_longest_option"]
    for system, known in (("untrained", 7), ("toolgen_stage1", 12), ("toolgen_plain", 9)):
        assert number(found, "TG", system, "mcq", "likelihood", "accuracy", None).value == pytest.approx(known / 24)
    assert not [n for n in found.numbers if "pattern" in n.slice]


def test_changes_are_paired_over_the_same_questions(found: Dissociation) -> None:
    change = {(c.configuration, c.suite, c.scoring, c.before): c for c in found.changes}
    up, down = (change["TG", "mcq", "likelihood", before] for before in ("untrained", "stage 1"))
    assert (up.difference, up.after, up.n) == (pytest.approx(5 / 24), "stage 1", 24)
    assert (down.difference, down.after) == (pytest.approx(-3 / 24), "stage 2")
    assert up.p == pytest.approx(2 / 2**5, abs=0.03)  # five questions, all of one sign
    assert change["TG", "qa", "all", "stage 1"].difference == pytest.approx(-3 / 24)


def test_retrieval_by_knowledge_is_told_per_tool(found: Dissociation) -> None:
    told = {
        (p.configuration, p.statistic): p
        for p in found.predicted
        if (p.suite, p.scoring, p.measure) == ("catalog_test", "likelihood", "recall@5")
    }
    first, second = told["TG", "difference"], told["TG-5FM-LoRA", "difference"]
    assert (first.value, second.value) == (pytest.approx(1.0), pytest.approx(-1.0))
    assert first.p is not None and first.p < 0.01 and first.tools == second.tools <= 24 and first.known > 0
    both = told[EVERY, "difference"]
    assert both.value == pytest.approx(0.0) and both.p == pytest.approx(1.0)
    ranks = [p for p in found.predicted if p.measure == "mrr" and p.suite == "rrb" and p.configuration == "TG"]
    assert {p.statistic: p.value for p in ranks}["difference"] == pytest.approx(1.0)  # other golds are no rivals


def printed(table: object, width: int = 118) -> str:
    out = io.StringIO()
    Console(file=out, width=width, emoji=False, highlight=False).print(table)
    return out.getvalue()


def test_the_table_fits_a_page_and_has_a_block_a_configuration(found: Dissociation) -> None:
    grid = main_grid(Numbers(found.numbers))
    names = [name for name, _ in grid.rows]
    block = ["TG", "  free", "  IS"]
    assert names[:4] == [*block, "TG-5FM-LoRA"] and names[6:8] == ["bm25", "dense (toy)"]
    assert grid.head[:6] == ("R@5 short", "R@5 verbose", "RRB@5", "RRB@5 easy", "RRB@5 medium", "RRB@5 hard")
    assert grid.head[6:] == ("MCQ start", "MCQ stage 1", "MCQ stage 2", "QA start", "QA stage 1", "QA stage 2")
    text = printed(render(grid))
    assert "…" not in text and "50.0" in text and "100–100" in text  # noqa: RUF001 - a range
    assert max(map(len, text.splitlines())) <= 118


def test_everything_is_written(found: Dissociation, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(found, tmp_path, "Knowledge and retrieval on toy")
    assert len(read_lines(tmp_path / "dissociation.jsonl")) == len(found.numbers)
    assert len(read_lines(tmp_path / "knowledge_changes.jsonl")) == len(found.changes) == 2 * 3 * 2
    assert len(read_lines(tmp_path / "knowledge_retrieval.jsonl")) == len(found.predicted) == 3 * 2 * 2 * 2 * 3
    assert (tmp_path / "figures" / "dissociation.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "dissociation.md").read_text()
    for part in (
        "# Knowledge and retrieval on toy",
        "- missing: job 2 (configuration=tg_h): failed",
        "TG-5FM-LoRA, stage 1, free",
        "## rrb, tier=medium: recall@k, or IS@k (8 queries)",
        "| @1 | @5 | @10 |",
        "MCQ by letter",
        "untrained → stage 1",
        EVERY,
        "0/0",
    ):
        assert part in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(a.count("|") == b.count("|") for a, b in pairwise(rows) if "---" in b)
    told = capsys.readouterr().out
    for part in ("TG-5FM-LoRA", "missing: job 2", "dissociation.md, .jsonl and figures/dissociation.png"):
        assert part in told


def test_runs_that_lack_a_part_are_shown_and_told(tmp_path: Path) -> None:
    """No questions, no stage 2, no predictions: what is there is printed."""
    silent = run_folder(tmp_path / "a", "tg_h")
    retrieval(silent, {"bm25": {"": several(24)}, "toolgen_stage1": {"constrained": several(6), "free": several(3)}})
    unkept = trained(tmp_path / "b", "tg")
    for path in (unkept / "predictions").iterdir():
        path.unlink()
    found = gather([silent, unkept], (), 50)
    assert found.missing == (
        "TG-H: no mcq, qa",
        "TG-H: no stage 2",
        "TG: no predictions of catalog_test, rrb (predictions=true keeps them)",
    )
    assert found.predicted == () and found.changes == ()
    grid = main_grid(Numbers(found.numbers))
    rows = dict(grid.rows)
    assert rows["TG-H"][0] is not None and rows["TG"][0] is None
    mcq = rows["TG"][grid.head.index("MCQ stage 1")]
    assert mcq is not None and mcq.value == pytest.approx(0.5)
    assert "none" in markdown(found, "t")
    assert printed(predicted_table(found.predicted))


def test_a_job_without_results_is_told_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    run, empty = trained(tmp_path / "a"), run_folder(tmp_path / "b", "tg_h")
    assert gather([run, empty], (), 20).missing == (f"TG-H: no results in {empty}",)
    (empty / "results.jsonl").unlink()
    assert gather([run, empty], (), 20).missing == (f"TG-H: no results in {empty}",)
    (empty / "results.jsonl").write_text('{"system": \n')
    with pytest.raises(UserError, match="broken JSON") as caught:
        gather([run, empty], (), 20)
    assert f"{empty / 'results.jsonl'}, line 1" in caught.value.where


def test_rivals_alone_make_a_table_without_a_figure(tmp_path: Path) -> None:
    retrieval(run_folder(tmp_path / "a", method="evaluate"), {"bm25": {"": several(12)}})
    found = gather([tmp_path / "a"], (), 50)
    assert found.missing == () and [name for name, _ in main_grid(Numbers(found.numbers)).rows] == ["bm25"]
    show(found, tmp_path / "out", "t")
    assert not (tmp_path / "out" / "figures").exists()


def test_recipes_and_seeds_of_one_configuration_have_rows_of_their_own(tmp_path: Path) -> None:
    runs = [trained(tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    retrieval(runs[1], {"toolgen_ours": {"constrained": several(24), "free": several(12)}})
    numbers = Numbers(gather(runs, (), 50).numbers)
    assert numbers.configurations == ["TG (seed 0)", "TG (seed 1), plain", "TG (seed 1), ours"]
    rest = numbers.stage("TG (seed 1), ours", "stage 1")
    assert rest == "toolgen_stage1" and numbers.stage("TG (seed 1), ours", "stage 2") == "toolgen_ours"


def test_a_run_that_names_no_configuration_is_called_after_its_parts(tmp_path: Path) -> None:
    run = trained(tmp_path / "a", "None", indexing="atomic", memorization="savvy", tuning="lora")
    assert Numbers(gather([run], (), 20).numbers).configurations == ["atomic-savvy-lora"]


def test_runs_of_other_catalogs_and_runs_without_numbers_are_refused(tmp_path: Path) -> None:
    one, other = trained(tmp_path / "a"), trained(tmp_path / "b")
    (other / "run.json").write_text((other / "run.json").read_text().replace('"f"', '"g"'))
    with pytest.raises(UserError, match=r"several catalogs: \S+ \(f\) in \S+, \S+ \(g\) in") as caught:
        gather([one, other])
    assert (caught.value.where, "one catalog" in caught.value.fix) == ("runs", True)
    with pytest.raises(UserError, match="neither knowledge nor retrieval") as caught:
        gather([run_folder(tmp_path / "c")])
    assert str(tmp_path / "c") in caught.value.where and "mcq" in caught.value.expected


def test_tools_without_questions_or_queries_are_left_out_of_the_comparison(tmp_path: Path) -> None:
    run = trained(tmp_path / "a")
    path = run / "predictions" / "mcq.toolgen_stage1.jsonl"
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:10]))
    told = [p for p in gather([run], (), 50).predicted if p.suite == "rrb"]
    assert {p.tools for p in told} == {10} and all(p.value is None for p in told)
    assert all("what is known is the same for all 10 tools" in p.verdict for p in told)
    assert TOOLS
