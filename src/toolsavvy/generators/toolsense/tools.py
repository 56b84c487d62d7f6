"""Which tools a benchmark asks about: a sample over the whole catalog, by service, with a cap per service."""

from __future__ import annotations

import logging
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from toolsavvy.catalog import Catalog
from toolsavvy.errors import UserError

log = logging.getLogger("toolsavvy")

CAP_SHARE = 0.05
"""Of the items, that one service may have unless told otherwise."""


@dataclass(frozen=True)
class Drawn:
    """A sample of tools.

    Args:
        tools: positions in the catalog, in random order: any beginning is a sample too.
        cap: the most tools that one service could give; None where the catalog names no services.
        is_raised: the cap that was asked for could not be kept, because the services are too few.
        services: how many services the sample touches.
    """

    tools: tuple[int, ...]
    cap: int | None
    is_raised: bool
    services: int


def sample_tools(
    catalog: Catalog, n: int, *, cap: int | None = None, seed: int = 0, among: Sequence[int] | None = None
) -> list[int]:
    """`draw_tools` without its account; a raised cap is logged."""
    drawn = draw_tools(catalog, n, cap=cap, seed=seed, among=among)
    _say_if_raised(catalog, drawn)
    return list(drawn.tools)


def _say_if_raised(catalog: Catalog, drawn: Drawn) -> None:
    if drawn.is_raised:
        log.warning("catalog %s has too few services for the cap: up to %s tools each", catalog.name, drawn.cap)


def draw_tools(
    catalog: Catalog, n: int, *, cap: int | None = None, seed: int = 0, among: Sequence[int] | None = None
) -> Drawn:
    """Draw tools over the whole catalog: services in proportion to their tools, but none above the cap.

    Systematic sampling (Madow 1949) over services in random order: every service gets its expected share rounded down
    or up, so that many small services are touched as often as their size says. The cap is raised by as little as
    gives n tools.

    Args:
        catalog: the tools.
        n: how many; all of them where there are fewer.
        cap: most tools of one service; None: 5 % of n, rounded up.
        seed: of all draws.
        among: draw from these positions alone.

    Raises:
        UserError: n or cap below 1, or nothing to draw from.
    """
    for value, key in ((n, "n"), (cap, "cap")):
        if value is not None and value < 1:
            raise UserError(f"{value} is too small", where=f"generator.{key}", expected="a whole number from 1")
    pool = range(len(catalog)) if among is None else sorted(set(among))
    if not pool:
        raise UserError("there is no tool to draw from", where=f"catalog {catalog.name}", expected="at least one tool")
    rng = random.Random(f"{seed}/tools")
    label = services(catalog)
    if label is None:
        return Drawn(tuple(rng.sample(pool, min(n, len(pool)))), None, False, 0)
    strata: defaultdict[str, list[int]] = defaultdict(list)
    for tool in pool:
        strata[label[tool]].append(tool)
    wanted = cap or max(1, math.ceil(n * CAP_SHARE))
    names = rng.sample(sorted(strata), len(strata))
    sizes = [len(strata[name]) for name in names]
    kept = _feasible(sizes, min(n, len(pool)), wanted)
    counts = _systematic(_shares([min(size, kept) for size in sizes], sizes, min(n, len(pool))), rng)
    tools = [tool for name, count in zip(names, counts, strict=True) for tool in rng.sample(strata[name], count)]
    rng.shuffle(tools)
    return Drawn(tuple(tools), kept, kept > wanted, sum(count > 0 for count in counts))


class Turns:
    """Which tool is asked about next, when not every tool that was drawn gives an item.

    The drawn tools come first, then all others in random order as long as their services are below the cap. Only when
    all tools have had their turn comes another round, which raises the cap by itself once.

    Args:
        catalog: the tools.
        n: items wanted.
        cap: see `draw_tools`.
        seed: of all draws.
    """

    def __init__(self, catalog: Catalog, n: int, *, cap: int | None = None, seed: int = 0) -> None:
        """Draw the order."""
        drawn = draw_tools(catalog, n, cap=cap, seed=seed)
        _say_if_raised(catalog, drawn)
        others = sorted(set(range(len(catalog))) - set(drawn.tools))
        random.Random(f"{seed}/turns").shuffle(others)
        self._order = (*drawn.tools, *others)
        self._labels = services(catalog)
        self._cap = drawn.cap
        self._taken: Counter[str] = Counter()
        self.rounds = 1

    def room(self, tool: int) -> float:
        """How many more items the tool's service may have in this round; infinite where there is no cap."""
        if self._labels is None or self._cap is None:
            return math.inf
        return self._cap * self.rounds - self._taken[self._labels[tool]]

    def took(self, tool: int) -> None:
        """The tool gave an item."""
        if self._labels is not None:
            self._taken[self._labels[tool]] += 1

    def upcoming(self, wanted: int, of: Callable[[], int]) -> Iterator[int]:
        """Tools until so many items are made, or a whole round has given none: `of` counts those that are made."""
        while True:
            before = of()
            for tool in self._order:
                if of() >= wanted:
                    return
                if self.room(tool) >= 1:
                    yield tool
            if of() == before:
                return
            self.rounds += 1


def services(catalog: Catalog) -> list[str] | None:
    """The service of every tool: its group, or its category where no tool has a group; None where there is but one."""
    for field in ("group", "category"):
        labels = [getattr(tool, field) for tool in catalog.tools]
        if len(set(labels)) > 1:
            return labels
    return None


def _feasible(sizes: Sequence[int], n: int, cap: int) -> int:
    """The smallest cap from the wanted one on with which the services hold n tools together."""
    low, high = cap, max(cap, *sizes)
    while low < high:
        middle = (low + high) // 2
        if sum(min(size, middle) for size in sizes) >= n:
            high = middle
        else:
            low = middle + 1
    return low


def _shares(caps: Sequence[int], sizes: Sequence[int], n: int) -> list[Fraction]:
    """Expected tools of each service: in proportion to its size, the excess over its cap spread over the others."""
    capped: set[int] = set()
    while True:
        left = n - sum(caps[i] for i in capped)
        open_size = sum(size for i, size in enumerate(sizes) if i not in capped)
        rate = Fraction(left, open_size) if open_size else Fraction(0)
        over = {i for i, size in enumerate(sizes) if i not in capped and rate * size > caps[i]}
        if not over:
            return [Fraction(caps[i]) if i in capped else rate * size for i, size in enumerate(sizes)]
        capped |= over


def _systematic(shares: Sequence[Fraction], rng: random.Random) -> list[int]:
    """Whole counts of the same sum, each its share rounded down or up; exact, so that no cap is broken by rounding."""
    position = Fraction(rng.randrange(2**32), 2**32)  # of the comb's next tooth
    counts, end = [], Fraction(0)
    for share in shares:
        end += share
        count = max(0, math.ceil(end - position))
        counts.append(count)
        position += count
    return counts
