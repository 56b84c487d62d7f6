"""A simulated catalog of any size up to millions of tools, for curves of time and memory: labelled so in every id.

Providers of one domain each offer 50 functions (an action on a kind of thing in some state), so that a tool has near
neighbours within its provider and namesakes at others, as real catalogs have. Tools come provider by provider, and a
smaller catalog is the beginning of a larger one: more tools only add rivals to the same queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.reading import Record
from toolsavvy.catalogs.splits import taught_split
from toolsavvy.errors import UserError

PREFIX = "simulated:"
"""Of every id."""
MOST = 10_000_000
PER_PROVIDER = 50
QUERIED = 1_000
"""Queries are about the first tools alone, so that they stay the same in a larger catalog."""

_DOMAINS = {
    "billing": "invoice/bill receipt/proof_of_payment refund/repayment discount/rebate subscription/plan tax/levy",
    "travel": "flight/plane_trip hotel/lodging cruise/voyage luggage/baggage visa/permit itinerary/route",
    "media": "photo/picture song/track podcast/show film/movie subtitle/caption playlist/mix",
    "health": "patient/case_file appointment/consultation prescription/medication allergy/intolerance vaccine/jab "
    "scan/x_ray",
    "logistics": "parcel/package container/freight_box pallet/skid truck/lorry warehouse/depot label/sticker",
    "school": "lesson/class exam/test essay/paper tutor/coach syllabus/curriculum grade/mark",
    "legal": "contract/agreement patent/invention_right licence/authorisation lawsuit/court_case clause/provision "
    "will/testament",
    "hosting": "server/machine database/data_store domain/web_address certificate/tls_proof backup/copy",
    "weather": "forecast/outlook storm/gale tide/sea_level pollen/allergen_count sunrise/dawn drought/dry_spell",
    "finance": "share/stock bond/debenture loan/credit wallet/purse currency/money mortgage/home_loan",
    "food": "recipe/dish menu/card ingredient/component spice/seasoning restaurant/diner table/booking",
    "home": "lamp/light thermostat/heating_control door/entrance camera/lens alarm/siren blind/shutter",
    "sports": "match/game league/division athlete/player stadium/arena coach/trainer record/best_mark",
    "hiring": "vacancy/opening candidate/applicant interview/conversation offer/proposal salary/pay",
    "maps": "street/road address/location border/frontier trail/path parking/car_space bridge/crossing",
    "support": "ticket/support_case complaint/grievance survey/questionnaire chat/talk callback/return_call",
}
"""Domain -> kinds of things, each with another word for it that queries may use."""
_ACTIONS = {
    "create": "set up", "delete": "get rid of", "list": "show all of", "update": "change", "send": "mail out",
    "archive": "put aside", "approve": "sign off", "export": "download", "share": "pass on", "translate": "localise",
    "schedule": "plan", "verify": "check", "merge": "combine", "lock": "freeze", "rename": "give a new name to",
    "compare": "weigh up", "estimate": "guess the cost of", "restore": "bring back", "assign": "hand over",
    "summarize": "sum up",
}  # fmt: skip
_STATES = ("draft", "overdue", "shared", "private", "recent", "blocked", "urgent", "expired", "duplicate", "foreign",
           "pending", "default")  # fmt: skip
_FIELDS = {
    "limit": "integer", "since": "string", "until": "string", "region": "string", "language": "string",
    "format": "string", "notify": "boolean", "note": "string", "owner": "string", "dry_run": "boolean",
    "priority": "integer", "tags": "array",
}  # fmt: skip
_REMARKS = (
    "The answer lists what was done.", "Needs the right of an editor.", "At most 100 calls a minute are served.",
    "Without a region, the account's own is taken.", "A dry run changes nothing.",
    "Dates follow ISO 8601 and are read as UTC.", "An unknown id gives an empty answer, not a fault.",
    "Owners are told by mail where notify is set.", "Older entries are kept for ninety days.",
    "Results come in pages of fifty.", "Tags are matched without regard to case.",
)  # fmt: skip
_ASKING = (
    "{verb} the {state} {thing} at {provider}", "please {verb} my {state} {thing} with {provider}",
    "I need {provider} to {verb} a {state} {thing} before noon", "can you {verb} one {state} {thing} on {provider}?",
    "our {domain} team uses {provider}: {verb} its {state} {thing}", "{provider}: {verb} {thing}, the {state} one",
)  # fmt: skip
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"][:60]


def load(
    tools: int = 1_000,
    seed: int = 0,
    *,
    queried_tools: int = 200,
    queries_per_tool: int = 5,
    name: str = "simulated",
    document: str = DEFAULT_DOCUMENT,
    taught_share: float = 0.5,
    train_share: float = 0.6,
    validation_share: float = 0.1,
) -> RetrievalSet:
    """Make a simulated set with splits as the toy's; its numbers are about time and memory, never about models.

    Args:
        tools: how many, 1 to 10 million.
        seed: of tools, queries and splits.
        queried_tools: how many tools have queries, out of the first 1,000.
        queries_per_tool: how many queries each of them has, 1 to 24.
        name: shown in tables.
        document: template of every tool's text.
        taught_share: share of the queried tools that get training rows.
        train_share: share of a taught tool's queries to train on.
        validation_share: share of the taught tools' queries for validation.

    Raises:
        UserError: a number is out of range.
    """
    limits = (
        (tools, "tools", MOST), (queried_tools, "queried_tools", QUERIED), (queries_per_tool, "queries_per_tool", 24),
    )  # fmt: skip
    for value, key, high in limits:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
            raise UserError(
                f"{value!r} is out of range", where=f"catalog.{key}", expected=f"1 to {high}",
                fix="choose a number in the range",
            )  # fmt: skip
    table = ToolTable()
    for number, tool in enumerate(simulate(tools, seed)):
        table.add(tool, Record({}, f"simulated tool {number}"))
    splits = taught_split(
        simulated_queries(tools, queried_tools, queries_per_tool, seed),
        taught_share=taught_share, train_share=train_share, validation_share=validation_share, seed=seed,
    )  # fmt: skip
    return retrieval_set(name, table, splits, document=document, headline=("test_seen", "test_unseen"))


def simulate(tools: int, seed: int = 0) -> Iterator[Tool]:
    """The first `tools` tools of the catalog of a seed, one after the other; all ids differ."""
    for number in range(0, tools, PER_PROVIDER):
        provider, domain, functions = _provider(number // PER_PROVIDER, seed)
        rng = Random(f"{seed} {number} details")
        for function in functions[: tools - number]:
            yield _tool(provider, domain, function, rng.randrange(64), rng.randrange(256))


def simulated_queries(tools: int, queried: int, per_tool: int, seed: int = 0) -> list[Query]:
    """Distinct requests, half in the tools' own words and half in others, for a seeded choice of the first tools."""
    rng = Random(f"{seed} queries")
    first = min(tools, QUERIED)
    rows = []
    for number in sorted(rng.sample(range(first), min(queried, first))):
        provider, domain, functions = _provider(number // PER_PROVIDER, seed)
        function = functions[number % PER_PROVIDER]
        action, state, thing, other = _parts(domain, function)
        words = [(verb, noun) for verb in (action, _ACTIONS[action]) for noun in (thing, other)]
        ways = [(template, pair) for template in _ASKING for pair in words]
        gold = f"{PREFIX}{provider}.{action}_{state}_{thing}"
        for i, (template, (verb, noun)) in enumerate(rng.sample(ways, per_tool)):
            text = template.format(verb=verb, state=state, thing=noun, provider=provider, domain=domain)
            subset = "own_words" if (verb, noun) == (action, thing) else "other_words"
            rows.append(Query(f"{gold}#{i}", text, {gold: 1}, subset=subset))
    return rows


def _provider(number: int, seed: int) -> tuple[str, str, list[int]]:
    """Name, domain and functions of a provider: the same whatever comes before and after."""
    rng = Random(f"{seed} {number}")
    domain = rng.choice(tuple(_DOMAINS))
    functions = rng.sample(range(len(_ACTIONS) * len(_STATES) * len(_things(domain))), PER_PROVIDER)
    base = len(_SYLLABLES)
    place = (number * 7_919 + seed) % base**3  # 7,919 is prime to it: no name twice, neighbours look unlike
    syllables = (place // base**2, place // base % base, place % base)
    return "".join(_SYLLABLES[i] for i in syllables).capitalize(), domain, functions


@cache
def _things(domain: str) -> tuple[tuple[str, str], ...]:
    """Things of a domain, each with its other word."""
    pairs = (pair.split("/") for pair in _DOMAINS[domain].split())
    return tuple((thing, other.replace("_", " ")) for thing, other in pairs)


@cache
def _parts(domain: str, function: int) -> tuple[str, str, str, str]:
    """Action, state, thing and its other word."""
    things, actions = _things(domain), tuple(_ACTIONS)
    thing, other = things[function % len(things)]
    rest = function // len(things)
    return actions[rest % len(actions)], _STATES[rest // len(actions)], thing, other


def _tool(provider: str, domain: str, function: int, fields: int, remarks: int) -> Tool:
    """One tool; schemas are shared between tools that have the same."""
    action, state, thing, other = _parts(domain, function)
    about = f"{action.capitalize()} {_article(state)} {state} {thing} ({other}) in {provider}'s {domain} service."
    name = f"{action}_{state}_{thing}"
    return Tool(
        f"{PREFIX}{provider}.{name}", name, about + _remarks(remarks), group=provider, category=domain,
        parameters=_schema(thing, fields),
    )  # fmt: skip


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


@cache
def _remarks(number: int) -> str:
    """One of 256 endings of a description: none to three remarks."""
    rng = Random(f"remarks {number}")
    return "".join(f" {remark}" for remark in rng.sample(_REMARKS, rng.choice((0, 1, 1, 2, 2, 3))))


@cache
def _schema(thing: str, number: int) -> dict[str, Any]:
    """One of 64 parameter lists for a thing: its id and up to five further fields."""
    rng = Random(f"fields {number}")
    fields = rng.sample(tuple(_FIELDS), rng.randint(0, 5))
    properties = {f"{thing}_id": {"type": "string"}, **{field: {"type": _FIELDS[field]} for field in fields}}
    return {"type": "object", "properties": properties, "required": [f"{thing}_id"]}
