"""Stories that end in a call on load balancers: made, moved, opened, tuned, looked up, removed."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders as b
from toolsavvy.generators.parambench.scenarios.words import chance, duration, listed, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_SUBNETS = ("Subnets", "SubnetMappings", "SecurityGroups", "Tags")


def the(scene: Scene, name: str, alone: bool = False, arn: str = "") -> str:
    """A load balancer as people call it; `alone`: there is no other that could be meant; `arn`: it may be stated."""
    if arn and chance(scene, b.STATED):
        return f"the load balancer {arn}"
    ways = [f"the load balancer {name}", f"load balancer {name}", f"the load balancer called {name}", name]
    return say(scene, *ways, *(["the load balancer created above", "that load balancer"] if alone else []))


def _looks(scene: Scene, kind: str, scheme: str) -> str:
    """Type and reach of a new load balancer in words."""
    if scheme == "internal":
        reach = say(scene, "internal", "private", "internal-only")
    else:
        reach = say(scene, "public", "internet-facing")
    article = "an" if reach.startswith("i") else "a"
    return f"{article} {reach} {kind} load balancer"


@program("elbv2:CreateLoadBalancer")
def create(scene: Scene) -> Goal:
    """A new load balancer: with subnets by id, by name or all of a network, or with an address for each subnet."""
    play = scene.rng.choice((_stated, _placed, _placed, _addressed, _numbered))
    return play(scene)


def _start(scene: Scene, kind: str) -> tuple[dict[str, Any], str]:
    """Name, type and scheme of a new load balancer, and the words for them."""
    name = f"{b.application(scene)}-{'nlb' if kind == 'network' else 'alb'}"
    scheme = scene.rng.choice(("internal", "internet-facing"))
    looks = _looks(scene, kind, scheme)
    opening = say(
        scene,
        f"Set up {looks} called {name}",
        f"Create {looks} named {name}",
        f"We need {looks} called {name}",
        f"Please build {looks} with the name {name}",
    )
    return {"Name": name, "Scheme": scheme, "Type": kind}, opening


def _stated(scene: Scene) -> Goal:
    arguments, opening = _start(scene, scene.rng.choice(("application", "network")))
    chosen = scene.rng.sample(b.backstage(scene).subnets, scene.rng.choice((2, 3)))
    sentences = [sentence(f"{opening} in the subnets {listed(chosen)}")]
    arguments["Subnets"] = chosen
    _extras(scene, arguments, sentences)
    return Goal(arguments, tuple(sentences), unordered=_SUBNETS)


def _extras(scene: Scene, arguments: dict[str, Any], sentences: list[str]) -> None:
    """Dual stack and a tag, each in a part of the stories."""
    if chance(scene, 0.3):
        arguments["IpAddressType"] = "dualstack"
        sentences.append(
            say(scene, "It serves IPv4 and IPv6.", "Clients reach it by IPv4 as well as IPv6.", "It is dual-stack.")
        )
    if chance(scene, 0.3):
        key, value = tag(scene)
        arguments["Tags"] = [{"Key": key, "Value": value}]
        sentences.append(say(scene, f"Tag it {key}={value}.", f"It carries the tag {key}={value}."))


def tag(scene: Scene) -> tuple[str, str]:
    """A tag's key and value."""
    values = {
        "team": ("platform", "security", "data", "network", "mobile", "finance", "retail"),
        "stage": ("production", "staging", "test", "development"),
        "owner": ("anna", "bruno", "chen", "dina", "emil", "farah", "goran"),
        "cost-center": tuple(str(scene.rng.randrange(1000, 9999)) for _ in range(3)),
        "project": ("atlas", "borealis", "cobalt", "delta", "ember", "falcon"),
        "tier": ("frontend", "backend", "edge", "batch"),
    }
    key = scene.rng.choice(list(values))
    return key, scene.rng.choice(values[key])


