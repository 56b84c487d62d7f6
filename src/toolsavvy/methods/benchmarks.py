"""Items of ToolSense's benchmarks for the chosen suites: read from a file, or made by template from the catalog."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolsavvy.benchmark import ChoiceItem, ItemSet, RetrievalItem, YesNoItem, texts_of
from toolsavvy.catalog import Catalog, Query, RetrievalSet
from toolsavvy.catalogs.toolsense_items import read_mcq, read_qa, read_rrb
from toolsavvy.config.compose import build
from toolsavvy.config.preflight import PROBES
from toolsavvy.config.schema import Config
from toolsavvy.config.sources import REQUEST_SUITE
from toolsavvy.errors import UserError
from toolsavvy.suites.mcq import Mcq
from toolsavvy.suites.qa import Qa
from toolsavvy.suites.rrb import SPLIT, Rrb, is_rrb

log = logging.getLogger("toolsavvy")
REQUESTS = 2
"""Requests that are trained on for a tool, as far as there are wordings."""


def with_benchmarks(cfg: Config, data: RetrievalSet) -> RetrievalSet:
    """The set with the requests of suite=rrb as a split of their own, which nothing is trained on.

    A catalog that brings a split of that name keeps it, and one whose own test queries are an RRB needs none.

    Raises:
        UserError: the file is malformed or of another catalog, or it holds a training query.
    """
    chosen = [(key, build(node)) for key, node in cfg.suite.items() if _target(node) == REQUEST_SUITE]
    if not chosen:
        return data
    key, suite = chosen[0]
    if suite.path is None and (SPLIT in data.splits or is_rrb(data)):
        return data
    taught = {_plain(query.text) for query in (*data.train, *data.validation)}
    if suite.path is None:
        made = template_requests(data, suite, f"suite.{key}")
        items = [item for item in made if _plain(item.query) not in taught]
        if len(items) < len(made):
            log.warning("%d requests of the RRB are training queries and are left out", len(made) - len(items))
    else:
        where = f"suite.{key}.path"
        items = list(read_rrb(suite.path, key=where).items)
        _refuse_foreign([(item.id, tool) for item in items for tool in item.gold], data.catalog, where, suite.path)
        _refuse_taught(items, taught, where)
    queries = tuple(_query(item) for item in items)
    return replace(data, splits={**data.splits, SPLIT: queries}, headline=data.headline or data.test_splits)


def _query(item: RetrievalItem) -> Query:
    """A request as it is ranked: its anchor first where that is gold; one that the file does not call gold is none."""
    golds = sorted(item.gold, key=lambda tool: tool != item.anchor)
    return Query(item.id, item.query, dict.fromkeys(golds, 1), tier=item.tier)


def template_requests(data: RetrievalSet, suite: Rrb, where: str = "suite.rrb") -> list[RetrievalItem]:
    """Requests made from the catalog alone, for the tools whose requests are never trained on.

    Raises:
        UserError: the catalog is too small for a tier; a suite cannot leave one out, as a generator can.
    """
    from toolsavvy.generators.toolsense.halves import trained_half
    from toolsavvy.generators.toolsense.rrb import template_rrb

    try:
        return template_rrb(data, suite.n, seed=suite.seed, exclude_anchors=trained_half(data.catalog))
    except UserError as error:
        raise UserError(
            error.what, where=f"{where}, {error.where}", expected=error.expected,
            fix=f"leave this suite out, name a file of requests by {where}.path, or use a larger catalog",
        ) from error  # fmt: skip


def training_needs(data: RetrievalSet, seed: int) -> list[tuple[int, str]]:
    """(tool, request) rows to train on: worded otherwise than the RRB of the set, and of no tool it is written for.

    A catalog that is an RRB itself does not say which gold a request was written for: all of them are left out.
    """
    from toolsavvy.generators.toolsense.halves import apart
    from toolsavvy.generators.toolsense.rrb import training_requests

    if SPLIT in data.splits or not is_rrb(data):
        asked = data.splits.get(SPLIT, ())
        anchors = {next(iter(query.relevant)) for query in asked}  # `with_benchmarks` puts it first
    else:
        asked = tuple(query for split in data.test_splits for query in data.splits[split])
        anchors = {tool for query in asked for tool in query.relevant}
    made = training_requests(data.catalog, seed, per_tool=REQUESTS, apart_from=[query.text for query in asked])
    kept = apart(data.catalog, made, anchors)
    if not kept:
        log.warning("every tool anchors a request of the RRB: nothing is left for the formats need and together")
    return kept


def questions(cfg: Config, catalog: Catalog) -> dict[str, tuple[Mcq | Qa, ItemSet[Any]]]:
    """Option of the group `suite` -> the suite of questions and its items.

    Raises:
        UserError: a file is malformed, or asks about tools that the catalog lacks.
    """
    chosen: Mapping[str, Mcq | Qa] = {key: build(n) for key, n in cfg.suite.items() if _target(n) in PROBES}
    return {key: (suite, _items(suite, catalog, f"suite.{key}.path")) for key, suite in chosen.items()}


def _items(suite: Mcq | Qa, catalog: Catalog, where: str) -> ItemSet[ChoiceItem] | ItemSet[YesNoItem]:
    """What a suite asks."""
    if suite.path is None:
        return ItemSet(tuple(_made(suite, catalog)), texts_of(catalog))
    read: ItemSet[Any] = (read_mcq if isinstance(suite, Mcq) else read_qa)(suite.path, key=where)
    if not read.items:
        raise UserError("the file holds no question", where=f"{where}={suite.path}", expected="at least one record")
    _refuse_foreign([(item.id, item.tool) for item in read.items], catalog, where, suite.path)
    return read


def _made(suite: Mcq | Qa, catalog: Catalog) -> list[Any]:
    """Questions made from the catalog alone, about what every tool's document says: models learn no more of it."""
    if isinstance(suite, Mcq):
        from toolsavvy.generators.toolsense.mcq import WEIGHTS
        from toolsavvy.generators.toolsense.mcq import template_mcq as template
    else:
        from toolsavvy.generators.toolsense.qa import WEIGHTS
        from toolsavvy.generators.toolsense.qa import template_qa as template
    weights = {pattern: weight for pattern, weight in WEIGHTS.items() if pattern in told_by(catalog.document)}
    return list(template(catalog, suite.n, seed=suite.seed, weights=weights or WEIGHTS))


