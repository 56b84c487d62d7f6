"""The page over any runs: what it averages, what it refuses to compare, what it lists."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from run_folders import append, made_run, made_sweep
from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError
from toolsavvy.methods.overview.axes import all_axes, find_axes, labels, pairs_of
from toolsavvy.methods.overview.curves import curve_drawings, read_curves, thinned
from toolsavvy.methods.overview.gathering import Entry, Runs, read_runs
from toolsavvy.methods.overview.items import Reader
from toolsavvy.methods.overview.listing import differences, relative
from toolsavvy.methods.overview.measures import is_headline, primary, written
from toolsavvy.methods.overview.results import BOOTSTRAP, CROSSED, OWN, SIGN_FLIP, Board
from toolsavvy.methods.overview.scores import boards
from toolsavvy.methods.overview.sweeps import sweep_drawings
from toolsavvy.methods.overview.tables import best_table, board_table, contrast_table
from toolsavvy.methods.overview.writing import overview, write
from toolsavvy.methods.pooling import pool_seeds
from toolsavvy.metrics import paired_difference
from toolsavvy.tracking.records import finished_runs

WANTED = [("recall", 1), ("ndcg", 5), ("internalization", 1)]
LR = {0.001: 0.4, 0.01: 0.9}


def gathered(*places: Path) -> Runs:
    done, others = finished_runs([str(p) for p in places])
    return read_runs(done, others)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two axes, two seeds, a failed and a cut-off job."""
    folder = tmp_path_factory.mktemp("outputs") / "toolgen" / "sweep"
    made_sweep(
        folder, {"tuning": ["lora", "full"], "training.lr": list(LR)},
        quality=lambda p: LR[p["training.lr"]] - 0.2 * (p["tuning"] == "lora"),
    )  # fmt: skip
    made_run(folder / "8", seed=2, status="failed", error="ValueError: loss is <b>nan</b>", steps=0)
    made_run(folder / "9", seed=3, status="running", steps=0)
    return folder


def board(found: list[Board], suite: str, part: str) -> Board:
    (one,) = (b for b in found if (b.suite, b.slice) == (suite, part))
    return one


def test_averages_and_intervals_are_those_of_pooled_seeds(sweep: Path) -> None:
    runs = gathered(sweep)
    cell = runs.done[0].cell
    own = [e for e in runs.done if e.cell == cell]
    assert len(own) == 2
    told = {
        (r.suite, r.slice, r.system, r.metric, r.k): r
        for r in pool_seeds([e.folder for e in own], WANTED, resamples=400)
        if r.kind == "mean"
    }
    compared = 0
    for one in boards(own, WANTED, 400):
        for row in one.rows:
            for (metric, k), value in row.values.items():
                system = row.system.removesuffix("-free") if metric == "internalization" else row.system
                pooled = told[one.suite, one.slice, system, metric, k]
                assert value.value == pytest.approx(pooled.value, abs=1e-12)
                assert (value.low, value.high) == pytest.approx((pooled.low, pooled.high), abs=1e-12)
                compared += 1
            assert (row.seeds, row.covers) == ((0, 1), CROSSED)
    assert compared == 3 * (3 * 2 + 1)  # three slices; three systems in two measures, one of them in IS too


