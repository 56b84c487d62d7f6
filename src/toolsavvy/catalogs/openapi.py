"""OpenAPI 3 and Swagger 2 descriptions, JSON or YAML: every operation is a tool."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.jsonl import complete_splits, headline, read_queries
from toolsavvy.catalogs.reading import Record, as_record, existing, files, read_json, read_text
from toolsavvy.catalogs.references import Resolver
from toolsavvy.errors import UserError

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_ACROSS = "set catalog.qualify=true: ids become 'file/operationId'"
_YAML_TYPES = (
    ("null", "null|Null|NULL|~", "nN~"),
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", "[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+", "-+.0123456789"),
    ("merge", "<<", "<"),
)
_SCHEMA_KEYS = ("type", "format", "enum", "items", "default", "minimum", "maximum", "pattern")


def load(
    path: str | Path | None = None,
    *,
    queries: str | Path | Sequence[str | Path] | None = None,
    qualify: bool = False,
    depth: int = 8,
    name: str = "openapi",
    document: str = DEFAULT_DOCUMENT,
    taught_share: float = 1.0,
    train_share: float = 0.0,
    validation_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load API descriptions; a tool's id is its `operationId`, or "METHOD /path" where there is none.

    Local `$ref`s are resolved, recursive ones and those past `depth` cut to their type, references to other files or
    hosts left as they are; the audit counts them. Nothing is fetched.

    Args:
        path: a .json, .yaml or .yml file, or a folder of them.
        queries: files of queries (see `jsonl.load`), null for none.
        qualify: ids are "file/operationId": for files that share ids.
        depth: how many levels of a schema are kept.
        name: shown in tables.
        document: template of every tool's text.
        taught_share: see `jsonl.load`; so the next three.
        train_share: see there.
        validation_share: see there.
        seed: see there.

    Raises:
        UserError: a file is missing or malformed, or two operations share an id.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= 64:
        raise UserError(
            f"{depth!r} is no depth", where="catalog.depth", expected="a whole number from 1 to 64", fix="for example 8"
        )
    tools, counts = ToolTable(), Counter[str]()
    for file in files(existing(path, "an OpenAPI file, or a folder of them"), "*.json", "*.yaml", "*.yml"):
        spec = as_record(read_yaml(file) if file.suffix in (".yaml", ".yml") else read_json(file), str(file))
        for tool, record in operations(spec, depth, counts):
            key = f"{file.stem}/{tool.id}" if qualify else tool.id
            tools.add(Tool(**{**tool.__dict__, "id": key}), record, "operationId", _ACROSS)
    splits = complete_splits(read_queries(queries, tools), taught_share, train_share, validation_share, seed)
    return retrieval_set(name, tools, splits, document=document, headline=headline(splits), source=counts)


def operations(spec: Record, depth: int, counts: Counter[str]) -> Iterator[tuple[Tool, Record]]:
    """The operations of one description, each with its place ("api.yaml, GET /pets").

    Raises:
        UserError: it is no OpenAPI description, or holds no operation.
    """
    if "openapi" not in spec.value and "swagger" not in spec.value:
        raise spec.wrong("openapi", "the field is missing", "an OpenAPI 3 or Swagger 2 description")
    resolver = Resolver(spec.value, depth, counts)
    info = as_record(spec.get("info", dict, {}), spec.where("info"))
    found = False
    for path, item in spec.get("paths", dict).items():
        if path.startswith("x-"):
            continue
        record = as_record(resolver.target(item), spec.where(f"paths.{path}"))
        shared = record.get("parameters", list, [])
        for method in METHODS:
            if isinstance(record.value.get(method), Mapping):
                found = True
                operation = Record(record.value[method], f"{spec.place}, {method.upper()} {path}")
                yield _tool(operation, method, path, shared, info.text("title"), resolver), operation
    if not found:
        raise spec.wrong("paths", "no operation", "at least one path with a get, post, …")


def read_yaml(path: Path) -> Any:
    """A YAML file by YAML 1.2's JSON schema: "no", "on" and dates stay text, keys become text.

    Raises:
        UserError: it is not YAML, with line.
    """
    import yaml

    try:
        return _text_keys(yaml.load(read_text(path), _yaml_loader()))
    except RecursionError as fault:
        raise UserError(
            "nested too deeply", where=str(path), expected="YAML of ordinary depth", fix="flatten it"
        ) from fault
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(
            f"broken YAML: {getattr(fault, 'problem', fault)}",
            where=where,
            expected="valid YAML",
            fix="check indentation and quotes there",
        ) from fault


@cache
def _yaml_loader() -> Any:
    """SafeLoader without YAML 1.1's surprises: null, true, false, whole and decimal numbers are all it knows."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": {}})
    for tag, pattern, first in _YAML_TYPES:
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$"), list(first))
    loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile("$"), [""])
    loader.add_constructor("tag:yaml.org,2002:int", lambda made, node: int(made.construct_scalar(node)))
    for tag in ("timestamp", "binary"):  # dates and bytes have no place in JSON
        loader.add_constructor(f"tag:yaml.org,2002:{tag}", lambda made, node: made.construct_scalar(node))
    # A set is no JSON either: its members become a list.
    loader.add_constructor(
        "tag:yaml.org,2002:set", lambda made, node: [made.construct_object(k) for k, _ in node.value]
    )
    return loader


