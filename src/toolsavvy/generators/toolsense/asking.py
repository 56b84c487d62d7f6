"""What is asked of a writer and a judge for each kind of item: which tools may have one, prompts, checks, the item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from toolsavvy.attacks import tokens
from toolsavvy.benchmark import GOLDS, TIERS, ChoiceItem, RetrievalItem, YesNoItem
from toolsavvy.catalog import parameter_names, split_words
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.generators.overlap import Tokens
from toolsavvy.generators.toolsense import prompts
from toolsavvy.generators.toolsense.ground import Case, Ground, Slot
from toolsavvy.generators.toolsense.parsing import (
    ChoiceDraft,
    Fault,
    RequestDraft,
    YesNoDraft,
    choice_fault,
    read_choice,
    read_drafts,
    read_request,
    read_yes_no,
    request_fault,
    yes_no_fault,
)
from toolsavvy.models.chat import Message


class Kind(Protocol):
    """One of the three benchmarks, as far as it is written by models; drafts and items are of its own types."""

    name: str
    checks: Mapping[str, str]

    def slots(self, wanted: int | Mapping[str, int], chosen: Sequence[int]) -> list[Slot]:
        """What is wanted, in order."""
        ...

    def is_usable(self, slot: Slot, tool: int) -> bool:
        """Whether a tool can have such an item at all."""
        ...

    def lacking(self, slot: Slot) -> str:
        """What a catalog needs for such an item."""
        ...

    def prompt(self, case: Case) -> list[Message]:
        """What the writer is told."""
        ...

    def drafts(self, case: Case, text: str | None) -> list[Any]:
        """What it wrote, checked as far as a program can: drafts and faults."""
        ...

    def judge_prompt(self, case: Case, drafts: Sequence[Any]) -> tuple[list[Message], list[object]]:
        """What the judge is told, and the answer that it must find to each draft (None: none is asked for)."""
        ...

    def words(self, draft: Any) -> tuple[str, Tokens]:
        """Among which items a draft must be new, and the words that make it so."""
        ...

    def item(self, case: Case, draft: Any) -> Any:
        """An accepted draft as an item."""
        ...


class Requests:
    """Requests (RRB): the writer sees the target and its nearest tools, all as whole documents, in random order."""

    name, checks = "rrb", prompts.REQUEST_CHECKS

    def __init__(self, ground: Ground) -> None:
        """Look nothing up yet."""
        self.ground, self._pools = ground, dict[int, list[int]]()

    def slots(self, wanted: int | Mapping[str, int], chosen: Sequence[int]) -> list[Slot]:
        """As many as each tier shall have, in turn: where tools run out, no tier goes empty.

        Raises:
            UserError: an unknown tier.
        """
        if isinstance(wanted, int):
            wanted = {tier: (wanted + 2 - i) // len(TIERS) for i, tier in enumerate(TIERS)}
        for tier in wanted:
            if tier not in TIERS:
                raise UserError(
                    f"unknown tier {tier!r}", where="generator.tiers", expected=", ".join(TIERS),
                    fix=did_you_mean(tier, TIERS),
                )  # fmt: skip
        turns = [((i + 0.5) / wanted[tier], TIERS.index(tier)) for tier in wanted for i in range(wanted[tier])]
        return [Slot(n, TIERS[place]) for n, (_, place) in enumerate(sorted(turns), 1)]

    def is_usable(self, slot: Slot, tool: int) -> bool:
        """Enough tools for the tier, and for an easy request no other tool with the same document in the catalog."""
        if not tokens(self.ground.catalog.documents[tool]):
            return False
        if slot.kind == "easy" and self.ground.copies[self.ground.catalog.documents[tool]] > 1:
            return False
        return len(self._pool(tool)) >= max(GOLDS[slot.kind][0], 2)

    def lacking(self, slot: Slot) -> str:
        """As `Kind.lacking`."""
        own = " that no other tool has" if slot.kind == "easy" else ""
        return f"at least {max(GOLDS[slot.kind][0], 2)} tools near each other, with different documents{own}"

    def prompt(self, case: Case) -> list[Message]:
        """As `Kind.prompt`; the order is the same in every attempt."""
        pool, recipe = self._pool(case.tool), self.ground.recipe
        documents = [self.ground.catalog.documents[i] for i in pool]
        how = (case.slot.kind, recipe.drafts, case.attempt, self.ground.feedback(case))
        return prompts.request_prompt(documents, pool.index(case.tool), *how)

    def drafts(self, case: Case, text: str | None) -> list[RequestDraft | Fault]:
        """As `Kind.drafts`."""
        pool, catalog = self._pool(case.tool), self.ground.catalog
        found = read_drafts(text, self.ground.recipe.drafts, lambda value: read_request(value, pool))
        return [d if isinstance(d, Fault) else request_fault(d, case.slot.kind, case.tool, catalog) or d for d in found]

    def judge_prompt(self, case: Case, drafts: Sequence[RequestDraft]) -> tuple[list[Message], list[object]]:
        """As `Kind.judge_prompt`, in an order of its own."""
        pool = self.ground.shuffled(self._pool(case.tool), "judge", case.tool)
        documents = [self.ground.catalog.documents[i] for i in pool]
        places = {tool: place for place, tool in enumerate(pool)}
        return prompts.judge_requests(documents, places, drafts), [None] * len(drafts)

    def words(self, draft: RequestDraft) -> tuple[str, Tokens]:
        """New among all requests."""
        return "", tokens(draft.query)

    def item(self, case: Case, draft: RequestDraft) -> RetrievalItem:
        """Gold tools in the pool's order."""
        ids = [tool.id for tool in self.ground.catalog.tools]
        pool = self._pool(case.tool)
        gold = tuple(ids[i] for i in pool if i in draft.gold)
        name = f"{self.name}-{case.slot.number:05d}"
        anchor, kind = ids[case.tool], case.slot.kind
        return RetrievalItem(name, draft.query, gold, tuple(ids[i] for i in pool), kind, anchor, "llm")

    def _pool(self, tool: int) -> list[int]:
        """The tool and its neighbours, shuffled."""
        if tool not in self._pools:
            pool = [tool, *self.ground.others(tool, self.ground.recipe.pool - 1)]
            self._pools[tool] = self.ground.shuffled(pool, "pool", tool)
        return self._pools[tool]


