"""A realistic retrieval benchmark (RRB) from templates: offline, deterministic, no model.

Source: ToolSense 2606.12451 (three tiers by number of gold tools, an anchor, a pool of 14). Deviations: tools are drawn
over the whole catalog; no tool that does what is asked goes unnamed; pools are shuffled; names never leak.
"""

from __future__ import annotations

import logging
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from toolsavvy.attacks import tokens
from toolsavvy.benchmark import TIERS, RetrievalItem
from toolsavvy.catalog import Catalog, Query, RetrievalSet
from toolsavvy.config.toolsense import LEAST_POOL
from toolsavvy.errors import UserError
from toolsavvy.generators.overlap import best_matches
from toolsavvy.generators.toolsense.composing import NEAR_DUPLICATE, Composer, Draft, clause, gives_away, swapped
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood, neighbourhood
from toolsavvy.generators.toolsense.phrasing import frames
from toolsavvy.generators.toolsense.requests import Need, fallback_need, need_of_sentence, needs_of, sentences
from toolsavvy.generators.toolsense.rivals import Rivals
from toolsavvy.generators.toolsense.tools import draw_tools, services

log = logging.getLogger(__name__)
NEEDED: Mapping[str, int] = {"easy": 2, "medium": 3, "hard": 5}
"""Tier -> tools that a catalog must hold: its fewest golds and one wrong tool."""
EQUAL: Mapping[str, float] = dict.fromkeys(TIERS, 1 / len(TIERS))


@dataclass(frozen=True)
class Made:
    """What came of it.

    Args:
        items: by tier, in the order of TIERS.
        counts: items wanted and made by tier, and the tools that were passed over, by reason.
    """

    items: tuple[RetrievalItem, ...]
    counts: Mapping[str, int]


def template_rrb(
    data: RetrievalSet,
    n: int,
    *,
    cap: int | None = None,
    near: Neighbourhood | None = None,
    seed: int = 0,
    pool: int = 14,
    tiers: Mapping[str, float] = EQUAL,
    exclude_anchors: Collection[str] = (),
) -> list[RetrievalItem]:
    """`make_rrb` without its account, which is logged."""
    made = make_rrb(
        data, n, cap=cap, near=near, seed=seed, pool=pool, tiers=tiers, exclude_anchors=exclude_anchors
    )  # fmt: skip
    log.info("RRB of %s: %s", data.catalog.name, ", ".join(f"{key} {value}" for key, value in made.counts.items()))
    return list(made.items)


def make_rrb(
    data: RetrievalSet,
    n: int,
    *,
    cap: int | None = None,
    near: Neighbourhood | None = None,
    seed: int = 0,
    pool: int = 14,
    tiers: Mapping[str, float] = EQUAL,
    exclude_anchors: Collection[str] = (),
) -> Made:
    """Write realistic requests for tools of a catalog: easy (1 gold), medium (2-3), hard (4-6).

    Every gold is asked for, and no other tool of the catalog does the same. Fewer than n items come back where no
    more can be made honestly. People's requests of the test splits lend some objects; none is repeated, and those of
    the training splits are never used.

    Args:
        data: the tools and people's requests.
        n: items wanted.
        cap: most anchors of one service; None: 5 % of n, raised where the services are too few.
        near: where the pools' wrong tools come from; None: lexical, over whole documents.
        seed: of all choices.
        pool: tools of an item's pool, its golds among them.
        tiers: tier -> its share; one that is left out has none.
        exclude_anchors: ids of tools that no item may be written for.

    Raises:
        UserError: n or pool out of range, shares that are none, a catalog too small for a tier, or no item at all.
    """
    wanted = apportioned(n, tiers)
    _check(data.catalog, n, pool, wanted)
    nearby = neighbourhood(data.catalog, near)
    composer = _composer(data, nearby, seed)
    drafts = _drafts(composer, wanted, n, cap, seed, set(exclude_anchors))
    counts: dict[str, int] = {}
    for tier in TIERS:
        counts |= {f"{tier} wanted": wanted[tier], f"{tier} made": len(drafts[tier])}
    counts |= dict(sorted(composer.counts.items()))
    if not any(drafts.values()):
        reasons = ", ".join(f"{key} ({value} tools)" for key, value in sorted(composer.counts.items()))
        raise UserError(
            f"no request can be written honestly: {reasons or 'no tool is left'}",
            where=f"catalog {data.catalog.name}",
            expected="tools whose names or descriptions say what they do, each something else",
            fix="use generator.backend=llm, or another catalog",
        )
    return Made(_items(composer, drafts, nearby, pool, seed), counts)


