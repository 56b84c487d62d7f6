"""Route tables of transit gateways: routes, black holes, associations, propagation."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import nets
from toolsavvy.generators.parambench.scenarios.asking import TAGS, labels, refer
from toolsavvy.generators.parambench.scenarios.transit import Hub, Spoke, attachment, hub, spoke, spokes
from toolsavvy.generators.parambench.scenarios.words import chance, name, say, sentence, tags
from toolsavvy.generators.parambench.scene import Goal, Scene, program


def table(scene: Scene, centre: Hub) -> tuple[str, str]:
    """A route table of a hub: its name and id."""
    mark = name(scene, "rt")
    output = scene.do(
        "ec2:CreateTransitGatewayRouteTable",
        TransitGatewayId=centre.id,
        TagSpecifications=tags("transit-gateway-route-table", Name=mark),
    )
    return mark, output["TransitGatewayRouteTable"]["TransitGatewayRouteTableId"]


def _where(scene: Scene, tables: list[tuple[str, str]], centre: Hub) -> tuple[str, str]:
    """One of the route tables, or the gateway's default one: words and id."""
    if not tables or chance(scene, 0.2):
        return f"the default route table of the transit gateway {centre.name}", centre.table
    mark, identifier = scene.rng.choice(tables)
    return refer(scene, "route table", mark, identifier), identifier


@program("ec2:CreateTransitGatewayRouteTable")
def create_table(scene: Scene) -> Goal:
    """A route table for a hub."""
    hubs = [hub(scene) for _ in range(scene.rng.choice([1, 2, 3]))]
    own = scene.rng.choice(hubs)
    what = refer(scene, "transit gateway", own.name, own.id, alone=len(hubs) == 1)
    first = say(
        scene,
        f"Add a further route table to {what}.",
        f"We need a separate route table on {what}.",
        f"Give {what} one more route table.",
    )
    label = labels(scene, "transit-gateway-route-table", 0.75)
    return Goal({"TransitGatewayId": own.id} | dict(label.arguments), (first, *label.sentences), unordered=TAGS)


@program("ec2:CreateTransitGatewayRoute")
def create_route(scene: Scene) -> Goal:
    """A route to an attachment, or into nothing."""
    centre = hub(scene)
    attached = spokes(scene, centre, scene.rng.choice([1, 2]))
    tables = [table(scene, centre) for _ in range(scene.rng.choice([0, 1, 2]))]
    where, identifier = _where(scene, tables, centre)
    own = scene.rng.choice(attached)
    arguments: dict[str, Any] = {"TransitGatewayRouteTableId": identifier}
    if chance(scene, 0.35):
        cidr, words = _target(scene, None)
        arguments |= {"DestinationCidrBlock": cidr, "Blackhole": True}
        first = say(
            scene,
            f"In {where}, drop whatever goes to {words}",
            f"Traffic to {words} should be blackholed in {where}",
            f"Add a black hole for {words} to {where}",
        )
        return Goal(arguments, (sentence(first),), 1)
    cidr, words = _target(scene, own)
    arguments |= {"DestinationCidrBlock": cidr, "TransitGatewayAttachmentId": own.id}
    by = attachment(scene, own, alone=len(attached) == 1)
    first = say(
        scene,
        f"In {where}, send {words} to {by}",
        f"Add a route for {words} to {where}, by way of {by}",
        f"Route {words} over {by} in {where}",
    )
    sentences = [sentence(first)]
    if chance(scene, 0.25):
        arguments["Blackhole"] = False
        sentences.append(say(scene, "It is no black hole.", "It must not be a black hole."))
    return Goal(arguments, tuple(sentences))


def _target(scene: Scene, own: Spoke | None) -> tuple[str, str]:
    """A range and words for it: said, a part of one, or that of an attached VPC."""
    draw = scene.rng.random()
    if own is not None and draw < 0.3:
        return own.cidr, f"the range of the VPC {own.name}"
    if own is not None and draw < 0.5:
        piece = nets.part(scene.rng, own.cidr)
        return piece.cidr, f"{piece.words} of the VPC {own.name}"
    if draw < 0.75:
        outer = nets.private(scene.rng, scene.rng.choice([12, 16]))
        piece = nets.part(scene.rng, outer)
        return piece.cidr, f"{piece.words} of {outer}"
    if draw < 0.85:
        return "0.0.0.0/0", "everything else on the IPv4 internet"
    cidr = nets.private(scene.rng, scene.rng.choice([16, 20, 22, 24]))
    return cidr, cidr


