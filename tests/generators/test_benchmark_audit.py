"""The audit of RRB, MCQ and QA: planted faults are found, sound sets pass, tiny ones give nulls, released ones fail."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from set_world import shared

from toolsavvy.benchmark import ChoiceItem, ItemSet, RetrievalItem, ToolText, YesNoItem
from toolsavvy.catalogs.toolsense_items import KINDS, read_items, write_items
from toolsavvy.errors import UserError
from toolsavvy.generators.audit import Audit, audit
from toolsavvy.generators.cards import AuditReport, data_card, markdown
from toolsavvy.generators.measures import spells

WORDS = ("amber", "birch", "coral", "delta", "ember", "flint", "grove", "heron", "inlet", "jetty", "knoll", "larch")
TEXTS = {
    f"t{i}": ToolText(f"t{i}", f"service{i % 40}", f"{WORDS[i % 12]} {i}x", f"document of {i}", f"about {i}")
    for i in range(400)
}


def sound_mcq(n: int = 400) -> ItemSet[ChoiceItem]:
    rng = np.random.default_rng(0)
    options = [f"{a}{b}" for a in WORDS for b in WORDS]
    rows = [rng.choice(options, size=4, replace=False).tolist() for _ in range(n)]
    return ItemSet(
        tuple(ChoiceItem(f"{i}", f"Which of {i}?", r[0], tuple(r[1:]), f"t{i}") for i, r in enumerate(rows)), TEXTS
    )


def sound_qa(n: int = 400) -> ItemSet[YesNoItem]:
    rng = np.random.default_rng(1)
    rows = [YesNoItem(f"{i}", f"Does this tool {rng.choice(WORDS)}?", bool(rng.integers(2)), f"t{i}") for i in range(n)]
    return ItemSet(tuple(rows), TEXTS)


def sound_rrb(n: int = 300) -> ItemSet[RetrievalItem]:
    rng = np.random.default_rng(2)
    rows = []
    for i in range(n):
        tier, golds = (("easy", 1), ("medium", 2), ("hard", 4))[i % 3]
        pool = [f"t{j}" for j in rng.permutation(400)[:10]]
        gold = rng.choice(pool, size=golds, replace=False).tolist()
        query = " ".join(f"{word}{rng.integers(1000)}" for word in rng.choice(WORDS, size=8))
        rows.append(RetrievalItem(f"{i}", query, tuple(gold), tuple(pool), tier, gold[0]))
    return ItemSet(tuple(rows), TEXTS)


def failed(report: AuditReport) -> set[str]:
    return {check.name for check in report.failed}


def test_sound_sets_pass() -> None:
    report = audit(sound_rrb(), sound_mcq(), sound_qa(), resamples=200)
    assert [(c.benchmark, c.name, c.value) for c in report.failed if "position" not in c.name] == []
    for check in report.checks:
        if "position" in check.name:  # a hundred items a tier: five points are one standard error or so
            assert abs(cast(float, check.value) - (check.low + check.high) / 2) < 0.15
    assert {check.passed for check in report.checks} <= {True, False}


def test_findings_are_counted_by_hand() -> None:
    texts = {
        "a": ToolText("a", "Maps", "find place", "same", "one"),
        "b": ToolText("b", "Maps", "find street", "same", "two"),
        "c": ToolText("c", "Films", "list", "other", "one"),
        "d": ToolText("d", "Films", "rate", "", "None"),
        "e": ToolText("e", "Films", "share", "", "None"),
    }
    rows = [
        RetrievalItem("1", "please find place of birth", ("a",), ("a", "b", "c"), "easy", "a"),
        RetrievalItem("2", "Please find place of birth", ("c",), ("b", "a", "c"), "easy", "b"),
        RetrievalItem("3", "rank all films", ("d", "c"), ("d", "c", "e"), "medium", "c"),
        RetrievalItem("4", "nothing alike here", ("a", "b", "c", "d"), ("c", "a", "b", "d"), "hard", "a"),
    ]
    found = audit(ItemSet(tuple(rows), texts), resamples=50).findings["rrb"].as_json()
    expected = {
        "n": 4, "easy_n": 2, "medium_n": 1, "hard_n": 1, "easy_identical_rival": 1, "medium_identical_rival": 1,
        "hard_identical_rival": 0, "easy_identical_own_document": 2, "medium_identical_own_document": 0,
        "easy_anchor_missing": 1, "medium_anchor_missing": 0, "hard_anchor_missing": 0, "easy_position_zero": 0.5,
        "medium_position_zero": 1.0, "hard_position_zero": 1.0, "anchor_position_zero": 0.5, "duplicate_queries": 1,
        "near_duplicate_queries": 2, "gold_tools": 4, "name_leaks": 1, "title_leaks": 1, "tools": 3,
        "tools_asked_again": 1, "services": 2, "largest_service": 0.75, "effective_services": 1.6,
        "easy_one_service": 2, "medium_one_service": 1, "hard_one_service": 0, "gold_size": 2.0, "pool_size": 3.25,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    chance = audit(ItemSet(tuple(rows), texts), resamples=50).findings["rrb"].chance
    expected = {"easy": 1 / 3, "medium": 2 / 3, "hard": 1.0, "anchor": (1 / 3 + 1 / 3 + 1 / 3 + 1 / 4) / 4}
    assert chance == pytest.approx({f"{key}_position_zero": value for key, value in expected.items()})


def test_an_anchor_that_was_assumed_to_be_first_is_no_finding() -> None:
    rows = sound_rrb(6)
    assert "anchor_position_zero" in audit(rows, resamples=20).findings["rrb"].as_json()
    assumed = ItemSet(rows.items, rows.tools, {"assumed_anchors": 6})
    assert "anchor_position_zero" not in audit(assumed, resamples=20).findings["rrb"].as_json()


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda i: {"correct": "always", "wrong": i.wrong}, {"answer_prior", "answer_prior_inverse", "option_words"}),
        (lambda i: {"correct": i.correct + " and quite a lot longer"}, {"longest_option", "shortest_option"}),
        (lambda i: {"correct": f"{TEXTS[i.tool].name} {i.correct}"}, {"name_overlap", "name_words_overlap"}),
        (lambda i: {"question": f"Which {i.correct}?"}, {"question_overlap"}),
        (lambda i: {"question": f"What of {TEXTS[i.tool].service}?"}, {"title_leaks"}),
        (lambda i: {"question": f"What of {TEXTS[i.tool].name}?"}, {"name_leaks"}),
        (
            lambda i: {"tool": f"t{int(i.tool[1:]) * 40 % 400 if int(i.tool[1:]) < 80 else i.tool[1:]}"},
            {"largest_service"},
        ),
    ],
)
def test_planted_faults_of_questions_are_found(change: Any, names: set[str]) -> None:
    found = sound_mcq()
    spoilt = ItemSet(tuple(ChoiceItem(**(item.__dict__ | change(item))) for item in found.items), TEXTS)
    assert names <= failed(audit(mcq=spoilt, resamples=20))


def test_repeated_and_contradicting_items_are_found() -> None:
    first = sound_mcq(100).items
    again = tuple(ChoiceItem(f"{i.id}b", i.question, i.correct, i.wrong[::-1], i.tool) for i in first[:10])
    other = tuple(ChoiceItem(f"{i.id}c", i.question, i.wrong[0], (i.correct, *i.wrong[1:]), i.tool) for i in first[:3])
    report = audit(mcq=ItemSet((*first, *again, *other), TEXTS), resamples=20)
    counts = report.findings["mcq"].counts
    assert (counts["duplicate_items"], counts["contradicting_items"], counts["tools_asked_again"]) == (10, 9, 10)
    assert {"duplicate_items", "contradicting_items"} <= failed(report)
    several = [ChoiceItem(f"{i}", "Which parameter?", f"p{i}", ("a", "b", "c"), "t1") for i in range(5)]
    assert audit(mcq=ItemSet(tuple(several), TEXTS), resamples=20).findings["mcq"].counts["contradicting_items"] == 0
    both = [YesNoItem(f"{i}", "Is it?", i < 2, f"t{i // 3}") for i in range(6)]
    assert audit(qa=ItemSet(tuple(both), TEXTS), resamples=20).findings["qa"].counts["contradicting_items"] == 3


def test_answers_that_lean_within_a_pattern_are_found() -> None:
    rows = [YesNoItem(f"{i}", "Q?", i % 2 == 0, f"t{i}", f"p{i % 2}") for i in range(100)]
    found = audit(qa=ItemSet(tuple(rows), TEXTS), resamples=20)
    told = found.findings["qa"].as_json()
    coins = sum(abs(k - 25) * math.comb(50, k) for k in range(51)) / 2**50 / 50
    assert (told["yes_share"], told["pattern_yes_gap"]) == (0.5, pytest.approx(0.5 - coins, abs=1e-6))
    assert "pattern_yes_gap" in failed(found)
    balanced = [YesNoItem(f"{i}", "Q?", i % 2 == 0, f"t{i}", f"p{i // 2 % 2}") for i in range(100)]
    assert audit(qa=ItemSet(tuple(balanced), TEXTS), resamples=20).findings["qa"].as_json()["pattern_yes_gap"] == 0
    few = [YesNoItem(f"{i}", f"Q {i}?", True, f"t{i}", f"p{i}") for i in range(100)]
    told = audit(qa=ItemSet(tuple(few), TEXTS), resamples=20).findings["qa"].as_json()
    assert (told["pattern_yes_gap"], told["frequent_patterns"]) == (None, 0)


def test_questions_that_betray_their_answer_are_found() -> None:
    found = sound_qa()
    rows = [YesNoItem(i.id, i.question + (" often" if i.answer else " never"), i.answer, i.tool) for i in found.items]
    report = audit(qa=ItemSet(tuple(rows), TEXTS), resamples=20)
    assert report.findings["qa"].as_json()["question_only"] == 1.0
    assert "question_only" in failed(report)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_sets_give_nulls(n: int) -> None:
    report = audit(sound_rrb(n), sound_mcq(n), sound_qa(n), resamples=20)
    told = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert (told["rrb"]["n"], told["mcq"]["n"], told["qa"]["n"]) == (n, n, n)
    assert told["rrb"]["hard_position_zero"] is None
    if n < 2:
        assert (told["qa"]["question_only"], told["mcq"]["option_words"]) == (None, None)
        assert told["mcq"]["answer_prior_interval"] == [None, None]
    assert (told["mcq"]["answer_prior"] is None) == (n == 0)
    tables = data_card({"one": report, "two": audit(mcq=sound_mcq(3), resamples=20)})
    assert [table.columns[1:-1] for table in tables] == [("one",), ("one", "two"), ("one",)]
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert markdown(tables).count("| ---") >= 3
    assert markdown(tables[1:2]).count("\n- answer prior: ") == 1  # each row's meaning once, and none of other tables
    assert "- question only: " not in markdown(tables[1:2])


def test_nothing_is_held_closer_to_chance_than_by_one_item() -> None:
    def yes(answers: str) -> set[str]:
        rows = [YesNoItem(f"{i}", f"{WORDS[i]}?", answer == "y", f"t{i}") for i, answer in enumerate(answers)]
        return failed(audit(qa=ItemSet(tuple(rows), TEXTS), resamples=20)) & {"yes_share"}

    assert not yes("yny")
    assert not yes("yynnyyn")
    assert yes("yyyynn") == set()  # one item off
    assert yes("yyyyyn") == {"yes_share"}


def test_the_same_seed_gives_the_same_report_and_another_one_other_folds() -> None:
    first, second = (audit(sound_rrb(30), sound_mcq(90), sound_qa(90), seed=4, resamples=50) for _ in range(2))
    assert first.as_json() == second.as_json()
    other = audit(qa=sound_qa(90), seed=5, resamples=50).findings["qa"].as_json()
    mine = first.findings["qa"].as_json()
    assert other["question_only_interval"] != mine["question_only_interval"]
    assert other["yes_share"] == mine["yes_share"]


def test_tolerance_is_what_separates_pass_from_fail() -> None:
    rows = tuple(YesNoItem(f"{i}", f"Q{i}?", i < 60, f"t{i}") for i in range(100))
    by = {t: failed(audit(qa=ItemSet(rows, TEXTS), tolerance=t, resamples=20)) for t in (0.05, 0.1)}
    assert "yes_share" in by[0.05]
    assert "yes_share" not in by[0.1]


@pytest.mark.parametrize(
    ("text", "name", "is_spelled"),
    [
        ("Please get the Video now", "getTheVideo", True),
        ("list-instances, please", "list_instances", True),
        ("listing instances", "list instances", False),
        ("an image", "&&", False),
        ("videos", "video", False),
    ],
)
def test_spelling_a_name(text: str, name: str, is_spelled: bool) -> None:
    assert spells(text, name) is is_spelled


@pytest.mark.parametrize(
    ("changes", "where", "what"),
    [
        ({}, "generator", "no file is given"),
        ({"beside": {"theirs": {}}}, "generator", "no file is given"),
        ({"mcq": "nowhere.jsonl"}, "generator.mcq", "no such file"),
        ({"beside": {"theirs": {"qa": "nowhere.jsonl"}}}, "generator.beside.theirs.qa", "no such file"),
        ({"beside": {"theirs": 4}}, "generator.beside.theirs", "4 is no set"),
        ({"beside": {"theirs": {"qa": ["x"]}}}, "generator.beside.theirs", "{'qa': ['x']} is no set"),
        ({"beside": {"theirs": {"mqc": "x"}}}, "generator.beside.theirs", "unknown kind 'mqc'"),
        ({"beside": {"this set": {}}}, "generator.beside", "two sets are called 'this set'"),
        ({"sheet": "nowhere.csv"}, "generator.sheet", "no such file"),
        ({"folds": 1}, "generator.folds", "out of range"),
        ({"tolerance": 1.5}, "generator.tolerance", "out of range"),
        ({"resamples": 0}, "generator.resamples", "out of range"),
        ({"sample": -1}, "generator.sample", "out of range"),
        ({"near_duplicate": -1.0}, "generator.near_duplicate", "out of range"),
    ],
)
def test_mistakes(changes: dict[str, Any], where: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        Audit(**changes)
    assert caught.value.where == where
    assert what in caught.value.what
    assert caught.value.expected
    assert caught.value.fix


def run_of(folder: Path) -> Any:
    """As much of a run as a generator sees."""
    from contextlib import nullcontext

    return SimpleNamespace(dir=folder, is_writer=True, stage=lambda name: nullcontext())


def test_files_beside_one_another(tmp_path: Path) -> None:
    write_items(tmp_path / "mcq.jsonl", sound_mcq(30).items, TEXTS)
    write_items(tmp_path / "other.jsonl", sound_mcq(20).items, TEXTS)
    write_items(tmp_path / "qa.jsonl", sound_qa(10).items, TEXTS)
    paths = {name: str(tmp_path / f"{name}.jsonl") for name in ("mcq", "other", "qa")}
    maker = Audit(
        mcq=paths["mcq"], beside={"theirs": {"mcq": paths["other"], "qa": paths["qa"]}}, name="ours", resamples=20
    )
    (tmp_path / "run").mkdir()
    product = maker.generate(run_of(tmp_path / "run"))
    assert [table.columns for table in product.tables] == [
        ("what", "ours", "theirs", "allowed"), ("what", "theirs", "allowed"),
    ]  # fmt: skip
    told = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert (told["name"], told["mcq"]["n"], told["beside"]["theirs"]["mcq"]["n"]) == ("ours", 30, 20)
    assert "qa" not in told
    assert told["beside"]["theirs"]["qa"]["n"] == 10
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == sorted(product.files)
    before = maker.fingerprint()
    write_items(tmp_path / "other.jsonl", sound_mcq(21).items, TEXTS)
    assert (
        Audit(mcq=paths["mcq"], beside={"theirs": {"mcq": paths["other"], "qa": paths["qa"]}}).fingerprint() != before
    )


def test_the_released_benchmarks_have_the_faults_that_are_known() -> None:
    """On the full files: 77 of 167 easy items with an identical rival, 66 of 167 medium ones without their anchor."""
    folder = shared("toolsense")
    sets = {kind: read_items(kind, folder / f"{kind}.jsonl") for kind in KINDS}
    report = audit(**sets, resamples=300)
    told = report.as_json()
    rrb, mcq, qa = told["rrb"], told["mcq"], told["qa"]
    rows = [json.loads(line) for line in (folder / "rrb.jsonl").read_text(encoding="utf-8").splitlines()]
    rivals = missing = 0
    for row in rows:
        golds = row["tool"] if isinstance(row["tool"], list) else [row["tool"]]
        names, texts = {g["tool_name"] for g in golds}, {g["tool_description"] for g in golds}
        others = [t for t in row["analyzed_tools"] if t["tool_name"] not in names]
        rivals += row["complexity"] == "easy" and any(t["tool_description"] in texts for t in others)
        missing += row["complexity"] == "medium" and row["analyzed_tools"][0]["tool_name"] not in names
    assert (rrb["easy_identical_rival"], rrb["medium_anchor_missing"]) == (rivals, missing)
    assert abs(rivals / rrb["easy_n"] - 77 / 167) < 0.05
    assert abs(missing / rrb["medium_n"] - 66 / 167) < 0.05
    assert abs(rrb["easy_position_zero"] - 0.982) < 0.02
    assert abs(mcq["answer_prior"] - 0.895) < 0.03
    assert abs(mcq["name_overlap"] - 0.328) < 0.03
    assert abs(mcq["longest_option"] - 0.233) < 0.03
    assert abs(mcq["distinct_questions"] / mcq["n"] - 169 / 496) < 0.05
    assert abs(qa["question_only"] - 0.732) < 0.05
    assert abs(qa["yes_share"] - 0.5) < 0.03
    assert (rrb["duplicate_queries"], mcq["contradicting_items"], qa["questions_with_both_answers"]) == (0, 0, 0)
    for name in ("answer_prior", "name_overlap", "longest_option"):
        low, high = mcq[f"{name}_interval"]
        assert 0 <= low <= mcq[name] <= high <= 1
    assert {"easy_identical_rival", "medium_anchor_missing", "easy_position_zero", "answer_prior", "question_only",
            "largest_service"} <= failed(report)  # fmt: skip