def apportioned(n: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Items by tier: whole numbers that add up to n, by largest remainder; of equal ones the easier tier.

    Raises:
        UserError: shares that are none.
    """
    total = sum(shares.values())
    if not set(shares) <= {*TIERS} or min(shares.values(), default=-1) < 0 or total <= 0:
        raise UserError(
            f"tiers={dict(shares)}", where="generator.tiers", expected=f"shares from 0 of {', '.join(TIERS)}",
            fix="generator.tiers='{easy: 0.34, medium: 0.33, hard: 0.33}'",
        )  # fmt: skip
    exact = {tier: n * shares.get(tier, 0.0) / total for tier in TIERS}
    counts = {tier: int(share + 1e-9) for tier, share in exact.items()}
    by_remainder = sorted(TIERS, key=lambda tier: (round(counts[tier] - exact[tier], 9), TIERS.index(tier)))
    for tier in by_remainder[: n - sum(counts.values())]:
        counts[tier] += 1
    return counts


def _check(catalog: Catalog, n: int, pool: int, wanted: Mapping[str, int]) -> None:
    """Refuse what can't work at all."""
    if n < 1:
        raise UserError(f"n={n}", where="generator.n", expected="at least 1")
    if pool < LEAST_POOL:
        raise UserError(
            f"pool={pool}", where="generator.pool", expected=f"at least {LEAST_POOL}: six golds and another"
        )
    short = [tier for tier in TIERS if wanted[tier] and len(catalog) < NEEDED[tier]]
    if short:
        held = "1 tool is" if len(catalog) == 1 else f"{len(catalog)} tools are"
        raise UserError(
            f"{held} too few for {' and '.join(short)}",
            where=f"catalog {catalog.name}",
            expected="at least " + ", ".join(f"{NEEDED[tier]} tools for {tier}" for tier in TIERS),
            fix="set the share of that tier in generator.tiers to 0, or use a larger catalog",
        )


def _composer(data: RetrievalSet, near: Neighbourhood, seed: int) -> Composer:
    """A writer that knows the tools and what people asked for."""
    catalog = data.catalog
    rivals = Rivals(catalog)
    asked = [query for split in data.test_splits for query in data.splits[split]]
    human: defaultdict[int, list[str]] = defaultdict(list)
    for query in (query for queries in data.splits.values() for query in queries):
        for tool in query.relevant:
            human[catalog.index[tool]].append(query.text)
    return Composer(
        catalog,
        rivals,
        frames("benchmark"),
        frames("training"),
        human=human,
        near=near,
        examples=_examples(catalog, rivals, asked),
        together=_together(catalog, asked),
        service=services(catalog),
        seed=seed,
    )


def _examples(catalog: Catalog, rivals: Rivals, queries: Sequence[Query]) -> dict[int, list[Need]]:
    """Needs that people's requests tell, where the tool's own texts bear them out."""
    found: defaultdict[int, list[Need]] = defaultdict(list)
    for query in queries:
        if len(query.gold) != 1 or query.absent:
            continue
        tool = catalog.index[next(iter(query.relevant))]
        for sentence in sentences(query.text, 1):
            for need in need_of_sentence(sentence, "example"):
                if rivals.supports(tool, need):
                    found[tool].append(need)
    return dict(found)


def _together(catalog: Catalog, queries: Sequence[Query]) -> dict[int, list[int]]:
    """Tools that one request of people asks for at once."""
    found: defaultdict[int, dict[int, None]] = defaultdict(dict)
    for query in queries:
        golds = [catalog.index[tool] for tool in query.relevant]
        for tool in golds:
            found[tool] |= dict.fromkeys(other for other in golds if other != tool)
    return {tool: list(others) for tool, others in found.items()}


def _drafts(
    composer: Composer, wanted: Mapping[str, int], n: int, cap: int | None, seed: int, excluded: set[str]
) -> dict[str, list[Draft]]:
    """Requests by tier; a tool is the anchor of one a tier at most, and services keep to their caps in every turn."""
    catalog, service = composer.catalog, composer.service
    drafts: dict[str, list[Draft]] = {tier: [] for tier in TIERS}
    able = [i for i, tool in enumerate(catalog.tools) if composer.rivals.needs[i] and tool.id not in excluded]
    composer.counts["what the tool is for can't be told from its texts"] += sum(not n for n in composer.rivals.needs)
    if not able:
        return drafts
    most = draw_tools(catalog, n, cap=cap, seed=seed, among=able).cap
    order = draw_tools(catalog, len(able), cap=len(able), seed=seed, among=able).tools
    used: Counter[str] = Counter()
    tried: set[tuple[str, int]] = set()
    served: Counter[int] = Counter()
    for turn in range(1, len(TIERS) + 1):  # a tool is asked for in a second tier only once there is no fresh one left
        for anchor in order:
            lacking = [tier for tier in reversed(TIERS) if len(drafts[tier]) < wanted[tier]]
            if not lacking:
                return drafts
            if served[anchor] >= turn or (service and most and used[service[anchor]] >= most * turn):
                continue
            # The tier that lacks most comes first; of equals, the one that fewest tools fit.
            for tier in sorted(lacking, key=lambda tier: len(drafts[tier]) / wanted[tier]):
                draft = composer.write(tier, anchor) if (tier, anchor) not in tried else None
                tried.add((tier, anchor))
                if draft is not None:
                    drafts[tier].append(draft)
                    served[anchor] += 1
                    used.update([service[anchor]] if service else [])
                    break
    return drafts


def _items(
    composer: Composer, drafts: Mapping[str, Sequence[Draft]], nearby: Neighbourhood, pool: int, seed: int
) -> tuple[RetrievalItem, ...]:
    """Pools filled with the golds' neighbours and shuffled."""
    catalog = composer.catalog
    nearby.prepare([gold for some in drafts.values() for draft in some for gold in draft.golds], pool)
    items: list[RetrievalItem] = []
    for tier in TIERS:
        for number, draft in enumerate(drafts[tier]):
            members = dict.fromkeys(draft.golds)
            for gold in draft.golds:  # the anchor's neighbours first
                for other in nearby.of(gold, pool):
                    if len(members) < pool:
                        members.setdefault(other)
            ids = [catalog.tools[tool].id for tool in members]
            golds, anchor = tuple(ids[: len(draft.golds)]), ids[0]
            name = f"rrb/{tier}/{number:04d}"
            rng = random.Random(f"{seed}/pool/{name}/{anchor}")
            rng.shuffle(ids)
            golds = tuple(sorted(golds, key=ids.index))  # their order says nothing either
            items.append(RetrievalItem(name, draft.query, golds, tuple(ids), tier, anchor, draft.pattern))
    return tuple(items)


def training_requests(
    catalog: Catalog, seed: int = 0, per_tool: int = 2, *, apart_from: Sequence[str] = ()
) -> list[tuple[int, str]]:
    """Requests like the easy ones for every tool, from the half of the phrase bank that the benchmark never uses.

    They may be ambiguous, as training data may: a need that several tools tell gets the provider's name with it. A
    tool whose texts don't say what it is for is asked for by the words of its name.

    Args:
        catalog: the tools.
        seed: of all choices.
        per_tool: requests a tool; fewer where no more wordings are left.
        apart_from: requests of a benchmark; none is repeated or nearly so (ROUGE-L F1 from 0.8 on).

    Returns:
        (position of the tool, request), by tool.
    """
    needs = [needs_of(tool) or fallback_need(tool) for tool in catalog.tools]
    common = Counter((need.action, need.stems) for some in needs for need in {n.stems: n for n in some}.values())
    rows: list[tuple[int, str]] = []
    for position, some in enumerate(needs):
        rows += [(position, text) for text in _wordings(catalog, position, some, common, seed, 2 * per_tool)]
    if apart_from:
        _, scores = best_matches([tokens(text) for _, text in rows], [tokens(text) for text in apart_from])
        rows = [row for row, score in zip(rows, scores.tolist(), strict=True) if score < NEAR_DUPLICATE]
    kept: Counter[int] = Counter()
    chosen: list[tuple[int, str]] = []
    for position, text in rows:
        if kept[position] < per_tool:
            kept[position] += 1
            chosen.append((position, text))
    return chosen


def _wordings(
    catalog: Catalog,
    position: int,
    needs: Sequence[Need],
    common: Mapping[tuple[str, frozenset[str]], int],
    seed: int,
    most: int,
) -> list[str]:
    """Up to `most` different training requests of one tool, those first that neither name it nor sound like ours."""
    tool, phrases, other = catalog.tools[position], frames("training"), frames("benchmark")
    rng = random.Random(f"{seed}/training/{tool.id}")
    owner = (tool.category or tool.group).removeprefix("Amazon ").removeprefix("AWS ")
    texts: dict[str, tuple[bool, bool]] = {}
    for _ in range(4 * most if needs else 0):
        need = rng.choice(needs)
        do = clause(replace(need, thing=swapped(need.thing, phrases, rng)), phrases, rng)
        if owner and common[need.action, need.stems] > 1:
            do += f" for {owner}"
        text = rng.choice(phrases.easy).format(do=do)
        if text not in texts:
            texts[text] = gives_away(text, tool), other.occurs(text)
        if sum(not any(faults) for faults in texts.values()) == most:
            break
    return sorted(texts, key=lambda text: texts[text])[:most]