@program("ec2:DeleteTransitGatewayRoute")
def delete_route(scene: Scene) -> Goal:
    """A route goes away."""
    centre = hub(scene)
    own = spoke(scene, centre)
    tables = [table(scene, centre) for _ in range(scene.rng.choice([0, 1]))]
    where, identifier = _where(scene, tables, centre)
    rows = nets.several(scene.rng, scene.rng.choice([2, 3]), scene.rng.choice([16, 20, 24]))
    black = scene.rng.randrange(len(rows))
    for i, cidr in enumerate(rows):
        more: dict[str, Any] = {"Blackhole": True} if i == black else {"TransitGatewayAttachmentId": own.id}
        scene.do(
            "ec2:CreateTransitGatewayRoute", TransitGatewayRouteTableId=identifier, DestinationCidrBlock=cidr, **more
        )
    if chance(scene, 0.4):
        gone, words = rows[black], say(scene, "the black hole", "the only route that drops traffic")
    elif len(rows) == 2 and chance(scene, 0.5):
        gone, words = rows[1 - black], f"the route over {attachment(scene, own)}"
    else:
        gone = scene.rng.choice(rows)
        words = f"the route to {gone}"
    first = say(scene, f"Remove {words} from {where}", f"Delete {words} in {where}", f"{words} in {where} must go")
    return Goal({"TransitGatewayRouteTableId": identifier, "DestinationCidrBlock": gone}, (sentence(first),))


def _pair(scene: Scene) -> tuple[Hub, list[Spoke], Spoke, str, str]:
    """A hub, its spokes, one of them, and a route table: words and id."""
    centre = hub(scene)
    attached = spokes(scene, centre, scene.rng.choice([1, 2]))
    tables = [table(scene, centre) for _ in range(scene.rng.choice([1, 2]))]
    where, identifier = _where(scene, tables, centre)
    return centre, attached, scene.rng.choice(attached), where, identifier


@program("ec2:AssociateTransitGatewayRouteTable")
def associate(scene: Scene) -> Goal:
    """Traffic that comes from an attachment is looked up in a table."""
    _, attached, own, where, identifier = _pair(scene)
    what = attachment(scene, own, alone=len(attached) == 1)
    first = say(
        scene,
        f"Traffic that arrives over {what} should be looked up in {where}",
        f"Associate {what} with {where}",
        f"Use {where} for {what}",
    )
    return Goal({"TransitGatewayAttachmentId": own.id, "TransitGatewayRouteTableId": identifier}, (sentence(first),))


@program("ec2:EnableTransitGatewayRouteTablePropagation")
def propagate(scene: Scene) -> Goal:
    """Ranges behind an attachment appear in a table by themselves."""
    _, attached, own, where, identifier = _pair(scene)
    what = attachment(scene, own, alone=len(attached) == 1)
    first = say(
        scene,
        f"Routes of {what} should show up in {where} by themselves",
        f"Let {what} propagate its routes to {where}",
        f"Announce what is behind {what} in {where} automatically",
    )
    return Goal({"TransitGatewayAttachmentId": own.id, "TransitGatewayRouteTableId": identifier}, (sentence(first),))


@program("ec2:DisableTransitGatewayRouteTablePropagation")
def silence(scene: Scene) -> Goal:
    """Ranges behind an attachment no longer appear in a table by themselves."""
    _, attached, own, where, identifier = _pair(scene)
    for one in attached:
        scene.do(
            "ec2:EnableTransitGatewayRouteTablePropagation",
            TransitGatewayAttachmentId=one.id,
            TransitGatewayRouteTableId=identifier,
        )
    what = attachment(scene, own, alone=len(attached) == 1)
    first = say(
        scene,
        f"Routes of {what} should no longer show up in {where}",
        f"Stop {what} from propagating its routes to {where}",
        f"What is behind {what} must not be announced in {where} anymore",
    )
    return Goal({"TransitGatewayAttachmentId": own.id, "TransitGatewayRouteTableId": identifier}, (sentence(first),))
