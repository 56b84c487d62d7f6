"""Private ways to services: endpoints of a VPC, and services offered to others."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders
from toolsavvy.generators.parambench.scenarios.addresses import network
from toolsavvy.generators.parambench.scenarios.asking import TAGS, labels, refer, refer_all
from toolsavvy.generators.parambench.scenarios.words import chance, listed, name, names, say, sentence, tags
from toolsavvy.generators.parambench.scene import Goal, Scene, program

SERVICES = {
    "SQS": "sqs",
    "SNS": "sns",
    "KMS": "kms",
    "Secrets Manager": "secretsmanager",
    "CloudWatch Logs": "logs",
    "Systems Manager": "ssm",
    "Lambda": "lambda",
    "STS": "sts",
    "the ECR API": "ecr.api",
    "Kinesis streams": "kinesis-streams",
    "API Gateway": "execute-api",
    "the Elastic File System": "elasticfilesystem",
}
"""Services that are reached by interface, as people call them -> the last part of the service's name."""
GATEWAYS = {"S3": "s3", "DynamoDB": "dynamodb"}
"""Those that are reached by gateway."""
_REGION = "us-east-1"


def _service(part: str) -> str:
    return f"com.amazonaws.{_REGION}.{part}"


def route_table(scene: Scene, vpc: str, label: str) -> str:
    """A route table with a name; its id."""
    output = scene.do("ec2:CreateRouteTable", VpcId=vpc, TagSpecifications=tags("route-table", Name=label))
    return output["RouteTable"]["RouteTableId"]


@program("ec2:CreateVpcEndpoint")
def gateway(scene: Scene) -> Goal:
    """An endpoint in route tables."""
    mark = name(scene)
    vpc = builders.vpc(scene, mark, "10.0.0.0/16" if chance(scene, 0.2) else f"10.{scene.rng.randrange(256)}.0.0/16")
    marks = names(scene, scene.rng.choice([1, 2, 3]), "rt")
    tables = [route_table(scene, vpc, n) for n in marks]
    chosen = scene.rng.sample(range(len(tables)), scene.rng.randint(1, len(tables)))
    service = scene.rng.choice(sorted(GATEWAYS))
    arguments = {
        "VpcEndpointType": "Gateway",
        "VpcId": vpc,
        "ServiceName": _service(GATEWAYS[service]),
        "RouteTableIds": [tables[i] for i in chosen],
    }
    where, routes = (
        refer(scene, "VPC", mark, vpc, alone=True),
        refer_all(scene, "route table", [marks[i] for i in chosen]),
    )
    first = say(
        scene,
        f"Let {where} reach {service} of {_REGION} through a gateway endpoint that is put into {routes}.",
        f"We need a gateway endpoint for {service} in {_REGION} in {where}, with routes in {routes}.",
        f"Traffic from {where} to {service} ({_REGION}) should stay private: add a gateway endpoint in {routes}.",
    )
    label = labels(scene, "vpc-endpoint", 0.45)
    return Goal(arguments | label.arguments, (first, *label.sentences), 1, (*TAGS, "RouteTableIds"))


