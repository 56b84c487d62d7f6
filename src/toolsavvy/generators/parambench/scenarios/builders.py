"""Usual pieces of a story's first part: a named VPC with subnets in zones, a security group, a load balancer."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.generators.parambench.scene import Scene

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f")
STATED = 0.3
"""Share of the simple stories that say an id or arn instead of a name."""
_APPLICATIONS = (
    "shop", "billing", "orders", "search", "login", "media", "reports", "catalog", "payments", "mail", "chat", "maps",
    "stock", "booking", "survey", "tickets", "invoices", "gateway", "archive", "metrics", "press", "partners", "cart",
    "video", "forum", "payroll", "fleet", "claims", "ledger", "lab", "news", "radio",
)  # fmt: skip
_STAGES = ("prod", "staging", "dev", "test", "qa", "demo", "eu", "us", "blue", "green", "beta", "core", "edge", "dr")


@dataclass(frozen=True)
class Network:
    """A VPC that was built upstream.

    Args:
        name: its Name tag.
        id: of the VPC.
        cidr: its range.
        subnets: ids, one a zone, in the order of the zones.
        subnet_names: their Name tags.
        zones: of the subnets.
    """

    name: str
    id: str
    cidr: str
    subnets: tuple[str, ...] = ()
    subnet_names: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()


def application(scene: Scene) -> str:
    """A name for something that runs: "orders-staging"; one scene never gets the same twice by `fresh`."""
    return f"{scene.rng.choice(_APPLICATIONS)}-{scene.rng.choice(_STAGES)}"


def fresh(scene: Scene, count: int) -> list[str]:
    """As many different application names, none of which starts with another."""
    found: dict[str, str] = {}
    while len(found) < count:
        name = application(scene)
        found.setdefault(name.partition("-")[0], name)
    return list(found.values())


def tagged(kind: str, name: str, **more: str) -> list[dict[str, Any]]:
    """Tag specifications that give a new resource of a kind ("vpc", "subnet") its name."""
    tags = [{"Key": "Name", "Value": name}, *({"Key": key, "Value": value} for key, value in more.items())]
    return [{"ResourceType": kind, "Tags": tags}]


def call(scene: Scene, operation: str, shown: bool = True, **arguments: Any) -> dict[str, Any]:
    """Carry out a call that the model sees, or one that stays out of the context."""
    return (scene.do if shown else scene.hidden)(operation, **arguments)


def vpc(scene: Scene, name: str, cidr: str, shown: bool = True) -> str:
    """A VPC with a name; its id."""
    output = call(scene, "ec2:CreateVpc", shown, CidrBlock=cidr, TagSpecifications=tagged("vpc", name))
    return output["Vpc"]["VpcId"]


def subnet(scene: Scene, vpc_id: str, name: str, cidr: str, zone: str, shown: bool = True) -> str:
    """A subnet with a name in a zone; its id."""
    output = call(
        scene,
        "ec2:CreateSubnet",
        shown,
        VpcId=vpc_id,
        CidrBlock=cidr,
        AvailabilityZone=zone,
        TagSpecifications=tagged("subnet", name),
    )
    return output["Subnet"]["SubnetId"]


def network(
    scene: Scene, *, name: str = "", subnets: int = 2, shown: bool = True, shown_subnets: bool | None = None
) -> Network:
    """A VPC 10.x.0.0/16 (or 172.y, 192.168) with /24 subnets in as many zones.

    Args:
        scene: the story.
        name: of the VPC; "" draws one.
        subnets: how many, each in a zone of its own, named after the VPC and the zone's letter ("orders-dev-a").
        shown: the model sees the call that makes the VPC.
        shown_subnets: it sees those that make the subnets; as `shown` if not given.
    """
    rng = scene.rng
    name = name or application(scene)
    first = rng.choice([f"10.{rng.randrange(1, 255)}", f"172.{rng.randrange(16, 32)}", "192.168"])
    cidr = f"{first}.0.0/16"
    identifier = vpc(scene, name, cidr, shown)
    zones = sorted(rng.sample(ZONES, subnets))
    ranges = rng.sample(range(256), subnets)
    names = tuple(f"{name}-{zone[-1]}" for zone in zones)
    visible = shown if shown_subnets is None else shown_subnets
    ids = tuple(
        subnet(scene, identifier, own, f"{first}.{third}.0/24", zone, visible)
        for own, third, zone in zip(names, ranges, zones, strict=True)
    )
    return Network(name, identifier, cidr, ids, names, tuple(zones))


def security_group(scene: Scene, vpc_id: str, name: str, description: str = "", shown: bool = True) -> str:
    """A security group, its GroupName also its Name tag; its id."""
    output = call(
        scene,
        "ec2:CreateSecurityGroup",
        shown,
        GroupName=name,
        Description=description or f"Traffic of {name}",
        VpcId=vpc_id,
        TagSpecifications=tagged("security-group", name),
    )
    return output["GroupId"]


def instances(scene: Scene, subnet_id: str, name: str, count: int = 1, shown: bool = True) -> list[str]:
    """Running instances in a subnet, all with one name; their ids."""
    output = call(
        scene,
        "ec2:RunInstances",
        shown,
        ImageId="ami-12c6146b",
        InstanceType="t3.micro",
        MinCount=count,
        MaxCount=count,
        SubnetId=subnet_id,
        TagSpecifications=tagged("instance", name),
    )
    return [instance["InstanceId"] for instance in output["Instances"]]


def load_balancer(
    scene: Scene,
    name: str,
    subnets: Sequence[str],
    *,
    kind: str = "application",
    groups: Sequence[str] = (),
    scheme: str = "internet-facing",
    shown: bool = True,
) -> dict[str, Any]:
    """A load balancer in subnets; its description (LoadBalancerArn, DNSName, CanonicalHostedZoneId)."""
    more = {"SecurityGroups": list(groups)} if groups else {}
    output = call(
        scene,
        "elbv2:CreateLoadBalancer",
        shown,
        Name=name,
        Subnets=list(subnets),
        Scheme=scheme,
        Type=kind,
        **more,
    )
    return output["LoadBalancers"][0]


def target_group(
    scene: Scene,
    name: str,
    vpc_id: str,
    *,
    protocol: str = "HTTP",
    port: int = 80,
    kind: str = "instance",
    shown: bool = True,
) -> str:
    """A target group; its arn."""
    output = call(
        scene,
        "elbv2:CreateTargetGroup",
        shown,
        Name=name,
        Protocol=protocol,
        Port=port,
        VpcId=vpc_id,
        TargetType=kind,
    )
    return output["TargetGroups"][0]["TargetGroupArn"]


def listener(
    scene: Scene, balancer: str, group: str, *, protocol: str = "HTTP", port: int = 80, shown: bool = True
) -> str:
    """A listener that forwards everything to one target group; its arn."""
    output = call(
        scene,
        "elbv2:CreateListener",
        shown,
        LoadBalancerArn=balancer,
        Protocol=protocol,
        Port=port,
        DefaultActions=[{"Type": "forward", "TargetGroupArn": group}],
    )
    return output["Listeners"][0]["ListenerArn"]


def host(scene: Scene, cidr: str) -> str:
    """An address inside a range, never the network's first four nor its last."""
    net = ipaddress.ip_network(cidr)
    return str(net[scene.rng.randrange(4, net.num_addresses - 1)])


def backstage(scene: Scene, subnets: int = 3) -> Network:
    """A network that the model does not see: no value may have to be looked up in it."""
    return network(scene, subnets=subnets, shown=False)


def standing(
    scene: Scene, count: int = 1, *, home: Network | None = None, kind: str = "application", ending: str = "lb"
) -> list[dict[str, Any]]:
    """Load balancers in a network (one backstage without), each with a name of its own; their descriptions."""
    home = home or backstage(scene)
    found = []
    for own in fresh(scene, count):
        subnets = scene.rng.sample(home.subnets, 2)
        scheme = scene.rng.choice(("internet-facing", "internal"))
        found.append(load_balancer(scene, f"{own}-{ending}", subnets, kind=kind, scheme=scheme))
    scene.rng.shuffle(found)
    return found


def groups(scene: Scene, count: int = 1, *, home: Network | None = None, **more: Any) -> dict[str, str]:
    """Target groups in a network (one backstage without), name -> arn."""
    home = home or backstage(scene, subnets=0)
    names = [f"{own}-{scene.rng.choice(('web', 'api', 'app', 'svc', 'pool'))}" for own in fresh(scene, count)]
    return {name: target_group(scene, name, home.id, **more) for name in names}
