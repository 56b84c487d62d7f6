from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
import yaml
from catalog_files import fault

from toolsavvy.catalog import DEFAULT_DOCUMENT

CONF = Path(__file__).parents[2] / "conf" / "catalog"
MINE = [
    "toolbench",
    "stabletoolbench",
    "toolsense",
    "toollens",
    "metatool",
    "sealtools",
    "jsonl",
    "openapi",
    "mcp",
    "functions",
    "toy",
    "simulated",
]


def option(name):
    values = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    module, _, function = values.pop("_target_").rpartition(".")
    assert values.pop("expand") is None  # no loader's: methods take it out
    return getattr(importlib.import_module(module), function), values


@pytest.mark.parametrize("name", MINE)
def test_an_option_holds_every_argument_with_its_default(name):
    load, values = option(name)
    parameters = inspect.signature(load).parameters
    assert set(values) == set(parameters)
    chosen = {"name", "layout", "validation_share", "stages"}  # options that differ from the plain function on purpose
    for key in values.keys() - chosen:
        assert values[key] == parameters[key].default, key
    assert values["name"] == name
    assert values["document"] == DEFAULT_DOCUMENT


@pytest.mark.parametrize("name", [n for n in MINE if n not in ("toy", "simulated")])
def test_an_option_without_its_path_says_so(name):
    load, values = option(name)
    fault(lambda: load(**values), what="not set", where="catalog.path", fix="catalog.path=")


@pytest.mark.parametrize("name", [n for n in MINE if n not in ("toy", "simulated")])
def test_an_option_with_a_wrong_path_names_it(name, tmp_path):
    load, values = option(name)
    absent = tmp_path / "not_there"
    fault(lambda: load(**{**values, "path": str(absent)}), what=str(absent), where="catalog.path", fix="catalog.path=")


def test_the_toy_option_loads():
    load, values = option("toy")
    assert len(load(**values).catalog) == 24


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_option_can_expand_its_documents(path):
    values = yaml.safe_load(path.read_text())
    for base in values.get("defaults", ["_self_"])[:-1]:  # an option that is another one with a few keys changed
        values = {**yaml.safe_load((path.parent / f"{base}.yaml").read_text()), **values}
    assert "expand" in values
    assert values["expand"] is None


@pytest.mark.parametrize("name", MINE)
def test_every_line_is_explained(name):
    lines = (CONF / f"{name}.yaml").read_text().splitlines()
    assert lines[0].startswith("# ")
    plain = ("_target_", "name", "#")
    assert all("  # " in line for line in lines if line.strip() and not line.startswith(plain))
