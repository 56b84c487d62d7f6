"""What every method that ranks tools does first and last: load the set, build systems and suites, print the table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape

from toolsavvy.assets import atomic_write
from toolsavvy.catalog import Catalog, RetrievalSet
from toolsavvy.catalogs.audit import render_audit
from toolsavvy.config.compose import build
from toolsavvy.config.predictions import TASKS
from toolsavvy.config.preflight import PROBES
from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError
from toolsavvy.methods.benchmarks import with_benchmarks
from toolsavvy.methods.beside import published_table
from toolsavvy.methods.sets import load_set
from toolsavvy.report import COLUMNS, console, pair_table, result_table
from toolsavvy.retrieval.ranking import Retriever
from toolsavvy.suites.catalog_test import SEVERAL, CatalogTest, Prediction
from toolsavvy.suites.table import Outcome
from toolsavvy.tracking import Run

if TYPE_CHECKING:
    from toolsavvy.training.fitting import Hardware


def load_catalog(cfg: Config, run: Run) -> RetrievalSet:
    """Load the catalog and its queries, print and store the audit."""
    with run.stage("load catalog"):
        data = with_benchmarks(cfg, load_set(cfg, folder=run.dir if run.is_writer else None))
    _refuse_changed(run.checkpoints / "catalog.sha256", data)
    run.note(catalog_fingerprint=data.catalog.fingerprint, audit=dict(data.audit))
    counts = ", ".join(f"{len(queries)} {split}" for split, queries in data.splits.items() if queries)
    say(f"[bold]{escape(data.catalog.name)}[/bold]: {len(data.catalog)} tools; queries: {escape(counts)}")
    for line in render_audit(data.audit):
        say(f"  [dim]{escape(line)}[/dim]")
    return data


def _refuse_changed(path: Path, data: RetrievalSet) -> None:
    """A run that is continued must find the tools and queries that its checkpoints were made with."""
    now = _fingerprint(data)
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else now
    if re.fullmatch("[0-9a-f]{64}", before) is None:
        raise UserError(
            "is damaged: nobody can say which catalog these checkpoints belong to", where=str(path),
            expected="64 hex digits", fix="start a new run without resume=true",
        )  # fmt: skip
    if before != now:
        raise UserError(
            "its tools or queries have changed since this run was cut off",
            where=f"catalog {data.catalog.name} ({path})",
            expected=f"fingerprint {before[:12]}, not {now[:12]}",
            fix="put the old files back, or start a new run without resume=true",
        )  # fmt: skip
    with atomic_write(path, text=True) as file:
        file.write(now)


def _fingerprint(data: RetrievalSet) -> str:
    """sha256 over the tools and every split's queries."""
    digest = hashlib.sha256(data.catalog.fingerprint.encode())
    for split, queries in data.splits.items():
        for q in queries:
            row = (split, q.id, q.text, q.instruction, q.subset, q.tier, sorted(q.relevant.items()))
            more = (q.negatives, sorted(q.absent.items()))
            row += more if any(more) else ()  # none: as ever
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def load_suites(cfg: Config, run: Run) -> list[CatalogTest]:
    """The suites over rankings that the config names, but for those that come after all others."""
    ranked = (build(node) for node in cfg.suite.values() if node["_target_"] not in (*PROBES, *TASKS))
    suites = [suite for suite in ranked if not getattr(suite, "after", False)]
    for suite in suites:
        if getattr(suite, "executes", False):
            from toolsavvy.methods.callers import equip

            equip(suite, cfg, run)
    return suites


def make_retrievers(cfg: Config, data: RetrievalSet) -> dict[str, Retriever]:
    """The retrievers that the config names; those that learn get the validation queries and the hardware.

    Where `method.instructions` says how queries are asked, every system reads the instructions that it is shown.
    """
    retrievers: dict[str, Retriever] = {}
    asked = getattr(cfg.method, "instructions", ())
    for name, node in cfg.retriever.items():
        retriever = build(reading_instructions(node) if asked else node)
        for part in with_parts(retriever):
            if hasattr(part, "validation"):
                setattr(part, "validation", data.validation)  # noqa: B010 - no part of the protocol
            if _trains(part):
                setattr(part, "hardware", hardware(cfg))  # noqa: B010
        retrievers[name] = retriever
    return retrievers


def with_parts(retriever: Retriever) -> Iterator[Retriever]:
    """A retriever, its first stage or members, and theirs in turn."""
    yield retriever
    stages = [getattr(retriever, name, None) for name in ("first", "first_stage")]
    for part in (*stages, *getattr(retriever, "members", {}).values()):
        if isinstance(part, Retriever):
            yield from with_parts(part)


