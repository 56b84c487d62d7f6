"""Attacks that see no tool: by hand on small sets, against scikit-learn, and on the released questions."""

from __future__ import annotations

import collections
import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GroupKFold
from sklearn.naive_bayes import MultinomialNB

from conftest import SHARED
from toolsavvy import attacks
from toolsavvy.benchmark import ChoiceItem, ToolText, YesNoItem
from toolsavvy.catalogs.toolsense_items import read_mcq, read_qa


def choice(key: str, correct: str, *wrong: str, question: str = "What is it?", tool: str = "t") -> ChoiceItem:
    return ChoiceItem(key, question, correct, wrong, tool)


def yes_no(key: str, question: str, answer: bool, tool: str = "t") -> YesNoItem:
    return YesNoItem(key, question, answer, tool)


def text(key: str, service: str = "", name: str = "") -> ToolText:
    return ToolText(key, service, name or key, "shown")


ITEMS = [
    choice("1", "Videos", "songs", "maps", "news"),
    choice("2", "videos ", "songs", "books", "news"),
    choice("3", "songs", "films", "videos", "news"),
    choice("4", "plans", "news", "books", "films"),
]


def test_the_prior_counts_right_answers_of_the_other_records_alone() -> None:
    assert attacks.answer_prior_scores(ITEMS).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]]
    assert attacks.answer_prior(ITEMS).tolist() == [0.5, 0.5, 0, 0.25]
    assert attacks.answer_prior_inverse(ITEMS) == pytest.approx([0, 0, 1 / 3, 0.25])


def test_appearances_count_every_other_record_once() -> None:
    assert attacks.appearance_scores(ITEMS).tolist() == [[2, 2, 0, 3], [2, 2, 1, 3], [2, 1, 2, 3], [0, 3, 1, 1]]
    assert attacks.appearances(ITEMS).tolist() == [0, 0, 0, 0]
    assert attacks.appearances_inverse(ITEMS).tolist() == [0, 0, 0, 1]


def test_exact_balance_gives_the_answer_away_inversely() -> None:
    """Every option is right equally often: leaving a record out makes its own answer the rarest."""
    words = ["a", "b", "c", "d"]
    items = [choice(f"{i}", w, *(o for o in words if o != w)) for i, w in enumerate(words * 5)]
    assert attacks.answer_prior(items).tolist() == [0.0] * 20
    assert attacks.answer_prior_inverse(items).tolist() == [1.0] * 20
    assert attacks.appearances(items).tolist() == [0.25] * 20


def test_names_as_spelled_and_as_words() -> None:
    texts = {"t": text("t", "Maps", "getVideo")}
    item = choice("1", "a video of it", "maps of roads", "nothing", "words")
    assert attacks.name_overlap([item], texts).tolist() == [0]
    assert attacks.name_words_overlap([item], texts).tolist() == [0.5]
    assert attacks.name_overlap_scores([item], texts).tolist() == [[0, 1, 0, 0]]


def test_lengths_and_words_of_the_question() -> None:
    item = choice("1", "four", "longest one", "aaaa", "what is it, then?", question="What is it?")
    assert attacks.longest_option([item]).tolist() == [0]
    assert attacks.shortest_option([item]).tolist() == [0.5]
    assert attacks.question_overlap([item]).tolist() == [0]
    assert attacks.question_overlap_scores([item]).tolist() == [[0, 0, 0, 3]]


@pytest.mark.parametrize("name", attacks.CHOICE_ATTACKS)
def test_the_order_of_wrong_options_is_no_matter_and_options_alike_are_chance(name: str) -> None:
    texts = {"t": text("t", "Books", "get news")}
    attack = attacks.CHOICE_ATTACKS[name]
    turned = [ChoiceItem(i.id, i.question, i.correct, i.wrong[::-1], i.tool) for i in ITEMS]
    assert attack(ITEMS, texts).tolist() == attack(turned, texts).tolist()
    alike = [choice("1", "aa", "bb", "cc", "dd")]
    assert attack(alike, texts).tolist() == [0.25]
    assert attack([], texts).shape == (0,)


