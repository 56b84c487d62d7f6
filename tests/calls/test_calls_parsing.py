from __future__ import annotations

import collections
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import SHARED
from toolsavvy.calls.arithmetic import agrees
from toolsavvy.calls.parsing import is_refusal, outcome_of, parse_calls

CALCULATOR: dict[str, Any] = {
    "type": "function",
    "function": {"name": "calculator", "parameters": {"properties": {"expression": {"type": "string"}}}},
}
SEARCH = {
    "name": "web_search",
    "parameters": {"properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}},
}
CLOCK = {"name": "clock", "parameters": {}}
TOOLS = (CALCULATOR, SEARCH, CLOCK)
CALL = '{"name": "calculator", "arguments": {"expression": "1 + 2"}}'
ONE = [("calculator", {"expression": "1 + 2"})]
TWO = [*ONE, ("web_search", {"query": "who?", "limit": 3})]
SECOND = '{"name": "web_search", "arguments": {"query": "who?", "limit": 3}}'

GOOD = {
    "qwen": ("hermes", f"<tool_call>\n{CALL}\n</tool_call>", ONE),
    "qwen, with words before": ("hermes", f"Let me see.\n\n<tool_call>\n{CALL}\n</tool_call>", ONE),
    "qwen, with a special token after": ("hermes", f"<tool_call>\n{CALL}\n</tool_call><|im_end|>", ONE),
    "qwen, twice": ("hermes", f"<tool_call>{CALL}</tool_call>\n<tool_call>{SECOND}</tool_call>", TWO),
    "qwen, two in one": ("hermes", f"<tool_call>\n{CALL}\n{SECOND}\n</tool_call>", TWO),
    "qwen after reasoning": ("hermes", f"<think>{SECOND}<tool_call></think>\n<tool_call>{CALL}</tool_call>", ONE),
    "a closing tag inside a string": (
        "hermes",
        '<tool_call>{"name": "calculator", "arguments": {"expression": "</tool_call>"}}</tool_call>',
        [("calculator", {"expression": "</tool_call>"})],
    ),
    "python inside the tag": ("hermes", '<tool_call>calculator(expression="1 + 2")</tool_call>', ONE),
    "qwen's coders": (
        "hermes",
        "<tool_call>\n<function=calculator>\n<parameter=expression>\n1 + 2\n</parameter>\n</function>\n</tool_call>",
        ONE,
    ),
    "llama's function tag": ("function", '<function=calculator>{"expression": "1 + 2"}</function>', ONE),
    "llama": ("json", '{"name": "calculator", "parameters": {"expression": "1 + 2"}}', ONE),
    "llama, function for name": ("json", '{"function": "calculator", "parameters": {"expression": "1 + 2"}}', ONE),
    "llama, nested": ("json", '{"function": {"name": "calculator", "parameters": {"expression": "1 + 2"}}}', ONE),
    "llama, typed": (
        "json", '{"type": "function", "name": "calculator", "parameters": {"expression": "1 + 2"}}', ONE
    ),
    "llama, two": ("json", f"{CALL}; {SECOND}", TWO),
    "llama, with an invented result": ("json", f"{CALL}\n\nThe result is 3.", ONE),
    "llama, python tag": ("python_tag", f"<|python_tag|>{CALL}<|eom_id|>", ONE),
    "llama, python tag and code": ("python_tag", '<|python_tag|>calculator.call(expression="1 + 2")', ONE),
    "openai": (
        "json",
        '{"tool_calls": [{"type": "function", "function": {"name": "calculator", '
        '"arguments": "{\\"expression\\": \\"1 + 2\\"}"}}]}',
        ONE,
    ),
    "a namespace": ("json", CALL.replace("calculator", "functions.calculator"), ONE),
    "arguments as text": ("json", '{"name": "calculator", "arguments": "{\\"expression\\": \\"1 + 2\\"}"}', ONE),
    "mistral": ("mistral", f"[TOOL_CALLS] [{CALL}]", ONE),
    "mistral, two": ("mistral", f"[TOOL_CALLS] [{CALL}, {SECOND}]</s>", TWO),
    "mistral, newer": ("mistral", '[TOOL_CALLS]calculator[ARGS]{"expression": "1 + 2"}</s>', ONE),
    "mistral, newer, two": (
        "mistral",
        '[TOOL_CALLS]calculator[CALL_ID]a1[ARGS]{"expression": "1 + 2"}'
        '[TOOL_CALLS]web_search[ARGS]{"query": "who?", "limit": 3}',
        TWO,
    ),
    "mistral, special tokens dropped": ("mistral", 'calculator{"expression": "1 + 2"}', ONE),
    "mistral, older, special tokens dropped": ("json", f" [{CALL}]", ONE),
    "gemma 3": ("python", '```tool_code\nprint(calculator(expression="1 + 2"))\n```', ONE),
    "gemma 3, assigned": ("python", "```tool_code\nx = calculator('1 + 2')\nprint(x)\n```", ONE),
    "function gemma": (
        "gemma",
        "<start_function_call>call:calculator{expression:<escape>1 + 2<escape>}<end_function_call>",
        ONE,
    ),
    "gemma 4": (
        "gemma",
        '<|tool_call>call:web_search{query:<|"|>a: b, "c"}<|"|>,limit:3}<tool_call|>',
        [("web_search", {"query": 'a: b, "c"}', "limit": 3})],
    ),
    "python list": ("python", '[calculator(expression="1 + 2"), web_search(query="who?", limit=3)]', TWO),
    "python alone": ("python", "calculator('1 + 2')", ONE),
    "python, two arguments by place": ("python", "[web_search('who?', 3)]", [TWO[1]]),
    "python on the last line": ("python", 'I will use the tool.\n\ncalculator(expression="1 + 2")', ONE),
    "python on the first line": ("python", 'calculator(expression="1 + 2")\n3', ONE),
    "fenced python": ("python", "Sure:\n```python\nprint(calculator('1 + 2'))\n```", ONE),
    "fenced JSON": ("json", f"```json\n{CALL}\n```", ONE),
    "fenced JSON at the end": ("json", f"I'll use the calculator.\n```json\n{CALL}\n```\n", ONE),
    "fenced JSON at the start": ("json", f"```\n{CALL}\n```\nThis is the call.", ONE),
    "a fence on one line": ("json", f"```json {CALL}```", ONE),
    "JSON at the end": ("json", f"I'll use the calculator.\n\n{CALL}", ONE),
    "JSON over several lines": ("json", "So:\n" + json.dumps(json.loads(CALL), indent=2), ONE),
    "no parameters": ("hermes", '<tool_call>{"name": "clock"}</tool_call>', [("clock", {})]),
    "one good, one cut": ("hermes", f"<tool_call>{CALL}</tool_call><tool_call>{SECOND[:20]}", ONE),
}  # fmt: skip

CODE = {
    "python alone", "python, two arguments by place", "python on the last line", "python on the first line",
    "fenced python", "mistral, special tokens dropped",
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_every_dialect_is_read(name: str) -> None:
    dialect, text, calls = GOOD[name]
    parsed = parse_calls(text, TOOLS)
    assert [(c.name, dict(c.arguments)) for c in parsed.calls] == calls
    assert parsed.dialect == dialect
    assert outcome_of(text, TOOLS) == "called"
    assert parsed.malformed == (name == "one good, one cut")
    # Without the marks of a family, names that nobody offered are no attempt when they are written as code.
    assert outcome_of(text, ()) == ("not_called" if name in CODE else "malformed")


MALFORMED = {
    "cut inside": ("unclosed", f"<tool_call>\n{CALL[:30]}"),
    "cut before the closing tag": ("unclosed", f"<tool_call>\n{CALL}"),
    "cut after the tag": ("unclosed", "<tool_call>\n"),
    "a brace too few": ("broken", f"<tool_call>\n{CALL[:-1]}\n</tool_call>"),
    "a brace too many": ("broken", f"<tool_call>\n{CALL}}}\n</tool_call>"),
    "no JSON": ("broken", "<tool_call>calculator: 1 + 2</tool_call>"),
    "NaN": ("broken", '<tool_call>{"name": "calculator", "arguments": {"expression": NaN}}</tool_call>'),
    "no object": ("broken", '<tool_call>{"expression": "1"}</tool_call>'),
    "unknown": ("unknown tool", f"<tool_call>{CALL.replace('calculator', 'abacus')}</tool_call>"),
    "unknown, plain": ("unknown tool", '{"name": "Madoff", "parameters": {}}'),
    "unknown, python": ("unknown tool", '[abacus(expression="1 + 2")]'),
    "a list of arguments": ("arguments", CALL.replace('{"expression": "1 + 2"}', '["1 + 2"]')),
    "arguments that are text": ("arguments", CALL.replace('{"expression": "1 + 2"}', '"1 + 2"')),
    "no arguments": ("arguments", '{"name": "calculator"}'),
    "arguments beside the name": ("arguments", '{"name": "calculator", "expression": "1 + 2"}'),
    "a schema repeated": ("arguments", json.dumps(CALCULATOR)),
    "plain, cut": ("broken", CALL[:40]),
    "plain, quotes": ("broken", '{"name": "web_search", "parameters": {"query": "he said "no""}}'),
    "plain, a brace too few": ("broken", '{"function": {"name": "calculator", "parameters": {"expression": "1"}}'),
    "fenced, cut": ("broken", f"Well:\n```json\n{CALL[:-1]}"),
    "mistral, cut": ("broken", f"[TOOL_CALLS] [{CALL}"),
    "mistral, cut after the mark": ("unclosed", "[TOOL_CALLS]"),
    "mistral, newer, cut": ("broken", '[TOOL_CALLS]calculator[ARGS]{"expression": "1'),
    "python tag, cut": ("broken", f"<|python_tag|>{CALL[:20]}"),
    "python, cut": ("unclosed", '[calculator(expression="1 + '),
    "python, no literal": ("arguments", "calculator(expression=open('x').read())"),
    "python, too many": ("arguments", "calculator('1', '2')"),
    "python, starred": ("arguments", "calculator(**{'expression': '1'})"),
    "tool_code without a call": ("broken", "```tool_code\n1 + 2\n```"),
    "tool_code, unknown": ("unknown tool", "```tool_code\nabacus('1')\n```"),
    "function tag, cut": ("unclosed", '<function=calculator>{"expression": "1 + 2"}'),
    "function tag, no JSON": ("broken", "<function=calculator>1 + 2</function>"),
    "gemma, cut": ("unclosed", "<start_function_call>call:calculator{expression:<escape>1"),
    "gemma, broken": ("broken", "<|tool_call>call:calculator{expression}<tool_call|>"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_attempts_that_cannot_be_carried_out_are_malformed(name: str) -> None:
    problem, text = MALFORMED[name]
    parsed = parse_calls(text, TOOLS)
    assert (parsed.calls, parsed.malformed, parsed.problem) == ((), True, problem)
    assert outcome_of(text, TOOLS) == "malformed"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "The answer is \\boxed{3}.",
        "I could use the calculator, but 1 + 2 = 3.",
        "The calculator (a tool) is not needed.",
        "calculator",
        f"One would write {CALL} to call it, but 1 + 2 = 3.",
        f"One would write:\n```json\n{CALL}\n```\nbut there is no need: 3.",
        "With the function calculator(expression='1 + 2') one gets 3.",
        "In JSON:\n```json\n{\"answer\": 3}\n```",
        '{"name": "John", "age": 3}',
        '{"name": "John", "age": ',
        '{"type": "help", "message": "Ask somebody else."}',
        '[1, 2, 3]',
        "[[1, 2], [3, 4]]",
        "f(2) = 4",
        "[sin(30)]",
        "In Python:\n```python\nprint(1 + 2)\n```",
        "Calls stand within <tool_call></tool_call> tags.",
        "Calls stand between <tool_call> and </tool_call>.",
        "The [TOOL_CALLS] token begins a call.",
        f"<think>\n<tool_call>{CALL}</tool_call>\n</think>\n\n3",
        f"<think>\nI might <tool_call>{CALL}</tool_call>",
        "{a, b}", "{", "[", "((((", "```", "``````", "<think>",
    ],
)  # fmt: skip
def test_what_merely_mentions_calls_is_none(text: str) -> None:
    assert outcome_of(text, TOOLS) == "not_called"
    assert parse_calls(text, TOOLS) == parse_calls("", TOOLS)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("I can't answer that.", True),
        ("I\u2019m sorry, but I cannot help with that.", True),
        ("I can't provide information on that. Is there anything else I can help you with?", True),
        ("Unfortunately, I am unable to answer. It is not safe.", True),
        ("As an AI language model, I can't help with this.", True),
        ("I can't provide a definitive answer. However, most people say Paris.", False),
        ("I can't provide medical advice, but I can offer some general information.", False),
        ("I can't answer that. It was a global war. Many countries took part in it.", False),
        ("I cannot tell a lie.", False),
        ("I have no comment.", False),
        ("No, pigs cannot fly.", False),
        ("I can answer this: 3.", False),
        ("I can't help but notice that 1 + 2 = 3.", False),
        ("I can't provide steps.\n\n1. Start", False),
        ("I cannot answer " + "very " * 200 + "well.", False),
    ],
)
def test_refusals_are_narrow(text: str, refusal: bool) -> None:
    assert is_refusal(text) == refusal
    assert outcome_of(text, TOOLS) == ("refused" if refusal else "not_called")


