"""How stories speak of things: by name, by id or by role; and what new things are to be called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.generators.parambench.scenarios.words import TEAMS, chance, listed, name, named, number_word, say
from toolsavvy.generators.parambench.scene import Scene

TAGS = ("TagSpecifications.*.Tags",)
"""The order of tags means nothing."""
MORE: Mapping[str, Sequence[str]] = {
    "team": TEAMS,
    "env": ("prod", "dev", "test", "staging"),
    "owner": ("netops", "sre", "cloud-team", "infosec", "helpdesk"),
    "cost-center": ("1042", "2310", "3375", "4711", "5208", "6640", "7019", "8123"),
    "tier": ("gold", "silver", "bronze"),
}
"""Tags beside the name, and what they may be."""


@dataclass(frozen=True)
class Labels:
    """Tags of a new thing.

    Args:
        arguments: `TagSpecifications`, or nothing.
        sentences: that ask for them.
        name: its Name tag, "" without.
    """

    arguments: dict[str, Any]
    sentences: tuple[str, ...] = ()
    name: str = ""


def labels(scene: Scene, kind: str, share: float = 0.6) -> Labels:
    """Draw the tags of a new thing: none, a name, or a name and others.

    Args:
        scene: the story.
        kind: resource type as the API has it ("elastic-ip").
        share: of the stories that ask for a name.
    """
    if not chance(scene, share):
        return Labels({})
    label = name(scene)
    pairs = [("Name", label)]
    first = say(
        scene, f"Name it {label}.", f"Call it {label}.", f"Its name is to be {label}.", f"Give it the name {label}."
    )
    if not chance(scene, 0.4):
        return Labels({"TagSpecifications": specification(kind, pairs)}, (first,), label)
    more = [(k, scene.rng.choice(MORE[k])) for k in scene.rng.sample(sorted(MORE), scene.rng.choice([1, 1, 2]))]
    words = listed([f"{k}={v}" for k, v in more])
    second = say(scene, f"Also tag it {words}.", f"It needs {words} as tags, too.", f"Add {words} as tags.")
    return Labels({"TagSpecifications": specification(kind, pairs + more)}, (first, second), label)


def specification(kind: str, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Tags of a new thing as the API takes them."""
    return [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in pairs]}]


def refer(scene: Scene, noun: str, label: str, identifier: str = "", *, alone: bool = False) -> str:
    """Speak of a thing of the context.

    Args:
        scene: the story.
        noun: what it is: "subnet".
        label: its Name tag.
        identifier: its id, said instead of the name in some stories.
        alone: it is the only one of its kind in the context, so that "that subnet" will do.
    """
    draw = scene.rng.random()
    if identifier and draw < 0.25:
        return f"{noun} {identifier}"
    if alone and draw < 0.5:
        return say(scene, f"that {noun}", f"the {noun} from above", f"the {noun} we just looked at")
    return named(scene, noun, label)


def refer_all(scene: Scene, noun: str, labels_: Sequence[str]) -> str:
    """Speak of several things of one kind by their names."""
    if len(labels_) == 1:
        return f"the {noun} {labels_[0]}"
    return f"the {noun}s {listed(labels_)}"


def directory(scene: Scene, kind: str) -> None:
    """Show the names and ids of everything of a resource type in one short result."""
    scene.do(
        "ec2:DescribeTags", Filters=[{"Name": "resource-type", "Values": [kind]}, {"Name": "key", "Values": ["Name"]}]
    )


def count(scene: Scene, number: int) -> str:
    """A small number in digits or words."""
    return say(scene, str(number), number_word(number))


def shuffled(scene: Scene, items: Sequence[Any]) -> list[Any]:
    """The items in a drawn order."""
    return scene.rng.sample(list(items), len(items))