def _placed(scene: Scene) -> Goal:
    net = b.network(scene, subnets=scene.rng.choice((2, 3)))
    arguments, opening = _start(scene, "application")
    picks = scene.rng.sample(range(len(net.subnets)), 2) if chance(scene, 0.6) else list(range(len(net.subnets)))
    if len(picks) == len(net.subnets):
        where = say(scene, f"in every subnet of {net.name}", f"across all subnets of {net.name}")
    elif chance(scene, 0.5):
        where = f"in the subnets {listed([net.subnet_names[i] for i in picks])}"
    else:
        where = f"in the subnets of {net.name} in zones {listed([net.zones[i] for i in picks])}"
    arguments["Subnets"] = [net.subnets[i] for i in picks]
    sentences = [sentence(f"{opening} {where}")]
    if chance(scene, 0.6):
        group = f"{net.name}-{scene.rng.choice(('public', 'front', 'entry'))}"
        arguments["SecurityGroups"] = [b.security_group(scene, net.id, group)]
        sentences.append(
            say(scene, f"Protect it with the security group {group}.", f"Traffic is filtered by the group {group}.")
        )
    _extras(scene, arguments, sentences)
    return Goal(arguments, tuple(sentences), unordered=_SUBNETS)


def _addressed(scene: Scene) -> Goal:
    """A public network load balancer with an elastic address in each subnet."""
    net = b.network(scene, subnets=2, shown_subnets=True)
    found = [scene.do("ec2:AllocateAddress", Domain="vpc") for _ in net.subnets]
    name = f"{b.application(scene)}-nlb"
    order = scene.rng.sample(range(2), 2)
    pairs = [f"{found[i]['PublicIp']} in {net.subnet_names[i]}" for i in order]
    arguments = {
        "Name": name,
        "Scheme": "internet-facing",
        "Type": "network",
        "SubnetMappings": [
            {"SubnetId": net.subnets[i], "AllocationId": found[i]["AllocationId"]} for i in sorted(order)
        ],
    }
    arguments["SubnetMappings"] = [arguments["SubnetMappings"][i] for i in order]
    opening = say(
        scene,
        f"Set up a public network load balancer called {name}.",
        f"Create an internet-facing network load balancer named {name}.",
    )
    addresses = say(
        scene,
        f"It must answer on the elastic addresses allocated above: {listed(pairs)}.",
        f"Its fixed addresses are {listed(pairs)}.",
    )
    return Goal(arguments, (opening, addresses), conditions=len(pairs), unordered=_SUBNETS)


def _numbered(scene: Scene) -> Goal:
    """An internal network load balancer that takes the same host number in each subnet's range."""
    net = b.network(scene, subnets=scene.rng.choice((2, 3)))
    number = scene.rng.randrange(5, 250)
    found = [call.output["Subnet"]["CidrBlock"].rsplit(".", 1)[0] for call in scene.calls[1:]]
    name = f"{b.application(scene)}-nlb"
    arguments = {
        "Name": name,
        "Scheme": "internal",
        "Type": "network",
        "SubnetMappings": [
            {"SubnetId": own, "PrivateIPv4Address": f"{front}.{number}"}
            for own, front in zip(net.subnets, found, strict=True)
        ],
    }
    opening = say(
        scene,
        f"Set up an internal network load balancer called {name} in every subnet of {net.name}.",
        f"Create a private network load balancer named {name} across all subnets of {net.name}.",
    )
    address = say(
        scene,
        f"In each of them it takes the address that ends in .{number}.",
        f"Fix its private address to the one ending in .{number} in each subnet.",
    )
    return Goal(arguments, (opening, address), conditions=len(net.subnets), unordered=_SUBNETS)


@program("elbv2:SetSubnets")
def set_subnets(scene: Scene) -> Goal:
    """A load balancer moves to other subnets, or gets one more."""
    net = b.network(scene, subnets=scene.rng.choice((3, 4)))
    name = f"{b.application(scene)}-lb"
    old = list(net.subnets[:2])
    balancer = b.load_balancer(scene, name, old)
    who = the(scene, name, alone=True)
    if chance(scene, 0.4):
        extra = scene.rng.randrange(2, len(net.subnets))
        new = [*old, net.subnets[extra]]
        words = say(
            scene,
            f"Extend {who} to the subnet {net.subnet_names[extra]}, beside the subnets that it has.",
            f"Add the subnet {net.subnet_names[extra]} to those {who} has already.",
        )
    else:
        picks = scene.rng.sample(range(len(net.subnets)), scene.rng.choice((2, 3)))
        new = [net.subnets[i] for i in picks]
        labels = listed([net.subnet_names[i] for i in picks])
        words = say(scene, f"Move {who} to the subnets {labels}.", f"From now on {who} lives in {labels} only.")
    arguments = {"LoadBalancerArn": balancer["LoadBalancerArn"], "Subnets": new}
    return Goal(arguments, (sentence(words),), unordered=("Subnets",))


