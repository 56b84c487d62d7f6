"""A set made from catalogs by the chosen generator, inside the run's folder, with what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from toolsavvy.assets import atomic_write
from toolsavvy.config.compose import build
from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError
from toolsavvy.generators.product import Generator, Summary
from toolsavvy.report import console
from toolsavvy.tracking import Run


def run(cfg: Config, run: Run) -> None:
    """Build the generator with its catalogs, let it make its set, print its tables and, with `show`, some of it."""
    with run.stage("load sources"):
        generator: Generator = build(plain_sources(cfg.generator, "generator"))
    _refuse_changed(run.checkpoints / "sources.sha256", generator.fingerprint())
    product = generator.generate(run)
    run.note(**product.notes)
    run.made(run.dir / name for name in product.files)
    for summary in product.tables:
        console().print(_table(summary))
        run.table(re.sub(r"\W+", "_", summary.title.partition(":")[0]), summary.columns, summary.rows)
    if cfg.show and product.samples is not None:
        for text in product.samples(cfg.show):
            console().print(escape(text), "", sep="\n", soft_wrap=True, highlight=False)
    console().print(
        f"{escape(product.name)}: {escape(', '.join(product.files))}: {escape(str(run.dir))}", soft_wrap=True
    )


def plain_sources(node: Any, where: str) -> Any:
    """The node with catalogs that can be built as they stand: `expand` is no argument of a loader.

    Raises:
        UserError: a catalog asks for extended documents; sets are made of what tools say of themselves.
    """
    if isinstance(node, list):
        return [plain_sources(value, f"{where}[{i}]") for i, value in enumerate(node)]
    if not isinstance(node, Mapping):
        return node
    kept = dict(node)
    if str(node.get("_target_", "")).startswith("toolsavvy.catalogs.") and kept.pop("expand", None) is not None:
        raise UserError(
            "a set is made of the tools' own documents", where=f"{where}.expand", expected="null",
            fix="extend the documents when the finished set is evaluated",
        )  # fmt: skip
    return {key: plain_sources(value, f"{where}.{key}") for key, value in kept.items()}


def _refuse_changed(path: Path, now: str) -> None:
    """A run that is continued must find the sources that its checkpoints were made with."""
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else now
    if re.fullmatch("[0-9a-f]{64}", before) is None or before != now:
        raise UserError(
            "the sources' tools or queries have changed since this run was cut off", where=str(path),
            expected=f"fingerprint {before[:12]}, not {now[:12]}",
            fix="put the old files back, or start a new run without resume=true",
        )  # fmt: skip
    with atomic_write(path, text=True) as file:
        file.write(now)


def _table(summary: Summary) -> Table:
    """A summary for the terminal: text left, numbers right."""
    table = Table(title=escape(summary.title), title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    words = [all(not row[i][:1].isdigit() for row in summary.rows) for i in range(len(summary.columns))]
    for column, is_text in zip(summary.columns, words, strict=True):
        table.add_column(escape(column), justify="left" if is_text else "right", overflow="fold")
    for row in summary.rows:
        table.add_row(*map(escape, row))
    return table
