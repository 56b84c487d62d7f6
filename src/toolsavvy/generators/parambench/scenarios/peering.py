"""Stories that end in a peering connection: asked for, accepted, turned down, given options, taken down."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios.pieces import Vpc, made, naming, pick, refer, vpcs
from toolsavvy.generators.parambench.scenarios.words import chance, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Program, Scene, program

ACCOUNT = "123456789012"
"""Moto's account."""


@program("ec2:CreateVpcPeeringConnection")
def asked_for(scene: Scene) -> Goal:
    """Who asks and who is asked; at times the other side's account or region is said too."""
    a, b, *_ = scene.rng.sample(found := vpcs(scene, scene.rng.choice((2, 2, 3))), len(found))
    one, two = refer(scene, "VPC", a.id, a.label), refer(scene, "VPC", b.id, b.label)
    arguments: dict[str, Any] = {"VpcId": a.id, "PeerVpcId": b.id}
    said = [
        say(
            scene,
            f"Request a peering connection from {one} to {two}.",
            f"{one} should be peered with {two}; the former asks for it.",
            f"On behalf of {one}, ask for peering with {two}.",
        )
    ]
    if chance(scene, 0.25):
        arguments["PeerOwnerId"] = ACCOUNT
        said.append(f"The account that owns the other side is {ACCOUNT}.")
    if chance(scene, 0.25):
        arguments["PeerRegion"] = "us-east-1"
        said.append(say(scene, "The other side is in region us-east-1.", "Its counterpart lives in us-east-1."))
    tags = naming(scene, "vpc-peering-connection", "peer", 0.6)
    sentences = (*map(sentence, said), *tags.sentences)
    return Goal(arguments | tags.arguments, sentences, unordered=("TagSpecifications.*.Tags",))


def requests(scene: Scene, accepted: bool = False) -> tuple[str, str, str]:
    """Peering connections that were asked for; one of them: its id, how it is spoken of, and its two ends."""
    count = scene.rng.choice((1, 1, 2))
    found: list[Vpc] = vpcs(scene, count + 1)
    listing = chance(scene, 0.4)
    hub, made_ = found[0], []
    for label, other in zip(names(scene, count, "peer"), found[1:], strict=True):
        output = made(scene, "vpc-peering-connection", label, not listing, VpcId=other.id, PeerVpcId=hub.id)
        pcx = output["VpcPeeringConnection"]["VpcPeeringConnectionId"]
        if accepted:
            scene.hidden("ec2:AcceptVpcPeeringConnection", VpcPeeringConnectionId=pcx)
        made_.append((pcx, label, other))
    if listing:
        scene.do("ec2:DescribeVpcPeeringConnections", VpcPeeringConnectionIds=[p[0] for p in made_])
    pcx, label, other = pick(scene, made_)
    who = refer(scene, "VPC", other.id, other.label)
    named = refer(scene, "peering connection", pcx, label)
    it = say(scene, named, named, f"the peering connection that {who} asked for")
    return pcx, it, who


_VERBS = {
    "Accept": ("Accept {}.", "{} is fine with us: accept it.", "Say yes to {}.", "We agree to {}, accept it."),
    "Reject": ("Reject {}.", "We do not want {}: turn it down.", "Refuse {}.", "Decline {}, please."),
    "Delete": ("Delete {}.", "{} is no longer used; remove it.", "Tear down {}.", "Please drop {}."),
}


def _on(verb: str) -> Program:
    def answered(scene: Scene) -> Goal:
        """One of the connections that were asked for."""
        pcx, it, _ = requests(scene, verb == "Delete")
        return Goal({"VpcPeeringConnectionId": pcx}, (sentence(say(scene, *_VERBS[verb]).format(it)),))

    return answered


for _verb in _VERBS:
    program(f"ec2:{_verb}VpcPeeringConnection")(_on(_verb))


@program("ec2:ModifyVpcPeeringConnectionOptions")
def options(scene: Scene) -> Goal:
    """DNS across the connection, for one side or both."""
    pcx, it, _ = requests(scene, True)
    arguments: dict[str, Any] = {"VpcPeeringConnectionId": pcx}
    said = []
    for side in pick(scene, [["requester"], ["accepter"], ["requester", "accepter"]]):
        value = chance(scene, 0.6)
        field = f"{side.capitalize()}PeeringConnectionOptions"
        arguments[field] = {"AllowDnsResolutionFromRemoteVpc": value}
        who = f"the {side}'s side"
        said.append(
            say(
                scene,
                f"{who} should resolve host names of the other VPC to private addresses",
                f"switch on name resolution from the remote VPC on {who}",
            )
            if value
            else say(
                scene,
                f"{who} should not resolve host names of the other VPC to private addresses any more",
                f"switch off name resolution from the remote VPC on {who}",
            )
        )
    lead = say(scene, f"Change the DNS settings of {it}.", f"This is about {it}.", f"Adjust {it} as follows.")
    return Goal(arguments, (sentence(lead), *map(sentence, said)))
