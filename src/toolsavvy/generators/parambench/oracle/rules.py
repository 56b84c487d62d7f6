"""Rules for calls on rules of listeners."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.actions import action, conditions, listener
from toolsavvy.generators.parambench.oracle.lexicon import NUMBER_WORD, says
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.words import number_of

_LOOKS = {
    "the host name": "host-header",
    "the path": "path-pattern",
    "a header": "http-header",
    "the method": "http-request-method",
    "the query string": "query-string",
    "the client's address": "source-ip",
}


def known(sight: Sight) -> dict[int, dict[str, Any]]:
    """Rules of the context by priority."""
    found = [dict(o) for _, _, o in sight.objects if o.get("RuleArn")]
    return {int(rule["Priority"]): rule for rule in found}


def create(sight: Sight) -> dict[str, Any]:
    """A new rule."""
    text = sight.instruction
    front, _, rest = text.partition(": ")
    wanted, _, wish = _split(rest)
    if m := re.search(rf"({NUMBER_WORD}) behind the last", front):
        priority = max(known(sight)) + number_of(m[1])
    else:
        priority = int(k.first(front, r"at priority (\d+)") or 0)
    return {
        "ListenerArn": listener(sight, front)["ListenerArn"],
        "Conditions": conditions(wanted),
        "Priority": priority,
        "Actions": [action(sight, wish)],
    }


def _split(text: str) -> tuple[str, str, str]:
    """Which requests, and what to do with them: the wish begins with its verb."""
    m = re.search(r", (?=send |forward |let |give |split |answer |reply |redirect )", text)
    return (text[: m.start()], ", ", text[m.end() :]) if m else (text, "", "")


def one(sight: Sight) -> dict[str, Any]:
    """The rule that a request is about: by priority, place or what it looks at, else the only one."""
    text, rules = sight.instruction, known(sight)
    if stated := k.first(text, r"arn:aws:\S+:listener-rule/[\w/-]+"):
        return next(rule for rule in rules.values() if rule["RuleArn"] == stated)
    if priority := k.first(text, r"priority (\d+)"):
        return rules[int(priority)]
    if says(text, "tried first"):
        return rules[min(rules)]
    if says(text, "tried last"):
        return rules[max(rules)]
    if look := k.first(
        text, r"rule that looks at (the host name|the path|a header|the method|the query string|the client's address)"
    ):
        return next(rule for rule in rules.values() if rule["Conditions"][0]["Field"] == _LOOKS[look])
    return list(rules.values())[-1]


def modify(sight: Sight) -> dict[str, Any]:
    """Other conditions, another action, or both."""
    text = sight.instruction
    arguments = {"RuleArn": one(sight)["RuleArn"]}
    first, _, wish = text.partition("From now on, ")
    if not wish:
        first, _, wish = _split(text) if says(text, "^For all requests under") else (text, "", "")
    if found := conditions(first):
        arguments["Conditions"] = found
    if wish:
        arguments["Actions"] = [action(sight, wish)]
    return arguments


def several(sight: Sight) -> list[dict[str, Any]]:
    """The rules whose priorities a request lists."""
    rules = known(sight)
    listed = k.first(sight.instruction, r"priorit(?:y|ies) (\d[\d, and]*)") or ""
    return [rules[int(number)] for number in re.findall(r"\d+", listed)]


def priorities(sight: Sight) -> dict[str, Any]:
    """Other places: by a number to add, or to stated ones."""
    text, rules = sight.instruction, known(sight)
    if step := k.first(text, r"back by (\d+)", r"Add (\d+)"):
        moved = [(rule, int(rule["Priority"]) + int(step)) for rule in several(sight)]
    else:
        moved = [(rules[int(old)], int(new)) for old, new in re.findall(r"at priority (\d+) to (\d+)", text)]
    return {"RulePriorities": [{"RuleArn": rule["RuleArn"], "Priority": new} for rule, new in moved]}


def describe(sight: Sight) -> dict[str, Any]:
    """All of a listener, or some."""
    if says(sight.instruction, "priorit"):
        return {"RuleArns": [rule["RuleArn"] for rule in several(sight)]}
    arguments: dict[str, Any] = {"ListenerArn": listener(sight)["ListenerArn"]}
    if size := k.first(sight.instruction, r"(\d+) at a time", r"pages of (\d+)"):
        arguments["PageSize"] = int(size)
    return arguments


RULES = {
    "elbv2:CreateRule": create,
    "elbv2:ModifyRule": modify,
    "elbv2:SetRulePriorities": priorities,
    "elbv2:DeleteRule": lambda sight: {"RuleArn": one(sight)["RuleArn"]},
    "elbv2:DescribeRules": describe,
}
