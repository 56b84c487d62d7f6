"""Our numbers of TOOLRET's suite beside the published row of the same model, where there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from toolsavvy.catalog import RAW_DOCUMENT, RetrievalSet
from toolsavvy.config.schema import Config
from toolsavvy.published.toolret import COLUMNS, SETTINGS, K, row, row_of
from toolsavvy.suites.table import Outcome, Result
from toolsavvy.suites.toolret import BY_QUERY, BY_TASK

SUITE = "toolsavvy.suites.toolret.ToolRet"
WITH = "-inst"
"""Ends the name of a system that was asked with instructions, where `method.instructions` names how to ask."""
LETTERS = {"ndcg": "N", "precision": "P", "recall": "R", "completeness": "C"}
SHORT = {"web": "web", "code": "code", "customized": "cust.", "average": "avg."}
_WHOLE = "the_whole_of_ToolRet"


def published_table(outcome: Outcome, data: RetrievalSet, cfg: Config) -> Table | None:
    """One block a system that the paper has too; None for other suites, catalogs without categories and other systems.

    The paper's category is the mean of its tasks; ours is shown so and as the mean of its queries. What tells our data
    from the whole benchmark is said in the title.
    """
    nodes = [node for node in cfg.suite.values() if node.get("_target_") == SUITE]
    if outcome.suite not in {node.get("name") or "toolret" for node in nodes}:
        return None
    ours = {(r.slice, r.system, r.metric): r for r in outcome.results if r.k == K}
    cells = [(c, m) for c in COLUMNS for m in LETTERS if c != "average" or m in ("ndcg", "completeness")]
    table = Table(title=_title(data), title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("system", max_width=20, overflow="fold")
    for category, metric in cells:
        table.add_column(f"{SHORT[category]}\n{LETTERS[metric]}@{K}", justify="right", no_wrap=True)
    for split in data.headline or data.test_splits:
        for system in dict.fromkeys(r.system for r in outcome.results):
            found = published_row(cfg, system)
            blocks = {
                kind: [ours.get((_slice(split, c, kind), system, m)) for c, m in cells] for kind in (BY_TASK, BY_QUERY)
            }
            if found is None or not any(any(block) for block in blocks.values()):
                continue
            name, setting = found
            table.add_row(f"[bold]{escape(system)}[/bold], {'w/' if setting == 'with' else 'w/o'} inst.")
            for kind, block in blocks.items():
                table.add_row(f"  ours, {kind.replace('_', ' ')}", *map(_percent, block))
            theirs = row(name, setting)
            values = [f"{100 * theirs[c].value:.2f}{'*' if theirs[c].note else ''}" for c in cells]
            table.add_row(f"  {escape(name)}", *values, end_section=True)
    return table if table.row_count else None


def _slice(split: str, category: str, kind: str) -> str:
    """What the suite calls a column."""
    return f"{split}/average/categories/{kind}" if category == "average" else f"{split}/category={category}/{kind}"


def _percent(record: Result | None) -> str:
    return "" if record is None or record.value is None else f"{100 * record.value:.2f}"


def _title(data: RetrievalSet) -> str:
    """What the table is, and what our side lacks."""
    said = "beside TOOLRET's Tables 4 and 5, % (theirs: by task; * as printed, inconsistent with its row)"
    if _WHOLE not in data.audit:
        return f"{said}\n[yellow]not comparable: these are not the whole benchmark's queries and tools[/yellow]"
    if data.catalog.document != RAW_DOCUMENT:
        return f"{said}\n[yellow]not comparable: documents are not the benchmark's own text[/yellow]"
    return said


def published_row(cfg: Config, system: str) -> tuple[str, str] | None:
    """The published row of a system and its setting ("without" or "with" instructions); None where there is none.

    Only systems of the paper's kinds have one: BM25, an encoder searched exactly by `dense`, ColBERT by `late`, and
    rerankers (whose first stage was NV-Embed-v1 there, whatever it is here). What was trained here has none.
    """
    name = system.removesuffix(WITH)
    node = cfg.retriever.get(name)
    if not isinstance(node, Mapping):
        return None
    part = _part(node)
    found = row_of(_models(node, part))
    asked: Sequence[str] = getattr(cfg.method, "instructions", ())
    instructed = system.endswith(WITH) if asked else bool(part.get("use_instruction"))
    return None if found is None else (found, SETTINGS[int(instructed)])


def _kind(node: Mapping[str, Any]) -> str:
    return str(node.get("_target_", "")).rpartition(".")[2]


def _part(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The node that makes a system what it is: its encoder or reranker, BM25 itself; nothing of other kinds."""
    key = {"Dense": "encoder", "Late": "encoder", "Rerank": "reranker"}.get(_kind(node))
    part = node if _kind(node) == "BM25" else node.get(key or "")
    return part if isinstance(part, Mapping) else {}


def _models(node: Mapping[str, Any], part: Mapping[str, Any]) -> list[str]:
    """Names of the model in it."""
    if _kind(node) == "BM25":
        return ["bm25s"]
    part = part["llm"] if isinstance(part.get("llm"), Mapping) else part
    names = [str(part[key]) for key in ("id", "wheel", "model") if isinstance(part.get(key), str)]
    # `late` over another encoder is no row: the paper has the pooled vectors.
    return [name for name in names if (row_of([name]) == "ColBERT") == (_kind(node) == "Late")]
