"""NESTFUL (2409.03797): requests that take nested sequences of calls, over RapidAPI endpoints and made-up functions.

Two layouts are read: that of the wheel nestful-wrapper (corrected; taken where no path is given) and that of the
authors' repository, whose specifications put parameters under other keys and lack some functions. No results are
released, so arguments that name an earlier one ("$var1.skyId$") stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolsavvy import assets, unpacking
from toolsavvy.calls.schema_types import json_type
from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.calling import Step, Story, query_of, tasks_of
from toolsavvy.catalogs.reading import Record, as_record, existing, read_records
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.tasks import TaskSet

KINDS = ("executable", "glaive", "sgd")
"""Where functions come from; the category of tasks."""
RESULT = "var_result"
"""The last element of a record: what is given back, no call."""
_FOLDERS = ("data_v1/executable", "data_v1/non-executable")
PARAMETERS = ("query_parameters", "path_parameters", "parameters", "arguments")
"""Keys that parameters stand under."""
_ENUMS = ("enum", "allowed_values", "possible_values")
_KEPT = ("description", "items", "properties", "format", "minimum", "maximum", "example")


def load(
    path: str | Path | None = None,
    *,
    wheel: str | None = "nestful-wrapper==0.1.7",
    kinds: Sequence[str] = KINDS,
    name: str = "nestful",
    document: str = DEFAULT_DOCUMENT,
) -> RetrievalSet:
    """Load NESTFUL: a query a record, a parameter task a call of it; the source divides nothing.

    Args:
        path: folder that holds `*executable-data.json`, `*executable-spec.json` and so on, at any depth.
        wheel: pinned wheel that is read where there is no path.
        kinds: some of executable, glaive, sgd.
        name: shown in tables.
        document: template of every tool's text.

    Raises:
        UserError: a file is missing or malformed, or the wheel can't be had.
    """
    for kind in kinds:
        if kind not in KINDS:
            expected, fix = f"some of {', '.join(KINDS)}", did_you_mean(str(kind), KINDS)
            raise UserError(f"{kind!r} is no valid value", where="catalog.kinds", expected=expected, fix=fix)
    roots = _roots(path, wheel)
    tools, counts, stories = ToolTable(), Counter[str](), []
    for kind in kinds:
        for record in read_records(_file(roots, kind, "spec")):
            _add(tools, record, kind, counts)
        rows = read_records(_file(roots, kind, "data"))
        stories += [_story(record, kind, number) for number, record in enumerate(rows)]
    queries = [query for story in stories if (query := query_of(story, tools.tools))]
    data = retrieval_set(name, tools, {"test": queries}, document=document, headline=("test",), source=counts)
    odd = Counter[str]()
    calls = tuple(task for story in stories for task in tasks_of(story, tools.tools, "nestful", odd))
    return replace(data, tasks=TaskSet(name, calls, audit={key: n for key, n in odd.items() if n}))


def _roots(path: str | Path | None, wheel: str | None) -> list[Path]:
    """Folders that hold the files."""
    if not path and wheel:
        found = assets.pinned(wheel, "catalog.wheel")
        return [unpacking.extract(found, folder) for folder in _FOLDERS]
    folder = existing(path, "a folder with NESTFUL's files (executable-data.json, executable-spec.json, …)")
    if not folder.is_dir():
        raise UserError(
            f"{folder} is a file", where="catalog.path", expected="a folder with NESTFUL's files",
            fix="name the folder, or leave catalog.path out to read the pinned wheel",
        )  # fmt: skip
    return [folder]


def _file(roots: Sequence[Path], kind: str, part: str) -> Path:
    """The file of a kind, wherever it lies below the folder.

    Raises:
        UserError: there is none, or several.
    """
    wanted = f"{kind}-{part}.json"
    names = (wanted, f"non-executable-{wanted}")
    found = sorted(p for root in roots for p in root.rglob(f"*{wanted}") if p.name in names)
    if len(found) == 1:
        return found[0]
    raise UserError(
        f"{roots[0]} holds {len(found)} files {wanted}", where="catalog.path", expected=f"one {wanted}",
        fix="name the folder of one version of the data" if found else "set catalog.path=…, or fewer catalog.kinds",
    )  # fmt: skip


def _add(tools: ToolTable, record: Record, kind: str, counts: Counter[str]) -> None:
    """Add a function; where a name is there already, the first one counts."""
    name = record.text("name", None)
    if name in tools:
        counts["functions_specified_again"] += 1
        return
    host = record.text("host")
    tool = Tool(
        id=name, name=name, description=record.text("description"), group=host or name.rpartition(".")[0],
        category=kind, parameters=schema_of(record, PARAMETERS, counts, required=True),
        returns=schema_of(record, ("output_parameters",), counts),
    )  # fmt: skip
    tools.add(tool, record, "name")


def schema_of(
    record: Record, keys: Sequence[str], counts: Counter[str], *, required: bool = False
) -> Mapping[str, Any]:
    """JSON Schema of {name: {type, description, required, …}}, under whichever of the keys it stands."""
    given = {name: value for key in keys for name, value in record.get(key, dict, {}).items()}
    properties = {
        name: _property(as_record(value, record.where(f"{keys[0]}.{name}")), counts if required else Counter())
        for name, value in given.items()
    }
    needed = [name for name, value in given.items() if value.get("required") is True]
    counts["parameters_that_do_not_say_if_required"] += required and sum("required" not in v for v in given.values())
    if not properties:
        return {}
    return {"type": "object", "properties": properties, **({"required": needed} if required and needed else {})}


def _property(value: Record, counts: Counter[str]) -> Mapping[str, Any]:
    """One parameter's schema; a type that is missing or unknown is no constraint."""
    kind, enum = value.value.get("type"), next((value.value[k] for k in _ENUMS if value.value.get(k)), None)
    known = json_type(kind) or ("string" if str(kind).lower().startswith(("enum", "date")) else None)
    counts["parameters_without_a_type"] += kind is None
    counts["parameters_of_an_odd_type"] += kind is not None and known != kind
    default = value.value.get("default", value.value.get("default_value"))
    made: dict[str, Any] = {"type": known} if known else {}
    made |= {key: value.value[key] for key in _KEPT if key in value.value}
    if "items" in made and not isinstance(made["items"], Mapping):
        made["items"] = {"type": str(made["items"])}
    made |= {"enum": list(enum)} if isinstance(enum, list) else {}
    return made | ({} if default is None else {"default": default})


def _story(record: Record, kind: str, number: int) -> Story:
    """A record; its id is its place in its file."""
    steps = []
    for position, value in enumerate(record.get("output", list)):
        call = as_record(value, record.where(f"output[{position}]"))
        name = call.text("name", None)
        if name != RESULT:
            steps.append(Step(name, call.get("arguments", dict, {}), call.text("label").strip("$")))
    return Story(f"{kind}-{number}", record.text("input", None).strip(), steps, kind)
