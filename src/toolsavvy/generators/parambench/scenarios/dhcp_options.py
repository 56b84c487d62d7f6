"""Stories that end in a set of DHCP options: made, given to a VPC, taken down."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import nets
from toolsavvy.generators.parambench.scenarios.builders import tagged
from toolsavvy.generators.parambench.scenarios.pieces import extra, pick, refer, vpcs
from toolsavvy.generators.parambench.scenarios.words import PROJECTS, chance, listed, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

UNORDERED = ("DhcpConfigurations",)
_NODES = {
    "1": "broadcast",
    "2": "point-to-point",
    "4": "mixed",
    "8": "hybrid",
}
"""NetBIOS node types (RFC 2132, option 46)."""


def _domain(scene: Scene) -> str:
    first = scene.rng.choice(PROJECTS)
    return f"{first}.{scene.rng.choice(('corp', 'internal', 'lan', 'local'))}"


def _hosts(scene: Scene, network: str, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        if (host := nets.any_host(scene.rng, network)) not in found:
            found.append(host)
    return found


def drawn(scene: Scene, network: str = "") -> list[tuple[str, list[str], str]]:
    """One to four options: (key, values, words) each."""
    network = network or nets.private(scene.rng, 24)
    found = []
    for key in sorted(
        scene.rng.sample(
            ("domain-name", "domain-name-servers", "ntp-servers", "netbios-name-servers"),
            scene.rng.choice((1, 2, 2, 3)),
        )
    ):
        if key == "domain-name":
            value = _domain(scene)
            found.append((key, [value], say(scene, f"the domain name {value}", f"{value} as domain name")))
            continue
        values = _hosts(scene, network, scene.rng.choice((1, 2)))
        kind = {"domain-name-servers": "DNS", "ntp-servers": "NTP", "netbios-name-servers": "NetBIOS name"}[key]
        noun = f"{kind} server" + ("s" if len(values) > 1 else "")
        found.append((key, values, say(scene, f"the {noun} {listed(values)}", f"{listed(values)} as {noun}")))
        if key == "netbios-name-servers" and chance(scene, 0.6):
            node = scene.rng.choice(sorted(_NODES))
            words = say(scene, f"the NetBIOS node type {node}", f"NetBIOS node type {node} ({_NODES[node]})")
            found.append(("netbios-node-type", [node], words))
    return found


def configurations(options: list[tuple[str, list[str], str]]) -> list[dict[str, Any]]:
    """Options as the API takes them."""
    return [{"Key": key, "Values": values} for key, values, _ in options]


@program("ec2:CreateDhcpOptions")
def created(scene: Scene) -> Goal:
    """Options that are stated."""
    options = drawn(scene)
    words = "; ".join(o[2] for o in options)
    said = say(
        scene,
        f"Create a set of DHCP options with this content: {words}.",
        f"We need DHCP options that hand out the following: {words}.",
        f"Set up DHCP options: {words}.",
    )
    return Goal({"DhcpConfigurations": configurations(options)}, (said,), unordered=UNORDERED)


@program("ec2:CreateDhcpOptions")
def after_another(scene: Scene) -> Goal:
    """Like an earlier set, one value apart; or Amazon's resolver of a VPC, two above its network address."""
    if chance(scene, 0.5):
        vpc = pick(scene, vpcs(scene, 1 + extra(scene)))
        it = refer(scene, "VPC", vpc.id, vpc.label)
        domain = _domain(scene)
        resolver = nets.host(vpc.cidr, 2)
        options = [("domain-name", [domain], ""), ("domain-name-servers", [resolver], "")]
        said = say(
            scene,
            f"Create DHCP options with the domain name {domain} and, as DNS server, the address two above the base of "
            f"the range of {it}.",
            f"DHCP options are wanted with {domain} as domain name. The DNS server is the second address after the "
            f"network address of {it}.",
        )
        return Goal({"DhcpConfigurations": configurations(options)}, (said,), unordered=UNORDERED)
    (old, label), options = sets(scene, 1, 0)[0]
    it = refer(scene, "DHCP option set", old, label)
    changed = scene.rng.randrange(len(options))
    key, values, _ = options[changed]
    if key == "netbios-node-type":
        new = [pick(scene, [n for n in _NODES if n != values[0]])]
        words = f"the NetBIOS node type {new[0]}"
    elif key == "domain-name":
        new = [next(d for d in iter(lambda: _domain(scene), None) if d != values[0])]
        words = f"the domain name {new[0]}"
    else:
        new = _hosts(scene, nets.private(scene.rng, 24), len(values))
        kind = {"domain-name-servers": "DNS", "ntp-servers": "NTP", "netbios-name-servers": "NetBIOS name"}[key]
        words = f"the {kind} server{'s' if len(new) > 1 else ''} {listed(new)}"
    said = say(
        scene,
        f"Create another set of DHCP options like {it}, but with {words}.",
        f"Copy {it} into a new set of DHCP options; only this differs: {words}.",
    )
    new_options = [*options[:changed], (key, new, ""), *options[changed + 1 :]]
    return Goal({"DhcpConfigurations": configurations(new_options)}, (said,), unordered=UNORDERED)