def _text_keys(value: Any) -> Any:
    """The same value in place with text keys (`200:` -> "200"); anchors shared many times are visited once."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if id(node) in seen or not isinstance(node, dict | list):
            continue
        seen.add(id(node))
        if isinstance(node, dict):
            if not all(isinstance(key, str) for key in node):
                pairs = [(key if isinstance(key, str) else str(key), child) for key, child in node.items()]
                node.clear()
                node.update(pairs)
            stack.extend(node.values())
        else:
            stack.extend(node)
    return value


def _tool(record: Record, method: str, path: str, shared: Sequence[Any], title: str, resolver: Resolver) -> Tool:
    """One operation as a tool; the category is its first tag."""
    key = record.text("operationId") or f"{method.upper()} {path}"
    texts = [record.text("summary").strip(), record.text("description").strip()]
    texts = [text for text in dict.fromkeys(texts) if text not in ("", key)]
    tags = record.get("tags", list, [])
    return Tool(
        id=key,
        name=key,
        description=". ".join([*(text.rstrip(".") for text in texts[:-1]), *texts[-1:]]),
        group=title,
        category=tags[0] if tags and isinstance(tags[0], str) else "",
        parameters=_parameters(record, shared, resolver),
        returns=_returns(record, resolver),
    )


def _parameters(record: Record, shared: Sequence[Any], resolver: Resolver) -> dict[str, Any]:
    """One JSON Schema of path-level and own parameters and the body; own parameters win over path-level ones."""
    rows: dict[tuple[str, str], Record] = {}
    for value in (*shared, *record.get("parameters", list, [])):
        row = as_record(resolver.target(value), record.where("parameters"))
        if "$ref" not in row.value:
            rows[row.text("name", None), row.text("in", "query")] = row
    properties: dict[str, Any] = {}
    required: list[str] = []
    body = as_record(resolver.target(record.get("requestBody", dict, {})), record.where("requestBody"))
    bodies = [(_content(body.value), body.value.get("required") is True)] if body.value else []
    for (name, where), row in rows.items():
        needed = row.value.get("required") is True
        if where == "body":  # Swagger 2
            bodies.append((row.value.get("schema"), needed))
            continue
        properties[name] = _parameter(row, resolver)
        if needed and name not in required:
            required.append(name)
    for schema, needed in bodies:
        _add_body(properties, required, resolver.resolve(schema), needed)
    if not properties:
        return {}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _parameter(row: Record, resolver: Resolver) -> dict[str, Any]:
    """One parameter's schema with its description (Swagger 2 writes the schema into the parameter itself)."""
    given = row.value.get("schema") or _content(row.value) or {k: row.value[k] for k in _SCHEMA_KEYS if k in row.value}
    schema = resolver.resolve(given)
    schema = dict(schema) if isinstance(schema, Mapping) else {}
    if row.text("description").strip():
        schema["description"] = row.text("description")
    return schema


def _add_body(properties: dict[str, Any], required: list[str], schema: Any, needed: bool) -> None:
    """An object's properties join the parameters; any other body, or one whose names clash, becomes "body"."""
    if not isinstance(schema, Mapping):
        return
    inner = schema.get("properties")
    if isinstance(inner, Mapping) and inner and not properties.keys() & inner.keys():
        properties.update(inner)
        listed = schema.get("required")
        if needed and isinstance(listed, list):
            required.extend(name for name in listed if name in inner)
    elif schema:
        properties["body"] = schema
        required.extend(["body"] if needed else [])


def _content(holder: Mapping[str, Any]) -> Any:
    """The schema under `content`, JSON first."""
    content = holder.get("content")
    if not isinstance(content, Mapping) or not content:
        return None
    media = next((m for m in content if "json" in str(m)), next(iter(content)))
    return content[media].get("schema") if isinstance(content[media], Mapping) else None


def _returns(record: Record, resolver: Resolver) -> Mapping[str, Any]:
    """The schema of the first success response."""
    responses = record.get("responses", dict, {})
    code = next((c for c in responses if str(c).startswith("2")), "default")
    response = resolver.target(responses.get(code))
    if not isinstance(response, Mapping):
        return {}
    schema = resolver.resolve(_content(response) or response.get("schema"))
    return schema if isinstance(schema, Mapping) else {}