def labelled(n: int, seed: int) -> tuple[list[YesNoItem], list[str]]:
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(30)]
    items = []
    for i in range(n):
        answer = bool(rng.random() < 0.4)
        weights = np.linspace(1, 3, 30) if answer else np.linspace(3, 1, 30)
        chosen = rng.choice(words, size=int(rng.integers(1, 9)), p=weights / weights.sum())
        items.append(yes_no(str(i), " ".join(chosen), answer))
    return items, [f"g{rng.integers(0, 25)}" for _ in range(n)]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_naive_bayes_is_scikit_learns(seed: int) -> None:
    items, groups = labelled(300, seed)
    folds = attacks.grouped_folds(groups, 7, seed)
    ours = attacks.question_only_scores(items, groups, 7, seed)
    truth = np.array([item.answer for item in items])
    for fold in range(7):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        counts = CountVectorizer(tokenizer=attacks.tokens, token_pattern=None, lowercase=False)
        rows = counts.fit_transform([items[i].question for i in train])
        model = MultinomialNB(alpha=1.0).fit(rows, truth[train])
        log = model.predict_log_proba(counts.transform([items[i].question for i in test]))
        np.testing.assert_allclose(ours[test], log[:, 1] - log[:, 0], atol=1e-9)
        right = attacks.question_only(items, groups, 7, seed)[test]
        assert right.tolist() == (model.classes_[log.argmax(axis=1)] == truth[test]).astype(float).tolist()


def test_option_words_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    items = [choice(str(i), *(" ".join(rng.choice([*"abcdefgh"], size=3)) for _ in range(4))) for i in range(120)]
    groups = [str(i % 11) for i in range(120)]
    folds = attacks.grouped_folds(groups, 5, 0)
    scores = attacks.option_words_scores(items, groups, 5, 0)
    for fold in range(5):
        train = [item for item, f in zip(items, folds, strict=True) if f != fold]
        counts = CountVectorizer(tokenizer=attacks.tokens, token_pattern=None, lowercase=False)
        rows = counts.fit_transform([option for item in train for option in item.options])
        model = MultinomialNB().fit(rows, [True, False, False, False] * len(train))
        test = [item for item, f in zip(items, folds, strict=True) if f == fold]
        log = model.predict_log_proba(counts.transform([option for item in test for option in item.options]))
        expected = (log[:, 1] - log[:, 0]).reshape(-1, 4)
        np.testing.assert_allclose(scores[folds == fold], expected, atol=1e-9)


@pytest.mark.parametrize(("groups", "folds"), [(13, 5), (4, 10), (1, 3), (40, 40)])
def test_folds_keep_groups_whole_and_even_as_scikit_learns(groups: int, folds: int) -> None:
    rng = np.random.default_rng(3)
    labels = [f"g{rng.integers(0, groups)}" for _ in range(200)]
    found = attacks.grouped_folds(labels, folds, 5)
    homes = collections.defaultdict(set)
    for label, fold in zip(labels, found, strict=True):
        homes[label].add(int(fold))
    assert all(len(home) == 1 for home in homes.values())
    used = min(folds, len(homes))
    assert set(found.tolist()) == set(range(used))
    if used > 1:
        theirs = GroupKFold(used).split(np.zeros(200), groups=labels)
        assert sorted(np.bincount(found)) == sorted(len(test) for _, test in theirs)
    assert found.tolist() == attacks.grouped_folds(labels, folds, 5).tolist()


def test_the_seed_changes_the_folds_and_nothing_else_does() -> None:
    labels = [f"g{i}" for i in range(50)]
    drawn = [attacks.grouped_folds(labels, 10, seed).tolist() for seed in range(3)]
    assert drawn[0] != drawn[1] != drawn[2]
    assert all(collections.Counter(one) == dict.fromkeys(range(10), 5) for one in drawn)


