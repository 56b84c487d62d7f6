"""Stories that end in a managed prefix list: made, changed, taken down."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import nets
from toolsavvy.generators.parambench.scenarios.pieces import Vpc, extra, naming, pick, refer, vpcs
from toolsavvy.generators.parambench.scenarios.traffic import NOTES
from toolsavvy.generators.parambench.scenarios.words import chance, listed, name, names, number_word, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

UNORDERED = ("Entries", "AddEntries", "RemoveEntries", "TagSpecifications.*.Tags")


def _entries(scene: Scene, count: int, six: bool = False, notes: float = 0.5) -> list[dict[str, str]]:
    found = []
    fours = nets.several(scene.rng, count, scene.rng.choice((16, 20, 24)))
    for i, four in enumerate(fours):
        cidr = f"2001:db8:{scene.rng.randrange(16**3, 16**4):x}:{i + 1}::/64" if six else four
        found.append({"Cidr": cidr} | ({"Description": scene.rng.choice(NOTES)} if chance(scene, notes) else {}))
    return found


def _said(entries: list[dict[str, str]]) -> str:
    return listed([e["Cidr"] + (f' ("{e["Description"]}")' if "Description" in e else "") for e in entries])


@program("ec2:CreateManagedPrefixList")
def created(scene: Scene) -> Goal:
    """A name, how many entries it may hold, and entries: stated, or the ranges of VPCs."""
    label = name(scene, "sites")
    arguments: dict[str, Any] = {"PrefixListName": label}
    six = chance(scene, 0.25)
    if not six and chance(scene, 0.35):
        found: list[Vpc] = vpcs(scene, scene.rng.choice((1, 2)))
        entries = [{"Cidr": vpc.cidr} for vpc in found]
        whose = listed([refer(scene, "VPC", vpc.id, vpc.label) for vpc in found])
        content = say(
            scene, f"the range of {whose}", f"what {whose} spans" if len(found) == 1 else f"ranges of {whose}"
        )
    else:
        entries = _entries(scene, scene.rng.choice((0, 1, 2, 3)), six)
        content = _said(entries) if entries else ""
    most = scene.rng.choice((5, 8, 10, 12, 15, 20, 25, 30, 40, 50))
    family = "IPv6" if six else "IPv4"
    room = say(scene, f"room for {most} entries", f"at most {number_word(most)} entries")
    said = [say(scene, f"Create the {family} prefix list {label} with {room}.",
                f"We need a prefix list {label} for {family}, {room}.")]  # fmt: skip
    if entries:
        arguments["Entries"] = entries
        said.append(say(scene, f"It starts with {content}.", f"Put {content} on it.", f"Its content: {content}."))
    arguments |= {"MaxEntries": most, "AddressFamily": family}
    if chance(scene, 0.25):
        tags = naming(scene, "prefix-list", "x", 1, 1).arguments["TagSpecifications"]
        tags[0]["Tags"] = tags[0]["Tags"][1:]
        arguments["TagSpecifications"] = tags
        pairs = listed([f"{tag['Key']}={tag['Value']}" for tag in tags[0]["Tags"]])
        said.append(f"Tag it {pairs}.")
    return Goal(arguments, tuple(said), unordered=UNORDERED)


def lists(scene: Scene, count: int, listing: float = 0.3) -> list[tuple[str, str, list[dict[str, str]]]]:
    """Prefix lists, (id, name, entries) each; the model sees how each is made, or a list of them."""
    shown = not chance(scene, listing)
    found = []
    for label in names(scene, count, "sites"):
        entries = _entries(scene, scene.rng.choice((1, 2, 3)), notes=0.4)
        output = (scene.do if shown else scene.hidden)(
            "ec2:CreateManagedPrefixList",
            PrefixListName=label,
            Entries=entries,
            MaxEntries=20,
            AddressFamily="IPv4",
        )
        found.append((output["PrefixList"]["PrefixListId"], label, entries))
    if not shown:
        scene.do("ec2:DescribeManagedPrefixLists", PrefixListIds=[own for own, _, _ in found])
    return found


@program("ec2:ModifyManagedPrefixList")
def changed(scene: Scene) -> Goal:
    """Entries come, go, or both; or it is renamed. A change names the version that it starts from."""
    target, label, entries = pick(scene, lists(scene, 1 + (extra(scene) and 1)))
    version = 1
    while chance(scene, 0.45) and version < 5:
        more = _entries(scene, 1)
        scene.do("ec2:ModifyManagedPrefixList", PrefixListId=target, CurrentVersion=version, AddEntries=more)
        version += 1
    it = refer(scene, "prefix list", target, label)
    arguments: dict[str, Any] = {"PrefixListId": target, "CurrentVersion": version}
    said = []
    how = scene.rng.choice(("add", "add", "remove", "both", "rename"))
    if how in ("add", "both"):
        arguments["AddEntries"] = new = _entries(scene, scene.rng.choice((1, 2, 3)))
        said.append(say(scene, f"Add {_said(new)} to {it}.", f"{it} also has to cover {_said(new)}."))
    if how in ("remove", "both"):
        gone = pick(scene, entries)
        arguments["RemoveEntries"] = [{"Cidr": gone["Cidr"]}]
        where = "it" if said else it
        said.append(say(scene, f"Take {gone['Cidr']} off {where}.", f"Remove {gone['Cidr']} from {where}."))
    if how == "rename":
        new_name = name(scene, "ranges")
        arguments["PrefixListName"] = new_name
        said.append(say(scene, f"Rename {it} to {new_name}.", f"{it} should be called {new_name} from now on."))
    said.append(
        say(
            scene,
            "Base the change on its present version.",
            "Make sure that the change applies to the version that is current now.",
        )
    )
    return Goal(arguments, tuple(map(sentence, said)), unordered=UNORDERED)


@program("ec2:DeleteManagedPrefixList")
def deleted(scene: Scene) -> Goal:
    """By name, id, or a range that it holds."""
    found = lists(scene, 1 + extra(scene))
    target, label, _ = pick(scene, found)
    it = refer(scene, "prefix list", target, label)
    said = say(scene, f"Delete {it}.", f"No rule refers to {it} any more; remove it.", f"Please drop {it}.")
    return Goal({"PrefixListId": target}, (sentence(said),))
