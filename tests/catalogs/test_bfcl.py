from __future__ import annotations

import json

import pytest
from catalog_files import fault, shared, write_jsonl, write_text

from toolsavvy.calls.attempts import Call
from toolsavvy.calls.schema_check import valid
from toolsavvy.calls.scoring import score
from toolsavvy.catalogs.bfcl import GROUPS, load
from toolsavvy.tasks import Upstream


def function(name="math.add", **properties):
    kinds = {"a": {"type": "integer", "description": "first"}, "b": {"type": "float"}, **properties}
    return {
        "name": name,
        "description": "Adds.",
        "parameters": {"type": "dict", "properties": kinds, "required": ["a"]},
    }


def question(key="q_0", functions=None, text="add", **changes):
    messages = [{"role": "user", "content": text}]
    return {"id": key, "question": [messages], "function": [function()] if functions is None else functions, **changes}


def answer(key="q_0", *calls):
    return {"id": key, "ground_truth": list(calls) or [{"math.add": {"a": [1], "b": [2.0, ""]}}]}


def make(folder, category="simple_python", questions=None, answers=None, version=4):
    write_jsonl(folder / f"BFCL_v{version}_{category}.json", questions or [question()])
    write_jsonl(folder / "possible_answer" / f"BFCL_v{version}_{category}.json", answers or [answer()])
    return folder


def test_a_record_and_its_call(tmp_path):
    data = load(make(tmp_path))
    (task,) = data.tasks.records
    assert (task.id, task.category, task.rule, task.language, task.instruction) == (
        "q_0", "simple_python", "bfcl", "python", "add"
    )  # fmt: skip
    assert task.reference.arguments == {"a": 1}  # what may be left out is
    assert task.reference.accepted == {"a": (1,), "b": (2.0, "")}
    assert data.tasks.calls == (task,)
    assert task.tool.parameters["type"] == "object"
    assert task.tool.parameters["properties"]["b"]["type"] == "number"
    assert data.splits["test"][0].relevant == {"math.add": 1}
    assert data.catalog.tools[0].group == "math"


def test_parallel_calls_stand_upstream_of_the_next(tmp_path):
    functions = [function(), function("mul")]
    truth = answer("p", {"math.add": {"a": [1]}}, {"mul": {"a": [2]}}, {"mul": {"a": [3]}})
    data = load(make(tmp_path, "parallel", [question("p", functions)], [truth]))
    (record,) = data.tasks.records
    assert [r.name for r in record.references] == ["math.add", "mul", "mul"]
    first, second, third = data.tasks.calls
    assert [t.id for t in data.tasks.calls] == ["p:0", "p:1", "p:2"]
    assert {t.cluster for t in data.tasks.calls} == {"p"}
    assert (first.upstream, third.upstream) == ((), (Upstream("math.add", {"a": 1}), Upstream("mul", {"a": 2})))
    assert [tool.name for tool in second.tools] == ["mul"]
    calls = [Call(r.name, r.arguments) for r in record.references]
    assert score(record, calls[::-1]).exact
    assert not score(record, calls[:2]).exact


def test_functions_that_share_a_name_stay_apart(tmp_path):
    other = function(c={"type": "any"})
    questions = [question("q_0"), question("q_1", [other]), question("q_2")]
    data = load(make(tmp_path, questions=questions, answers=[answer(f"q_{i}") for i in range(3)]))
    assert [tool.id for tool in data.catalog.tools] == ["math.add", "math.add (2)"]
    assert {tool.name for tool in data.catalog.tools} == {"math.add"}
    assert [q.relevant for q in data.splits["test"]] == [{"math.add": 1}, {"math.add (2)": 1}, {"math.add": 1}]


def test_java_arguments_are_source_text(tmp_path):
    kinds = {
        "a": {"type": "integer"}, "b": {"type": "ArrayList", "items": {"type": "String"}}, "c": {"type": "any"},
        "d": {"type": "HashMap"},
    }  # fmt: skip
    truth = answer("j", {"math.add": {"a": [7], "b": [["x", "y"]], "c": ["Locale.US"], "d": [{"k": ["v"]}]}})
    data = load(make(tmp_path, "simple_java", [question("j", [function(**kinds)])], [truth]))
    (task,) = data.tasks.records
    assert task.language == "java"
    assert task.reference.arguments == {
        "a": "7", "b": 'new ArrayList<>(Arrays.asList("x", "y"))', "c": "Locale.US",
        "d": 'new HashMap<String, Object>() {{ put("k", "v"); }}',
    }  # fmt: skip
    assert "ArrayList of String" in task.tool.parameters["properties"]["b"]["description"]
    assert task.flags == ()
    assert score(task, [Call("math.add", task.reference.arguments)]).exact
    assert not score(task, [Call("math.add", {**task.reference.arguments, "a": 7})]).exact


