"""Our BFCL rules against bfcl-eval's own checker, read from the pinned wheel: on every answer, and on broken ones."""

from __future__ import annotations

import copy
import random
import sys
import types
from collections import Counter
from collections.abc import Iterator

import pytest

from toolsavvy import assets, unpacking
from toolsavvy.calls import bfcl
from toolsavvy.calls.attempts import Call
from toolsavvy.catalogs.bfcl import GROUPS, load
from toolsavvy.catalogs.bfcl_records import LANGUAGES, written
from toolsavvy.catalogs.reading import read_json

CATEGORIES = (*GROUPS["non_live"], *GROUPS["live"])
LEAST = 0.995


class Registry(dict):
    """Stands for bfcl-eval's table of models, whose modules need every vendor's client."""

    def __missing__(self, name):
        return types.SimpleNamespace(underscore_to_dot=False)


@pytest.fixture(scope="module")
def checker():
    """bfcl-eval's `ast_checker`; its package is imported from the wheel itself and forgotten afterwards."""
    table = types.ModuleType("bfcl_eval.constants.model_config")
    table.MODEL_CONFIG_MAPPING = Registry()
    wheel = str(assets.fetch(assets.BFCL))
    sys.path.insert(0, wheel)
    sys.modules[table.__name__] = table
    try:
        from bfcl_eval.constants.enums import Language
        from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

        def check(functions, calls, answer, category):
            language = Language[LANGUAGES.get(category, "python").upper()]
            made = [{call.name: copy.deepcopy(dict(call.arguments))} for call in calls]
            return ast_checker(functions, made, answer, language, category, "any")["valid"]

        yield check
    finally:
        sys.path.remove(wheel)
        for name in [name for name in sys.modules if name.split(".")[0] == "bfcl_eval"]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def raw():
    """Functions and answers of every record, as bfcl-eval reads them."""
    folder = unpacking.extract(assets.BFCL, "bfcl_eval/data")
    found = {}
    for category in CATEGORIES:
        answers = {r["id"]: r["ground_truth"] for r in read_json(folder / f"possible_answer/BFCL_v4_{category}.json")}
        for record in read_json(folder / f"BFCL_v4_{category}.json"):
            found[record["id"]] = record["function"], answers[record["id"]]
    return found


@pytest.fixture(scope="module")
def records():
    return load(categories=["non_live", "live"]).tasks.records


def other_values(value, rng: random.Random) -> Iterator[object]:
    """A value of another type, another value of its type, the same one written otherwise."""
    if isinstance(value, bool):
        yield from (not value, int(value), str(value).lower(), None)
    elif isinstance(value, int | float):
        yield from (value + 1, str(value), float(value), int(value), [value], value == 1, -value, f'"{value}"')
    elif isinstance(value, str):
        yield from (value.upper(), value + " x", f" {value}.", value.replace(" ", "-"), [value], 7, "", f'"{value}"')
        yield from (value[: len(value) // 2], value.replace(",", ", "), value.replace('"', "'"), None, {"a": value})
    elif isinstance(value, list):
        yield from (value[::-1], value[:-1], [*value, value[0]] if value else [1], [], str(value), tuple(value))
        for i, part in enumerate(value[:3]):
            for other in list(other_values(part, rng))[:4]:
                yield [*value[:i], other, *value[i + 1 :]]
    elif isinstance(value, dict):
        yield from ({**value, "unheard_of": 1}, {}, str(value), [value])
        for key, part in list(value.items())[:3]:
            yield {k: v for k, v in value.items() if k != key}
            for other in list(other_values(part, rng))[:5]:
                yield {**value, key: other}
    else:
        yield from (0, "None", [])


def broken(task, calls: list[Call], rng: random.Random) -> Iterator[list[Call]]:
    """What a model might have written instead: dropped, added and changed arguments, names, order, number of calls."""
    yield []
    yield [*calls, calls[0]]
    yield calls[::-1]
    yield calls[1:]
    yield rng.sample(calls, len(calls))
    at = rng.randrange(len(calls))
    call, reference = calls[at], task.references[at]
    tool = next(t for t in task.tools if t.name == reference.name)

    def put(name, arguments):
        return [*calls[:at], Call(name, arguments), *calls[at + 1 :]]

    yield put(call.name + "_2", call.arguments)
    yield put(call.name.replace(".", "_"), call.arguments)
    yield put(task.tools[-1].name, call.arguments)
    yield put(call.name, {**call.arguments, "unheard_of": 1})
    properties = tool.parameters.get("properties", {})
    for name in properties:
        if name not in call.arguments:
            yield put(call.name, {**call.arguments, name: rng.choice(["", 0, True, [], "x", 1.5])})
    for name, accepted in reference.accepted.items():
        for choice in accepted[:3]:
            yield put(call.name, {**call.arguments, name: written(choice, properties.get(name, {}), task.language)})
            yield put(call.name, {**call.arguments, name: choice})
    for name in list(call.arguments):
        yield put(call.name, {k: v for k, v in call.arguments.items() if k != name})
        value = call.arguments[name]
        others = list(other_values(value, rng))
        for other in rng.sample(others, min(4, len(others))):
            yield put(call.name, {**call.arguments, name: other})


def compare(records, raw, checker, variants) -> tuple[Counter, list]:
    """How often both say the same; where the checker itself fails, it takes nothing as right."""
    tally, different = Counter(), []
    for task in records:
        functions, answer = raw[task.id]
        for calls in variants(task):
            ours = bfcl.is_right(task, calls)
            try:
                theirs = checker(functions, calls, answer, task.category)
            except Exception:
                tally["checker fails"] += 1
                theirs = False
            tally[f"{task.category} {ours == theirs}"] += 1
            tally["same" if ours == theirs else "different"] += 1
            tally["right" if theirs else "wrong"] += 1
            if ours != theirs:
                different.append((task.id, ours, theirs, calls))
    return tally, different


def references(task) -> list[Call]:
    return [Call(reference.name, reference.arguments) for reference in task.references]


def test_every_answer_is_judged_alike(records, raw, checker):
    tally, different = compare(records, raw, checker, lambda task: [references(task)])
    assert tally["same"] / len(records) >= LEAST, different[:5]
    assert tally["right"] / len(records) >= 0.99  # what we take for the answer is one


def test_broken_answers_are_judged_alike(records, raw, checker):
    rng = random.Random(0)
    tally, different = compare(records, raw, checker, lambda task: broken(task, references(task), rng))
    total = tally["same"] + tally["different"]
    assert tally["same"] / total >= LEAST, different[:5]
    assert tally["right"] > 0.1 * total  # both verdicts were asked for
    assert tally["wrong"] > 0.1 * total
    for category in CATEGORIES:
        same, other = tally[f"{category} True"], tally[f"{category} False"]
        assert same / (same + other) >= 0.99, [d for d in different if d[0].startswith(category)][:5]