LONG = {
    "prose": "The calculator is a tool. " * 4_000,
    "opened again and again": "<tool_call>" * 9_000,
    "opened with braces": '<tool_call>{"' * 8_000,
    "opened with strings": '<tool_call>{"a": "' * 6_000,
    "opened with calls": f"<tool_call>{CALL}" * 1_400,
    "called again and again": f"<tool_call>{CALL}</tool_call>" * 1_200,
    "deep lists": "[" * 100_000,
    "deep objects": '{"a":' * 20_000,
    "deep and closed": "[" * 50_000 + "]" * 50_000,
    "a deep call": '{"name": "calculator", "arguments": ' * 3_000,
    "lines of braces": "{\n" * 50_000,
    "lines of broken calls": '{"name": "calculator", "arguments": {\n' * 2_700,
    "blanks": " " * 100_000 + "x",
    "line breaks": "\n" * 100_000 + "x",
    "blank lines of blanks": (" " * 50 + "\n") * 2_000 + "x",
    "fences": "```json\n" * 12_000,
    "fenced": "```json\n{}\n```\n" * 6_000,
    "parameters": "<function=calculator>" + "<parameter=expression>" * 4_500 + "</function>",
    "functions": "<function=calculator>" * 4_700,
    "mistral": "[TOOL_CALLS]" * 8_000,
    "mistral's names": "[TOOL_CALLS]calculator[ARGS]{" * 3_400,
    "gemma": "<start_function_call>call:calculator{" * 2_700,
    "gemma's texts": "<start_function_call>call:calculator{" + "<escape>" * 12_001 + "<end_function_call>",
    "python": "calculator(" * 9_000,
    "python's signs": "calculator(" + "-" * 19_000 + "1)",
    "deep python": "[" * 19_000 + "calculator('1')" + "]" * 900,
    "a long word": "a" * 100_000,
    "digits": '{"name": "calculator", "arguments": {"expression": ' + "9" * 90_000 + "}}",
    "thoughts": "<think>" * 14_000 + "</think>" * 2,
    "apologies": "I'm sorry, " * 9_000,
    "special tokens": "<|im_end|>" * 10_000,
}


