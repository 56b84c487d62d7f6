"""Rules for machines and launch templates."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle.addresses import subnet
from toolsavvy.generators.parambench.oracle.finding import key_values, known, meant, spoken, tags
from toolsavvy.generators.parambench.oracle.lexicon import NAME, NUMBER, says
from toolsavvy.generators.parambench.oracle.sight import Sight, kind_of
from toolsavvy.generators.parambench.scenarios.words import number_of, ordinal

_TYPE = r"\b(?:[a-z]\d[a-z]?\.\w+)\b"
_SENTENCES = r"(?<=[.?]) (?=[A-Z])"


def _disks(text: str) -> list[dict[str, Any]]:
    """Disks, a sentence each."""
    found = []
    for sentence in re.split(_SENTENCES, text):
        shape = re.search(r"\b(an encrypted|an unencrypted|a) disk of (\d+) ([GT])iB, type (\w+)", sentence)
        if shape is None:
            continue
        disk: dict[str, Any] = {"VolumeSize": int(shape[2]) * (1024 if shape[3] == "T" else 1), "VolumeType": shape[4]}
        if shape[1] != "a":
            disk["Encrypted"] = shape[1] == "an encrypted"
        if m := re.search(r"with (\d+) IOPS", sentence):
            disk["Iops"] = int(m[1])
        if says(sentence, "deleted along", "kept when"):
            disk["DeleteOnTermination"] = says(sentence, "deleted along")
        device = re.search(r"/dev/\w+", sentence)
        found.append({"DeviceName": device[0] if device else "", "Ebs": disk})
    return found


def _interfaces(sight: Sight) -> list[dict[str, Any]]:
    """Network interfaces, a sentence each."""
    found = []
    for sentence in re.split(_SENTENCES, sight.instruction):
        which = re.search(r"The (first|second) network interface is in", sentence)
        if which is None:
            continue
        row: dict[str, Any] = {
            "DeviceIndex": int(which[1] == "second"),
            "SubnetId": meant(sight, "subnet", sentence),
            "Groups": spoken(sight, "sg", sentence),
        }
        if m := re.search(r"\b(with|without) a public", sentence):
            row["AssociatePublicIpAddress"] = m[1] == "with"
        if says(sentence, "deleted with", "kept after"):
            row["DeleteOnTermination"] = says(sentence, "deleted with")
        found.append(row)
    return found


def _metadata(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if says(text, r"\btokens?\b"):
        found["HttpTokens"] = "optional" if says(text, "without a token", "no token") else "required"
    if m := re.search(rf"\b({NUMBER}) hops?\b", text):
        found["HttpPutResponseHopLimit"] = number_of(m[1])
    if m := re.search(r"Tags (may|must not) be read from metadata", text):
        found["InstanceMetadataTags"] = "enabled" if m[1] == "may" else "disabled"
    if m := re.search(r"Metadata (answers|does not answer) over IPv6", text):
        found["HttpProtocolIpv6"] = "enabled" if m[1] == "answers" else "disabled"
    return found


def _machine(sight: Sight) -> dict[str, Any]:
    """What a request says of a machine to launch."""
    text = sight.instruction
    found: dict[str, Any] = {}
    if m := re.search(r"ami-[0-9a-f]{17}", text):
        found["ImageId"] = m[0]
    if m := re.search(_TYPE, text):
        found["InstanceType"] = m[0]
    if rows := _interfaces(sight):
        found["NetworkInterfaces"] = rows
    elif says(text, "belongs into", "put (?:it|them) into"):
        found["SubnetId"] = subnet(sight)
        if groups := spoken(sight, "sg"):
            found["SecurityGroupIds"] = groups
    if rows := _disks(text):
        found["BlockDeviceMappings"] = rows
    if options := _metadata(text):
        found["MetadataOptions"] = options
    return found | _switches(text)


def _switches(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if m := re.search(r"monitoring is (on|off)", text):
        found["Monitoring"] = {"Enabled": m[1] == "on"}
    if says(text, "against termination", "by accident", "termination is not"):
        found["DisableApiTermination"] = not says(text, "no protection", "is not blocked")
    if m := re.search(r"from within (stop|terminate)s", text):
        found["InstanceInitiatedShutdownBehavior"] = m[1]
    if m := re.search(r"(gets|does not get) dedicated bandwidth", text):
        found["EbsOptimized"] = m[1] == "gets"
    if m := re.search(rf"key pair ({NAME})", text):
        found["KeyName"] = m[1]
    return found


def _template(text: str) -> dict[str, Any]:
    """The template that a text speaks of, by name or id as it says."""
    said = re.search(rf"launch template (?:called )?(lt-[0-9a-f]{{8,17}}\b|{NAME})", text)
    if said is None:
        raise LookupError("no template")
    return {"LaunchTemplateId" if kind_of(said[1]) == "lt" else "LaunchTemplateName": said[1]}


def _run(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    if m := re.search(r"(?:at least|between) (\d+) and (?:at most )?(\d+)", text):
        low, high = int(m[1]), int(m[2])
    else:
        m = re.search(rf"(?:Start|need|Launch) ({NUMBER})\b", text)
        low = high = number_of(m[1]) if m else 1
    found = _machine(sight) | {"MinCount": low, "MaxCount": high}
    if says(text, "launch template"):
        own = _template(text)
        if m := re.search(r"version (\d+)", text):
            own["Version"] = m[1]
        elif m := re.search(r"is the (latest|default)|its (latest|default) version", text):
            own["Version"] = f"${(m[1] or m[2]).capitalize()}"
        found["LaunchTemplate"] = own
    return found | tags(sight, "instance")


def _data(sight: Sight) -> dict[str, Any]:
    found = _machine(sight)
    if m := re.search(r"Tag the (machines|disks) [^.]*", sight.instruction):
        kind = {"machines": "instance", "disks": "volume"}[m[1]]
        pairs = [{"Key": k, "Value": v} for k, v in key_values(m[0])]
        found["TagSpecifications"] = [{"ResourceType": kind, "Tags": pairs}]
    return found


def _create_template(sight: Sight) -> dict[str, Any]:
    found = _template(sight.instruction) | {"LaunchTemplateData": _data(sight)}
    return found | _note(sight.instruction)


def _note(text: str) -> dict[str, Any]:
    found = re.search(r'Note "([^"]+)"', text)
    return {"VersionDescription": found[1]} if found else {}


def _version(sight: Sight, text: str) -> str:
    """The number of the version that a text speaks of."""
    notes = [c.arguments.get("VersionDescription") for c in sight.context if "LaunchTemplate" in c.name]
    if m := re.search(r"version (\d+)", text):
        return m[1]
    if m := re.search(r'noted as "([^"]+)"', text):
        return str(notes.index(m[1]) + 1)
    if "newest version" in text:
        return str(len(notes))
    return next(str(i) for i in range(1, 13) if f"the {ordinal(i)} version" in text)


def _add_version(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found = _template(text) | {"LaunchTemplateData": _data(sight)} | _note(text)
    if m := re.search(r"(?:Start from|stays as in) [^.]*", text):
        found["SourceVersion"] = _version(sight, m[0])
    return found


def _default(sight: Sight) -> dict[str, Any]:
    return _template(sight.instruction) | {"DefaultVersion": _version(sight, sight.instruction)}


def _show(sight: Sight) -> dict[str, Any]:
    text, found = sight.instruction, _template(sight.instruction)
    if m := re.search(r"version (\d+) (?:to|and) version (\d+)", text):
        return found | {"MinVersion": m[1], "MaxVersion": m[2]}
    if m := re.search(r"version (\d+)(?: and (\d+))?", text):
        return found | {"Versions": [v for v in m.groups() if v]}
    m = re.search(rf"(?:no more than|up to) ({NUMBER})", text)
    return found | {"MaxResults": number_of(m[1]) if m else None}


def machines(sight: Sight) -> list[str]:
    """Machines that a request speaks of; all but some; else all."""
    said = spoken(sight, "i")
    every = [i for ids in known(sight).values() for i in ids if kind_of(i) == "i"]
    if says(sight.instruction, "all instances except"):
        return [i for i in every if i not in said]
    return said or [meant(sight, "i")]


def _stop(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"InstanceIds": machines(sight)}
    if says(text, "hibernat", "memory"):
        found["Hibernate"] = not says(text, "no hibernation", "need not")
    if says(text, r"\bforce\b"):
        found["Force"] = not says(text, "not force", "no force")
    return found


def _start(sight: Sight) -> dict[str, Any]:
    stopped = sight.calls("StopInstances")[-1].arguments["InstanceIds"]
    return {"InstanceIds": spoken(sight, "i") or list(stopped)}


def _modify(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"InstanceId": meant(sight, "i")}
    if m := re.search(_TYPE, text):
        return found | {"InstanceType": {"Value": m[0]}}
    if groups := spoken(sight, "sg"):
        return found | {"Groups": groups}
    if m := re.search(r"disk at (/dev/\w+)", text):
        gone = not says(text, r"\bkeep\b")
        return found | {"BlockDeviceMappings": [{"DeviceName": m[1], "Ebs": {"DeleteOnTermination": gone}}]}
    if says(text, "bandwidth"):
        return found | {"EbsOptimized": {"Value": not says(text, "loses")}}
    if says(text, "terminat"):
        return found | {"DisableApiTermination": {"Value": not says(text, r"\b(?:lift|allow)\b")}}
    return found | {"SourceDestCheck": {"Value": says(text, r"\bagain\b")}}


def _key(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    name = re.search(rf"key pair (?:called )?({NAME})", text)
    found: dict[str, Any] = {"KeyName": name[1] if name else ""}
    if m := re.search(r"\b(RSA|Ed25519)\b", text):
        found["KeyType"] = m[1].lower()
    if says(text, "PuTTY", "PEM"):
        found["KeyFormat"] = "ppk" if says(text, "PuTTY") else "pem"
    return found | tags(sight, "key-pair")


RULES = {
    "ec2:RunInstances": _run,
    "ec2:TerminateInstances": lambda sight: {"InstanceIds": machines(sight)},
    "ec2:RebootInstances": lambda sight: {"InstanceIds": machines(sight)},
    "ec2:StopInstances": _stop,
    "ec2:StartInstances": _start,
    "ec2:ModifyInstanceAttribute": _modify,
    "ec2:ModifyInstanceMetadataOptions": lambda sight: {
        "InstanceId": meant(sight, "i"),
        **_metadata(sight.instruction),
    },
    "ec2:CreateKeyPair": _key,
    "ec2:CreateLaunchTemplate": _create_template,
    "ec2:CreateLaunchTemplateVersion": _add_version,
    "ec2:ModifyLaunchTemplate": _default,
    "ec2:DeleteLaunchTemplate": lambda sight: _template(sight.instruction),
    "ec2:DescribeLaunchTemplateVersions": _show,
}