def told_by(document: str) -> set[str]:
    """Patterns of questions that a template's document answers, as far as it is not cut."""
    fields = {"{description}": {"purpose", "detail"}, "{raw}": {"purpose", "detail"}, "{parameters}": {"input"}}
    return set().union(*(patterns for field, patterns in fields.items() if field in document))


def _refuse_foreign(pairs: list[tuple[str, str]], catalog: Catalog, where: str, path: str) -> None:
    """Every tool that items name must be in the catalog."""
    foreign = [(item, tool) for item, tool in pairs if tool not in catalog.index]
    if foreign:
        item, tool = foreign[0]
        raise UserError(
            f"{len({i for i, _ in foreign})} items are about tools that the catalog lacks, first {item!r}: {tool!r}",
            where=f"{where}={path}", expected=f"tools of catalog {catalog.name}",
            fix="choose the catalog that the file was made for, or drop these items",
        )  # fmt: skip


def _refuse_taught(items: list[RetrievalItem], taught: set[str], where: str) -> None:
    """Whoever trained on a request has seen its answer."""
    seen = [item.id for item in items if _plain(item.query) in taught]
    if seen:
        raise UserError(
            f"{len(seen)} requests are training queries of the catalog, first {seen[0]!r}", where=where,
            expected="requests that nothing was trained on",
            fix="drop them from the file, or from the catalog's train and validation splits",
        )  # fmt: skip


def _plain(text: str) -> str:
    """Text as it is compared: lower case, single blanks."""
    return " ".join(text.lower().split())


def _target(node: Any) -> str:
    return str(node.get("_target_", "")) if isinstance(node, Mapping) else ""