def test_oddities_of_the_source_are_survived_and_counted(tmp_path):
    odd = question("q_1", function(t={"type": "tuple", "items": {"type": "integer"}}))  # an object for a list
    odd["question"] = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "add"}]]
    talk = question("q_2", text="first")
    talk["question"][0] += [{"role": "assistant", "content": "which?"}, {"role": "user", "content": "this"}]
    unknown = answer("q_0", {"math.add": {"a": [1], "unheard_of": ["x"]}})
    make(tmp_path, questions=[question(), odd, talk], answers=[unknown, answer("q_1"), answer("q_2")])
    write_jsonl(tmp_path / "BFCL_v4_chatable.json", [{"question": "Hello?", "function": ""}])
    write_jsonl(tmp_path / "BFCL_v4_live_relevance.json", [question("r")])
    data = load(tmp_path, categories="all")
    by_id = {task.id: task for task in data.tasks.records}
    assert by_id["q_0"].flags == ("reference_violates_schema", "reference_fails_rule")
    assert by_id["q_1"].instruction == "Be brief.\n\nadd"
    assert by_id["q_2"].instruction == "user: first\nassistant: which?\nuser: this"
    assert (by_id["chatable_0"].tools, by_id["chatable_0"].references) == ((), ())
    assert by_id["r"].rule == "any_call"
    audit = data.tasks.audit
    assert audit["records_with_a_system_message"] == audit["records_with_several_messages"] == 1
    assert audit["records_without_id"] == audit["schema: type tuple"] == audit["records live_relevance"] == 1


def test_executed_answers_are_calls_in_python(tmp_path):
    truths = [
        {"id": "q_0", "ground_truth": ["math.add(1, b=2)", "math.add(a=-3)"]},
        {"id": "q_1", "ground_truth": ["math.add(a=other())"]},
        {"id": "q_2", "ground_truth": ["__import__('os').getcwd()"]},
    ]
    questions = [question(f"q_{i}") for i in range(3)]
    data = load(make(tmp_path, "exec_parallel", questions, truths), categories="executed")
    (task,) = data.tasks.records
    assert [r.arguments for r in task.references] == [{"a": 1, "b": 2}, {"a": -3}]
    assert task.rule == "exact"
    assert data.tasks.audit["left out: answers that are no literal calls"] == 2


def test_conversations_call_by_call(tmp_path):
    record = {
        "id": "m", "involved_classes": ["MathAPI"], "initial_config": {},
        "question": [[{"role": "user", "content": "one"}], [], [{"role": "user", "content": "three"}]],
    }  # fmt: skip
    truth = {"id": "m", "ground_truth": [["add(1)"], [], ["add(a=2, b=0.5)"]]}
    make(tmp_path, "multi_turn_base", [record], [truth])
    fault(
        lambda: load(tmp_path, categories="multi_turn"), what="no functions of class 'MathAPI'",
        where="line 1, field 'involved_classes'", expected="math_api.json",
    )  # fmt: skip
    write_jsonl(tmp_path / "multi_turn_func_doc" / "math_api.json", [function("add")])
    data = load(tmp_path, categories="multi_turn")
    first, second = data.tasks.calls
    assert (first.id, first.instruction, first.reference.arguments) == ("m:0:0", "one", {"a": 1})
    assert (second.id, second.instruction, second.upstream) == ("m:2:0", "one\nthree", (Upstream("add", {"a": 1}),))
    assert data.tasks.audit["empty_turns"] == 1
    assert data.tasks.scored == data.tasks.calls