def reading_instructions(node: Any) -> Any:
    """A node in which every system and encoder puts a query's instruction before it, where it has one."""
    if isinstance(node, Mapping):
        return {k: True if k == "use_instruction" else reading_instructions(v) for k, v in node.items()}
    return [reading_instructions(v) for v in node] if isinstance(node, list) else node


def _trains(retriever: Any) -> bool:
    """Whether it is trained, on hardware that it is given; its class, which brings Lightning, stays out of this."""
    return hasattr(retriever, "hardware")


def hardware(cfg: Config) -> Hardware:
    """The trainer group as `training` wants it."""
    from toolsavvy.training.fitting import Hardware

    t = cfg.trainer
    return Hardware(t.accelerator, t.devices, t.strategy, t.precision, t.threads, t.zero_stage, t.offload)


def leave(run: Run) -> None:
    """End a further rank of a distributed training after its last step: all that follows is the first one's work.

    Raises:
        SystemExit: with exit code 0, on every rank but the first.
    """
    if not run.is_writer:
        raise SystemExit(0)


def learns(retriever: Retriever) -> bool:
    """Whether a retriever, or a part of it, trains: every rank must take part then."""
    return any(_trains(part) for part in with_parts(retriever))


def neighbours(cfg: Config, catalog: Catalog, n: int) -> np.ndarray:
    """The n nearest tools of every tool by the encoder's cosine: int64 [tool, n], without the tool itself."""
    vectors = build(cfg.encoder).encode_documents(catalog.documents)
    n = min(n, len(catalog) - 1)
    near = np.zeros((len(catalog), n), dtype=np.int64)
    for start in range(0, len(catalog), 1024):
        scores = vectors[start : start + 1024] @ vectors.T
        rows = np.arange(len(scores))
        scores[rows, start + rows] = -np.inf
        near[start : start + 1024] = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return near


def show_outcomes(
    outcomes: Sequence[Outcome],
    data: RetrievalSet,
    run: Run,
    facts: Mapping[str, Mapping[str, float]] | None = None,
    unasked: Sequence[str] = (),
) -> None:
    """Print the main table of every suite, what systems tell of themselves (`facts`), then where everything is.

    Retrievers that no yes/no question can be put to are named (`unasked`).
    """
    headline = data.headline or data.test_splits
    for outcome in outcomes:
        slices = [s for s in dict.fromkeys(r.slice for r in outcome.results) if s in (outcome.shown or headline)]
        title = f"{outcome.suite} on {data.catalog.name}: % with 95 % interval"
        out = console()
        unit = "questions" if (outcome.columns or COLUMNS)[0][1] is None else "queries"
        out.print(result_table(outcome.results, slices, columns=outcome.columns or COLUMNS, title=title, unit=unit))
        if outcome.pairs:
            tested = [*slices, *(f"{s}/{SEVERAL}" for s in slices)]
            out.print(pair_table(outcome.comparisons, outcome.pairs, tested, unit=unit))
        if published := published_table(outcome, data, run.config):
            out.print(published)
    if unasked:
        say(f"[dim]qa: a retriever answers no question with yes or no: {escape(', '.join(unasked))}[/dim]")
    for system, told in (facts or {}).items():
        say(f"[dim]{escape(system)}: {escape(', '.join(f'{key} {value:.4g}' for key, value in told.items()))}[/dim]")
    say(f"results, predictions and TREC runs: {escape(str(run.dir))}")


def show_answers(outcomes: Sequence[Outcome], count: int) -> None:
    """Print some queries with what each system answered first (`show=3`)."""
    for outcome in outcomes:
        by_query: dict[tuple[str, str], list[Any]] = {}
        for predictions in outcome.predictions.values():
            for p in predictions if isinstance(next(iter(predictions), None), Prediction) else ():
                by_query.setdefault((p.split, p.query), []).append(p)
        for (split, _), answers in list(by_query.items())[:count]:
            asked = f"{answers[0].text!r} gold: {', '.join(answers[0].gold)}"
            say(f"[bold]{escape(split)}[/bold] {escape(asked)}")
            for p in answers:
                say(escape(f"  {p.system:24} {', '.join(str(t) for t in p.tools[:3])}"))


def say(text: str) -> None:
    """Print for the user, in the style of the tables; what is not ours must be escaped."""
    console().print(text)
