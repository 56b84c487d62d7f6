"""Attacks that see no tool: what answers questions about tools without knowing them, as a control for benchmarks.

A sound benchmark leaves each at chance. Every attack gives its expected score on each item, where equally good options
share the point: a set on which all options look alike scores exactly chance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from toolsavvy.benchmark import ChoiceItem, ToolText, YesNoItem
from toolsavvy.catalog import split_words

_TOKEN = re.compile(r"[^\W_]+")
TIE = 1e-9
"""Scores that are closer than this are equal: sums in another order differ in their last bits."""


def tokens(text: str) -> list[str]:
    """Lower-case runs of letters and digits, unstemmed: on ASCII exactly rouge-score's default tokens.

    Deviation: letters and digits of every script count, where rouge-score knows a-z and 0-9 alone.
    """
    return _TOKEN.findall(text.lower())


def shared(scores: np.ndarray) -> np.ndarray:
    """Chance of being right, float64 [item], when one of the best options is drawn: scores [item, option], right first.

    The result is the same for any order of the wrong options.
    """
    best = scores >= scores.max(axis=1, keepdims=True, initial=-np.inf) - TIE
    return best[:, 0] / best.sum(axis=1) if len(scores) else np.zeros(0)


def answer_prior(items: Sequence[ChoiceItem]) -> np.ndarray:
    """Choose the option that is most often the right one in the other records, float64 [item].

    Source: an audit of ToolSense's released MCQ, where it scores 0.895 against a nominal 0.25.
    """
    return shared(answer_prior_scores(items))


def answer_prior_inverse(items: Sequence[ChoiceItem]) -> np.ndarray:
    """Choose the option that is least often the right one in the other records, float64 [item].

    Where every option is the right one equally often, the right one is one short in the others: balance gives it away.
    """
    return shared(-answer_prior_scores(items))


def appearances(items: Sequence[ChoiceItem]) -> np.ndarray:
    """Choose the option that stands in most other records, right or wrong there: float64 [item]."""
    return shared(appearance_scores(items))


def appearances_inverse(items: Sequence[ChoiceItem]) -> np.ndarray:
    """Choose the option that stands in the fewest other records: float64 [item]."""
    return shared(-appearance_scores(items))


def name_overlap(items: Sequence[ChoiceItem], texts: Mapping[str, ToolText]) -> np.ndarray:
    """Choose the option that shares most tokens with the tool's service and name as spelled, float64 [item]."""
    return shared(name_overlap_scores(items, texts))


def name_words_overlap(items: Sequence[ChoiceItem], texts: Mapping[str, ToolText]) -> np.ndarray:
    """`name_overlap` with names taken apart into words ("getVideo" is "get video"): stronger, float64 [item]."""
    return shared(name_overlap_scores(items, texts, split=True))


def question_overlap(items: Sequence[ChoiceItem]) -> np.ndarray:
    """Choose the option that shares most tokens with the question, float64 [item]."""
    return shared(question_overlap_scores(items))


def longest_option(items: Sequence[ChoiceItem]) -> np.ndarray:
    """Choose the option of most characters, float64 [item]."""
    return shared(length_scores(items))


def shortest_option(items: Sequence[ChoiceItem]) -> np.ndarray:
    """Choose the option of fewest characters, float64 [item]."""
    return shared(-length_scores(items))


def option_words(items: Sequence[ChoiceItem], groups: Sequence[Hashable], folds: int = 10, seed: int = 0) -> np.ndarray:
    """Choose the option whose words speak most for a right answer, learnt from other groups' items: float64 [item].

    Multinomial naive Bayes (see `naive_bayes`) of right against wrong over the options' tokens.
    """
    return shared(option_words_scores(items, groups, folds, seed))


def question_only(items: Sequence[YesNoItem], groups: Sequence[Hashable], folds: int = 10, seed: int = 0) -> np.ndarray:
    """Answer by the question's words, learnt from other groups' items: float64 [item].

    Source: an audit of ToolSense's released QA, where it scores 0.732 against a nominal 0.5.

    Args:
        items: questions.
        groups: [item] what must not stand on both sides, see `groups_of`.
        folds: parts; fewer where there are fewer groups.
        seed: of the folds.
    """
    yes = question_only_scores(items, groups, folds, seed)
    truth = np.array([item.answer for item in items], dtype=bool)
    return np.where(np.abs(yes) <= TIE, 0.5, (yes > 0) == truth)