class _Questions:
    """What both kinds of questions share: patterns, and neighbours to take wrong things from."""

    name = ""

    def __init__(self, ground: Ground) -> None:
        """Look nothing up yet."""
        self.ground, self._others = ground, dict[int, list[int]]()

    def aspects(self, chosen: Sequence[int]) -> list[str]:
        """The patterns; inputs are asked about where at least half of the tools document any."""
        has = sum(self._has_inputs(tool) for tool in chosen)
        return [aspect for aspect in prompts.ASPECTS if aspect != "input" or 2 * has >= max(1, len(chosen))]

    def is_usable(self, slot: Slot, tool: int) -> bool:
        """A document with words, a neighbour, and inputs where they are asked about."""
        if not tokens(self.ground.catalog.documents[tool]) or not self.others(tool):
            return False
        return slot.kind != "input" or self._has_inputs(tool)

    def lacking(self, slot: Slot) -> str:
        """As `Kind.lacking`."""
        return "tools with a document, near others with different documents"

    def others(self, tool: int) -> list[int]:
        """Neighbours in random order."""
        if tool not in self._others:
            others = self.ground.others(tool, self.ground.recipe.neighbours)
            self._others[tool] = self.ground.shuffled(others, "others", tool)
        return self._others[tool]

    def documents(self, case: Case) -> tuple[str, list[str]]:
        """The tool's own, and its neighbours'."""
        documents = self.ground.catalog.documents
        return documents[case.tool], [documents[i] for i in self.others(case.tool)]

    def how(self, case: Case) -> tuple[int, int, list[str]]:
        """The last arguments of a prompt."""
        return self.ground.recipe.drafts, case.attempt, self.ground.feedback(case)

    def _has_inputs(self, tool: int) -> bool:
        """Whether the document names a parameter."""
        names = parameter_names(self.ground.catalog.tools[tool].parameters)
        return bool(names) and split_words(names[0]) in self.ground.catalog.documents[tool].lower()


