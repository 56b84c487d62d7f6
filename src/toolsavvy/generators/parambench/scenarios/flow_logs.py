"""Flow logs: what is recorded of which traffic, and where it goes."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders
from toolsavvy.generators.parambench.scenarios.addresses import interface, network
from toolsavvy.generators.parambench.scenarios.asking import TAGS, labels, refer, refer_all
from toolsavvy.generators.parambench.scenarios.words import (
    PROJECTS,
    chance,
    duration,
    listed,
    name,
    names,
    say,
    sentence,
    tags,
)
from toolsavvy.generators.parambench.scene import Goal, Scene, program

FIELDS = {
    "the source address": "srcaddr",
    "the destination address": "dstaddr",
    "the source port": "srcport",
    "the destination port": "dstport",
    "the protocol": "protocol",
    "the number of packets": "packets",
    "the number of bytes": "bytes",
    "the action": "action",
    "the log status": "log-status",
    "the start time": "start",
    "the end time": "end",
    "the interface": "interface-id",
    "the TCP flags": "tcp-flags",
    "the flow's direction": "flow-direction",
}
"""What can be recorded, as people say it -> its name in the format."""
TRAFFIC = {
    "ACCEPT": ("accepted traffic only", "only what is let through"),
    "REJECT": ("rejected traffic only", "only what is blocked"),
    "ALL": ("all traffic", "traffic of any kind, accepted or rejected"),
}


def _watched(scene: Scene) -> tuple[str, list[str], str]:
    """What is to be recorded: its kind, ids, and words."""
    kind = scene.rng.choice(["VPC", "Subnet", "NetworkInterface"])
    if kind == "VPC":
        marks = names(scene, scene.rng.choice([1, 1, 2]))
        ids = [builders.vpc(scene, n, f"10.{scene.rng.randrange(256)}.0.0/16") for n in marks]
        return kind, ids, _said(scene, "VPC", marks, ids)
    if kind == "Subnet":
        net = network(scene, scene.rng.choice([1, 2, 3]))
        chosen = scene.rng.sample(range(len(net.subnets)), scene.rng.randint(1, len(net.subnets)))
        ids = [net.subnets[i] for i in chosen]
        if len(ids) == 1 and len(net.subnets) > 1 and chance(scene, 0.3):
            return kind, ids, f"the subnet in {net.zones[chosen[0]]}"
        return kind, ids, _said(scene, "subnet", [net.subnet_names[i] for i in chosen], ids)
    net = network(scene)
    marks = names(scene, scene.rng.choice([1, 2]), "nic")
    ids = [interface(scene, net.subnets[0], n)["NetworkInterfaceId"] for n in marks]
    return kind, ids, _said(scene, "network interface", marks, ids)


def _said(scene: Scene, noun: str, marks: list[str], ids: list[str]) -> str:
    return refer(scene, noun, marks[0], ids[0]) if len(ids) == 1 else refer_all(scene, noun, marks)


@program("ec2:CreateFlowLogs")
def create(scene: Scene) -> Goal:
    """Traffic is recorded into a log group, or a delivery stream."""
    kind, ids, what = _watched(scene)
    traffic = scene.rng.choice(sorted(TRAFFIC))
    arguments: dict[str, Any] = {"ResourceType": kind, "ResourceIds": ids, "TrafficType": traffic}
    words = say(scene, *TRAFFIC[traffic])
    sentences = [
        sentence(
            say(scene, f"Record {words} of {what}", f"Log {words} in {what}", f"We want flow logs of {what}: {words}")
        )
    ]
    conditions = _destination(scene, arguments, sentences)
    if chance(scene, 0.45):
        seconds = scene.rng.choice([60, 600])
        arguments["MaxAggregationInterval"] = seconds
        span = duration(scene, seconds)
        sentences.append(say(scene, f"Aggregate over at most {span}.", f"A record may cover {span} at most."))
    if chance(scene, 0.35):
        chosen = scene.rng.sample(sorted(FIELDS), scene.rng.randint(3, 6))
        arguments["LogFormat"] = " ".join(f"${{{FIELDS[f]}}}" for f in chosen)
        sentences.append(
            say(scene, f"A line holds, in this order, {listed(chosen)}.", f"Write {listed(chosen)}, in that order.")
        )
    label = labels(scene, "vpc-flow-log", 0.35)
    return Goal(arguments | label.arguments, (*sentences, *label.sentences), conditions, (*TAGS, "ResourceIds"))


def _destination(scene: Scene, arguments: dict[str, Any], sentences: list[str]) -> int:
    """Where records go; how many arguments depend on that."""
    account = "123456789012"
    if chance(scene, 0.35):
        stream = f"{scene.rng.choice(PROJECTS)}-flows"
        arguments["LogDestinationType"] = "kinesis-data-firehose"
        arguments["LogDestination"] = f"arn:aws:firehose:us-east-1:{account}:deliverystream/{stream}"
        sentences.append(
            say(
                scene,
                f"Send records to the Firehose delivery stream {arguments['LogDestination']}.",
                f"They go to Firehose, into the stream {stream} of account {account} in us-east-1.",
            )
        )
        return 1
    group = f"/{scene.rng.choice(['net', 'vpc', 'flow'])}/{name(scene)}"
    role = f"arn:aws:iam::{account}:role/{scene.rng.choice(['flow-writer', 'log-shipper', 'vpc-logs', 'netlog'])}"
    arguments |= {"LogGroupName": group, "DeliverLogsPermissionArn": role}
    cloud = ""
    if chance(scene, 0.5):
        arguments["LogDestinationType"] = "cloud-watch-logs"
        cloud = "CloudWatch "
    sentences.append(
        say(
            scene,
            f"Write them to the {cloud}log group {group}, with the role {role}.",
            f"The {cloud}log group is {group}; the role {role} may write there.",
            f"They belong into the {cloud}log group {group}, written under role {role.rpartition('/')[2]} of account "
            f"{account}.",
        )
    )
    return 2


@program("ec2:DeleteFlowLogs")
def delete(scene: Scene) -> Goal:
    """Recording ends: of some things, or of all that is rejected."""
    number = scene.rng.choice([1, 2, 3])
    marks = names(scene, number)
    vpcs = [builders.vpc(scene, n, f"10.{scene.rng.randrange(256)}.0.0/16") for n in marks]
    logs = names(scene, number, "log")
    groups = [f"/flow/{n}" for n in names(scene, number)]
    made = [
        scene.do(
            "ec2:CreateFlowLogs",
            ResourceType="VPC",
            ResourceIds=[vpc],
            TrafficType=scene.rng.choice(sorted(TRAFFIC)),
            LogGroupName=group,
            DeliverLogsPermissionArn="arn:aws:iam::123456789012:role/flow-writer",
            TagSpecifications=tags("vpc-flow-log", Name=log),
        )["FlowLogIds"][0]
        for vpc, group, log in zip(vpcs, groups, logs, strict=True)
    ]
    if chance(scene, 0.4):
        scene.do("ec2:DescribeFlowLogs", FlowLogIds=made)
    chosen = scene.rng.sample(range(number), scene.rng.randint(1, number))
    kind = scene.rng.choice(["log", "vpc", "group", "id"])
    if kind == "log":
        what = refer_all(scene, "flow log", [logs[i] for i in chosen])
    elif kind == "vpc":
        what = f"the flow log{'s' * (len(chosen) > 1)} of {listed([marks[i] for i in chosen])}"
    elif kind == "id":
        what = f"flow log{'s' * (len(chosen) > 1)} {listed([made[i] for i in chosen])}"
    else:
        what = f"what is logged to {listed([groups[i] for i in chosen])}"
    first = say(scene, f"Stop and delete {what}", f"End {what}", f"We have no use for {what} any longer; end that")
    return Goal({"FlowLogIds": [made[i] for i in chosen]}, (sentence(first),), unordered=("FlowLogIds",))
