"""Small parameter tasks that tests share, and a toy model that reads them (random weights, labelled toy)."""

from __future__ import annotations

from typing import Any

from toolsavvy.catalog import Tool
from toolsavvy.models.text import TextEncoder
from toolsavvy.parameters.prompts import ArgumentPrompts
from toolsavvy.tasks import ParamTask, Reference, Upstream
from world import TEMPLATE, toy_lm, toy_tokenizer

SUBNET = {
    "type": "object",
    "properties": {
        "VpcId": {"type": "string", "description": "The ID of the VPC."},
        "CidrBlock": {"type": "string", "description": "The range of addresses in CIDR notation. For example, none."},
        "Count": {"type": "integer"},
        "TagSpecifications": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "ResourceType": {"type": "string", "enum": ["gateway", "subnet", "vpc"]},
                    "Tags": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"Key": {"type": "string"}, "Value": {"type": "string"}},
                        },
                    },
                },
            },
        },
    },
    "required": ["VpcId"],
}


def subnet_task(i: int = 0, **changes: Any) -> ParamTask:
    """A subnet in a network that an earlier call made."""
    vpc, cidr = f"vpc-0a1b2c3d4e5f{i:04d}", f"10.{i}.0.0/16"
    output = {"Vpc": {"VpcId": vpc, "CidrBlock": cidr, "State": "available", "Tags": []}}
    settings: dict[str, Any] = {
        "id": f"t{i}",
        "instruction": f"Cut a subnet 10.{i}.1.0/24 out of the network that was just made and name it web-{i}.",
        "tools": (Tool("ec2:CreateSubnet", "CreateSubnet", "Creates a subnet in a network.", parameters=SUBNET),),
        "references": (
            Reference(
                "CreateSubnet",
                {
                    "TagSpecifications": [{"Tags": [{"Value": f"web-{i}", "Key": "Name"}], "ResourceType": "subnet"}],
                    "CidrBlock": f"10.{i}.1.0/24",
                    "VpcId": vpc,
                },
            ),
        ),
        "upstream": (Upstream("CreateVpc", {"CidrBlock": cidr}, output),),
    }
    return ParamTask(**(settings | changes))


def toy_writer(seed: int = 0) -> tuple[Any, Any, ArgumentPrompts]:
    """A random model, its tokenizer and prompts."""
    tokenizer = toy_tokenizer(["subnet network VpcId CidrBlock {} 10.0.0.0/16"] * 4, template=TEMPLATE)
    model = toy_lm(tokenizer, seed=seed)
    return model, tokenizer, ArgumentPrompts(tokenizer, TextEncoder(tokenizer), schema_tokens=200, context_tokens=200)
