"""Rules for flow logs."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle.addresses import subnet
from toolsavvy.generators.parambench.oracle.finding import meant, spoken, tags
from toolsavvy.generators.parambench.oracle.lexicon import says, seconds
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.flow_logs import FIELDS, TRAFFIC

_GROUP = r"(?<![\w:/])/[a-z]+/[a-z0-9-]+\w"


def _create(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found = _watched(sight)
    found["TrafficType"] = next(kind for kind, said in TRAFFIC.items() if any(s in text for s in said))
    found |= _destination(text)
    if span := re.search(r"(?:Aggregate over|may cover)[^.]*", text):
        found["MaxAggregationInterval"] = seconds(span[0])
    order = sorted((m.start(), own) for said, own in FIELDS.items() for m in re.finditer(rf"{said}\b", text))
    if says(text, "order"):
        found["LogFormat"] = " ".join(f"${{{own}}}" for _, own in order)
    return found | tags(sight, "vpc-flow-log")


def _watched(sight: Sight) -> dict[str, Any]:
    if nics := sight.of_kind("eni"):
        return {"ResourceType": "NetworkInterface", "ResourceIds": spoken(sight, "eni") or nics}
    if sight.of_kind("subnet"):
        return {"ResourceType": "Subnet", "ResourceIds": spoken(sight, "subnet") or [subnet(sight)]}
    return {"ResourceType": "VPC", "ResourceIds": spoken(sight, "vpc") or [meant(sight, "vpc")]}


def _destination(text: str) -> dict[str, Any]:
    if says(text, "firehose"):
        stream = re.search(r"stream (\S+) of account (\d+) in (\S+\w)", text)
        whole = re.search(r"arn:aws:firehose\S*\w", text)
        made = f"arn:aws:firehose:{stream[3]}:{stream[2]}:deliverystream/{stream[1]}" if stream else ""
        return {"LogDestinationType": "kinesis-data-firehose", "LogDestination": whole[0] if whole else made}
    found: dict[str, Any] = {"LogDestinationType": "cloud-watch-logs"} if says(text, "cloudwatch") else {}
    group = re.search(_GROUP, text)
    role = re.search(r"arn:aws:iam::\d+:role/[\w-]+", text)
    short = re.search(r"role ([\w-]+) of account (\d+)", text)
    return found | {
        "LogGroupName": group[0] if group else "",
        "DeliverLogsPermissionArn": role[0] if role else f"arn:aws:iam::{short[2]}:role/{short[1]}" if short else "",
    }


def _delete(sight: Sight) -> dict[str, Any]:
    if said := spoken(sight, "fl"):
        return {"FlowLogIds": said}
    groups, vpcs = re.findall(_GROUP, sight.instruction), spoken(sight, "vpc")
    found = [
        call.output["FlowLogIds"][0]
        for call in sight.calls("CreateFlowLogs")
        if call.arguments["LogGroupName"] in groups or set(call.arguments["ResourceIds"]) & set(vpcs)
    ]
    return {"FlowLogIds": found}


RULES = {"ec2:CreateFlowLogs": _create, "ec2:DeleteFlowLogs": _delete}