@pytest.mark.parametrize("name", LONG)
def test_long_and_deep_answers_take_no_time(name: str) -> None:
    parse_calls(CALL, TOOLS)
    began = time.process_time()
    outcome = outcome_of(LONG[name], TOOLS)
    assert time.process_time() - began < 1.0
    assert outcome in ("called", "not_called", "malformed")


def test_no_text_breaks_the_parser() -> None:
    rng = random.Random(0)
    pieces = [*(text for _, text, _ in GOOD.values()), *(text for _, text in MALFORMED.values())]
    marks = [
        "<tool_call>",
        "</tool_call>",
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        "```",
        "\n",
        "(",
        ")",
        "=",
        "\x00",
        "\ud800",
        "é",
    ]
    for _ in range(3_000):
        text = rng.choice(pieces)
        cut = rng.randrange(len(text) + 1)
        text = text[:cut] + rng.choice(marks) + text[cut + rng.randrange(3) :]
        assert outcome_of(text, TOOLS) in ("called", "not_called", "malformed", "refused")


RAW = SHARED / "tool_cognition_action" / "raw"
PAIRS = sorted(f"{d.parent.name}/{d.name}" for d in RAW.glob("*/*")) or ["absent"]


def released(folder: Path) -> list[tuple[str, dict[str, Any], str]]:
    """(called | Notcalled, record, output) of every recorded output."""
    found = []
    for path in folder.glob("*_outputs.json"):
        outputs = {record["id"]: record["output"] for record in json.loads(path.read_text())}
        for label in ("called", "Notcalled"):
            records = json.loads((folder / f"{path.name.partition('_')[0]}_{label}.json").read_text())
            found += [(label, r, outputs[r["id"]]) for r in records if r["id"] in outputs]
    return found


