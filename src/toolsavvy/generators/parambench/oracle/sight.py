"""What the oracle sees of a task, schema, instruction and context, and how it looks things up there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolsavvy.catalog import Tool
from toolsavvy.tasks import ParamTask, Upstream

Path = tuple[str | int, ...]
ID = re.compile(r"\b(?P<kind>[a-z]+(?:-[a-z]+)*)-[0-9a-f]{8,17}\b")
"""An id as EC2 makes them: `vpc-0a1b…`, `tgw-attach-0a1b…`; what stands before the digits is its kind."""
_ARN = re.compile(r"arn:aws:elasticloadbalancing:[a-z0-9-]*:\d*:(?P<kind>[a-z-]+)[/:][^\s\"',]+")
_ZONE = re.compile(r"/(?P<kind>hostedzone|healthcheck|delegationset)/[A-Z0-9a-z-]+")


@dataclass(frozen=True)
class Held:
    """One value of the context.

    Args:
        call: position of the call.
        side: "output" or "arguments".
        path: where it is in there.
        value: a scalar.
    """

    call: int
    side: str
    path: Path
    value: Any

    @property
    def key(self) -> str:
        """The last name on its path."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), "")


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value in there with its path, containers before what is in them."""
    yield path, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from walk(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from walk(inner, (*path, i))


def at(value: Any, *path: str | int) -> Any:
    """The value below a path, None where there is none; `at(output, "Vpc", "VpcId")`."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def kind_of(identifier: Any) -> str:
    """Kind of a resource id: "vpc" of "vpc-0a1b…", "loadbalancer" of its arn, "hostedzone", "" of anything else."""
    if not isinstance(identifier, str):
        return ""
    found = ID.fullmatch(identifier) or _ARN.fullmatch(identifier) or _ZONE.fullmatch(identifier)
    return found["kind"] if found else ""


def name_of(item: Any) -> str:
    """Value of an object's Name tag ("Tags" or "TagSet"), or its own name where the API has one; "" without."""
    if not isinstance(item, Mapping):
        return ""
    for tags in (item.get("Tags"), item.get("TagSet")):
        for tag in tags or ():
            if isinstance(tag, Mapping) and tag.get("Key") == "Name":
                return str(tag.get("Value"))
    return next((str(item[key]) for key in _NAMES if isinstance(item.get(key), str)), "")


_NAMES = ("LoadBalancerName", "TargetGroupName", "GroupName", "LaunchTemplateName", "PrefixListName", "KeyName", "Name")
"""What APIs call a resource's own name, for those that have one beside or instead of tags."""


def is_same_name(one: str, other: str) -> bool:
    """Names are compared without case, quotes and what closes a sentence."""
    return one.strip(" '\"`.,;:").casefold() == other.strip(" '\"`.,;:").casefold()


