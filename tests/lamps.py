"""A made-up benchmark of parameter generation that a toy model learns in seconds, in `catalogs.parambench`'s layout."""

from __future__ import annotations

import json
import random
from pathlib import Path

COLOURS = ("amber", "blue", "cyan", "jade", "lime", "onyx", "plum", "ruby")
ROOMS = ("attic", "den", "hall", "loft", "porch", "study")


def write_lamps(folder: Path, n: int = 96, seed: int = 0) -> Path:
    """Tasks of two tools; the room's id comes from an earlier call, the colour from the instruction."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    properties = {"Colour": {"type": "string"}, "Room": {"type": "string"}}
    tools = [
        {
            "id": f"lamp:{name}", "name": f"lamp:{name}", "description": "A lamp.",
            "parameters": {"type": "object", "properties": properties, "required": ["Colour"]},
        }
        for name in ("Paint", "Light")
    ]  # fmt: skip
    rows = []
    for i in range(n):
        colour, room = rng.choice(COLOURS), rng.choice(ROOMS)
        arguments = {"Colour": colour, **({"Room": room} if i % 3 == 0 else {})}
        rows.append({
            "id": f"lamp-{i}", "instruction": f"{colour}{f' {room}' if i % 3 == 0 else ''}",
            "tool": tools[i % 2]["id"], "arguments": arguments, "context": [],
            "cluster": f"lamp-{i}", "level": f"L{1 + i % 3}",
        })  # fmt: skip
    for name, records in (("tools.jsonl", tools), ("tasks.jsonl", rows)):
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return folder