@program("ec2:CreateVpcEndpoint")
def by_interface(scene: Scene) -> Goal:
    """An endpoint with interfaces in subnets, under security groups."""
    net = network(scene, scene.rng.choice([1, 2, 3]))
    chosen = scene.rng.sample(range(len(net.subnets)), scene.rng.randint(1, len(net.subnets)))
    service = scene.rng.choice(sorted(SERVICES))
    arguments: dict[str, Any] = {
        "VpcEndpointType": "Interface",
        "VpcId": net.id,
        "ServiceName": _service(SERVICES[service]),
        "SubnetIds": [net.subnets[i] for i in chosen],
    }
    where = refer(scene, "VPC", net.name, net.id, alone=True)
    places = (
        say(scene, "every subnet of it", "all of its subnets")
        if len(chosen) == len(net.subnets) and chance(scene, 0.5)
        else refer_all(scene, "subnet", [net.subnet_names[i] for i in chosen])
    )
    sentences = [
        say(
            scene,
            f"Machines in {where} should reach {service} ({_REGION}) privately: add an interface endpoint in {places}.",
            f"Put an interface endpoint for {service} in {_REGION} into {where}, with a leg in {places}.",
        )
    ]
    conditions = 1
    if chance(scene, 0.6):
        marks = names(scene, scene.rng.choice([1, 2]), "sg")
        arguments["SecurityGroupIds"] = [builders.security_group(scene, net.id, n) for n in marks]
        said = refer_all(scene, "security group", marks)
        sentences.append(say(scene, f"Protect it with {said}.", f"It belongs under {said}."))
        conditions += 1
    if chance(scene, 0.5):
        arguments["PrivateDnsEnabled"] = chance(scene, 0.6)
        sentences.append(
            say(scene, "The usual host name should resolve to it.", "Private DNS is to be switched on.")
            if arguments["PrivateDnsEnabled"]
            else say(scene, "Leave private DNS off.", "The usual host name should go on resolving to public addresses.")
        )
        conditions += 1
    if chance(scene, 0.3):
        kind = scene.rng.choice(["ipv4", "ipv6", "dualstack"])
        arguments["IpAddressType"] = kind
        arguments["DnsOptions"] = {"DnsRecordIpType": kind}
        words = {"ipv4": "IPv4 only", "ipv6": "IPv6 only", "dualstack": "both IPv4 and IPv6"}[kind]
        sentences.append(say(scene, f"Its addresses and DNS records are {words}.", f"Use {words} for it and its DNS."))
        conditions += 1
    label = labels(scene, "vpc-endpoint", 0.4)
    return Goal(
        arguments | label.arguments,
        (*sentences, *label.sentences),
        conditions,
        (*TAGS, "SubnetIds", "SecurityGroupIds"),
    )


def _endpoint(scene: Scene, net: builders.Network, label: str, subnets: list[str], part: str = "") -> str:
    output = scene.do(
        "ec2:CreateVpcEndpoint",
        VpcEndpointType="Interface",
        VpcId=net.id,
        ServiceName=_service(part or SERVICES[scene.rng.choice(sorted(SERVICES))]),
        SubnetIds=subnets,
        TagSpecifications=tags("vpc-endpoint", Name=label),
    )
    return output["VpcEndpoint"]["VpcEndpointId"]


@program("ec2:ModifyVpcEndpoint")
def modify(scene: Scene) -> Goal:
    """Subnets, groups or private DNS of an interface endpoint change."""
    net = network(scene, scene.rng.choice([2, 3]))
    held = 1 if len(net.subnets) == 2 else scene.rng.choice([1, 2])
    mark = name(scene, "ep")
    made = _endpoint(scene, net, mark, list(net.subnets[:held]))
    what = refer(scene, "endpoint", mark, made, alone=True)
    arguments: dict[str, Any] = {"VpcEndpointId": made}
    kinds = scene.rng.sample(["add", "remove", "group", "dns"], scene.rng.choice([1, 2]))
    sentences: list[str] = []
    if "add" in kinds:
        arguments["AddSubnetIds"] = list(net.subnets[held:])
        said = refer_all(scene, "subnet", net.subnet_names[held:])
        sentences.append(say(scene, f"Extend {what} to {said}.", f"{what} should also have a leg in {said}."))
    if "remove" in kinds:
        gone = scene.rng.randrange(held)
        arguments["RemoveSubnetIds"] = [net.subnets[gone]]
        said = f"the subnet {net.subnet_names[gone]}"
        sentences.append(say(scene, f"Withdraw {what} from {said}.", f"Take {what} out of {said}."))
    if "group" in kinds:
        marks = names(scene, scene.rng.choice([1, 2]), "sg")
        arguments["AddSecurityGroupIds"] = [builders.security_group(scene, net.id, n) for n in marks]
        said = refer_all(scene, "security group", marks)
        sentences.append(say(scene, f"Protect {what} with {said} as well.", f"Put {what} under {said}, too."))
    if "dns" in kinds:
        arguments["PrivateDnsEnabled"] = chance(scene, 0.5)
        sentences.append(
            say(scene, f"Switch on private DNS for {what}.", f"The usual host name should resolve to {what}.")
            if arguments["PrivateDnsEnabled"]
            else say(scene, f"Switch off private DNS for {what}.", f"Private DNS of {what} must be off.")
        )
    return Goal(arguments, tuple(sentence(s) for s in sentences), unordered=("AddSubnetIds", "AddSecurityGroupIds"))


