from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "toolsavvy"
LAYERS = (
    {"errors", ""},  # "" is the package itself, which holds the version alone
    {
        "catalog",
        "tasks",
        "levels",
        "benchmark",
        "attacks",
        "metrics",
        "correlation",
        "quantization",
        "indexing",
        "catalogs",
        "calls",
        "classification",
    },
    {"models"},
    {"decoding", "retrieval", "hidden", "probes"},
    {"training"},
    {"necessity", "parameters"},
    {"suites"},
    {"generators"},
    {"methods"},
    {"jobs"},
    {"starting"},
    {"sweeping"},
    {"__main__"},
)
"""Who may import whom: a layer imports itself and what stands before it."""
LEAVES = {
    "tracking",
    "report",
    "figures",
    "page",
    "config",
    "assets",
    "checksums",
    "drafts",
    "archives",
    "unpacking",
    "published",
}
"""Imported from anywhere; they import no layer but the first two and one another."""
ALSO = {
    ("metrics", "retrieval"): {"toolsavvy.retrieval.ranking"},  # what every ranking is made of
    ("config", "methods"): {"toolsavvy.methods.plans"},  # a dry run asks the chosen method for its plan
}
"""Exceptions, each with its reason."""
HEAVY = (
    "torch",
    "transformers",
    "wandb",
    "sentence_transformers",
    "faiss",
    "bm25s",
    "peft",
    "pytorch_lightning",
    "polars",
    "openai",
    "matplotlib",
    "rapidfuzz",
    "scipy",
    "moto",
    "boto3",
    "botocore",
    "xgrammar",
    "jsonschema",
)


def area(module: str) -> str:
    """`toolsavvy.retrieval.bm25` -> `retrieval`."""
    return [*module.split("."), ""][1]


def imports(path: Path) -> Iterator[str]:
    """Every module of ours that a file imports, wherever in the file; imports for type checkers alone are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typed = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typed:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "toolsavvy":
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if is_module(name) else str(node.module) for name in inner)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "toolsavvy")
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"


def is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


FILES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def depth(name: str) -> int:
    return next(i for i, layer in enumerate(LAYERS) if name in layer)


def test_every_area_has_a_place() -> None:
    assert {area(name_of(path)) for path in FILES} <= set().union(LEAVES, *LAYERS)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    own = area(name_of(path))
    wrong = []
    for target in imports(path):
        other = area(target)
        if other == own or other in LEAVES or target in ALSO.get((own, other), ()):
            continue
        allowed = 1 if own in LEAVES else depth(own)
        if depth(other) > allowed or (other == "__main__"):
            wrong.append(target)
    assert not wrong


def test_there_are_no_circles() -> None:
    """Not even between modules of one area."""
    graph = {name_of(path): sorted(set(imports(path)) - {name_of(path)}) for path in FILES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above[above.index(name) :], name))
        if name in done or name not in graph:
            return
        for target in graph[name]:
            visit(target, (*above, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_the_entry_point_loads_nothing_heavy() -> None:
    code = f"import sys, toolsavvy.__main__; sys.exit(', '.join(sorted({set(HEAVY)!r} & set(sys.modules))) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SOURCE.parent)
    assert done.returncode == 0, f"loads {done.stderr}"
