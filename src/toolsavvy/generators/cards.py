"""The data card of a benchmark of tool knowledge: what was found, what is allowed, what passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from toolsavvy.benchmark import TIERS
from toolsavvy.generators.measures import Findings
from toolsavvy.generators.product import Summary

TITLES = {"rrb": "rrb: requests for tools", "mcq": "mcq: multiple-choice questions", "qa": "qa: yes/no questions"}
NONE_ALLOWED = (*(f"{tier}_anchor_missing" for tier in TIERS), "easy_identical_rival", "contradicting_items")
"""Counts that a sound benchmark has at zero."""
FEW_ALLOWED = ("duplicate_queries", "near_duplicate_queries", "duplicate_items", "name_leaks", "title_leaks")
"""Counts whose share of the items a sound benchmark keeps small."""
EVEN_SHARE, LEAST_CONCENTRATION = 2.0, 0.1
"""The largest service may have twice an even share of the items, and always a tenth."""

MEANINGS: Mapping[str, str] = {
    "identical rival": "a tool of the pool that is not gold reads exactly as a gold one does",
    "identical own document": "the same for what the tool itself says, without its service's text",
    "anchor missing": "the tool that the request was written for is not among its gold tools",
    "assumed anchors": "no anchor is named, so that the pool's first tool was taken for it",
    "one service": "all gold tools are of one service",
    "name leaks": "the text spells the name of a tool that it is about; title leaks: of its service",
    "tools asked again": "tools that more than one item is about",
    "differing texts": "a tool's text differs from an earlier one of the same tool",
    "position zero": "the first tool of the pool is gold (anchor position zero: the anchor); allowed is around chance",
    "answer prior": "choose the option that is most often right in the other items; inverse: least often",
    "appearances": "choose the option that stands in most other items, right or wrong; inverse: in fewest",
    "name overlap": "choose the option that shares most words with the tool's name; name words: taken apart",
    "question overlap": "choose the option that shares most words with the question",
    "longest option": "choose the longest option; shortest option: the shortest",
    "option words": "choose by words that speak for a right answer, learnt from other services' items",
    "contradicting items": "the same is asked of the same tool with another answer",
    "repeated one sided": "questions asked more than once whose answer is always the same",
    "frequent patterns": "kinds of question with ten items or more",
    "pattern yes gap": "how far their share of yes is from a half, beyond what fair coins show",
    "question only": "answer by the question's words, learnt from other services' items",
    "question prior": "answer as other items with the same question do; unchecked: exact balance is below chance here",
    "largest service": "its share of the items",
    "effective services": "services of equal size that would be as concentrated (inverse Simpson index)",
    "accuracy person": "share of answers that are the key's",
    "overlap person": "tools in both answer and key by tools in either",
    "sound person": "share of items that the person called sound",
    "kappa person": "Cohen's kappa: agreement beyond chance, 1 is perfect, 0 is chance",
}
"""What rows of the tables mean: a part of the row's name -> its meaning."""


@dataclass(frozen=True)
class Check:
    """One number held against what is allowed.

    Args:
        benchmark: rrb, mcq or qa.
        name: of the number.
        value: as it is held against the limits; None where it is undefined.
        low: least allowed.
        high: most allowed.
        of_items: whether the value is a count's share of the items.
    """

    benchmark: str
    name: str
    value: float | None
    low: float
    high: float
    of_items: bool = False

    @property
    def passed(self) -> bool | None:
        """Whether it is within the limits; None where there is nothing to hold against them."""
        return None if self.value is None else self.low - 1e-9 <= self.value <= self.high + 1e-9

    @property
    def allowed(self) -> str:
        """The limits in words."""
        if self.low:
            return f"{self.low:.3g}-{self.high:.3g}"
        most = f"{100 * self.high:.3g} % of items" if self.of_items else f"{self.high:.3g}"
        return f"up to {most}" if self.high else "0"