@program("ec2:DeleteVpcEndpoints")
def delete(scene: Scene) -> Goal:
    """Endpoints go away: by name, by service, or all."""
    number = scene.rng.choice([1, 2, 3, 4])
    net = network(scene)
    marks = names(scene, number, "ep")
    services = scene.rng.sample(sorted(SERVICES), number)
    made = [_endpoint(scene, net, n, [net.subnets[0]], SERVICES[s]) for n, s in zip(marks, services, strict=True)]
    if number > 1 and chance(scene, 0.3):
        chosen = list(range(number))
        what = say(scene, f"all endpoints of the VPC {net.name}", f"every endpoint in {net.name}")
    else:
        chosen = scene.rng.sample(range(number), scene.rng.randint(1, min(number, 3)))
        what = (
            refer_all(scene, "endpoint", [marks[i] for i in chosen])
            if chance(scene, 0.6)
            else f"the endpoint{'s' * (len(chosen) > 1)} for {listed([services[i] for i in chosen])}"
        )
    first = say(scene, f"Remove {what}", f"Tear down {what}", f"Delete {what}")
    return Goal({"VpcEndpointIds": [made[i] for i in chosen]}, (sentence(first),), unordered=("VpcEndpointIds",))


def _balancers(scene: Scene, number: int) -> tuple[list[str], list[str]]:
    """Network load balancers: names and arns."""
    net = network(scene)
    marks = names(scene, number, "nlb")
    made = [
        builders.load_balancer(scene, n, [net.subnets[0]], kind="network", scheme="internal")["LoadBalancerArn"]
        for n in marks
    ]
    return marks, made


@program("ec2:CreateVpcEndpointServiceConfiguration")
def offer(scene: Scene) -> Goal:
    """A service behind load balancers is offered to other VPCs."""
    marks, made = _balancers(scene, scene.rng.choice([1, 2, 3]))
    chosen = scene.rng.sample(range(len(made)), scene.rng.randint(1, len(made)))
    arguments: dict[str, Any] = {"NetworkLoadBalancerArns": [made[i] for i in chosen]}
    behind = refer_all(scene, "network load balancer", [marks[i] for i in chosen])
    sentences = [
        say(
            scene,
            f"Offer what is behind {behind} to other VPCs as an endpoint service.",
            f"Publish {behind} as a private service for other accounts.",
        )
    ]
    if chance(scene, 0.7):
        arguments["AcceptanceRequired"] = chance(scene, 0.5)
        sentences.append(
            say(scene, "Every connection has to be approved by us.", "We want to accept each request by hand.")
            if arguments["AcceptanceRequired"]
            else say(scene, "Connections need no approval.", "Accept requests without asking us.")
        )
    if chance(scene, 0.5):
        arguments["PrivateDnsName"] = f"{name(scene).partition('-')[0]}.{scene.rng.choice(_DOMAINS)}"
        host = arguments["PrivateDnsName"]
        sentences.append(say(scene, f"Clients should reach it as {host}.", f"Its private host name is {host}."))
    label = labels(scene, "vpc-endpoint-service", 0.4)
    return Goal(
        arguments | label.arguments, (*sentences, *label.sentences), unordered=(*TAGS, "NetworkLoadBalancerArns")
    )


_DOMAINS = ("example.com", "corp.example.net", "internal.example.org", "svc.example.com", "apps.example.net")


def _offered(scene: Scene, number: int) -> tuple[list[str], list[str], list[str], list[str]]:
    """Services that are offered: names, ids, and names and arns of the load balancers behind, one each."""
    lbs, arns = _balancers(scene, number)
    marks = names(scene, number, "svc")
    made = [
        scene.do(
            "ec2:CreateVpcEndpointServiceConfiguration",
            NetworkLoadBalancerArns=[arn],
            AcceptanceRequired=True,
            TagSpecifications=tags("vpc-endpoint-service", Name=mark),
        )["ServiceConfiguration"]["ServiceId"]
        for mark, arn in zip(marks, arns, strict=True)
    ]
    return marks, made, lbs, arns


