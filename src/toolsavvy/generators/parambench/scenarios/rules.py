"""Stories that end in a call on rules of listeners, which say what happens with which requests."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios.actions import UNORDERED, Match, action, matches
from toolsavvy.generators.parambench.scenarios.builders import STATED
from toolsavvy.generators.parambench.scenarios.listeners import place, port_of, the
from toolsavvy.generators.parambench.scenarios.words import chance, listed, number_word, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program


def _requests(found: list[Match]) -> str:
    """Requests that fulfil some conditions: "requests for the host a.example.com and from clients in 10.1.2.0/24"."""
    return f"requests {' and '.join(match.words for match in found)}"


def _standing(scene: Scene, count: int) -> tuple[dict[str, Any], dict[str, str], str, list[dict[str, Any]]]:
    """A listener with some rules: its load balancer, target groups, arn, and the rules in the order of creation."""
    balancer, groups, arns = place(scene)
    priorities = scene.rng.sample(range(1, 200), count)
    rules = []
    for priority in priorities:
        output = scene.do(
            "elbv2:CreateRule",
            ListenerArn=arns[0],
            Priority=priority,
            Conditions=[match.value for match in matches(scene, 1)],
            Actions=[action(scene, groups, ("forward", "answer")).value],
        )
        rules.append({**output["Rules"][0], "Priority": priority})
    return balancer, groups, arns[0], rules


@program("elbv2:CreateRule")
def create(scene: Scene) -> Goal:
    """A new rule with one to three conditions, at a stated priority or behind the rules that there are."""
    count = scene.rng.choice((0, 0, 1, 2))
    balancer, groups, arn, rules = _standing(scene, count)
    found = matches(scene, scene.rng.choice((1, 1, 2, 3)))
    wish = action(scene, groups)
    highest = max((rule["Priority"] for rule in rules), default=0)
    if rules and chance(scene, 0.6):
        step = scene.rng.choice((1, 5, 10))
        priority = highest + step
        where = f"{number_word(step)} behind the last rule's priority"
    else:
        priority = highest + scene.rng.randrange(1, 500)
        where = f"at priority {priority}"
    who = the(scene, balancer, port_of(scene, arn), True)
    words = say(
        scene,
        f"Add a rule to {who}, {where}: for {_requests(found)}, {wish.words}",
        f"On {who} there should be a rule {where}: given {_requests(found)}, {wish.words}",
    )
    arguments = {
        "ListenerArn": arn,
        "Conditions": [match.value for match in found],
        "Priority": priority,
        "Actions": [wish.value],
    }
    return Goal(arguments, (sentence(words),), len(found) + wish.conditions, UNORDERED)


@program("elbv2:ModifyRule")
def modify(scene: Scene) -> Goal:
    """Other conditions, another action, or both, for one of the rules."""
    _, groups, _, rules = _standing(scene, scene.rng.choice((1, 2)))
    rule = scene.rng.choice(rules)
    who = _rule(scene, rule, len(rules) == 1)
    way = scene.rng.choice(("conditions", "action", "both"))
    arguments: dict[str, Any] = {"RuleArn": rule["RuleArn"]}
    sentences, conditions = [], 0
    if way != "action":
        found = matches(scene, scene.rng.choice((1, 2)))
        arguments["Conditions"], conditions = [match.value for match in found], len(found)
        sentences.append(
            sentence(say(scene, f"Let {who} apply to {_requests(found)}", f"{who} should cover {_requests(found)}"))
        )
    if way != "conditions":
        wish = action(scene, groups)
        arguments["Actions"] = [wish.value]
        conditions += wish.conditions
        start = "From now on" if sentences else f"For all requests under {who}"
        sentences.append(sentence(f"{start}, {wish.words}"))
    return Goal(arguments, tuple(sentences), conditions, UNORDERED)


def _rule(scene: Scene, rule: dict[str, Any], alone: bool, stated: bool = False) -> str:
    if stated and chance(scene, STATED):
        return f"the rule {rule['RuleArn']}"
    ways = [f"the rule at priority {rule['Priority']}", f"the rule with priority {rule['Priority']}"]
    return say(scene, *ways, *(["the rule created above", "that rule"] if alone else []))


@program("elbv2:SetRulePriorities")
def priorities(scene: Scene) -> Goal:
    """Some rules move to other places."""
    *_, rules = _standing(scene, scene.rng.choice((2, 3)))
    picks = scene.rng.sample(rules, scene.rng.choice((1, 2)))
    used = {rule["Priority"] for rule in rules}
    free = [number for number in range(1, 300) if number not in used]
    if chance(scene, 0.4):
        step = scene.rng.randrange(200, 400)
        moved = [(rule, rule["Priority"] + step) for rule in picks]
        said = listed([str(rule["Priority"]) for rule in picks])
        noun = "rule at priority" if len(picks) == 1 else "rules at priorities"
        words = say(
            scene, f"Push the {noun} {said} back by {step}.", f"Add {step} to the priority of the {noun} {said}."
        )
    else:
        moved = list(zip(picks, scene.rng.sample(free, len(picks)), strict=True))
        said = listed([f"the rule at priority {rule['Priority']} to {new}" for rule, new in moved])
        words = say(scene, f"Move {said}.", f"Reorder the rules: bring {said}.")
    arguments = {"RulePriorities": [{"RuleArn": rule["RuleArn"], "Priority": new} for rule, new in moved]}
    return Goal(arguments, (words,), unordered=("RulePriorities",))


@program("elbv2:DeleteRule")
def delete(scene: Scene) -> Goal:
    """One of the rules goes: by its priority, by its place, or by what it covers."""
    *_, rules = _standing(scene, scene.rng.choice((1, 2, 3)))
    rule = scene.rng.choice(rules)
    field = rule["Conditions"][0]["Field"]
    alike = [other for other in rules if other["Conditions"][0]["Field"] == field]
    kinds = {
        "host-header": "looks at the host name",
        "path-pattern": "looks at the path",
        "http-header": "looks at a header",
        "http-request-method": "looks at the method",
        "query-string": "looks at the query string",
        "source-ip": "looks at the client's address",
    }
    order = sorted(rules, key=lambda one: one["Priority"])
    if len(alike) == 1 and chance(scene, 0.4):
        who = f"the rule that {kinds[field]}"
    elif len(rules) > 1 and rule in (order[0], order[-1]) and chance(scene, 0.5):
        who = "the rule that is tried first" if rule is order[0] else "the rule that is tried last"
    else:
        who = _rule(scene, rule, len(rules) == 1, stated=True)
    words = say(scene, f"Remove {who}.", f"Drop {who}, it is obsolete.", f"We no longer need {who}; delete it.")
    return Goal({"RuleArn": rule["RuleArn"]}, (words,))


@program("elbv2:DescribeRules")
def describe(scene: Scene) -> Goal:
    """All rules of a listener, or some of them."""
    if chance(scene, 0.5):
        balancer, _, arns = place(scene, ports=scene.rng.choice((1, 2)))
        arn = scene.rng.choice(arns)
        who = the(scene, balancer, port_of(scene, arn), len(arns) == 1, arn)
        if chance(scene, 0.5):
            size = scene.rng.randrange(2, 100)
            words = say(scene, f"List the rules of {who}, {size} at a time.", f"Show {who}'s rules in pages of {size}.")
            return Goal({"ListenerArn": arn, "PageSize": size}, (sentence(words),))
        words = say(scene, f"List the rules of {who}.", f"By which rules does {who} decide?")
        return Goal({"ListenerArn": arn}, (words,))
    *_, rules = _standing(scene, scene.rng.choice((2, 3)))
    picks = scene.rng.sample(rules, scene.rng.choice((1, 2)))
    said = listed([str(rule["Priority"]) for rule in picks])
    noun = "rule at priority" if len(picks) == 1 else "rules at priorities"
    words = say(
        scene,
        f"Show only the {noun} {said}.",
        f"What exactly do the {noun} {said} say?" if len(picks) > 1 else f"What exactly does the {noun} {said} say?",
    )
    return Goal({"RuleArns": [rule["RuleArn"] for rule in picks]}, (words,), unordered=("RuleArns",))
