"""The set as a whole: even, divided by operation, no repeats, the same bytes by seed; its audit sees what is bad."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolsavvy.catalog import Tool
from toolsavvy.errors import UserError
from toolsavvy.generators.parambench import building, cached
from toolsavvy.generators.parambench.audit import audit, guess
from toolsavvy.generators.parambench.building import Built, Settings, build, choose, masked
from toolsavvy.generators.parambench.cards import card, instance, sampled, tables
from toolsavvy.generators.parambench.dividing import SHARES, Profile, split_operations
from toolsavvy.generators.parambench.leaks import context_words, leaked, origin
from toolsavvy.generators.parambench.playing import Refused, play
from toolsavvy.generators.parambench.scene import Goal, Program, Scene
from toolsavvy.tasks import LEVELS, ParamTask, Reference, Upstream

TEXT = {"type": "string"}
TOOLS = {
    name: Tool(name, name, parameters={"type": "object", "properties": dict.fromkeys(fields, TEXT)})
    for name, fields in {
        "ec2:CreateVpc": ("CidrBlock", "InstanceTenancy"),
        "ec2:CreateSubnet": ("VpcId", "CidrBlock"),
        "ec2:DeleteVpc": ("VpcId",),
        "route53:CreateHostedZone": ("Name", "CallerReference"),
    }.items()
}


def vpc(scene: Scene) -> Goal:
    block = f"10.{scene.rng.randrange(200)}.0.0/16"
    return Goal({"CidrBlock": block}, (f"We need a network for {block}.",))


def subnet(scene: Scene) -> Goal:
    made = scene.do("ec2:CreateVpc", CidrBlock=f"10.{scene.rng.randrange(200)}.0.0/16")["Vpc"]
    block = made["CidrBlock"].replace(".0.0/16", f".{scene.rng.randrange(200)}.0/24")
    said = (f"Cut {block} out of the network above.",)
    return Goal({"VpcId": made["VpcId"], "CidrBlock": block}, said, conditions=scene.rng.randrange(3))


def gone(scene: Scene) -> Goal:
    made = scene.do("ec2:CreateVpc", CidrBlock=f"10.{scene.rng.randrange(200)}.0.0/16")["Vpc"]
    return Goal({"VpcId": made["VpcId"]}, (f"Take {made['VpcId']} down; {scene.rng.randrange(999)} asked for it.",))


def zone(scene: Scene) -> Goal:
    name = f"site-{scene.rng.randrange(999)}.example.org"
    return Goal({"Name": name, "CallerReference": name}, (f"Host {name}.",))


def refused(scene: Scene) -> Goal:
    return Goal({"CidrBlock": "10.0.0.0/2"}, ("A network that is far too large.",))


def broken(scene: Scene) -> Goal:
    raise KeyError("no such piece")


TOYS: dict[str, list[Program]] = dict(zip(sorted(TOOLS), ([subnet], [vpc], [gone], [zone]), strict=True))


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Program]]:
    kept = {name: list(own) for name, own in TOYS.items()}
    monkeypatch.setattr(building, "programs", lambda operations=(): kept)
    return kept


@pytest.fixture
def made(toys: dict[str, list[Program]]) -> Built:
    return build(Settings(n=40, seed=3), TOOLS)


def test_operations_and_numbers_are_even(made: Built) -> None:
    counts = Counter(task.reference.name for task in made.tasks)
    assert set(counts) == set(TOOLS)
    assert set(counts.values()) == {10}
    assert len({masked(task.instruction) for task in made.tasks}) == 40
    assert [t.id for t in made.tasks[:2]] == ["ec2:CreateSubnet/01", "ec2:CreateSubnet/02"]


def test_every_story_has_an_account_of_its_own(made: Built) -> None:
    assert len({task.facts["world"] for task in made.tasks}) == 40
    vpcs = [t.reference.arguments["VpcId"] for t in made.tasks if "VpcId" in t.reference.arguments]
    assert len(set(vpcs)) == len(vpcs)
    assert all(task.facts["output"] for task in made.tasks if task.reference.name == "ec2:CreateVpc")


def test_the_seed_makes_the_set(toys: dict[str, list[Program]]) -> None:
    one, same, other = (build(Settings(n=8, seed=seed), TOOLS).tasks for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_call_that_the_cloud_refuses_makes_no_task(toys: dict[str, list[Program]]) -> None:
    toys["ec2:CreateVpc"].append(refused)
    made = build(Settings(n=8), TOOLS)
    assert made.counts["refused"] > 0
    assert "InvalidVpc.Range" in next(iter(made.refused.values()))
    assert all("too large" not in task.instruction for task in made.tasks)
    assert isinstance(play("ec2:CreateVpc", refused, 1, TOOLS["ec2:CreateVpc"]), Refused)


def test_a_program_that_fails_is_named(toys: dict[str, list[Program]]) -> None:
    toys["ec2:CreateVpc"][:] = [broken]
    with pytest.raises(RuntimeError, match=r"ec2:CreateVpc: .*broken failed at seed \d+: KeyError"):
        build(Settings(n=8), TOOLS)


def test_too_few_stories_are_an_error(toys: dict[str, list[Program]]) -> None:
    def always(scene: Scene) -> Goal:
        return Goal({"CidrBlock": "10.0.0.0/16"}, ("The same again.",))

    only: dict[str, list[Program]] = {"ec2:CreateVpc": [always]}
    toys.clear()
    toys.update(only)
    with pytest.raises(UserError, match="1 different stories"):
        build(Settings(n=5), TOOLS)
    with pytest.raises(UserError, match="at least 1"):
        build(Settings(n=0), TOOLS)


def test_an_operation_without_stories_is_named() -> None:
    with pytest.raises(UserError, match="ec2:CreateVcp") as found:
        building.programs(["ec2:CreateVcp"])
    assert "ec2:CreateVpc" in found.value.fix


def test_levels_are_evened_out() -> None:
    plain = ParamTask("", "", (), (Reference("x", {}),))
    pools = {
        name: [replace(plain, id=f"{name}{i}", level=level) for i, level in enumerate(["L1"] * 30 + list(LEVELS) * 4)]
        for name in "abcd"
    }
    counts = Counter(task.level for task in choose(pools, 60, 0))
    assert min(counts.values()) >= 10


def test_operations_do_not_cross_and_every_level_and_service_is_tested() -> None:
    found = {
        f"{service}:Op{i}": Profile(service, {LEVELS[i % 5]: 10, LEVELS[(i + 1) % 5]: 2})
        for service, n in (("ec2", 50), ("elbv2", 12), ("route53", 3))
        for i in range(n)
    }
    splits = split_operations(found, 0)
    counts = Counter(splits.values())
    for split, share in SHARES.items():
        assert abs(counts[split] / len(found) - share) < 0.05
    tested = [name for name, split in splits.items() if split == "test"]
    assert {found[name].service for name in tested} == {"ec2", "elbv2", "route53"}
    assert {level for name in tested for level in found[name].levels} == set(LEVELS)
    assert splits == split_operations(found, 0)
    assert splits != split_operations(found, 1)


def one(text: str, arguments: dict[str, Any], output: Any = None, name: str = "ec2:CreateSubnet") -> ParamTask:
    upstream = () if output is None else (Upstream("ec2:CreateVpc", {}, output),)
    return ParamTask(text, text, (TOOLS[name],), (Reference(name, arguments),), upstream, level="L1", split="test")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Set CidrBlock to 10.0.0.0/16.", ["CidrBlock"]),
        ("Set cidr-block to that.", ["cidr-block"]),
        ("Please CreateSubnet now.", ["CreateSubnet"]),
        ("Use vpc_id vpc-0123456789abcdef0.", ["vpc_id"]),
        ("Create a subnet with the block 10.0.0.0/24 in the VPC core-vpc-id-2.", []),
    ],
)
def test_leaks_are_the_apis_own_words(text: str, names: list[str]) -> None:
    assert leaked(one(text, {})) == names


def test_values_are_stated_upstream_or_implied() -> None:
    task = one("Cut 10.0.1.0/24 for HTTPS, port 80.", {}, {"Vpc": {"VpcId": "vpc-0123456789abcdef0"}})
    words = context_words(task)
    assert [origin(v, task, words) for v in ("10.0.1.0/24", 80, "vpc-0123456789abcdef0", 443, 0, True)] == [
        "stated", "stated", "upstream", "derived", "derived", "derived",
    ]  # fmt: skip


def test_the_guesser_answers_what_most_others_say() -> None:
    same = [one(str(i), {"VpcId": "a"}) for i in range(5)]
    assert guess(same) == {"exact": 1.0, "fields": 1.0}
    different = [one(str(i), {"VpcId": str(i)}) for i in range(5)]
    assert guess(different) == {"exact": 0.0, "fields": 0.0}


def test_the_audit_sees_what_is_bad() -> None:
    good = [one(f"number {i}", {"VpcId": str(i)}) for i in range(3)]
    bad = [*good, replace(good[0], id="again"), replace(one("VpcId please", {"VpcId": "7"}), split="train")]
    found = audit(bad)
    assert found.duplicates == 1
    assert found.crossing == ("ec2:CreateSubnet",)
    assert found.leaks == {"VpcId please": ["VpcId"]}
    assert found.oracle == 0
    failures = " | ".join(found.failures())
    for part in ("oracle derives 0.0%", "1 duplicates", "several splits", "API names in 1", "below 8%: L2, L3, L4, L5"):
        assert part in failures


def test_a_sound_set_passes_its_audit_and_is_shown(made: Built) -> None:
    found = audit(made.tasks)
    assert (found.duplicates, found.crossing, dict(found.leaks), found.violating) == (0, (), {}, ())
    assert json.loads(json.dumps(found.as_json()))["instances"] == 40
    text = card("toy", found, {"seed": 3}, {"moto": "5"})
    assert "level = L1 at 0 points" in text
    assert "| ec2:CreateSubnet |" in text
    assert {table.title for table in tables(found, made.counts)} >= {"levels", "audit"}
    shown = sampled(made.tasks, 4, 0)
    assert len(shown) == 4
    task = next(t for t in made.tasks if t.upstream)
    for part in (task.instruction[:20], "ec2:CreateVpc(", "right:", str(next(iter(task.reference.arguments)))):
        assert part in instance(task)


def test_the_cache_is_used_again_and_a_build_cut_off_leaves_none(
    toys: dict[str, list[Program]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    monkeypatch.setattr(cached, "operations_as_tools", lambda: TOOLS)
    played = Counter[str]()

    def counted(original: Callable[..., Built]) -> Callable[..., Built]:
        def inner(*args: Any) -> Built:
            played["builds"] += 1
            if played["builds"] == 1:
                raise KeyboardInterrupt
            return original(*args)

        return inner

    monkeypatch.setattr(cached, "build", counted(build))
    with pytest.raises(KeyboardInterrupt):
        cached.load(n=8)
    assert not list(tmp_path.rglob("tasks.jsonl"))
    first, again = cached.load(n=8), cached.load(n=8)
    assert played["builds"] == 2
    assert first.tasks == again.tasks
    assert len(cached.load(n=8, distractors=False).catalog) == 4


def test_without_moto_the_fix_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "moto", None)
    with pytest.raises(UserError, match="not installed") as found:
        cached.load(n=8)
    assert found.value.fix == "pip install 'toolsavvy[cloud]'"


SCRIPT = """
from toolsavvy.generators.parambench.building import Settings, build
from toolsavvy.generators.parambench.cached import operations_as_tools
from toolsavvy.catalogs.parambench import as_row
import json
names = ("ec2:CreateSubnet", "ec2:CreateVpc", "elbv2:CreateListener")
for task in build(Settings(n=9, operations=names), operations_as_tools()).tasks:
    print(json.dumps(as_row(task)))
"""


def test_real_stories_are_the_same_bytes_in_any_process() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == 9