@program("ec2:ModifyVpcEndpointServiceConfiguration")
def modify_offer(scene: Scene) -> Goal:
    """Approval, host name or load balancers of an offered service change."""
    marks, made, lbs, _ = _offered(scene, scene.rng.choice([1, 2]))
    i = scene.rng.randrange(len(made))
    what = refer(scene, "endpoint service", marks[i], made[i], alone=len(made) == 1)
    if chance(scene, 0.2):
        what = f"the endpoint service behind {lbs[i]}"
    arguments: dict[str, Any] = {"ServiceId": made[i]}
    kinds = scene.rng.sample(["approval", "host", "more"], scene.rng.choice([1, 2]))
    sentences: list[str] = []
    if "approval" in kinds:
        arguments["AcceptanceRequired"] = chance(scene, 0.4)
        sentences.append(
            say(scene, f"Connections to {what} need our approval.", f"For {what}, we want to accept requests by hand.")
            if arguments["AcceptanceRequired"]
            else say(
                scene,
                f"Connections to {what} need no approval anymore.",
                f"Let anybody permitted connect to {what} without asking us.",
            )
        )
    if "host" in kinds:
        arguments["PrivateDnsName"] = f"{name(scene).partition('-')[0]}.{scene.rng.choice(_DOMAINS)}"
        host = arguments["PrivateDnsName"]
        sentences.append(
            say(scene, f"Clients should reach {what} as {host}.", f"Set the host name of {what} to {host}.")
        )
    if "more" in kinds:
        more, added = _balancers(scene, scene.rng.choice([1, 2]))
        arguments["AddNetworkLoadBalancerArns"] = added
        said = refer_all(scene, "load balancer", more)
        sentences.append(say(scene, f"Let {said} serve {what}, too.", f"Add {said} to {what}."))
    return Goal(arguments, tuple(sentence(s) for s in sentences), unordered=("AddNetworkLoadBalancerArns",))


@program("ec2:ModifyVpcEndpointServicePermissions")
def permit(scene: Scene) -> Goal:
    """Accounts, roles and users may use a service, or no longer."""
    marks, made, _, _ = _offered(scene, scene.rng.choice([1, 2]))
    i = scene.rng.randrange(len(made))
    what = refer(scene, "endpoint service", marks[i], made[i], alone=len(made) == 1)
    arguments: dict[str, Any] = {"ServiceId": made[i]}
    sentences: list[str] = []
    drawn = [_principal(scene) for _ in range(scene.rng.choice([1, 2, 3]))]
    removed = [_principal(scene)] if chance(scene, 0.4) else []
    if removed and chance(scene, 0.5):
        drawn = []
    if drawn:
        arguments["AddAllowedPrincipals"] = [arn for _, arn in drawn]
        said = listed([words for words, _ in drawn])
        sentences.append(say(scene, f"Allow {said} to use {what}.", f"Open {what} to {said}."))
    if removed:
        arguments["RemoveAllowedPrincipals"] = [arn for _, arn in removed]
        said = removed[0][0]
        sentences.append(say(scene, f"Shut {said} out of {what}.", f"Forbid {said} to use {what}."))
    return Goal(arguments, tuple(sentences), unordered=("AddAllowedPrincipals", "RemoveAllowedPrincipals"))


def _principal(scene: Scene) -> tuple[str, str]:
    """Somebody in words and as an arn."""
    account = "".join(str(scene.rng.randrange(10)) for _ in range(12))
    kind = scene.rng.choice(["account", "role", "user"])
    if kind == "account":
        return f"the whole account {account}", f"arn:aws:iam::{account}:root"
    who = scene.rng.choice(["deploy", "netadmin", "auditor", "builder", "operator", "reporter"])
    return f"the {kind} {who} of account {account}", f"arn:aws:iam::{account}:{kind}/{who}"


@program("ec2:DeleteVpcEndpointServiceConfigurations")
def withdraw(scene: Scene) -> Goal:
    """Services are no longer offered."""
    marks, made, lbs, _ = _offered(scene, scene.rng.choice([1, 2, 3]))
    chosen = scene.rng.sample(range(len(made)), scene.rng.randint(1, len(made)))
    what = (
        refer_all(scene, "endpoint service", [marks[i] for i in chosen])
        if chance(scene, 0.6)
        else f"the endpoint service{'s' * (len(chosen) > 1)} behind {listed([lbs[i] for i in chosen])}"
    )
    first = say(scene, f"Stop offering {what}", f"Withdraw {what}", f"Delete {what}")
    return Goal({"ServiceIds": [made[i] for i in chosen]}, (sentence(first),), unordered=("ServiceIds",))
