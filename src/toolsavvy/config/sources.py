"""Whether the files, models and servers that a run names are there; asked before it starts, without torch."""

from __future__ import annotations

import difflib
import os
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolsavvy import assets
from toolsavvy.config import schema
from toolsavvy.errors import UserError

_HUB = ("huggingface.co", 443)
_EMBEDDING_SERVER = "toolsavvy.retrieval.embedding_server.EmbeddingServer"
_PORTS = {"http": 80, "https": 443}

_SHOWN = 300
"""Characters of a path in a message."""
REQUEST_SUITE = "toolsavvy.suites.rrb.Rrb"
"""The suite whose requests become a split of the set."""


def targets(node: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every node with a `_target_`, outermost first, with its path."""
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield path, node
        for key, value in node.items():
            yield from targets(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from targets(value, f"{path}[{i}]")


def check_source(catalog: Any, where: str = "catalog") -> None:
    """A loader of the user's files needs their path; AWS, and loaders with a `wheel`, have a source of their own."""
    target = str(catalog.get("_target_", ""))
    is_files = target.startswith("toolsavvy.catalogs.") and "path" in catalog and ".aws." not in target
    if is_files and not any(catalog.get(key) for key in ("path", "hub", "wheel")):
        name = target.split(".")[-2]
        fix = f"add {where}.path=/where/it/is (conf/catalog/{name}.yaml says what it has to hold)"
        raise UserError("not set", where=f"{where}.path", expected="the catalog's file or folder", fix=fix)


def check_paths(node: Any, where: str, keys: Sequence[str] = ("path", "paths")) -> None:
    """Every local file or folder under one of the keys must exist."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in keys and value and not isinstance(value, Mapping):
                for item in [value] if isinstance(value, str) else value:
                    check_exists(str(item), f"{where}.{key}")
            else:
                check_paths(value, f"{where}.{key}", keys)


def check_exists(path: str, where: str) -> None:
    """A path that is not there: say what is there instead."""
    place = Path(path).expanduser()
    try:
        place.stat()
        return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as fault:  # its name is too long, or a folder above may not be entered
        what = f"'{path[:_SHOWN]}' can't be looked at ({getattr(fault, 'strerror', fault)})"
        raise UserError(what, where=where, expected="a file or folder", fix=f"correct {where}") from fault
    parent = place.parent
    near = difflib.get_close_matches(place.name, _names(parent), n=1)
    fix = f"did you mean '{parent / near[0]}'?" if near else f"correct {where}"
    fix = fix if parent.is_dir() else f"the folder {parent} does not exist either"
    raise UserError(f"'{path}' does not exist", where=where, expected="a file or folder", fix=fix)


def _names(folder: Path) -> list[str]:
    """What a folder holds, as far as it can be told."""
    try:
        return [p.name for p in folder.iterdir()][:1000]
    except OSError:
        return []


def check_model(model: schema.ModelConfig) -> None:
    """A model must be there, or be reachable.

    Raises:
        UserError: a missing folder, or a hub model that is not cached while the hub cannot be reached.
    """
    if model.source == "path":
        check_exists(str(model.path), "model.path")
    if model.source == "hub" and not _hub_cached(str(model.id), model.revision) and not reachable(*_HUB):
        fix = "download it where there is a network and copy the cache (HF_HOME), or use model=local model.path=FOLDER"
        raise UserError(f"'{model.id}' is not cached and the hub cannot be reached", where="model.id", fix=fix)


def check_chat(node: Mapping[str, Any], where: str) -> None:
    """Whoever answers prompts must be there; nodes of other targets are let pass.

    A server that is down is accepted when answers of its model are kept: a run that asks nothing new needs no server.

    Raises:
        UserError: a local model as for `check_model`, or a server that takes no connection.
    """
    target = str(node["_target_"])
    if target == "toolsavvy.models.chat.LocalChat":
        model = node["model"]
        check_model(model if isinstance(model, schema.ModelConfig) else schema.ModelConfig(**model))
    if target == "toolsavvy.models.server.ServerChat":
        kept = node.get("cache", True) and assets.responses_file(str(node["model"])).is_file()
        own = "llm" if where.endswith("llm") else where  # most name ${llm}; a judge has an address of its own
        fix = f"start the server, or correct {own}.base_url" + (", or use llm=local" if own == "llm" else "")
        _check_server(node, where, "http://127.0.0.1:8000/v1", kept=kept, fix=fix)


def check_judge(writer: str, judge: str | None, *, is_allowed: bool, where: str = "generator") -> None:
    """Nobody judges their own work unless that is asked for: ToolSense's judge is its generator by default.

    Args:
        writer: name of the model that writes.
        judge: name of the one that checks; None: there is none.
        is_allowed: `self_judging`.
        where: key of the generator.

    Raises:
        UserError: no judge, or the writer itself.
    """
    if is_allowed or judge not in (None, writer):
        return
    what = "nobody checks what is written" if judge is None else f"{judge!r} would judge its own work"
    raise UserError(
        what, where=f"{where}.judge", expected="another language model than the writer",
        fix=f"add '+llm@{where}.judge=server' {where}.judge.model=NAME (or another option of the group llm), "
        f"or {where}.self_judging=true",
    )  # fmt: skip


def _check_server(node: Mapping[str, Any], where: str, default: str, *, kept: bool, fix: str) -> None:
    """A server must take connections, unless what it said before may be enough."""
    url = urllib.parse.urlsplit(str(node.get("base_url", default)))
    try:
        port = url.port or _PORTS[url.scheme]
    except (ValueError, KeyError):
        port = 0
    if not port or not url.hostname:
        expected = "http://HOST:PORT/v1 or https://HOST/v1"
        raise UserError(f"{url.geturl()!r} is no address", where=f"{where}.base_url", expected=expected)
    behind_proxy = url.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(url.hostname)
    if not kept and not behind_proxy and not _connects(url.hostname, port, 3.0):
        raise UserError("the server takes no connection", where=f"{where}.base_url={url.geturl()}", fix=fix)


def check_retrieval_model(node: Mapping[str, Any], where: str) -> None:
    """An embedding model or reranker must be there, or be reachable; nodes of other targets are let pass.

    Raises:
        UserError: a hub model that is not cached while the hub cannot be reached, or a server that takes no connection.
    """
    target, where = str(node["_target_"]), "encoder" if where.endswith(".encoder") else where  # most name ${encoder}
    if target == _EMBEDDING_SERVER:
        kept = node.get("cache", True) and any(assets.cache_dir("embeddings").glob("*.npy"))
        _check_server(node, where, "https://api.openai.com/v1", kept=kept, fix="correct encoder.base_url")
    if not target.startswith("toolsavvy.retrieval.") or node.get("source") != "hub" or not node.get("id"):
        return
    revision = node.get("revision")
    if not _hub_cached(str(node["id"]), None if revision is None else str(revision)) and not reachable(*_HUB):
        raise UserError(
            f"'{node['id']}' is not cached and the hub cannot be reached", where=f"{where}.id",
            fix="download it where there is a network and copy the cache (HF_HOME), or point at a copy with "
            f"{where}.source=path {where}.path=FOLDER",
        )  # fmt: skip


def _hub_cached(name: str, revision: str | None) -> bool:
    """Whether a model's config is in the hub's cache."""
    from huggingface_hub import try_to_load_from_cache

    files = ("config.json", "modules.json")
    return any(isinstance(try_to_load_from_cache(name, file, revision=revision), str) for file in files)


def reachable(host: str, port: int, seconds: float = 3.0) -> bool:
    """Whether a connection can be opened; never when the user said offline."""
    return os.environ.get("HF_HUB_OFFLINE") != "1" and _connects(host, port, seconds)


def _connects(host: str, port: int, seconds: float) -> bool:
    """Whether somebody listens."""
    try:
        with socket.create_connection((host, port), timeout=seconds):
            return True
    except OSError:
        return False


def refuse_double(suites: Mapping[str, Any]) -> None:
    """Two suites under one name would write the same files; of requests there is one split, whatever the suite's name.

    Raises:
        UserError: there are two such suites.
    """
    first: dict[tuple[str, str | None], str] = {}
    for key, node in suites.items():
        target = str(node["_target_"])
        same = first.setdefault((target, None if target == REQUEST_SUITE else node.get("name")), key)
        if same != key:
            raise UserError(
                f"'suite.{same}' and 'suite.{key}' would write the same results", where=f"suite.{key}",
                expected="one suite of a kind" + ("" if target == REQUEST_SUITE else " under one name"),
                fix="leave one of them out, and start a run for each",
            )  # fmt: skip