@program("elbv2:SetSecurityGroups")
def set_security_groups(scene: Scene) -> Goal:
    """A load balancer gets other security groups, or one more."""
    home = b.backstage(scene)
    labels = [f"{own}-{scene.rng.choice(('front', 'entry', 'admin', 'mesh'))}" for own in b.fresh(scene, 3)]
    ids = [b.security_group(scene, home.id, label) for label in labels]
    name = f"{b.application(scene)}-alb"
    balancer = b.load_balancer(scene, name, home.subnets[:2], groups=[ids[0]])
    who = the(scene, name, alone=True)
    if chance(scene, 0.4):
        new = [ids[0], ids[2]]
        words = say(
            scene,
            f"Keep the security group that {who} has and add {labels[2]}.",
            f"Beside the group it has already, {who} should also use {labels[2]}.",
        )
    else:
        picks = scene.rng.sample(range(3), scene.rng.choice((1, 2)))
        new = [ids[i] for i in picks]
        said = listed([labels[i] for i in picks])
        words = say(
            scene,
            f"Replace whatever protects {who} by {said}.",
            f"The traffic of {who} should be filtered by {said} and nothing else.",
        )
    arguments = {"LoadBalancerArn": balancer["LoadBalancerArn"], "SecurityGroups": new}
    return Goal(arguments, (sentence(words),), unordered=("SecurityGroups",))


@program("elbv2:SetIpAddressType")
def set_ip_address_type(scene: Scene) -> Goal:
    """A load balancer starts or stops to speak IPv6."""
    count = scene.rng.choice((1, 2, 3))
    balancer, *_ = b.standing(scene, count)
    who = the(scene, balancer["LoadBalancerName"], count == 1, balancer["LoadBalancerArn"])
    if chance(scene, 0.6):
        kind = "dualstack"
        words = say(
            scene,
            f"Let {who} answer over IPv6 as well as IPv4.",
            f"Clients with IPv6 should reach {who} too, beside those with IPv4.",
            f"Make {who} dual-stack.",
        )
    else:
        kind = "ipv4"
        words = say(
            scene,
            f"Go back to IPv4 only for {who}.",
            f"{who} should speak nothing but IPv4.",
            f"Restrict {who} to IPv4.",
        )
    arguments = {"LoadBalancerArn": balancer["LoadBalancerArn"], "IpAddressType": kind}
    return Goal(arguments, (sentence(words),))


def _switch(on: str, off: str) -> dict[str, str]:
    return {"true": on, "false": off}


_ATTRIBUTES: dict[str, dict[str, str] | str] = {
    "deletion_protection.enabled": _switch("protect it against deletion", "lift its protection against deletion"),
    "load_balancing.cross_zone.enabled": _switch(
        "spread traffic across zones", "keep traffic in the zone where it comes in instead of spreading it"
    ),
    "routing.http2.enabled": _switch("offer HTTP/2", "stop offering HTTP/2"),
    "routing.http.drop_invalid_header_fields.enabled": _switch(
        "drop invalid header fields", "let invalid header fields through"
    ),
    "routing.http.preserve_host_header.enabled": _switch(
        "pass the Host header on unchanged", "no longer preserve the Host header"
    ),
    "routing.http.desync_mitigation_mode": {
        "strictest": "set the mitigation of desync attacks to strictest",
        "defensive": "set the mitigation of desync attacks to defensive",
        "monitor": "only monitor desync attacks",
    },
    "waf.fail_open.enabled": _switch(
        "let requests pass when the web firewall can't be reached",
        "block requests when the web firewall can't be reached",
    ),
    "idle_timeout.timeout_seconds": "close idle connections after {}",
    "client_keep_alive.seconds": "keep client connections alive for {}",
}


