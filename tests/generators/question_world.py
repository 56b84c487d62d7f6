"""A seeded catalog with services, actions, parameters and results, for questions about tools."""

from __future__ import annotations

import random
from typing import Any

from toolsavvy.catalog import Catalog, Tool

VERBS = {"Creates": "Create", "Deletes": "Delete", "Lists": "List", "Updates": "Update", "Exports": "Export"}
SYLLABLES = ["ba", "co", "du", "fe", "gi", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "we", "zo"]


def word(rng: random.Random) -> str:
    return "".join(rng.sample(SYLLABLES, 3))


def schema(names: list[str], required: int, rng: random.Random) -> dict[str, Any]:
    kinds = ["string", "integer", "boolean", "array"]
    properties = {name: {"type": rng.choice(kinds), "description": f"The {name}."} for name in names}
    return {"type": "object", "properties": properties, "required": names[:required]}


def catalog(services: int = 12, objects: int = 6, seed: int = 0) -> Catalog:
    """Five actions on each of six objects of each service: 360 tools unless told otherwise."""
    rng = random.Random(seed)
    tools = []
    for s in range(services):
        shared = [f"{word(rng)}{word(rng).title()}" for _ in range(6)]
        for _ in range(objects):
            kind, of = word(rng), word(rng)
            for verb, short in VERBS.items():
                own = [f"{word(rng)}{word(rng).title()}" for _ in range(3)]
                names = [f"{kind}Id", *rng.sample(shared, 3), *own]
                rng.shuffle(names)
                tools.append(
                    Tool(
                        id=f"s{s}:{short}{kind.title()}",
                        name=f"{short}{kind.title()}",
                        group=f"s{s}",
                        description=f"{verb} a {kind} in the {of} that you choose. Every {word(rng)} of a {word(rng)} "
                        f"keeps its {word(rng)} for a {word(rng)}. For more information, see the guide.",
                        parameters=schema(names, 2, rng),
                        returns=schema([f"{kind}State", f"{word(rng)}{word(rng).title()}"], 0, rng),
                    )
                )
    return Catalog("made", tuple(tools))


def property_names(node: Any) -> set[str]:
    """Every property's name, at any depth."""
    if isinstance(node, dict):
        own = set(node["properties"]) if isinstance(node.get("properties"), dict) else set()
        return own.union(*[property_names(value) for value in node.values()])
    return set().union(*map(property_names, node)) if isinstance(node, list) else set()