def test_one_seed_keeps_the_runs_own_interval_and_test(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", systems={"bm25": 0.3, "toolgen": 0.9})
    (one,) = (b for b in boards([Entry(run)], WANTED, 100) if b.suite == "rrb")
    (record,) = (
        r for r in Entry(run).rows
        if (r["suite"], r["slice"], r["system"], r["metric"], r["k"]) == ("rrb", "rrb", "bm25", "ndcg", 5)
    )  # fmt: skip
    row = next(r for r in one.rows if r.system == "bm25")
    assert (row.covers, row.values["ndcg", 5].low) == (OWN, record["low"])
    (recorded,) = (
        c for c in Entry(run).comparisons
        if (c["suite"], c["metric"], c["k"]) == ("rrb", "ndcg", 5)
        and {c["system"], c["rival"]} == {"bm25", "toolgen-constrained"} and c["system"] == "bm25"
    )  # fmt: skip
    assert row.test is not None
    assert (row.test.kind, row.test.p) == (SIGN_FLIP, recorded["p"])
    assert row.test.difference.value == pytest.approx(-recorded["difference"])


def test_cells_are_compared_on_the_seeds_both_have_or_not_at_all(tmp_path: Path) -> None:
    good = made_sweep(tmp_path / "a", {"tuning": ["full"]}, seeds=(0, 1, 2), quality=lambda _: 0.9)
    bad = made_sweep(tmp_path / "b", {"tuning": ["lora"]}, seeds=(1, 2), quality=lambda _: 0.3)
    alone = made_sweep(tmp_path / "c", {"tuning": ["none"]}, seeds=(7,), quality=lambda _: 0.3)
    found = board(boards([Entry(f) for f in (*good, *bad, *alone)], WANTED, 1000), "rrb", "rrb")
    rows = {(r.system, r.entries[0].choices["tuning"]): r for r in found.rows}
    best, other = rows["toolgen-constrained", "full"], rows["toolgen-constrained", "lora"]
    assert found.rows[0] is best
    assert best.test is None
    assert rows["toolgen-constrained", "none"].test is None  # no seed in common
    sides = [
        np.array(
            [Reader(e, "rrb").items(r.system, "rrb", [("ndcg", 5)]).values["ndcg", 5] for e in r.entries if e.seed]
        )
        for r in (best, other)
    ]  # pyright: ignore[reportOptionalMemberAccess]
    clusters = Reader(best.entries[0], "rrb").items(best.system, "rrb", [("ndcg", 5)]).clusters  # pyright: ignore
    told = paired_difference(*sides, clusters, 1000)
    assert other.test is not None
    assert (other.test.kind, other.test.p, other.test.difference) == (BOOTSTRAP, told.p, told.interval)
    tests = sorted((r.test for r in found.rows if r.test), key=lambda t: t.p)
    assert tests[0].adjusted == min(1.0, tests[0].p * len(tests))
    assert [t.adjusted for t in tests] == sorted(t.adjusted for t in tests)
    table = board_table(found, find_axes([Entry(f) for f in (*good, *bad, *alone)]), "c")
    marks = {tuple(row[:2]): row[-2] for row in table.texts}
    assert marks["toolgen-constrained", "lora"].endswith(" *")
    assert marks["toolgen-constrained", "none"] == ""


def test_among_many_systems_a_clear_lead_is_still_marked(tmp_path: Path) -> None:
    """A p-value is never below 2 / resamples, and is multiplied by the number of tests: 50 draws cannot be enough."""
    systems = {"best": 1.0, **{f"weak{i}": 0.05 for i in range(30)}}
    runs = [made_run(tmp_path / str(seed), seed=seed, systems=systems, steps=0) for seed in (0, 1)]
    found = board(boards([Entry(f) for f in runs], WANTED, 50), "rrb", "rrb")
    tests = [r.test for r in found.rows if r.test is not None]
    assert len(tests) == 30
    assert {t.kind for t in tests} == {BOOTSTRAP}
    assert all(t.adjusted < 0.05 for t in tests)


def test_items_that_are_not_those_of_the_recorded_number_are_not_used(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a")
    whole = Reader(Entry(run), "rrb").items("bm25", "rrb", [("ndcg", 5)])
    assert whole is not None
    assert len(whole.ids) == 24
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    for row in rows:
        row["value"] = (row["value"] or 0) + 0.01
    (run / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert Reader(Entry(run), "rrb").items("bm25", "rrb", [("ndcg", 5)]) is None


def test_without_item_records_seeds_are_averaged_and_their_range_is_told(tmp_path: Path) -> None:
    runs = made_sweep(tmp_path / "a", {"tuning": ["full"]}, seeds=(0, 1))
    for run in runs:
        for path in (run / "predictions").glob("*.run"):
            path.unlink()
    found = board(boards([Entry(f) for f in runs], WANTED, 50), "catalog_test", "test_seen")
    row = next(r for r in found.rows if r.system == "toolgen-constrained")
    assert row.values["ndcg", 5].low is None
    assert row.span is not None
    assert row.values["ndcg", 5].value == pytest.approx(sum(row.span) / 2)
    assert all(r.test is None for r in found.rows)
    assert " to " in best_table([found], {}).texts[0][7]


def test_other_catalogs_and_other_queries_stand_apart_and_are_flagged(tmp_path: Path) -> None:
    first = made_run(tmp_path / "a", seed=0)
    other = made_run(tmp_path / "b", seed=1, catalog_fingerprint="0" * 64)  # the same cell, but the tools have changed
    golds = made_run(
        tmp_path / "c", seed=2, versions={"toolsavvy": "0.1.0", "torch": "2.8.0"}, earlier_attempts=[{"git": {}}]
    )
    path = golds / "predictions" / "rrb.qrels"
    path.write_text(path.read_text().replace(" 1\n", " 2\n", 1))
    entries = [Entry(f) for f in (first, other, golds)]
    found = boards(entries, WANTED, 20)
    assert len([b for b in found if b.suite == "rrb"]) == 3
    assert all(len(r.seeds) == 1 for b in found if b.suite == "rrb" for r in b.rows)
    told = "\n".join(differences(entries, found))
    for part in (
        "rrb, rrb: the runs were tested on 3 different sets",
        "Catalog toy has 2 fingerprints",
        "torch 2.9.0 (2",
        f"Continued with other code or packages than they began with: {golds.parent.name}/c.",
    ):
        assert part in told
    assert "2 different sets" in told  # catalog_test has the same queries in a and c
    assert "states of the code" not in told


def answered(folder: Path, suite: str, part: str, rows: list[dict[str, object]], field: str, metric: str) -> Entry:
    """A run with the answers of one system, and the number that they make."""
    run = made_run(folder, seed=int(folder.name[-1]), systems={}, steps=0)
    known = [float(v) for r in rows if isinstance(v := r[field], int | float)]
    record = {"suite": suite, "slice": part, "metric": metric, "k": None, "n": len(known), "low": 0.0, "high": 1.0}
    append(run / "results.jsonl", [{**record, "system": "s", "value": sum(known) / len(known)}])
    (run / "predictions").mkdir(exist_ok=True)
    append(run / "predictions" / f"{suite}.s.jsonl", rows)
    return Entry(run)


def test_items_on_which_a_measure_is_undefined_do_not_undo_the_mean_of_seeds(tmp_path: Path) -> None:
    tried = [True, None, False, True]
    entries = [
        answered(
            tmp_path / f"a{seed}", "parameters", "all",
            [{"id": str(i), "executed": tried[i] if i or not seed else False} for i in range(4)],
            "executed", "execution_match",
        )
        for seed in (0, 1)
    ]  # fmt: skip
    (one,) = boards(entries, WANTED, 50)
    (row,) = one.rows
    assert row.covers == CROSSED
    assert row.values["execution_match", None].value == pytest.approx((2 / 3 + 1 / 3) / 2)


def test_other_questions_with_the_same_numbers_stand_apart(tmp_path: Path) -> None:
    def run(folder: str, question: str) -> Entry:
        rows: list[dict[str, object]] = [{"id": "m1", "tool": "t", "question": question, "correct_likelihood": 1.0}]
        return answered(tmp_path / folder, "mcq", "likelihood", rows, "correct_likelihood", "accuracy")

    same = boards([run("a0", "What?"), run("a1", "What?")], WANTED, 20)
    apart = boards([run("b0", "What?"), run("b1", "Which?")], WANTED, 20)
    assert [len(b.rows[0].seeds) for b in same] == [2]
    assert [len(b.rows[0].seeds) for b in apart] == [1, 1]
    assert "(1 run), toy" in "\n".join(differences([], apart))


def test_axes_are_the_fewest_settings_that_tell_cells_apart(sweep: Path) -> None:
    entries = gathered(sweep).done
    axes = find_axes(entries)
    assert [(a.key, a.name, a.distinct, a.is_numeric) for a in axes] == [
        ("tuning", "tuning", ["lora", "full"], False), ("training.lr", "lr", [0.001, 0.01], True)
    ]  # fmt: skip
    assert set(labels(entries, axes).values()) == {
        f"tuning={t}, lr={lr:g}" for t in ("lora", "full") for lr in LR
    }  # fmt: skip
    assert find_axes(entries[:2]) == ()  # two seeds of one cell


def test_what_follows_the_seed_or_another_setting_is_no_axis(tmp_path: Path) -> None:
    made = [
        made_run(
            tmp_path / f"{t}{s}", seed=s, choices={"tuning": t}, cell=t, steps=0,
            config={"training.rank": {"lora": 16, "full": 0}[t], "training.noise_seed": s},
        )
        for t in ("lora", "full") for s in (0, 1)
    ]  # fmt: skip
    assert [a.key for a in find_axes([Entry(f) for f in made])] == ["tuning"]
    other = made_run(tmp_path / "n", choices={"method": "evaluate"}, steps=0)
    axes = all_axes([Entry(f) for f in (*made, other)])
    assert [a.key for a in axes] == ["method", "tuning"]
    told = labels([Entry(f) for f in (*made, other)], axes)
    assert set(told.values()) == {"toolgen, tuning=lora", "toolgen, tuning=full", "evaluate"}


def test_sweeps_become_lines_over_numbers_and_maps_over_pairs(sweep: Path) -> None:
    entries = gathered(sweep).done
    lines, maps = sweep_drawings(boards(entries, WANTED, 20), find_axes(entries))
    assert "By lr" in lines.caption
    assert "By tuning and lr" in maps.caption or "By lr and tuning" in maps.caption
    assert {label for _, label in lines.legend} == {
        f"toolgen-{mode} (tuning={t})" for mode in ("constrained", "free") for t in ("lora", "full")
    }
    assert len(lines.panels) == 3
    assert all("<polygon" in p.markup for p in lines.panels)  # intervals


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", steps=5000)
    curve = read_curves(run)["retrieval/loss"]
    thin = thinned(curve)
    assert (len(curve[0]), len(thin[0]) <= 120) == (5000, True)
    assert [thin[0][0], thin[0][-1], thin[1][0], thin[1][-1]] == [curve[0][0], curve[0][-1], curve[1][0], curve[1][-1]]
    assert np.all(np.diff(thin[0]) > 0)
    assert np.interp(2500, *thin) == pytest.approx(np.interp(2500, *curve), abs=0.05)


def test_seeds_of_a_cell_share_a_colour_and_damage_is_told(tmp_path: Path) -> None:
    runs = made_sweep(tmp_path, {"tuning": ["lora", "full"]}, seeds=(0, 1))
    with (runs[0] / "history.csv").open("a") as file:
        file.write("9,retrieval/loss,nan\n7,retrieval/lo")  # not a number; torn
    (drawing,), notes = curve_drawings([Entry(f) for f in runs], {Entry(f).cell: str(i) for i, f in enumerate(runs)})
    assert notes == []
    assert len(drawing.legend) == 2
    (loss, recall) = (p.markup for p in drawing.panels)
    assert (loss.count('class="line faint c0'), loss.count('class="line faint c1')) == (2, 2)
    assert "recall@1" in recall
    (runs[0] / "history.csv").write_text("step,metric,value\nx,y,z\n")
    assert "1 runs have a history.csv that cannot be read" in curve_drawings([Entry(f) for f in runs], {})[1][0]


def test_every_run_is_accounted_for(tmp_path: Path) -> None:
    sweep = tmp_path / "toolgen" / "sweep"
    made_run(sweep / "0")
    made_run(sweep / "1", seed=1, status="failed", error="OutOfMemoryError: 3 GiB", steps=0)
    made_run(sweep / "2", seed=2, status="running", steps=0)
    damaged = made_run(sweep / "3", seed=3, steps=0)
    (damaged / "results.jsonl").write_text('{"suite": 1}\n')
    early = sweep / "4"
    early.mkdir()
    (early / "status.json").write_text(json.dumps({"status": "failed", "error": "before run.json"}))
    job = {
        "job": 5,
        "overrides": ["method=toolgen", "hub.token=hidden-word"],
        "status": "not started",
        "error": "stopped",
    }
    (sweep / "sweep.jsonl").write_text(json.dumps({**job, "folder": "5"}) + "\n" + '{"job": 6, "sta')
    made_run(tmp_path / "report" / "x", choices={"method": "report"}, steps=0)
    again = made_run(tmp_path / "toolgen" / "again")
    runs = gathered(tmp_path)
    assert [e.folder for e in runs.done] == [again.resolve()]
    told = {u.name: (u.state, u.error) for u in runs.unfinished}
    assert told["sweep/1"] == ("failed", "OutOfMemoryError: 3 GiB")
    assert told["sweep/2"] == ("cut off", "")
    assert told["sweep/3"][0] == "damaged"
    assert told["sweep/4"] == ("failed", "before run.json")
    assert told["sweep/job 5"] == ("not started", "stopped")
    assert "hidden-word" not in next(u.command for u in runs.unfinished if u.folder is None)
    assert any("1 earlier report" in note for note in runs.notes)
    assert any(note.startswith("Repeated") and "/" in note for note in runs.notes)
    with pytest.raises(UserError, match="these are reports"):
        read_runs([tmp_path / "report" / "x"], [])


def test_the_three_files_say_the_same(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "tuning=lora")  # a secret that happens to stand in a command
    own = sweep.parents[1] / "report" / "now"
    own.mkdir(parents=True)
    told = overview(gathered(sweep), own, WANTED, 50)
    write(told, own)
    page, text = ((own / f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))
    assert "tuning=lora" not in page + text
    assert "loss is &lt;b&gt;nan" in page
    assert "loss is &lt;b&gt;nan" in text
    assert "2 of 10 runs have no final numbers" in page
    assert 'href="../../toolgen/sweep/0"' in page
    assert "toolsavvy method=toolgen catalog=toy model=toy tuning=full training.lr=0.001 seed=0" in page
    rows = list(csv.DictReader((own / "report.csv").open(encoding="utf-8", newline="")))
    numbers = sum(len(r.values) for b in told.boards for r in b.rows)
    assert len([r for r in rows if not r["minus_settings"]]) == numbers
    best = {
        (r["suite"], r["slice"]): r for r in rows if r["metric"] == "ndcg" and r["minus_best"] == "" and r["p"] == ""
    }
    first = told.boards[0].rows[0]
    assert float(best["catalog_test", "test_seen"]["value"]) == first.values["ndcg", 5].value
    assert f"{100 * (first.values['ndcg', 5].value or 0):.1f}" in text
    assert not list(own.glob("*.part"))


def test_a_spreadsheet_takes_no_name_for_a_formula(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", systems={"=HYPERLINK(1)": 0.5}, steps=0)
    told = overview(read_runs([run], []), tmp_path, WANTED, 20)
    write(told, tmp_path)
    names = {r["system"] for r in csv.DictReader((tmp_path / "report.csv").open(encoding="utf-8"))}
    assert names == {"'=HYPERLINK(1)"}


def test_a_run_without_numbers_or_records_still_makes_a_page(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", systems={}, steps=0)
    for name in ("config.yaml", "comparisons.jsonl"):
        (run / name).unlink(missing_ok=True)
    (run / "run.json").write_text("{}")
    write(overview(read_runs([run], []), tmp_path, WANTED, 20), tmp_path)
    assert "No run has recorded a number" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_runs_may_be_one_place_or_a_list_and_a_whole_outputs_folder(sweep: Path) -> None:
    assert Config(runs="outputs/x").runs == ["outputs/x"]
    assert Config(runs=["a", "b"]).runs == ["a", "b"]
    for wrong in (3, [""], [["a"]]):
        with pytest.raises(UserError, match="runs: "):
            Config(runs=wrong)
    done, others = finished_runs([str(sweep.parents[1])])
    assert (len(done), [f.name for f in others]) == (8, ["8", "9"])


def test_measures() -> None:
    assert primary([("recall", 1), ("ndcg", 5), ("accuracy", None)]) == ("ndcg", 5)
    assert primary([("n_c", None), ("mismatch_rate", None)]) == ("mismatch_rate", None)
    assert written("recall", 0.8321, 0.781, 0.88) == "83.2 [78, 88]"
    assert written("recall", 0.8321, 0.825, 0.84) == "83.2 [82.5, 84.0]"
    assert written("ndcg", -0.001, -0.2, -0.0001, signed=True) == "-0.1 [-20, +0]"
    assert written("mcc", 0.5, None, None) == "0.500"
    assert written("n_nc", 26, None, None) == "26"
    assert written("internalization", None, None, None) == "0/0"
    assert not is_headline({"suite": "catalog_test", "slice": "test_seen/short"}, has_whole=False)
    assert is_headline({"suite": "necessity", "slice": "strict"}, has_whole=True)
    assert relative(Path("/a/b/run"), Path("/a/c")) == "../b/run"


def test_fewer_mismatches_are_better(tmp_path: Path) -> None:
    rows = []
    for name, rate in (("careful", 0.2), ("rash", 0.6)):
        run = made_run(tmp_path / name, systems={}, steps=0, choices={"model": name, "method": "necessity"})
        record = {"suite": "necessity", "slice": "strict", "metric": "mismatch_rate", "k": None, "n": 10}
        (run / "results.jsonl").write_text(json.dumps({**record, "system": name, "value": rate, "low": 0, "high": 1}))
        with (run / "results.jsonl").open("a") as file:
            file.write("\n")
        rows.append(Entry(run))
    (found,) = boards(rows, WANTED, 20)
    assert [r.system for r in found.rows] == ["careful", "rash"]


def test_a_setting_that_is_no_number_is_tested_seed_by_seed_on_the_same_items(sweep: Path) -> None:
    """Only cells that differ in it alone, the difference of their means, and Holm's correction over the table."""
    runs = gathered(sweep)
    axes, cells = all_axes(runs.done), list(dict.fromkeys(e.cell for e in runs.done))
    named = labels(runs.done, axes)
    pairs = pairs_of(axes, cells)
    assert sorted((named[a], named[b]) for a, b in pairs) == [
        ("tuning=lora, lr=0.001", "tuning=full, lr=0.001"), ("tuning=lora, lr=0.01", "tuning=full, lr=0.01"),
    ]  # fmt: skip
    found = board(boards(runs.done, WANTED, 300, pairs), "catalog_test", "test_seen")
    rows = {(r.system, r.cells): r for r in found.rows}
    assert found.contrasts
    for c in found.contrasts:
        before, after = (rows[c.system, (cell,)].values[found.main].value for cell in (c.before, c.after))
        assert before is not None
        assert after is not None
        assert c.test.difference.value == pytest.approx(after - before)
        assert c.test.p <= c.test.adjusted <= min(1.0, c.test.p * len(found.contrasts))
    best = max(found.contrasts, key=lambda c: c.test.difference.value or 0.0)
    assert (best.test.difference.low or 0.0) > 0  # full is made better by 0.2
    many = contrast_table(replace(found, contrasts=(best,) * 41), named)
    assert (len(many.rows), "40 largest of 41" in many.note) == (40, True)
    told = overview(runs, sweep, WANTED, 100)
    section = next(s for s in told.page.sections if s.title == "What the settings do")
    assert any("minus" in table.caption or "minus with" in table.head for table in section.tables)


def test_runs_of_one_cell_and_seed_on_two_catalogs_are_no_repeats(tmp_path: Path) -> None:
    """The catalog changed under the same configuration: both are shown, apart, and curves are of the first alone."""
    folders = [made_run(tmp_path / str(i), seed=1) for i in range(3)]
    record = json.loads((folders[2] / "run.json").read_text())
    (folders[2] / "run.json").write_text(json.dumps({**record, "catalog_fingerprint": "f" * 64}))
    runs = gathered(*folders)
    assert [e.folder for e in runs.done] == [f.resolve() for f in folders[1:]]
    assert len({b.data for b in boards(runs.done, WANTED, 20) if b.suite == "catalog_test"}) == 2
    _, notes = curve_drawings(runs.done, {})
    assert any(note.startswith("1 runs of another catalog") for note in notes)


def test_the_csv_has_what_settings_do(sweep: Path, tmp_path: Path) -> None:
    told = overview(gathered(sweep), sweep, WANTED, 50)
    write(told, tmp_path)
    with (tmp_path / "report.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["minus_settings"]]
    assert len(rows) == sum(len(board.contrasts) for board in told.boards) > 0
    assert {(r["settings"], r["minus_settings"]) for r in rows} == {
        (f"tuning=full, lr={lr}", f"tuning=lora, lr={lr}") for lr in LR
    }
    assert all(float(r["low"]) <= float(r["value"]) <= float(r["high"]) and r["p_holm"] for r in rows)


def test_seeds_that_lack_a_measure_or_the_records_of_a_ratio_leave_its_cell_empty(tmp_path: Path) -> None:
    folders = [made_run(tmp_path / str(i), seed=i) for i in range(2)]
    path = folders[1] / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [r for r in rows if not (r["system"] == "bm25" and r["metric"] == "recall" and r["k"] == 1)]
    assert len(kept) < len(rows)
    path.write_text("".join(json.dumps(r) + "\n" for r in kept))
    whole = board(boards([Entry(folders[0])], WANTED, 20), "catalog_test", "test_seen")
    both = board(boards([Entry(f) for f in folders], WANTED, 20), "catalog_test", "test_seen")
    (lacking,) = (r for r in both.rows if r.system == "bm25")
    assert ("recall", 1) not in lacking.values
    assert ("ndcg", 5) in lacking.values
    ratio = ("internalization", 1)
    assert any(ratio in r.values for r in whole.rows) and any(ratio in r.values for r in both.rows)
    for folder in folders:
        for file in (folder / "predictions").iterdir():
            file.unlink()
    bare = board(boards([Entry(f) for f in folders], WANTED, 20), "catalog_test", "test_seen")
    assert not any(ratio in r.values for r in bare.rows)