def question_prior(items: Sequence[YesNoItem]) -> np.ndarray:
    """Answer as the other records with the same question mostly do, float64 [item]; 0.5 where none or half say yes.

    Exact balance gives itself away here: where a question is asked twice with either answer, this is 0, and its inverse
    always right.
    """
    sums = Counter[str]()
    for item in items:
        sums[_plain(item.question)] += 1 if item.answer else -1
    others = [(sums[_plain(item.question)] - (s := 1 if item.answer else -1)) * s for item in items]
    return (np.sign(np.array(others, dtype=np.float64)) + 1) / 2


def answer_prior_scores(items: Sequence[ChoiceItem]) -> np.ndarray:
    """How often each option is right in the other records, float64 [item, option]; case and spaces do not count."""
    right = Counter(_plain(item.correct) for item in items)
    rows = [[right[_plain(o)] - (_plain(o) == _plain(i.correct)) for o in i.options] for i in items]
    return _matrix(rows)


def appearance_scores(items: Sequence[ChoiceItem]) -> np.ndarray:
    """How many other records hold each option, float64 [item, option]."""
    seen = Counter(option for item in items for option in {_plain(o) for o in item.options})
    return _matrix([[seen[_plain(option)] - 1 for option in item.options] for item in items])


def name_overlap_scores(
    items: Sequence[ChoiceItem], texts: Mapping[str, ToolText], *, split: bool = False
) -> np.ndarray:
    """How many tokens of service and name each option holds, float64 [item, option]."""

    def row(item: ChoiceItem) -> list[int]:
        text = texts[item.tool]
        names = [split_words(part) if split else part for part in (text.service, text.name)]
        own = set(tokens(" ".join(names)))
        return [len(own & set(tokens(option))) for option in item.options]

    return _matrix([row(item) for item in items])


def question_overlap_scores(items: Sequence[ChoiceItem]) -> np.ndarray:
    """How many tokens of the question each option holds, float64 [item, option]."""
    asked = [set(tokens(item.question)) for item in items]
    return _matrix([[len(q & set(tokens(o))) for o in item.options] for q, item in zip(asked, items, strict=True)])


def length_scores(items: Sequence[ChoiceItem]) -> np.ndarray:
    """Characters of each option, float64 [item, option]."""
    return _matrix([[len(option) for option in item.options] for item in items])


CHOICE_ATTACKS: Mapping[str, Callable[[Sequence[ChoiceItem], Mapping[str, ToolText]], np.ndarray]] = {
    "answer_prior": lambda items, texts: answer_prior(items),
    "answer_prior_inverse": lambda items, texts: answer_prior_inverse(items),
    "appearances": lambda items, texts: appearances(items),
    "appearances_inverse": lambda items, texts: appearances_inverse(items),
    "name_overlap": name_overlap,
    "name_words_overlap": name_words_overlap,
    "question_overlap": lambda items, texts: question_overlap(items),
    "longest_option": lambda items, texts: longest_option(items),
    "shortest_option": lambda items, texts: shortest_option(items),
}
"""Attacks on multiple-choice questions that learn nothing: name -> (items, texts) -> float64 [item]."""


def choice_attacks(
    items: Sequence[ChoiceItem], texts: Mapping[str, ToolText], *, learn: bool = True
) -> dict[str, np.ndarray]:
    """Name -> float64 [item] of every attack on multiple-choice questions.

    Args:
        items: the questions.
        texts: their tools.
        learn: also the attack that learns options' words, which is noise on few items.
    """
    found = {name: attack(items, texts) for name, attack in CHOICE_ATTACKS.items()}
    return found | ({"option_words": option_words(items, groups_of(items, texts))} if learn else {})


def option_words_scores(
    items: Sequence[ChoiceItem], groups: Sequence[Hashable], folds: int = 10, seed: int = 0
) -> np.ndarray:
    """Log-odds of right against wrong of each option's words, float64 [item, option]; wrong ones are the many."""
    width = len(items[0].options) if items else 1
    rows = [tokens(option) for item in items for option in item.options]
    right = np.tile(np.arange(width) == 0, len(items))
    parts = np.repeat(grouped_folds(groups, folds, seed), width)
    return naive_bayes(rows, right, parts).reshape(len(items), width)