@pytest.mark.skipif(not RAW.is_dir(), reason="shared data is absent")
@pytest.mark.parametrize("pair", PAIRS)
def test_recorded_outputs_of_the_paper(pair: str) -> None:
    """The release knows two labels: whoever wrote something like a call was said to call, closed or not told apart.

    So an answer labelled called must be read as an attempt, carried out or malformed, and one labelled Notcalled must
    never be read as a call. Where we say malformed, it is for a reason the release has no word for: tools that were not
    offered and JSON that is none among the called, calls that never close among the others.
    """
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for label, record, output in released(RAW / pair):
        parsed = parse_calls(output, record["function"])
        counts[label, outcome_of(output, record["function"])] += 1
        if parsed.malformed and not parsed.calls:
            assert parsed.problem in (("unknown tool", "broken", "unclosed") if label == "called" else ("unclosed",))
        if label == "called" and parsed.calls and "expression" in record["metadata"]:
            right = agrees(str(parsed.calls[0].arguments["expression"]), record["metadata"]["correct_answer"])
            counts["right", str(right)] += 1
    called, others = (sum(n for (of, _), n in counts.items() if of == label) for label in ("called", "Notcalled"))
    assert min(called, others) > 50
    assert counts["called", "called"] + counts["called", "malformed"] >= 0.99 * called
    assert counts["called", "called"] >= 0.8 * called
    assert others - counts["Notcalled", "called"] >= 0.99 * others
    assert counts["right", "True"] >= 0.96 * (counts["right", "True"] + counts["right", "False"])