@dataclass(frozen=True)
class Sight:
    """A task as the model sees it: never its goal, its program or its draws.

    Args:
        tool: with its schema; `tool.name` is "ec2:CreateVpc".
        instruction: what a person asks for.
        context: earlier calls with their results, in order.
    """

    tool: Tool
    instruction: str
    context: tuple[Upstream, ...] = ()

    @classmethod
    def of(cls, task: ParamTask) -> Sight:
        """What a solver of the task may see."""
        return cls(task.tool, task.instruction, task.upstream)

    @property
    def fields(self) -> Mapping[str, Any]:
        """Schemas of the tool's arguments, by name."""
        return self.tool.parameters.get("properties", {})

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the arguments that can't be left out."""
        return tuple(self.tool.parameters.get("required", ()))

    def calls(self, *operations: str) -> list[Upstream]:
        """Earlier calls of these operations ("ec2:CreateVpc" or "CreateVpc"), in order; all without a name."""
        return [c for c in self.context if not operations or {c.name, c.name.partition(":")[2]} & set(operations)]

    def last(self, *operations: str) -> Upstream | None:
        """The latest such call."""
        return next(iter(reversed(self.calls(*operations))), None)

    def output(self, operation: str, *path: str | int) -> Any:
        """A value in the latest result of an operation: `output("CreateVpc", "Vpc", "VpcId")`; None without."""
        call = self.last(operation)
        return None if call is None else at(call.output, *path)

    @cached_property
    def values(self) -> tuple[Held, ...]:
        """Every scalar of the context, results and arguments, in the order of the calls (arguments first)."""
        found = []
        for i, call in enumerate(self.context):
            for side, root in (("arguments", call.arguments), ("output", call.output)):
                found += [Held(i, side, p, v) for p, v in walk(root) if not isinstance(v, Mapping | list | tuple)]
        return tuple(found)

    def under(self, key: str, *, side: str = "output") -> list[Any]:
        """Every scalar with this last name on its path, in order, repeats dropped: `under("CidrBlock")`."""
        return list(dict.fromkeys(held.value for held in self.values if held.key == key and held.side == side))

    @cached_property
    def ids(self) -> dict[str, str]:
        """Every id in the context -> its kind, in order of first sight; `kind_of` says what counts."""
        found: dict[str, str] = {}
        for held in self.values:
            if kind := kind_of(held.value):
                found.setdefault(held.value, kind)
        return found

    def of_kind(self, kind: str) -> list[str]:
        """Ids of a kind ("vpc", "rtb", "eipalloc", "targetgroup", "hostedzone", …), in order of first sight."""
        return [identifier for identifier, own in self.ids.items() if own == kind]

    def newest(self, kind: str) -> str | None:
        """The id of a kind that was seen first last: of the resource that was created last."""
        return next(iter(reversed(self.of_kind(kind))), None)

    def only(self, kind: str) -> str | None:
        """The id of a kind where there is just one."""
        found = self.of_kind(kind)
        return found[0] if len(found) == 1 else None

    def stated(self, kind: str) -> list[str]:
        """Ids of a kind that the instruction itself says, in order."""
        return [found[0] for found in ID.finditer(self.instruction) if found["kind"] == kind]

    @cached_property
    def objects(self) -> tuple[tuple[int, Path, Mapping[str, Any]], ...]:
        """Every object in the results: (position of the call, path, object)."""
        return tuple(
            (i, path, value)
            for i, call in enumerate(self.context)
            for path, value in walk(call.output)
            if isinstance(value, Mapping)
        )

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """Name -> ids of the resources that are called so.

        A name is a Name tag in a result, in the arguments of the call that made the resource, or set by a later
        CreateTags.
        """
        found: dict[str, list[str]] = {}
        for _, _, item in self.objects:
            if (name := name_of(item)) and (own := own_id(item)):
                found.setdefault(name, []).append(own)
        for call in self.context:
            for name, identifiers in _named_by_arguments(call).items():
                found.setdefault(name, []).extend(identifiers)
        return {name: list(dict.fromkeys(own)) for name, own in found.items()}

    def called(self, name: str, kind: str = "") -> str | None:
        """Id of the resource with this name, of this kind if one is given; the latest where several share it."""
        for own, identifiers in reversed(self.names.items()):
            right = [i for i in identifiers if not kind or kind_of(i) == kind]
            if right and is_same_name(own, name):
                return right[-1]
        return None

    def mentioned(self, kind: str = "") -> list[str]:
        """Ids of the resources that the instruction calls by name, in the order of the mentions, longest name first."""
        text, found = self.instruction, []
        for name in sorted(self.names, key=len, reverse=True):
            if (own := self.called(name, kind)) is None:
                continue
            pattern = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
            found += [(match.start(), own) for match in re.finditer(pattern, text)]
            text = re.sub(pattern, lambda match: "\0" * len(match[0]), text)
        return list(dict.fromkeys(own for _, own in sorted(found)))

    def object(self, identifier: str) -> Mapping[str, Any]:
        """The latest object in a result whose own id this is: what the cloud last said of the resource; {} without."""
        found = [item for _, _, item in self.objects if own_id(item) == identifier]
        return found[-1] if found else {}

    def listed(self, key: str) -> list[Mapping[str, Any]]:
        """The objects in the latest list of this name in a result: `listed("Subnets")`; [] without."""
        for call in reversed(self.context):
            for path, value in walk(call.output):
                if path and path[-1] == key and isinstance(value, list):
                    return [item for item in value if isinstance(item, Mapping)]
        return []


def own_id(item: Mapping[str, Any]) -> str:
    """The id of the resource that an object describes, "" where that is unclear.

    EC2 names it after the resource, and others beside it that the resource belongs to (a subnet has a VpcId too): the
    kind that is most a part's wins.
    """
    best, rank = "", len(_PARTS)
    for value in item.values():
        kind = kind_of(value)
        if kind and (own := _PARTS.index(kind) if kind in _PARTS else -1) < rank:
            best, rank = value, own
    return best


_PARTS = ("eipalloc", "eipassoc", "rtbassoc", "aclassoc", "i", "eni", "nat", "rtb", "acl", "sg", "listener-rule",
          "listener", "loadbalancer", "targetgroup", "vpn", "tgw-attach", "tgw-rtb", "tgw", "snap", "vol", "vgw", "cgw",
          "igw", "subnet", "vpc", "dopt", "ami", "pl")  # fmt: skip
"""From what points at others to what is only pointed at: an object's id is of the earliest kind here, or not here."""


def _named_by_arguments(call: Upstream) -> dict[str, list[str]]:
    """Names that a call's arguments give: its tags with the id that came back, or CreateTags with its resources."""
    tags = call.arguments.get("Tags") or ()
    if call.name.endswith(":CreateTags"):
        names = [str(t.get("Value")) for t in tags if isinstance(t, Mapping) and t.get("Key") == "Name"]
        return {name: [str(i) for i in call.arguments.get("Resources", ())] for name in names}
    found: dict[str, list[str]] = {}
    for specification in call.arguments.get("TagSpecifications") or ():
        name = name_of(specification)
        for _, value in walk(call.output):
            if name and isinstance(value, Mapping) and (own := own_id(value)):
                found.setdefault(name, []).append(own)
                break
    return found