def sets(
    scene: Scene, count: int, listing: float = 0.3
) -> list[tuple[tuple[str, str], list[tuple[str, list[str], str]]]]:
    """Named sets, (id, name) and options each; the model sees how each is made, or a list of them."""
    shown = not chance(scene, listing)
    found = []
    for label in names(scene, count, "dhcp"):
        options, tags = drawn(scene), tagged("dhcp-options", label)
        call = scene.do if shown else scene.hidden
        output = call("ec2:CreateDhcpOptions", DhcpConfigurations=configurations(options), TagSpecifications=tags)
        own = output["DhcpOptions"]["DhcpOptionsId"]
        if not shown:  # moto forgets tags that come with the call
            scene.hidden("ec2:CreateTags", Resources=[own], Tags=tags[0]["Tags"])
        found.append(((own, label), options))
    if not shown:
        scene.do("ec2:DescribeDhcpOptions", DhcpOptionsIds=[own for (own, _), _ in found])
    return found


def _spoken(scene: Scene, own: str, label: str, options: list[tuple[str, list[str], str]]) -> str:
    domain = next((values[0] for key, values, _ in options if key == "domain-name"), "")
    it = refer(scene, "DHCP option set", own, label)
    return say(scene, it, f"the DHCP options for the domain {domain}") if domain else it


@program("ec2:AssociateDhcpOptions")
def given(scene: Scene) -> Goal:
    """A set and a VPC; or a VPC goes back to the default."""
    vpc = pick(scene, vpcs(scene, 1 + extra(scene)))
    it = refer(scene, "VPC", vpc.id, vpc.label)
    if chance(scene, 0.15):
        said = say(
            scene,
            f"Hosts in {it} should get no DHCP options of ours any longer: use the value default instead of a set.",
            f'Reset the DHCP options of {it} to "default".',
        )
        return Goal({"DhcpOptionsId": "default", "VpcId": vpc.id}, (said,))
    (own, label), options = pick(scene, sets(scene, 1 + extra(scene)))
    those = _spoken(scene, own, label, options)
    said = say(
        scene,
        f"Let {it} use {those}.",
        f"Hosts in {it} should be configured by {those}.",
        f"Give {those} to {it}.",
        f"{it} gets {those}.",
    )
    return Goal({"DhcpOptionsId": own, "VpcId": vpc.id}, (sentence(said),))


@program("ec2:DeleteDhcpOptions")
def deleted(scene: Scene) -> Goal:
    """By name, id, or domain."""
    (own, label), options = pick(scene, sets(scene, 1 + extra(scene)))
    it = _spoken(scene, own, label, options)
    said = say(scene, f"Delete {it}.", f"No VPC uses {it} any more; remove that.", f"Please drop {it}.")
    return Goal({"DhcpOptionsId": own}, (sentence(said),))