def question_only_scores(
    items: Sequence[YesNoItem], groups: Sequence[Hashable], folds: int = 10, seed: int = 0
) -> np.ndarray:
    """Log-odds of yes by the question's words, float64 [item]; see `question_only`."""
    truth = np.array([item.answer for item in items], dtype=bool)
    return naive_bayes([tokens(item.question) for item in items], truth, grouped_folds(groups, folds, seed))


def groups_of(items: Sequence[ChoiceItem] | Sequence[YesNoItem], texts: Mapping[str, ToolText]) -> list[str]:
    """What classifiers hold out together: an item's service; its question where fewer than two services are known."""
    services = [texts[item.tool].service.strip() for item in items]
    if len(set(services)) > 1 and all(services):
        return services
    if len({service for service in services if service}) > 1:  # tools without one are each on their own
        return [service or item.tool for service, item in zip(services, items, strict=True)]
    return [_plain(item.question) for item in items]


def grouped_folds(groups: Sequence[Hashable], folds: int = 10, seed: int = 0) -> np.ndarray:
    """The fold of each item, int64 [item]: no group stands in two, and sizes are as even as groups allow.

    The largest group goes first, each into the smallest fold so far; the seed shuffles groups of one size and folds of
    one size. At most as many folds as groups.
    """
    sizes = Counter(groups)
    order = list(sizes)
    rng = np.random.default_rng(seed)
    order = [order[i] for i in rng.permutation(len(order))]
    order.sort(key=lambda group: -sizes[group])
    used = min(folds, len(order))
    filled, rank = np.zeros(used, dtype=np.int64), rng.permutation(used)
    place: dict[Hashable, int] = {}
    for group in order:
        place[group] = int(np.lexsort((rank, filled))[0])
        filled[place[group]] += sizes[group]
    return np.array([place[group] for group in groups], dtype=np.int64)


def naive_bayes(rows: Sequence[Sequence[str]], truth: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Cross-fitted log-odds of true against false, float64 [row].

    Multinomial naive Bayes over token counts (unigrams), add-one smoothing over the training rows' vocabulary, class
    priors as in training; tokens that training has not seen say nothing. A class that training lacks gets -inf (or, as
    the other one's log-odds, +inf), and with no training row at all the log-odds are 0.

    Args:
        rows: tokens of each row.
        truth: bool [row].
        folds: int64 [row]; each fold is scored by what the others teach.
    """
    numbers: dict[str, int] = {}
    flat = np.array([numbers.setdefault(token, len(numbers)) for row in rows for token in row], dtype=np.int64)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int64)
    scores = np.zeros(len(rows))
    for fold in range(int(folds.max(initial=-1)) + 1):
        train, test = folds != fold, folds == fold
        weights = _token_weights(flat, train[owner], truth[owner], len(numbers))
        evidence = np.bincount(owner, weights=weights[flat], minlength=len(rows))
        scores[test] = evidence[test] + _prior(truth[train])
    return scores


def _token_weights(flat: np.ndarray, train: np.ndarray, truth: np.ndarray, size: int) -> np.ndarray:
    """Log-ratio of each token's smoothed shares in the two classes, float64 [token]; 0 for tokens not in training."""
    yes, no = (np.bincount(flat[train & side], minlength=size).astype(np.float64) for side in (truth, ~truth))
    seen = (yes + no) > 0
    ratio = np.log((yes + 1) / (yes.sum() + seen.sum() or 1)) - np.log((no + 1) / (no.sum() + seen.sum() or 1))
    return np.where(seen, ratio, 0.0)


def _prior(truth: np.ndarray) -> float:
    """Log-odds of the two classes among training rows."""
    yes, no = int(truth.sum()), int((~truth).sum())
    if not yes or not no:
        return 0.0 if yes == no else np.inf if yes else -np.inf
    return float(np.log(yes / no))


def _plain(text: str) -> str:
    """Text as it is compared: lower case, single blanks."""
    return " ".join(text.lower().split())


def _matrix(rows: Sequence[Sequence[float]]) -> np.ndarray:
    """Scores of options, float64 [item, option]."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1 if rows else 1)
