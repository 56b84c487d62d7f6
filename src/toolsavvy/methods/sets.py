"""The one way from `catalog=…` to a set of tools and queries, `catalog.expand` included; nothing here loads torch."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from toolsavvy.assets import atomic_write, cache_dir, responses_file
from toolsavvy.catalog import RetrievalSet
from toolsavvy.catalogs.expansion import Profile, Source, expanded, sources, template
from toolsavvy.config.compose import build
from toolsavvy.config.schema import Config, ExpandConfig

SAMPLE = 100
"""Profiles that a run shows for people to check, as many as Tool-DE's authors checked."""


def load_set(cfg: Config, *, offline: bool = False, folder: Path | None = None) -> RetrievalSet:
    """Load the catalog and extend its documents as `catalog.expand` says.

    Args:
        cfg: the whole config; `llm` writes and judges unless `catalog.expand` names others.
        offline: for plans, which ask no language model: the template's profiles stand in for its.
        folder: of the run; a sample of the profiles goes there as `profiles.jsonl`.

    Raises:
        UserError: a source is missing or malformed, or the language model cannot be asked.
    """
    loader = dict(cfg.catalog)
    how = ExpandConfig.of(loader.pop("expand", None))
    data: RetrievalSet = build(loader)
    if how is None:
        return data
    known = sources(data, how.examples)
    quoting = {"profiles_with_training_queries": sum(bool(source.requests) for source in known)}
    if how.how == "llm" and not offline:
        from toolsavvy.generators.profiles import write_profiles

        writer, judge = build(how.writer or cfg.llm), build(how.judge or cfg.llm)
        store = cache_dir("responses") / responses_file(f"profiles {writer.name} {judge.name}").name
        written = write_profiles(known, writer, judge, store)
        profiles, counts, fates = written.profiles, written.counts, [o.fate for o in written.outcomes]
    else:
        profiles = tuple(template(source) for source in known)
        counts, fates = {"profiles_written": len(profiles)}, ["template"] * len(profiles)
    if folder is not None:
        _show(folder / "profiles.jsonl", known, profiles, fates, cfg.seed)
    return expanded(data, profiles, {**counts, **quoting})


def _show(path: Path, known: Sequence[Source], profiles: Sequence[Profile], fates: Sequence[str], seed: int) -> None:
    """A sample in the catalog's order: the tool, what was written about it, and what became of that."""
    chosen = sorted(random.Random(seed).sample(range(len(known)), min(SAMPLE, len(known))))
    with atomic_write(path, text=True) as out:
        for i in chosen:
            tool = known[i].tool
            row = {"tool": tool.id, "description": tool.description, "profile": profiles[i].text, "fate": fates[i]}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