@pytest.mark.parametrize(
    ("bad", "truth", "what", "where", "expected"),
    [
        (question(function="text"), None, "text", "line 1, field 'function'", "a list"),
        (question(functions=[{"description": "x"}]), None, "missing", "field 'name'", "text"),
        (question(id=None), None, "missing", "line 1, field 'id'", "text"),
        (question(question=[[]]), None, "no message", "line 1, field 'question'", "role"),
        (question(question=[["hi"]]), None, "text", "line 1, field 'question'", "an object"),
        (question(question=["hi"]), None, "no list of messages", "line 1, field 'question'", "role"),
        (question("q_9"), None, "no answer for 'q_9'", "line 1, field 'id'", "possible_answer"),
        (question(), answer("q_0", {"math.sub": {"a": [1]}}), "not offered", "field 'ground_truth'", "math.add"),
        (question(), answer("q_0", {"math.add": {"a": 1}}), "no list", "ground_truth.math.add.a", "a list"),
        (question(), answer("q_0", "math.add(1)"), "text", "field 'ground_truth'", "an object"),
        (question(), {"id": "q_0", "ground_truth": []}, "no call", "field 'ground_truth'", "at least one"),
        (question(), {"id": "q_0"}, "missing", "line 1, field 'ground_truth'", "a list"),
    ],
)
def test_bad_records_are_named(tmp_path, bad, truth, what, where, expected):
    make(tmp_path, questions=[bad], answers=[truth or answer()])
    fault(lambda: load(tmp_path), what=what, where=where, expected=expected)


def test_bad_choices_and_folders_are_named(tmp_path):
    fault(lambda: load(tmp_path), what="no BFCL_v4_<category>.json", where="catalog.path", expected="BFCL's files")
    make(tmp_path)
    fault(
        lambda: load(tmp_path, categories="simple_pyton"), what="unknown category", where="catalog.categories",
        expected="categories or groups", fix="simple_python",
    )  # fmt: skip
    fault(lambda: load(tmp_path, categories=["parallel"]), what="no BFCL_v4_parallel.json", where="catalog.path")
    assert len(load(tmp_path, categories="non_live").tasks.records) == 1  # of a group, what is there
    (tmp_path / "possible_answer" / "BFCL_v4_simple_python.json").unlink()
    fault(lambda: load(tmp_path), what="no answers to BFCL_v4_simple_python.json", where=str(tmp_path))
    write_text(tmp_path / "BFCL_v4_irrelevance.json", '{"id": "i"}\n{"id": ')
    fault(lambda: load(tmp_path, categories="irrelevance"), what="missing", where="line 1, field 'question'")


def test_a_wheel_unpacked_is_a_folder_too(tmp_path):
    make(tmp_path / "bfcl_eval" / "data")
    unused = tmp_path / "bfcl_eval" / "data" / "unused_datasets"
    write_jsonl(unused / "question" / "BFCL_v4_exec_simple.json", [question()])
    write_jsonl(
        unused / "possible_answer" / "BFCL_v4_exec_simple.json", [{"id": "q_0", "ground_truth": ["math.add(1)"]}]
    )
    for folder in (tmp_path, tmp_path / "bfcl_eval" / "data"):
        with pytest.raises(Exception, match="occurs twice"):  # both records are called q_0
            load(folder, categories="all")
        assert len(load(folder, categories=["exec_simple"]).tasks.records) == 1


def test_the_real_files():
    data = load(shared("bfcl"), categories="all")
    tasks = data.tasks
    audit = tasks.audit
    counted = {c: audit[f"records {c}"] for group in GROUPS.values() for c in group}
    assert counted["simple_python"] == 325
    assert counted["live_multiple"] == 839
    assert counted["live_irrelevance"] == 710
    assert counted["chatable"] == 167
    assert audit["records_with_a_system_message"] > 40
    assert audit["empty_turns"] == 154
    assert audit["calls multi_turn_base"] > 800
    assert len({task.id for task in tasks.calls}) == len(tasks.calls)
    failing = [task.id for task in tasks.records if "reference_fails_rule" in task.flags]
    assert len(failing) <= 10  # the source's own answers that its rules never take
    for task in tasks.records[::2]:
        found = score(task, [Call(r.name, r.arguments) for r in task.references])
        assert found.exact == (task.id not in failing) or task.rule == "any_call", task.id
    for task in tasks.calls[::8]:
        odd = "reference_violates_schema" in task.flags
        assert valid(task.reference.arguments, task.tool.parameters) != odd
    json.dumps([task.reference.arguments for task in tasks.calls], allow_nan=False)


def test_the_pinned_wheel_has_whole_categories():
    data = load(categories=["simple_javascript", "live_parallel"])
    assert data.tasks.audit["records simple_javascript"] == 50
    assert data.tasks.audit["records live_parallel"] == 16