@program("elbv2:ModifyLoadBalancerAttributes")
def modify_attributes(scene: Scene) -> Goal:
    """Some attributes change; an earlier call shows how they are called."""
    rng = scene.rng
    count = rng.choice((1, 2))
    balancer, *others = b.standing(scene, count)
    keys = rng.sample(list(_ATTRIBUTES), rng.choice((1, 2, 3)))
    extra = rng.sample([key for key in _ATTRIBUTES if key not in keys], rng.choice((0, 1)))
    shown = [*keys, *extra]
    rng.shuffle(shown)
    earlier = others[0] if others else balancer
    before, _ = zip(*(_value(scene, key) for key in shown), strict=True)
    scene.do(
        "elbv2:ModifyLoadBalancerAttributes",
        LoadBalancerArn=earlier["LoadBalancerArn"],
        Attributes=[{"Key": key, "Value": value} for key, value in zip(shown, before, strict=True)],
    )
    pairs = [(key, *_value(scene, key, dict(zip(shown, before, strict=True))[key])) for key in keys]
    who = the(scene, balancer["LoadBalancerName"], count == 1, balancer["LoadBalancerArn"])
    wishes = listed([words for _, _, words in pairs])
    text = say(scene, f"For {who}: {wishes}.", f"Change {who} as follows: {wishes}.", f"On {who}, {wishes}.")
    arguments = {
        "LoadBalancerArn": balancer["LoadBalancerArn"],
        "Attributes": [{"Key": key, "Value": value} for key, value, _ in pairs],
    }
    return Goal(arguments, (sentence(text),), unordered=("Attributes",))


def _value(scene: Scene, key: str, old: str = "") -> tuple[str, str]:
    """A value of an attribute, another than the old one, and the wish for it."""
    ways = _ATTRIBUTES[key]
    if isinstance(ways, str):
        choice = scene.rng.choice(
            [s for s in (30, 45, 60, 90, 120, 180, 240, 300, 600, 900, 1800, 3600) if str(s) != old]
        )
        return str(choice), ways.format(duration(scene, choice))
    choice = scene.rng.choice([value for value in ways if value != old])
    return choice, ways[choice]


@program("elbv2:DeleteLoadBalancer")
def delete(scene: Scene) -> Goal:
    """One of the load balancers goes."""
    count = scene.rng.choice((1, 2, 3))
    balancer, *_ = b.standing(scene, count)
    who = the(scene, balancer["LoadBalancerName"], count == 1, balancer["LoadBalancerArn"])
    words = say(scene, f"Remove {who}.", f"We don't need {who} any more; tear it down.", f"Get rid of {who}.")
    return Goal({"LoadBalancerArn": balancer["LoadBalancerArn"]}, (sentence(words),))


@program("elbv2:DescribeLoadBalancers")
def describe(scene: Scene) -> Goal:
    """A look at some load balancers: by name, by their identity, or a page of all."""
    rng = scene.rng
    found = b.standing(scene, rng.choice((2, 3)))
    picks = found[: rng.choice((1, 2))]
    said = listed([balancer["LoadBalancerName"] for balancer in picks])
    way = rng.choice(("names", "arns", "page"))
    if way == "page":
        size = rng.randrange(2, 400)
        words = say(
            scene, f"List our load balancers, at most {size} at a time.", f"Show the load balancers in pages of {size}."
        )
        return Goal({"PageSize": size}, (words,))
    if way == "names":
        words = say(scene, f"Look up {said} by name.", f"By name, show the details of the load balancers {said}.")
        arguments: dict[str, Any] = {"Names": [balancer["LoadBalancerName"] for balancer in picks]}
    else:
        words = say(
            scene,
            f"Look up {said}; names may be reused, so go by the resource names (ARNs) from above.",
            f"Using their ARNs, show the details of {said}.",
        )
        arguments = {"LoadBalancerArns": [balancer["LoadBalancerArn"] for balancer in picks]}
    return Goal(arguments, (words,), unordered=("Names", "LoadBalancerArns"))


@program("elbv2:DescribeLoadBalancerAttributes")
def describe_attributes(scene: Scene) -> Goal:
    """How is a load balancer set?"""
    count = scene.rng.choice((1, 2, 3))
    balancer, *_ = b.standing(scene, count)
    who = the(scene, balancer["LoadBalancerName"], count == 1, balancer["LoadBalancerArn"])
    topic = say(scene, "idle timeout", "deletion protection", "access logs", "cross-zone setting", "HTTP/2 setting")
    words = say(
        scene,
        f"What is the {topic} of {who}? Show all of its settings.",
        f"List the settings of {who}, I want to check its {topic}.",
    )
    return Goal({"LoadBalancerArn": balancer["LoadBalancerArn"]}, (words,))