def test_a_question_whose_group_is_held_out_teaches_nothing_about_itself() -> None:
    items = [yes_no("1", "does it fly", True), yes_no("2", "does it fly", True), yes_no("3", "is it slow", False)]
    assert attacks.question_only(items, ["a", "a", "b"], 2).tolist() == [0, 0, 0]
    assert attacks.question_only(items, ["a", "a", "a"], 2).tolist() == [0.5, 0.5, 0.5]
    assert attacks.question_only([], []).shape == (0,)
    assert attacks.option_words([], []).shape == (0,)


def test_the_same_question_elsewhere_answers_and_exact_balance_is_its_inverse() -> None:
    rows = [("A?", True), ("a?", True), ("A?", False), ("B?", True), ("C?", True), ("C?", False), ("A?", True)]
    items = [yes_no(str(i), *row) for i, row in enumerate(rows)]
    assert attacks.question_prior(items).tolist() == [1, 1, 0, 0.5, 0, 0, 1]
    assert attacks.question_prior([]).shape == (0,)


def test_what_is_held_out_together() -> None:
    services = {"a": text("a", "Video"), "b": text("b", "Maps"), "c": text("c"), "d": text("d", "Video")}
    items = [yes_no("1", "Is it?", True, "a"), yes_no("2", "is  it?", False, "b"), yes_no("3", "Or?", True, "c")]
    assert attacks.groups_of(items[:2], services) == ["Video", "Maps"]
    assert attacks.groups_of(items, services) == ["Video", "Maps", "c"]
    alone = {key: text(key) for key in services}
    assert attacks.groups_of(items, alone) == ["is it?", "is it?", "or?"]
    same = [yes_no("1", "Is it?", True, "a"), yes_no("2", "Is she?", True, "d")]
    assert attacks.groups_of(same, services) == ["is it?", "is she?"]


def test_random_questions_stay_at_chance() -> None:
    rng = np.random.default_rng(1)
    words = [f"option {i}" for i in range(200)]
    items = [choice(str(i), *rng.choice(words, size=4, replace=False)) for i in range(2000)]
    groups = [str(i % 50) for i in range(2000)]
    for scores in (attacks.answer_prior(items), attacks.appearances(items), attacks.option_words(items, groups)):
        assert abs(scores.mean() - 0.25) < 0.05


def test_the_released_questions_fall_to_the_attacks() -> None:
    folder = SHARED / "toolsense"
    if not folder.is_dir():
        pytest.skip(f"shared data is absent: no toolsense in {SHARED}")
    mcq, qa = read_mcq(folder / "mcq.jsonl"), read_qa(folder / "qa.jsonl")
    rows = [json.loads(line) for line in (folder / "mcq.jsonl").read_text(encoding="utf-8").splitlines()]
    right = collections.Counter(" ".join(row["correct_answer"].lower().split()) for row in rows)
    expected = []
    for row in rows:
        own, *others = (" ".join(o.lower().split()) for o in (row["correct_answer"], *row["wrong_answers"]))
        counts = [right[own] - 1, *(right[other] for other in others)]
        expected.append((counts[0] == max(counts)) / counts.count(max(counts)))
    assert attacks.answer_prior(mcq.items).tolist() == pytest.approx(expected)
    assert abs(np.mean(expected) - 0.895) < 0.03  # of all 496 questions; here is a part
    assert abs(attacks.name_overlap(mcq.items, mcq.tools).mean() - 0.328) < 0.03
    assert abs(attacks.longest_option(mcq.items).mean() - 0.233) < 0.03
    means = [
        attacks.question_only(qa.items, attacks.groups_of(qa.items, qa.tools), 10, seed).mean() for seed in range(3)
    ]
    assert all(abs(mean - 0.732) < 0.05 for mean in means)
