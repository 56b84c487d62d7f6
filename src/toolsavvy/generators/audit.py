"""The audit of a benchmark of tool knowledge, ours or anybody's: `method=generate generator=audit`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write
from toolsavvy.benchmark import ChoiceItem, ItemSet, RetrievalItem, YesNoItem
from toolsavvy.catalogs.reading import existing
from toolsavvy.catalogs.toolsense_items import KINDS, read_items
from toolsavvy.errors import UserError
from toolsavvy.generators.agreement import Agreement, agreement_table
from toolsavvy.generators.cards import AuditReport, data_card, markdown
from toolsavvy.generators.measures import Findings, Settings, measure_mcq, measure_qa, measure_rrb
from toolsavvy.generators.product import Product
from toolsavvy.generators.sheet import key_beside, read_sheet, write_sheet
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import write_json

Sets = Mapping[str, ItemSet[Any]]
"""rrb, mcq, qa -> items, for those that are there."""


def audit(
    rrb: ItemSet[RetrievalItem] | None = None,
    mcq: ItemSet[ChoiceItem] | None = None,
    qa: ItemSet[YesNoItem] | None = None,
    *,
    folds: int = 10,
    seed: int = 0,
    tolerance: float = 0.05,
    near_duplicate: float = 0.8,
    resamples: int = 2000,
) -> AuditReport:
    """Look at any of the three benchmarks without a model; the same items and seed give the same report.

    Args:
        rrb: requests, or None.
        mcq: multiple-choice questions, or None.
        qa: yes/no questions, or None.
        folds: parts of the cross-fitted attacks.
        seed: of folds and resampling.
        tolerance: how far from chance an attack may come, and the share of items that may repeat or leak.
        near_duplicate: ROUGE-L F1 from which two requests are near-duplicates.
        resamples: bootstrap replicates behind an interval.
    """
    how = Settings(folds, seed, near_duplicate, resamples)
    findings: dict[str, Findings] = {}
    if rrb is not None:
        findings["rrb"] = measure_rrb(rrb, how)
    if mcq is not None:
        findings["mcq"] = measure_mcq(mcq, how)
    if qa is not None:
        findings["qa"] = measure_qa(qa, how)
    return AuditReport(findings, tolerance, asdict(how))


class Audit:
    """Reads files of the three benchmarks, audits them, and writes audit.json, a data card and a sheet for people.

    Args:
        rrb: file of requests (ToolSense's layout).
        mcq: file of multiple-choice questions.
        qa: file of yes/no questions.
        beside: name -> {rrb, mcq, qa}: further sets, shown in the same tables.
        sheet: a filled-in sheet, whose agreement goes into audit.json.
        sheet_key: its key; None is the file that was written beside it.
        name: of the set, above its column.
        sample: items for people to check; 0 writes no sheet.
        folds: parts of the cross-fitted attacks.
        seed: of folds, resampling and the sheet.
        tolerance: how far from chance an attack may come, and the share of items that may repeat or leak.
        near_duplicate: ROUGE-L F1 from which two requests are near-duplicates.
        resamples: bootstrap replicates behind an interval.

    Raises:
        UserError: nothing is given, a file is malformed, or a number is out of range.
    """

    def __init__(
        self,
        rrb: str | None = None,
        mcq: str | None = None,
        qa: str | None = None,
        *,
        beside: Mapping[str, Mapping[str, str | None]] | None = None,
        sheet: str | None = None,
        sheet_key: str | None = None,
        name: str = "this set",
        sample: int = 100,
        folds: int = 10,
        seed: int = 0,
        tolerance: float = 0.05,
        near_duplicate: float = 0.8,
        resamples: int = 2000,
    ) -> None:
        _check_numbers(sample=sample, folds=folds, tolerance=tolerance, near=near_duplicate, resamples=resamples)
        self.name, self.sample, self.seed = name, sample, seed
        self._how = {"folds": folds, "seed": seed, "tolerance": tolerance}
        self._how |= {"near_duplicate": near_duplicate, "resamples": resamples}
        self._digest = hashlib.sha256()
        own = self._read({"rrb": rrb, "mcq": mcq, "qa": qa}, "generator")
        others = {str(n): self._read(files, f"generator.beside.{n}") for n, files in (beside or {}).items()}
        if name in others:
            raise UserError(
                f"two sets are called {name!r}", where="generator.beside", expected="a name of its own for each set",
                fix="rename it, or set generator.name=…",
            )  # fmt: skip
        self.sets: dict[str, Sets] = {name: own, **others}
        if not any(self.sets.values()) and not sheet:
            raise UserError(
                "no file is given", where="generator", expected="generator.rrb, generator.mcq or generator.qa",
                fix="add generator.mcq=FILE (any of the three)",
            )  # fmt: skip
        self.human: Agreement | None = None
        if sheet:
            file = existing(sheet, "a filled-in sheet (CSV)", "generator.sheet")
            key = existing(sheet_key or key_beside(file), "the sheet's key (CSV)", "generator.sheet_key")
            self._digest.update(file.read_bytes() + key.read_bytes())
            self.human = read_sheet(file, key, resamples=resamples, seed=seed)

    def _read(self, paths: Mapping[str, str | None], where: str) -> Sets:
        """The sets of those files that are given."""
        if not isinstance(paths, Mapping) or not all(isinstance(path, str | None) for path in paths.values()):
            raise UserError(
                f"{paths!r} is no set", where=where, expected="{rrb: FILE, mcq: FILE, qa: FILE}, any of the three",
                fix="'+generator.beside.NAME={mcq:FILE}'",
            )  # fmt: skip
        odd = sorted(set(paths) - set(KINDS))
        if odd:
            raise UserError(f"unknown kind {odd[0]!r}", where=where, expected=", ".join(KINDS), fix="name one of them")
        found: dict[str, ItemSet[Any]] = {}
        for kind in KINDS:
            if paths.get(kind):
                found[kind] = read_items(kind, paths[kind], key=f"{where}.{kind}")
                self._digest.update(f"{where}.{kind}\n".encode() + Path(str(paths[kind])).expanduser().read_bytes())
        return found

    def fingerprint(self) -> str:
        """sha256 over every file that is read."""
        return self._digest.hexdigest()

    def generate(self, run: Run) -> Product:
        """Audit all sets; audit.json has the first one's findings at its top and the others' under `beside`."""
        with run.stage("audit"):
            reports = {name: audit(**sets, **self._how) for name, sets in self.sets.items() if sets}
        tables = (*data_card(reports), *([] if self.human is None else [agreement_table(self.human)]))
        files = ["audit.json", "data_card.md"]
        own = self.sets[self.name] if self.sample else {}
        files += ["sheet.csv", "sheet_key.csv"] if own else []
        if run.is_writer:
            with run.stage("write"):
                self._write(run.dir, reports)
                with atomic_write(run.dir / "data_card.md", text=True) as file:
                    file.write(markdown(tables))
                if own:
                    write_sheet(run.dir / "sheet.csv", own, n=self.sample, seed=self.seed)
        failed = {name: [f"{c.benchmark}.{c.name}" for c in report.failed] for name, report in reports.items()}
        return Product(self.name, tables, {"audit_failed": failed}, files)

    def _write(self, folder: Path, reports: Mapping[str, AuditReport]) -> None:
        """audit.json, whole."""
        found = reports[self.name].as_json() if self.name in reports else {"settings": self._how}
        if self.human is not None:
            found["human"] = self.human.as_json()
        others = {name: report.as_json() for name, report in reports.items() if name != self.name}
        write_json(folder / "audit.json", {"name": self.name, **found, **({"beside": others} if others else {})})


def _check_numbers(*, sample: int, folds: int, tolerance: float, near: float, resamples: int) -> None:
    """Numbers in their ranges."""
    whole = {"sample": (sample, 0), "folds": (folds, 2), "resamples": (resamples, 1)}
    for key, (value, least) in whole.items():
        if value < least:
            raise UserError(
                f"{value} is out of range", where=f"generator.{key}", expected=f"a whole number from {least}",
                fix=f"set generator.{key}={max(least, 10)}",
            )  # fmt: skip
    for key, value in {"tolerance": tolerance, "near_duplicate": near}.items():
        if not 0 <= value <= 1:
            raise UserError(
                f"{value} is out of range", where=f"generator.{key}", expected="a number from 0 to 1",
                fix=f"correct generator.{key}",
            )  # fmt: skip
