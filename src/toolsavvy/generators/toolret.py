"""A TOOLRET-style set: queries and tools of any catalogs, sampled, merged, instructed, audited and exported."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from toolsavvy.assets import atomic_write
from toolsavvy.catalog import DEFAULT_DOCUMENT, Catalog, Query, RetrievalSet, Tool
from toolsavvy.catalogs.audit import audited
from toolsavvy.catalogs.building import checked_document
from toolsavvy.catalogs.splits import grouped_split, hold_out
from toolsavvy.errors import UserError
from toolsavvy.generators.algorithm import Recipe, Writer
from toolsavvy.generators.collecting import Entry, Item, collect, filtered
from toolsavvy.generators.exports import FORMATS, check_formats, export
from toolsavvy.generators.instructions import Rules, Written, from_templates
from toolsavvy.generators.leakage import Leakage, audit_leakage, leakage_json
from toolsavvy.generators.merging import merge, rewritten
from toolsavvy.generators.product import Product, add_queries
from toolsavvy.generators.sampling import representatives
from toolsavvy.generators.statistics import Statistics, draw, statistics
from toolsavvy.generators.summaries import Built, audit_table, stage_table, statistics_table
from toolsavvy.models.chat import Chat
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import to_lines, write_json

TEST = "test"


class ToolRet:
    """Builds a set as TOOLRET was built: collect, sample, merge, instruct, filter, describe, audit, split, export.

    Source: TOOLRET 2503.01763 (k-means sampling per source, merged tools, target-aware instructions by Algorithm 1).
    Deviations: tools are merged before queries are sampled, so that filters see the final golds; the audit between
    train and test and the split by gold tools are ours.

    Args:
        encoder: embeds queries for sampling, and documents for `merge=embedding`.
        catalog: the run's own catalog, the first source; None if `sources` are all there is.
        sources: name -> further catalogs.
        llm: writes instructions with `backend=llm`.
        name: of the set.
        seed: of sampling, examples, templates and splits.
        document: template of every tool's text.
        splits: splits of the sources to take queries from; [] is all.
        per_source: queries sampled from each source, one per k-means cluster; None keeps all.
        merge: off | exact | jaccard | embedding: which tools count as one (see `merging.merge`).
        merge_threshold: least similarity of near-duplicates.
        corpus: all tools of the sources, or those that are gold of some query.
        drop_named: leave out queries that spell out the name of a gold tool.
        backend: template (offline, deterministic) | llm | keep (what the sources have).
        attempts: answers per query until one passes.
        examples: worked examples in a prompt.
        batch_size: queries asked for at once.
        temperature: of the writer.
        max_tokens: of an answer.
        judge: let the model check its instructions; no clear yes is a no.
        failing: what a query without a valid instruction gets: template | drop | none.
        min_words: fewest tokens of an instruction.
        max_words: most tokens.
        novelty: ROUGE-L F1 with an earlier instruction from which one is a duplicate.
        split: query (drawn; equal texts stay together) | tool (drawn; no gold tool crosses) | source (its own splits).
        train_share: share of the queries for training.
        validation_share: share for validation.
        near_duplicate: ROUGE-L F1 from which the audit calls two queries near-duplicates.
        ngram: length of the n-grams that the audit looks for.
        exports: layouts to write.
        category: web | code | customized, in ToolRet's layout.

    Raises:
        UserError: no source, a bad template, or a number out of range.
    """

    def __init__(
        self,
        encoder: Encoder,
        catalog: RetrievalSet | None = None,
        sources: Mapping[str, RetrievalSet] | None = None,
        llm: Chat | None = None,
        *,
        name: str = "toolret_style",
        seed: int = 0,
        document: str = DEFAULT_DOCUMENT,
        splits: Sequence[str] = (),
        per_source: int | None = 500,
        merge: Literal["off", "exact", "jaccard", "embedding"] = "exact",
        merge_threshold: float = 0.95,
        corpus: Literal["all", "gold"] = "all",
        drop_named: bool = False,
        backend: Literal["template", "llm", "keep"] = "template",
        attempts: int = 3,
        examples: int = 6,
        batch_size: int = 8,
        temperature: float = 0.7,
        max_tokens: int = 160,
        judge: bool = False,
        failing: Literal["template", "drop", "none"] = "template",
        min_words: int = 6,
        max_words: int = 80,
        novelty: float = 0.7,
        split: Literal["query", "tool", "source"] = "query",
        train_share: float = 0.6,
        validation_share: float = 0.1,
        near_duplicate: float = 0.8,
        ngram: int = 8,
        exports: Sequence[str] = FORMATS,
        category: Literal["web", "code", "customized"] = "customized",
    ) -> None:
        self.sources = _named(catalog, sources or {})
        self.encoder, self.llm, self.name, self.seed = encoder, llm, name, seed
        self.document = checked_document(document, Tool("id", "name", "description"))
        self.splits, self.per_source, self.corpus, self.drop_named = tuple(splits), per_source, corpus, drop_named
        self.merge, self.merge_threshold, self.backend = merge, merge_threshold, backend
        self.recipe = Recipe(attempts, examples, batch_size, temperature, max_tokens, judge, failing, seed)
        self.rules = Rules(min_words, max_words, novelty)
        self.split, self.train_share, self.validation_share = split, train_share, validation_share
        self.near_duplicate, self.ngram, self.exports, self.category = near_duplicate, ngram, tuple(exports), category
        self._check()

    def _check(self) -> None:
        """Numbers in their ranges; what no source can give is said at once."""
        whole = {"attempts": self.recipe.attempts, "batch_size": self.recipe.batch_size, "ngram": self.ngram}
        whole |= {"max_tokens": self.recipe.max_tokens, "max_words": self.rules.max_words}
        whole |= {} if self.per_source is None else {"per_source": self.per_source}
        for key, value in whole.items():
            if value < 1:
                raise UserError(f"{value} is out of range", where=f"generator.{key}", expected="a whole number from 1")
        shares = {"train_share": self.train_share, "validation_share": self.validation_share}
        shares |= {"merge_threshold": self.merge_threshold, "novelty": self.rules.novelty}
        for key, value in (shares | {"near_duplicate": self.near_duplicate}).items():
            if not 0 <= value <= 1:
                raise UserError(f"{value} is out of range", where=f"generator.{key}", expected="a number from 0 to 1")
        check_formats(self.exports)
        if self.train_share + self.validation_share > 1:
            raise UserError(
                "the shares add up to more than 1", where="generator.train_share",
                expected="train_share + validation_share <= 1", fix="lower one of them",
            )  # fmt: skip
        if self.backend == "llm" and self.llm is None:
            raise UserError(
                "no language model is given", where="generator.llm", expected="the llm group",
                fix="leave generator.llm as it is, or use generator.backend=template",
            )  # fmt: skip

    def fingerprint(self) -> str:
        """sha256 over every source's tools and queries."""
        digest = hashlib.sha256()
        for name, data in self.sources.items():
            digest.update(f"{name} {data.catalog.fingerprint}".encode())
            add_queries(digest, data)
        return digest.hexdigest()

    def generate(self, run: Run) -> Product:
        """Build the set and write it with its statistics, audit and figures into the run's folder."""
        built = self.build(run)
        with run.stage("describe and audit"):
            found = statistics(built.data)
            leaks = audit_leakage(built.data, threshold=self.near_duplicate, n=self.ngram)
        if run.is_writer:
            with run.stage("write"):
                self._write(run.dir, built, found, leaks)
        notes = {"catalog_fingerprint": built.data.catalog.fingerprint, "audit": dict(built.data.audit)}
        tables = (stage_table(built), statistics_table(found), audit_table(leaks))
        files = tuple(f"dataset/{name}" for name in self.exports)
        return Product(self.name, tables, notes, (*files, "statistics.json", "audit.json", "figures"))

    def build(self, run: Run) -> Built:
        """The set itself; only the language model's answers are kept in the run's checkpoints."""
        counts: dict[str, Counter[str]] = {name: Counter() for name in ("collected", "filtered", "merged", "sampled")}
        with run.stage("collect and merge"):
            entries, items = collect(self.sources, self.splits)
            counts["collected"].update({"tools": len(entries), "queries": len(items)})
            merged = merge(entries, self.merge, self.merge_threshold, self.encoder, self.document)
            counts["merged"].update({"tools": len(merged.entries), **Counter(m.kind for m in merged.merges)})
            catalog = self._catalog(merged.entries)
            items = filtered(rewritten(items, merged), catalog, counts["filtered"], named=self.drop_named)
            counts["filtered"]["queries"] = len(items)
        with run.stage("sample"):
            items = self._sampled(items, counts["sampled"])
        if not items:
            what, fix = "no query is left after the filters", "loosen the generator's filters, or give it more queries"
            raise UserError(what, where="generator", expected="at least one query", fix=fix)
        with run.stage("instruct"):
            written = self._instructed(items, catalog, run)
        if not written.items:
            raise UserError(
                "no query got a valid instruction", where="generator.failing=drop", expected="at least one",
                fix="raise generator.attempts, or use generator.failing=template",
            )  # fmt: skip
        data = self._divided(written.items, self._pruned(catalog, written.items))
        return Built(data, merged, {**counts, "instructions": written.counts})

    def _catalog(self, entries: Sequence[Entry]) -> Catalog:
        return Catalog(self.name, tuple(entry.tool for entry in entries), self.document)

    def _pruned(self, catalog: Catalog, items: Sequence[Item]) -> Catalog:
        """The corpus: all tools, or the gold ones."""
        if self.corpus == "all":
            return catalog
        gold = {tool for item in items for tool in item.query.relevant}
        return Catalog(self.name, tuple(tool for tool in catalog.tools if tool.id in gold), self.document)

    def _sampled(self, items: Sequence[Item], counts: Counter[str]) -> list[Item]:
        """`per_source` queries of each source, in their order."""
        out: list[Item] = []
        for source in self.sources:
            own = [item for item in items if item.source == source]
            if self.per_source is not None and len(own) > self.per_source:
                vectors = self.encoder.encode_queries([replace(item.query, instruction=None) for item in own])
                chosen = representatives(vectors, self.per_source, self.seed)
                counts["empty_clusters"] += self.per_source - len(chosen)
                own = [own[i] for i in chosen]
            counts[f"from_{source}"] = len(own)
            out += own
        return out

    def _instructed(self, items: Sequence[Item], catalog: Catalog, run: Run) -> Written:
        """Instructions by the chosen backend."""
        if self.backend == "template":
            return from_templates(items, catalog, self.seed)
        if self.backend == "keep":
            return Written(tuple(items), {"kept": sum(bool(i.query.instruction) for i in items)})
        assert self.llm is not None
        path = run.checkpoints / "answers.jsonl"
        return Writer(self.llm, catalog, self.recipe, self.rules, path).write(items)

    def _divided(self, items: Sequence[Item], catalog: Catalog) -> RetrievalSet:
        """Train, validation and test; a side that got nothing is left out."""
        queries = [item.query for item in items]
        sides: Mapping[str, Sequence[Query]]
        if self.split == "source":
            sides = {"train": [], "validation": [], TEST: []}
            for item in items:
                sides[item.split if item.split in ("train", "validation") else TEST].append(item.query)
        elif self.split == "tool":
            sides = grouped_split(
                queries, train_share=self.train_share, validation_share=self.validation_share, seed=self.seed
            )
        else:
            rest, train = hold_out(queries, self.train_share, self.seed)
            part = self.validation_share / (1 - self.train_share) if self.train_share < 1 else 0.0
            test, validation = hold_out(rest, min(1.0, part), self.seed + 1)
            sides = {"train": train, "validation": validation, TEST: test}
        kept = {side: tuple(rows) for side, rows in sides.items() if rows}
        return audited(RetrievalSet(catalog, kept, tuple(s for s in (TEST,) if s in kept)))

    def _write(self, folder: Path, built: Built, found: Statistics, leaks: Sequence[Leakage]) -> None:
        """Everything that is for keeps; each file appears whole."""
        draw(found, folder / "figures")
        counts = {stage: dict(values) for stage, values in built.counts.items()}
        write_json(folder / "statistics.json", {"counts": counts, **found.as_json()})
        audit: dict[str, Any] = {"leakage": leakage_json(leaks, self.near_duplicate, self.ngram)}
        write_json(folder / "audit.json", audit | {"set": dict(built.data.audit)})
        with atomic_write(folder / "merged.jsonl", text=True) as out:
            out.write(to_lines([asdict(m) for m in built.merged.merges]))
        export(built.data, folder / "dataset", self.exports, self.category)


def _named(catalog: RetrievalSet | None, sources: Mapping[str, RetrievalSet]) -> dict[str, RetrievalSet]:
    """All sources by name, the run's own catalog first under its own name."""
    own = {} if catalog is None else {catalog.catalog.name: catalog}
    double = sorted(own.keys() & sources.keys())
    if double:
        raise UserError(
            f"{double[0]!r} is the run's own catalog and one of the sources", where="generator.sources",
            expected="different names", fix="name the source otherwise, or set generator.catalog=null",
        )  # fmt: skip
    named = {**own, **sources}
    if not named:
        raise UserError(
            "there is no source", where="generator.sources", expected="at least one catalog",
            fix="leave generator.catalog as it is, or add '+catalog@generator.sources.NAME=OPTION'",
        )  # fmt: skip
    for name in named:
        if "/" in name or not name.strip():
            raise UserError(f"{name!r} is no name of a source", where="generator.sources", expected="a name without /")
    return named
