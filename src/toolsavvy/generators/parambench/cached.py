"""The catalog `parambench_aws`: our set, built when it is first asked for and kept in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from filelock import FileLock

from toolsavvy import assets, levels
from toolsavvy.calls import schema_check
from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs import aws_models, parambench
from toolsavvy.catalogs.aws import Source
from toolsavvy.generators import parambench as package
from toolsavvy.generators.parambench.building import Settings, build
from toolsavvy.parameters.cloud import world
from toolsavvy.parameters.cloud.world import SERVICES, require_cloud

log = logging.getLogger(__name__)


def load(
    name: str = "parambench_aws",
    n: int = 1022,
    seed: int = 0,
    operations: Sequence[str] | None = None,
    distractors: bool = True,
    document: str = DEFAULT_DOCUMENT,
) -> RetrievalSet:
    """Read our set from the cache, or build it there: every reference call has run on moto.

    Args:
        name: shown in tables.
        n: tasks.
        seed: of everything that is drawn, the split included; kept apart from the training seed.
        operations: ask for these alone ("ec2:CreateVpc"); None: all that have stories.
        distractors: the catalog also holds the services' other operations, which no task asks for.
        document: template of every tool's text.

    Raises:
        UserError: moto is not installed and the cache has no such set, or there are fewer different stories.
    """
    settings = Settings(n, seed, tuple(sorted(set(operations or ()))))
    data = parambench.load(_built(settings), name=name, document=document)
    if distractors:
        return data
    asked = {task.reference.name for task in data.tasks.calls} if data.tasks else set()
    kept = tuple(tool for tool in data.catalog.tools if tool.id in asked)
    return replace(data, catalog=replace(data.catalog, tools=kept))


def _built(settings: Settings) -> Path:
    """Folder of the set, made once; a build that was cut off leaves nothing."""
    folder = assets.cache_dir("assets") / "parambench_aws" / fingerprint(settings)[:24]
    if not (folder / parambench.TASKS).is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            if not (folder / parambench.TASKS).is_file():
                require_cloud()
                log.info("playing %d stories on moto (about two minutes, once; kept in %s)", settings.n, folder)
                tools = operations_as_tools()
                made = build(settings, tools)
                shutil.rmtree(folder, ignore_errors=True)
                parambench.save(folder, made.tasks, tools.values())  # tasks last: they mark the folder as whole
    return folder


def operations_as_tools() -> dict[str, Tool]:
    """Operation ("ec2:CreateVpc") -> tool, of the three services, from the pinned AWS CLI wheel; named by its id."""
    found, _ = Source.open(None).read(SERVICES)
    return {tool.id: replace(tool, name=tool.id) for tool in found}


def fingerprint(settings: Settings) -> str:
    """sha256 over everything that a set is made from: settings, our code, the wheel, moto's version."""
    digest = hashlib.sha256(json.dumps(asdict(settings)).encode())
    root = Path(str(package.__file__)).parent
    files = [
        *root.rglob("*.py"),
        *(Path(str(m.__file__)) for m in (world, levels, aws_models, parambench, schema_check)),
    ]
    for path in sorted(files):
        if "oracle" not in path.parts:  # it reads tasks, it doesn't make them
            digest.update(path.name.encode() + path.read_bytes())
    digest.update(json.dumps([assets.AWSCLI.sha256, versions()]).encode())
    return digest.hexdigest()


def versions() -> Mapping[str, str]:
    """Versions of what carries the calls out."""
    found: dict[str, str] = {}
    for name in ("moto", "botocore"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
