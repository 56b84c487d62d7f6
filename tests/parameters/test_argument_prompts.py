from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from argument_tasks import SUBNET, subnet_task, toy_writer

from toolsavvy.catalog import Tool
from toolsavvy.models.prompts import render
from toolsavvy.parameters.prompts import ArgumentPrompts, answer_text, kept_share
from toolsavvy.parameters.schema_text import schema_text
from toolsavvy.parameters.trimming import context_text
from toolsavvy.tasks import Reference, Upstream

MODEL, TOKENIZER, PROMPTS = toy_writer()


def count(texts):
    return [len(text.split()) for text in texts]


def tool(properties, **more) -> Tool:
    return Tool("x:Do", "Do", "Does it.", parameters={"type": "object", "properties": properties, **more})


def test_the_answer_is_one_line_in_the_schemas_order() -> None:
    text = answer_text(subnet_task())
    arguments = json.loads(text)
    assert arguments == subnet_task().reference.arguments
    assert list(arguments) == ["VpcId", "CidrBlock", "TagSpecifications"]
    assert list(arguments["TagSpecifications"][0]) == ["ResourceType", "Tags"]
    assert list(arguments["TagSpecifications"][0]["Tags"][0]) == ["Key", "Value"]
    odd = replace(subnet_task(), references=(Reference("CreateSubnet", {"Unknown": "ü", "VpcId": "v"}),))
    assert answer_text(odd) == '{"VpcId": "v", "Unknown": "ü"}'


def test_a_schema_a_line_a_field() -> None:
    found = schema_text(subnet_task().tool, "", 200, count)
    assert found.cut == 0
    assert found.text.split("\n") == [
        "CreateSubnet: Creates a subnet in a network",
        "VpcId*",  # its description says its name again
        "CidrBlock: The range of addresses in CIDR notation",
        "Count integer",
        "TagSpecifications list of object",
        "  ResourceType (gateway|subnet|vpc)",
        "  Tags list of object",
        "    Key",
        "    Value",
    ]


def test_what_is_required_or_asked_for_stays_and_the_cut_is_told() -> None:
    properties = {f"Option{i}": {"type": "string", "description": "More words. And more."} for i in range(300)}
    properties["Needed"] = {"type": "object", "properties": {"In": {"type": "integer"}, "Out": {}}, "required": ["In"]}
    properties["MaxRetries"] = {"type": "integer"}
    found = schema_text(tool(properties, required=["Needed"]), "retry with 3 retries", 30, count)
    lines = found.text.split("\n")
    assert {"Needed* object", "  In* integer", "MaxRetries integer"} <= set(lines)
    assert count([found.text])[0] <= 30
    assert lines[-1] == f"... {found.cut} more fields"
    assert found.shown + found.cut == 304
    long_enum = {"Kind": {"enum": [f"k{i}" for i in range(90)] + ["blue-ones"]}}
    assert "blue-ones|..." in schema_text(tool(long_enum), "take blue", 90, count).text


@pytest.mark.parametrize(
    "schema",
    [{}, {"type": "dict"}, {"properties": None}, {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"$ref": "#"}],
)
def test_odd_schemas_are_shown(schema) -> None:
    task = replace(subnet_task(), tools=(Tool("CreateSubnet", "CreateSubnet", "", parameters=schema),))
    assert "CreateSubnet" in PROMPTS.question(task)
    assert json.loads(answer_text(task)) == task.reference.arguments


def test_earlier_calls_say_each_thing_once() -> None:
    calls = [
        Upstream("CreateVpc", {"CidrBlock": "10.0.0.0/16"}, {"Vpc": {"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16"}}),
        Upstream("Tag", {"Tags": [{"Key": "Name", "Value": "a"}, {"Key": "stage", "Value": "b"}]}, None, "var2"),
    ]
    found = context_text(calls, "", ["VpcId"], 500, count)
    assert found.text.split("\n") == [
        'CreateVpc {"CidrBlock": "10.0.0.0/16"}',
        '-> {"Vpc": {"VpcId": "vpc-1"}}',
        'var2 = Tag {"Tags": {"Name": "a", "stage": "b"}}',
    ]
    assert context_text([], "", [], 9, count).text == ""


def test_the_record_that_is_meant_stays_of_a_long_list() -> None:
    rng = random.Random(0)
    subnets = [
        {"SubnetId": f"subnet-{rng.randrange(16**17):017x}", "State": "available", "Free": 251, "Public": False,
         "Tags": [{"Key": "Name", "Value": f"web-{i}"}], "Made": "2026-01-01T00:00:00Z"}
        for i in range(400)
    ]  # fmt: skip
    calls = [Upstream("DescribeSubnets", {}, {"Subnets": subnets, "Note": "so long " * 5000})]
    found = context_text(calls, "Put it into web-217, please.", ["SubnetIds"], 40, count)
    assert subnets[217]["SubnetId"] in found.text
    assert count([found.text])[0] <= 40
    assert found.text.count("...") >= 1
    assert "2026" not in found.text
    assert found == context_text(calls, "Put it into web-217, please.", ["SubnetIds"], 40, count)


def test_the_prompt_ends_in_the_request_and_shots_are_turns() -> None:
    shots = [subnet_task(7), subnet_task(8)]
    asked = ArgumentPrompts(TOKENIZER, PROMPTS.text, shots=shots).prompt(subnet_task())
    assert [turn.role for turn in asked.messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert asked.messages[2].content == answer_text(shots[0])
    assert asked.messages[-1].content.endswith(subnet_task().instruction)
    assert not asked.prefill
    assert "10.0.1.0/24" not in PROMPTS.question(replace(subnet_task(), instruction="Go on."))  # only the reference's


def test_text_never_becomes_a_special_token() -> None:
    end = TOKENIZER.eos_token
    call = Upstream("f", {"x": end}, {"Name": end})
    description = {"type": "object", "properties": {end: {"type": "string", "description": end}}}
    odd = Tool("CreateSubnet", "CreateSubnet", end, parameters=description)
    task = replace(subnet_task(), instruction=f"Do {end} it", tools=(odd,), upstream=(call,))
    said = sum(i == TOKENIZER.eos_token_id for i in render(TOKENIZER, PROMPTS.text, PROMPTS.prompt(task)).ids)
    plain = render(TOKENIZER, PROMPTS.text, PROMPTS.prompt(subnet_task())).ids
    assert end in PROMPTS.question(task)
    assert said == sum(i == TOKENIZER.eos_token_id for i in plain)


def test_kept_share_counts_tasks_that_lost_a_value() -> None:
    tasks = [subnet_task(i) for i in range(4)]
    whole = kept_share(tasks, ArgumentPrompts(TOKENIZER, PROMPTS.text, context_tokens=400))
    assert (whole.tasks, whole.whole, whole.lost, whole.share) == (4, 4, (), 1.0)
    none = kept_share(tasks, ArgumentPrompts(TOKENIZER, PROMPTS.text, context_tokens=0))
    assert none.lost == tuple((task.id, ("VpcId",)) for task in tasks)
    assert none.share == 0
    assert kept_share([replace(tasks[0], upstream=())], PROMPTS).share == 1
    assert SUBNET["required"] == ["VpcId"]