@dataclass(frozen=True)
class AuditReport:
    """What an audit found.

    Args:
        findings: rrb, mcq, qa -> what was found, for those that were given.
        tolerance: how far from chance a blind attack may come, in either direction (always by one item), and the
            share of items that may repeat or leak.
        settings: how it looked, for the record.
    """

    findings: Mapping[str, Findings]
    tolerance: float = 0.05
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every number for which there is a limit."""
        return tuple(check for kind, found in self.findings.items() for check in _checks(kind, found, self.tolerance))

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that do not pass."""
        return tuple(check for check in self.checks if check.passed is False)

    def as_json(self) -> dict[str, Any]:
        """What audit.json holds: one object a benchmark, and the checks with their verdicts."""
        checks = [{**asdict(check), "passed": check.passed} for check in self.checks]
        found = {kind: findings.as_json() for kind, findings in self.findings.items()}
        return {**found, "checks": checks, "settings": {**self.settings, "tolerance": self.tolerance}}


def _checks(kind: str, found: Findings, tolerance: float) -> list[Check]:
    """The checks that apply to what was found; on tiny sets an attack may be off chance by one item."""
    rows = []
    for name, chance in found.chance.items():
        share = found.shares[name]
        off = max(tolerance, 1 / max(share.n, 1))
        rows.append(Check(kind, name, share.value, max(0.0, chance - off), min(1.0, chance + off)))
    if "pattern_yes_gap" in found.numbers:
        rows.append(Check(kind, "pattern_yes_gap", found.numbers["pattern_yes_gap"], 0.0, tolerance))
    counts = {name: float(n) for name, n in found.counts.items()}
    rows += [Check(kind, name, counts[name], 0.0, 0.0) for name in NONE_ALLOWED if name in counts]
    few = [name for name in FEW_ALLOWED if name in counts]
    rows += [Check(kind, name, counts[name] / found.n if found.n else None, 0.0, tolerance, True) for name in few]
    even = EVEN_SHARE / max(1, found.counts["services"])
    most = min(1.0, max(LEAST_CONCENTRATION, even))
    return [*rows, Check(kind, "largest_service", found.numbers["largest_service"], 0.0, most)]


def data_card(reports: Mapping[str, AuditReport]) -> tuple[Summary, ...]:
    """One table a benchmark, one column a set, each number with its interval, or the verdict where it is checked."""
    kinds = [kind for kind in TITLES if any(kind in report.findings for report in reports.values())]
    return tuple(_card(kind, {n: r for n, r in reports.items() if kind in r.findings}) for kind in kinds)


def _card(kind: str, reports: Mapping[str, AuditReport]) -> Summary:
    """The table of one benchmark."""
    found = {name: report.findings[kind] for name, report in reports.items()}
    checks = {name: {c.name: c for c in report.checks if c.benchmark == kind} for name, report in reports.items()}
    names = dict.fromkeys(key for one in found.values() for key in ("n", *one.counts, *one.shares, *one.numbers))
    limits = {c.name: c.allowed for one in checks.values() for c in one.values()}
    rows = [
        (
            name.replace("_", " "),
            *(_cell(found[column], name, checks[column].get(name)) for column in reports),
            limits.get(name, "")
            if len({one[name].allowed for one in checks.values() if name in one}) < 2
            else "each own",
        )
        for name in names
    ]
    return Summary(TITLES[kind], ("what", *reports, "allowed"), tuple(rows))


def _cell(found: Findings, name: str, check: Check | None) -> str:
    """A number as the card shows it."""
    verdict = "" if check is None or check.passed is None else " pass" if check.passed else " FAIL"
    if name == "n":
        return f"{found.n:,}"
    if name in found.counts:
        part = f" ({100 * check.value:.3g} %)" if check and check.of_items and check.value else ""
        return f"{found.counts[name]:,}{part}{verdict}"
    if name in found.numbers:
        value = found.numbers[name]
        return "-" if value is None else f"{value:.3g}{verdict}"
    share = found.shares.get(name)
    if share is None or share.value is None:
        return "-"
    interval = "" if share.low is None or share.high is None else f" [{share.low:.2f}, {share.high:.2f}]"
    return f"{share.value:.3f}{interval}{verdict}"


def markdown(tables: Sequence[Summary]) -> str:
    """Tables as Markdown with what their rows mean, for the card that lies beside the data."""
    parts = []
    for table in tables:
        rows = [table.columns, tuple("---" for _ in table.columns), *table.rows]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        parts.append("\n".join([f"## {table.title}", "", *lines]))
        shown = [row[0] for row in table.rows]
        told = [f"- {name}: {text}" for name, text in MEANINGS.items() if any(name in one for one in shown)]
        parts += ["\n".join(told)] if told else []
    return "\n\n".join(parts) + "\n"
