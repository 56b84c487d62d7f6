"""Whether a generator has what it will ask: catalogs, neighbours, a writer and another model as its judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolsavvy.config.compose import build
from toolsavvy.config.places import groups
from toolsavvy.config.sources import (
    check_chat,
    check_judge,
    check_paths,
    check_retrieval_model,
    check_source,
    targets,
)
from toolsavvy.config.toolsense import check_values
from toolsavvy.errors import UserError

_OURS = "toolsavvy.models."
_FILES = ("path", "paths", "rrb", "mcq", "qa", "sheet", "sheet_key")
"""Keys of a generator that name files or folders."""


def check_generator(generator: Any) -> None:
    """A generator is chosen, every catalog in it is there, and so is its language model if it will be asked."""
    if not isinstance(generator, Mapping) or "_target_" not in generator:
        options = ", ".join(groups().get("generator", ()))
        expected, fix = f"generator=OPTION with one of {options}", "add generator=mcq, or another of these"
        raise UserError("nothing is chosen", where="generator", expected=expected, fix=fix)
    if str(generator["_target_"]).startswith("toolsavvy.generators.toolsense."):
        check_values(generator)
    asks = generator.get("backend", "llm") == "llm"
    _check_part(generator.get("near"), "generator.near", "retriever", "retriever")
    if asks and "self_judging" in generator:
        _check_judge(generator)
    used = {key: value for key, value in generator.items() if asks or key not in ("llm", "judge")}
    for key, node in targets(used, "generator"):
        if str(node["_target_"]).startswith("toolsavvy.catalogs."):
            check_source(node, "catalog" if key == "generator.catalog" else key)
        if key.startswith("generator.near"):
            check_retrieval_model(node, key)
        check_chat(node, key)
    check_paths(used, "generator", _FILES)


def _check_part(value: Any, key: str, what: str, group: str) -> None:
    """A part of a generator is given by its arguments, not by its name."""
    if value is not None and not (isinstance(value, Mapping) and "_target_" in value):
        fix = f"leave {key} out and add '+{group}@{key}=OPTION', one of {', '.join(groups().get(group, ()))}"
        raise UserError(f"{value!r} is no {what}", where=key, expected="null, or arguments with a _target_", fix=fix)


def chat_name(node: Mapping[str, Any]) -> str:
    """What a chat calls itself; of one that is not ours, which may be slow to build, the name of its class."""
    target = str(node["_target_"])
    return str(build(node).name) if target.startswith(_OURS) else target.rpartition(".")[2]


def _check_judge(generator: Mapping[str, Any]) -> None:
    """As the generator itself will, where both chats are ours."""
    writer, judge = generator.get("llm"), generator.get("judge")
    for key, value in (("llm", writer), ("judge", judge)):
        _check_part(value, f"generator.{key}", "language model", "llm")
    if writer and all(str(node["_target_"]).startswith(_OURS) for node in (writer, judge) if node):
        is_allowed = bool(generator["self_judging"])
        check_judge(chat_name(writer), chat_name(judge) if judge else None, is_allowed=is_allowed)
