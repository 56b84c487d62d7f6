"""Runs of method=necessity side by side: what N, T, the wording, the layer or the model changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from toolsavvy.errors import UserError
from toolsavvy.figures.bars import Bar
from toolsavvy.methods.knowing.observations import Seen, read_observed
from toolsavvy.metrics import Interval
from toolsavvy.necessity.flips import flips
from toolsavvy.necessity.labels import Quadrants, action, labels_of, quadrants
from toolsavvy.tracking.records import read_lines, read_record

VARIED = {
    "N": "method.sampling.n", "T": "method.sampling.temperature", "wording": "method.action.wording",
    "domain": "questions.domain", "layers": "probe.layers", "seed": "seed",
}  # fmt: skip
"""Column -> key of the configuration; columns in which nothing varies are left out."""
SET, CHECKER = "set", "checker"
"""Columns of what a run asked, and of who checked the answers: not every run says so by the same key."""
REFERENCE = {"N": 10, "T": 0.7, "wording": "neutral"}
"""The published choice: labels of other runs are compared with this one's."""


@dataclass(frozen=True)
class Compared:
    """One run in the table.

    Args:
        seen: its observations.
        settings: column -> value.
        strict: quadrants with N of N.
        released: quadrants with 9 of 10.
        rules_flip: share of labels that the two rules give differently.
        flips: share of strict labels that differ from the reference's; None for the reference, or without one.
        tokens: sampled for the labels, those of the store among them; None where nobody counted.
        probes: records of the run's probes.
    """

    seen: Seen
    settings: Mapping[str, Any]
    strict: Quadrants
    released: Quadrants
    rules_flip: Interval
    flips: Interval | None
    tokens: int | None
    probes: tuple[Mapping[str, Any], ...]


def compare(folders: Sequence[Path], resamples: int = 2000) -> list[Compared]:
    """Read runs and compare their labels, on the same resamples of the questions.

    Raises:
        UserError: a folder that holds no run of method=necessity.
    """
    seen = [(one, settings_of(folder)) for folder in folders for one in read_observed(folder)]
    return [_compared(one, settings, _reference(one, seen), resamples) for one, settings in seen]


def settings_of(folder: Path) -> dict[str, Any]:
    """What may vary between the jobs of a sweep, as the run's config.yaml has it."""
    path = folder / "config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found = {}
    for column, key in VARIED.items():
        node: Any = config
        for part in key.split("."):
            node = node.get(part) if isinstance(node, Mapping) else None
        found[column] = node
    record = read_record(folder)
    asked = record.get("questions")
    return {SET: asked.get("name") if isinstance(asked, Mapping) else None, CHECKER: record.get("checker"), **found}


def _reference(one: Seen, seen: Sequence[tuple[Seen, Mapping[str, Any]]]) -> Seen | None:
    """The run of the same model and questions with the published N and T; None where `one` is it, or there is none."""
    for other, settings in seen:
        is_published = all(settings[column] in (value, None) for column, value in REFERENCE.items())
        if is_published and other.system == one.system and other.observed.ids == one.observed.ids:
            return None if other is one else other
    return None


def _compared(one: Seen, settings: Mapping[str, Any], reference: Seen | None, resamples: int) -> Compared:
    if not (one.observed.samples > 0).all():
        raise UserError(
            "its answers were not checked: it has no labels to compare", where=str(one.folder),
            expected="runs of method=necessity with a checker", fix="leave it out; its own report.html is whole",
        )  # fmt: skip
    kept, called = action(one.observed, "parsed")
    labels = {rule: labels_of(one.observed, rule) for rule in ("strict", "released")}
    found = {rule: quadrants(mine[kept], called[kept], resamples=resamples) for rule, mine in labels.items()}
    return Compared(
        one, settings, found["strict"], found["released"],
        flips(labels["strict"], labels["released"], resamples=resamples).share,
        None if reference is None
        else flips(labels["strict"], labels_of(reference.observed, "strict"), resamples=resamples).share,
        _tokens(one.folder), tuple(_probes(one.folder)),
    )  # fmt: skip


def _tokens(folder: Path) -> int | None:
    told = read_record(folder).get("samples")
    return told.get("tokens") if isinstance(told, Mapping) else None


def _probes(folder: Path) -> list[Mapping[str, Any]]:
    return [r for r in read_lines(folder / "results.jsonl") if r.get("suite") == "probes" and r.get("metric") == "mcc"]


def columns_that_vary(rows: Sequence[Compared]) -> list[str]:
    """Columns in which the runs differ; the model's name is always shown."""
    return [c for c in (SET, CHECKER, *VARIED) if len({repr(r.settings[c]) for r in rows}) > 1]


def label_rows(rows: Sequence[Compared]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table of labels, percentages with 95 % intervals."""
    varied = columns_that_vary(rows)
    head = ["model", *varied, "questions", "needed (strict)", "needed (9 of 10)", "called", "mismatch (strict)"]
    head += ["mismatch (9 of 10)", "rules differ", "strict labels changed", "tokens sampled"]
    body = []
    for r in rows:
        cells = [r.seen.system, *(str(r.settings[c]) for c in varied), str(r.strict.total)]
        rates = (r.strict.need_rate, r.released.need_rate, r.strict.call_rate, r.strict.mismatch_rate)
        cells += [percent(i) for i in (*rates, r.released.mismatch_rate, r.rules_flip)]
        cells += ["" if r.flips is None else percent(r.flips), "" if r.tokens is None else f"{r.tokens:,}"]
        body.append(cells)
    shown = [i for i in range(len(head)) if any(row[i] for row in body)]
    return [head[i] for i in shown], [[row[i] for i in shown] for row in body]


def percent(interval: Interval, digits: int = 1) -> str:
    """'26.6 [25, 28]'."""
    if interval.value is None:
        return "undefined"
    value = f"{100 * interval.value:.{digits}f}"
    return value if interval.low is None else f"{value} [{100 * interval.low:.0f}, {100 * (interval.high or 0):.0f}]"


def probe_rows(rows: Sequence[Compared]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table of probes: MCC on test items of each run's best cell, beside its controls."""
    varied = columns_that_vary(rows)
    slices = list(dict.fromkeys(str(p["slice"]) for r in rows for p in r.probes))
    body = []
    for r in rows:
        by = {p["slice"]: p for p in r.probes}
        cells = [r.seen.system, *(str(r.settings[c]) for c in varied)]
        body.append([*cells, *(_mcc(by.get(s)) for s in slices)])
    return ["model", *varied, *slices], body


def _mcc(record: Mapping[str, Any] | None) -> str:
    if record is None or record["value"] is None:
        return ""
    ends = "" if record["low"] is None else f" [{record['low']:.2f}, {record['high']:.2f}]"
    return f"{record['value']:.2f}{ends}"


def bar_of(label: str, group: str, q: Quadrants) -> Bar:
    """The quadrants as one stacked bar."""
    total = max(1, q.total)
    shares = (q.n_c / total, q.n_nc / total, q.un_c / total, q.un_nc / total)
    return Bar(label, group, shares, q.total, percent(q.mismatch_rate))