class Choices(_Questions):
    """Multiple-choice questions (MCQ): wrong options from neighbours; the judge must find the right one by itself."""

    name, checks = "mcq", prompts.CHOICE_CHECKS

    def slots(self, wanted: int | Mapping[str, int], chosen: Sequence[int]) -> list[Slot]:
        """Every pattern equally often."""
        aspects, n = self.aspects(chosen), _number(wanted)
        return [Slot(i + 1, aspects[i % len(aspects)]) for i in range(n)]

    def prompt(self, case: Case) -> list[Message]:
        """As `Kind.prompt`."""
        return prompts.choice_prompt(*self.documents(case), case.slot.kind, *self.how(case))

    def drafts(self, case: Case, text: str | None) -> list[ChoiceDraft | Fault]:
        """As `Kind.drafts`."""
        found = read_drafts(text, self.ground.recipe.drafts, read_choice)
        return [d if isinstance(d, Fault) else choice_fault(d, case.tool, self.ground.catalog) or d for d in found]

    def judge_prompt(self, case: Case, drafts: Sequence[ChoiceDraft]) -> tuple[list[Message], list[object]]:
        """As `Kind.judge_prompt`; the right option stands anywhere."""
        orders = [self.ground.shuffled(range(1 + len(d.wrong)), "options", case.tool, d.question) for d in drafts]
        asked = prompts.judge_choices(self.documents(case)[0], drafts, orders)
        return asked, [order.index(0) + 1 for order in orders]

    def words(self, draft: ChoiceDraft) -> tuple[str, Tokens]:
        """Questions may return with another answer."""
        return "", tokens(f"{draft.question} {draft.correct}")

    def item(self, case: Case, draft: ChoiceDraft) -> ChoiceItem:
        """As `Kind.item`."""
        tool = self.ground.catalog.tools[case.tool].id
        name = f"{self.name}-{case.slot.number:05d}"
        return ChoiceItem(name, draft.question, draft.correct, draft.wrong, tool, case.slot.kind)


class YesNo(_Questions):
    """Yes/no questions (QA), both answers for every pattern; the judge must find the answer by itself."""

    name, checks = "qa", prompts.YES_NO_CHECKS

    def slots(self, wanted: int | Mapping[str, int], chosen: Sequence[int]) -> list[Slot]:
        """Pairs of Yes and No, the patterns in turn."""
        aspects, n = self.aspects(chosen), _number(wanted)
        return [Slot(i + 1, aspects[i // 2 % len(aspects)], i % 2 == 0) for i in range(n)]

    def prompt(self, case: Case) -> list[Message]:
        """As `Kind.prompt`."""
        target = bool(case.slot.target)
        return prompts.yes_no_prompt(*self.documents(case), case.slot.kind, target, *self.how(case))

    def drafts(self, case: Case, text: str | None) -> list[YesNoDraft | Fault]:
        """As `Kind.drafts`."""
        found = read_drafts(text, self.ground.recipe.drafts, read_yes_no)
        target, catalog = bool(case.slot.target), self.ground.catalog
        return [d if isinstance(d, Fault) else yes_no_fault(d, target, case.tool, catalog) or d for d in found]

    def judge_prompt(self, case: Case, drafts: Sequence[YesNoDraft]) -> tuple[list[Message], list[object]]:
        """As `Kind.judge_prompt`."""
        asked = prompts.judge_yes_no(self.documents(case)[0], drafts)
        return asked, ["yes" if draft.answer else "no" for draft in drafts]

    def words(self, draft: YesNoDraft) -> tuple[str, Tokens]:
        """The same question may have both answers, about different tools: that tells the answer of neither."""
        return "yes" if draft.answer else "no", tokens(draft.question)

    def item(self, case: Case, draft: YesNoDraft) -> YesNoItem:
        """As `Kind.item`."""
        tool = self.ground.catalog.tools[case.tool].id
        return YesNoItem(f"{self.name}-{case.slot.number:05d}", draft.question, draft.answer, tool, case.slot.kind)


def _number(wanted: int | Mapping[str, int]) -> int:
    """Questions have no tiers."""
    return wanted if isinstance(wanted, int) else sum(wanted.values())
