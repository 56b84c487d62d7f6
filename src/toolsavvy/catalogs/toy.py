"""A made-up catalog for tests and dry runs: small, seeded, learnable, and labelled as a toy wherever it is shown."""

from __future__ import annotations

import numpy as np

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.reading import Record
from toolsavvy.catalogs.splits import taught_split
from toolsavvy.errors import UserError

_ACTIONS = {
    "create": ("make", "set up"),
    "delete": ("remove", "get rid of"),
    "list": ("show all of", "enumerate"),
    "update": ("change", "modify"),
    "send": ("mail out", "dispatch"),
    "archive": ("store away", "put aside"),
    "approve": ("confirm", "sign off"),
    "export": ("download", "dump"),
    "share": ("hand over", "pass on"),
    "translate": ("put into french", "localise"),
    "schedule": ("plan", "put on the calendar"),
    "verify": ("check", "validate"),
}
_OBJECTS = {
    "invoice": ("bill", "billing"),
    "calendar": ("agenda", "planning"),
    "photo": ("picture", "media"),
    "parcel": ("package", "shipping"),
    "recipe": ("dish", "kitchen"),
    "ticket": ("support case", "helpdesk"),
    "contract": ("agreement", "legal"),
    "song": ("track", "music"),
    "flight": ("plane trip", "travel"),
    "sensor": ("probe", "devices"),
    "vehicle": ("car", "fleet"),
    "patient": ("case file", "clinic"),
    "lesson": ("class", "school"),
    "garden": ("plot", "outdoors"),
    "wallet": ("purse", "payments"),
    "server": ("machine", "hosting"),
}
_SHORT = ("please {verb} the {thing}", "{verb} my {thing} now", "i want to {verb} this {thing}", "{verb} {thing}")
_VERBOSE = (
    "our {domain} team asked me to {verb} the {thing} before noon",
    "could you {verb} the {thing} that {who} mentioned in {domain}",
    "{who} needs somebody to {verb} the {thing}, can you do it",
)
_WHO = ("anna", "the manager", "my colleague", "li")


def load(
    tools: int = 24,
    seed: int = 0,
    *,
    queries_per_tool: int = 10,
    name: str = "toy",
    document: str = DEFAULT_DOCUMENT,
    taught_share: float = 0.5,
    train_share: float = 0.6,
    validation_share: float = 0.1,
) -> RetrievalSet:
    """Make a toy set with splits train, validation, test_seen and test_unseen; numbers on it say nothing about models.

    Args:
        tools: how many, 1 to 192.
        seed: of tools, queries and splits.
        queries_per_tool: how many queries each tool gets, half of them short.
        name: shown in tables.
        document: template of every tool's text.
        taught_share: share of the tools that get training rows.
        train_share: share of a taught tool's queries to train on.
        validation_share: share of the taught tools' queries for validation.

    Raises:
        UserError: a number is out of range.
    """
    most = len(_ACTIONS) * len(_OBJECTS)
    for value, key, high in ((tools, "tools", most), (queries_per_tool, "queries_per_tool", 50)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
            raise UserError(
                f"{value!r} is out of range",
                where=f"catalog.{key}",
                expected=f"1 to {high}",
                fix="choose a number in the range",
            )
    rng = np.random.default_rng(seed)
    pairs = [(verb, thing) for verb in _ACTIONS for thing in _OBJECTS]
    chosen = [pairs[i] for i in sorted(rng.permutation(most)[:tools])]
    table = ToolTable()
    queries: list[Query] = []
    for number, (verb, thing) in enumerate(chosen):
        tool = _tool(verb, thing)
        table.add(tool, Record({}, f"toy tool {number}"))
        queries += _queries(tool.id, verb, thing, queries_per_tool, rng)
    splits = taught_split(
        queries, taught_share=taught_share, train_share=train_share, validation_share=validation_share, seed=seed
    )
    return retrieval_set(name, table, splits, document=document, headline=("test_seen", "test_unseen"))


def _tool(verb: str, thing: str) -> Tool:
    """One tool."""
    domain = _OBJECTS[thing][1]
    parameters = {
        "type": "object",
        "properties": {f"{thing}_id": {"type": "string"}, "note": {"type": "string"}},
        "required": [f"{thing}_id"],
    }
    about = f"Use it to {verb} one {thing}, also called {_OBJECTS[thing][0]}."
    return Tool(f"toy:{verb}_{thing}", f"{verb}_{thing}", about, group=domain, category="toy", parameters=parameters)


def _queries(tool_id: str, verb: str, thing: str, count: int, rng: np.random.Generator) -> list[Query]:
    """Distinct requests for one tool, in its own words and in synonyms."""
    verbs, things, domain = (verb, *_ACTIONS[verb]), (thing, _OBJECTS[thing][0]), _OBJECTS[thing][1]
    short = [t.format(verb=v, thing=n) for t in _SHORT for v in verbs for n in things]
    long = [
        t.format(verb=v, thing=n, domain=domain, who=w)
        for t in _VERBOSE
        for v in verbs
        for n in things
        for w in (_WHO if "{who}" in t else _WHO[:1])
    ]
    half = min(len(short), (count + 1) // 2)
    texts = [(t, "short") for t in _draw(short, half, rng)] + [(t, "verbose") for t in _draw(long, count - half, rng)]
    return [Query(f"{tool_id}#{i}", text, {tool_id: 1}, subset=subset) for i, (text, subset) in enumerate(texts)]


def _draw(texts: list[str], count: int, rng: np.random.Generator) -> list[str]:
    """`count` different texts."""
    return [texts[i] for i in rng.permutation(len(texts))[:count]]
