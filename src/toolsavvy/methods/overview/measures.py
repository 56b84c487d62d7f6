"""Which numbers a report shows first, which way is better, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolsavvy.report import NAMES
from toolsavvy.tracking.records import HEADLINE

Measure = tuple[str, int | None]
"""Metric and cut-off."""
ORDER = (
    "ndcg", "recall", "completeness", "internalization", "pass_rate", "accuracy", "exact_match", "field_f1",
    "execution_match", "mismatch_rate", "mcc", "auc", "f1", "n_c", "n_nc", "un_c", "un_nc", "ece", "cosine",
)  # fmt: skip
"""What tables show, most telling first; other metrics stand in report.csv."""
CUTOFFS = (5, 10, 1, 50)
"""Which cut-off stands for a metric, if it was measured."""
LESS_IS_BETTER = ("mismatch_rate", "ece", "n_nc", "un_c", "cost_regret")
NEITHER = ("n_c", "un_nc", "n_nc", "un_c", "yes_share", "cosine", "call_rate", "need_rate")
"""Shares that describe: nobody is best in them."""
PLAIN = ("mcc", "auc", "ece", "cosine", "cost_regret")
"""Not shares: written with three digits, not in percent."""
COUNTS = ("n_c", "n_nc", "un_c", "un_nc")
"""Numbers of items."""
SHOWN = {"necessity": ("strict", "released")}
"""Slices that stand for a suite, where they are not named as in other suites."""


def is_headline(row: Mapping[str, Any], has_whole: bool) -> bool:
    """Whether a record of results.jsonl is of a slice that stands for its suite."""
    name = row["slice"] or ""
    chosen = SHOWN.get(row["suite"])
    if chosen is not None:
        return name in chosen
    return name in HEADLINE if has_whole else not any(c in name for c in "/=|")


def measures_of(rows: Sequence[Mapping[str, Any]], wanted: Sequence[Measure]) -> list[Measure]:
    """Columns of a table: those of retrieval that were asked for, then the others in their order."""
    found = {(str(r["metric"]), r["k"]) for r in rows}
    ranked = [m for m in wanted if m in found]
    return [*ranked, *((name, None) for name in ORDER if (name, None) in found)]


def primary(measures: Sequence[Measure]) -> Measure:
    """What systems are ranked by."""

    def rank(measure: Measure) -> tuple[int, int]:
        name, k = measure
        place = CUTOFFS.index(k) if k in CUTOFFS else len(CUTOFFS)
        return (ORDER.index(name) if name in ORDER else len(ORDER), place)

    ranked = [m for m in measures if m[0] not in NEITHER] or list(measures)
    return min(ranked, key=rank)


def title(measure: Measure) -> str:
    """'nDCG@5', 'mismatch rate'."""
    name = NAMES.get(measure[0], measure[0].replace("_", " "))
    return name if measure[1] is None else f"{name}@{measure[1]}"


def sign(metric: str) -> int:
    """1 where more is better, -1 where less is."""
    return -1 if metric in LESS_IS_BETTER else 1


def scale(metric: str) -> float:
    """Percent, or the number itself."""
    return 1.0 if metric in PLAIN or metric in COUNTS else 100.0


def written(metric: str, value: float | None, low: float | None, high: float | None, *, signed: bool = False) -> str:
    """'83.2 [78.1, 88.0]'; 0/0 where it is undefined."""
    if value is None:
        return "0/0"
    factor, plus = scale(metric), "+" if signed else ""
    digits = 3 if metric in PLAIN else 0 if metric in COUNTS and factor * value % 1 == 0 else 1
    middle = _number(factor * value, plus, digits)
    if low is None or high is None:
        return middle
    # Ends in whole percent, as long as they are wide apart: more digits than they are good for only tire the eye.
    is_whole = all(abs(factor * end - round(factor * end)) < 0.05 for end in (low, high))
    fine = digits if metric in PLAIN or (factor * (high - low) < 3 and not is_whole) else 0
    ends = (_number(factor * end, plus, fine) for end in (low, high))
    return f"{middle} [{', '.join(ends)}]"


def _number(value: float, plus: str, digits: int) -> str:
    """Rounded; a zero has no sign before it but the one that is asked for."""
    return format(round(value, digits) + 0.0, f"{plus}.{digits}f")
