"""Items written by one language model and checked by another: what is asked, how often, and what came of it."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from toolsavvy.benchmark import ChoiceItem, Item, RetrievalItem, YesNoItem
from toolsavvy.catalog import Catalog
from toolsavvy.config.toolsense import Recipe
from toolsavvy.errors import UserError
from toolsavvy.generators.answers import AnswerLog, Exchange, exchange, usage
from toolsavvy.generators.overlap import Tokens
from toolsavvy.generators.toolsense.asking import Choices, Kind, Requests, YesNo
from toolsavvy.generators.toolsense.ground import Case, Ground, Slot
from toolsavvy.generators.toolsense.judging import ask_judge, verdicts
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood
from toolsavvy.generators.toolsense.parsing import Fault, repeat_fault
from toolsavvy.models.chat import Chat, Reply, Usage

log = logging.getLogger("toolsavvy")

Progress = Callable[[int], None]
"""Told how many more items are finished, accepted or given up."""
ACCEPTED, SPARE = "accepted", "spare"
_SHOWN = 5
"""Reasons in a message."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at an item.

    Args:
        item: id of the item.
        tool: id of the tool that it is about, or written for.
        kind: tier of a request; pattern of a question, with its answer for yes/no.
        number: from 1.
        written: what the writer was asked and said.
        judged: what the judge was asked and said; None where no draft got so far.
        fates: of every draft (of the answer, where it holds none): "accepted", "spare" or why it was refused.
        told: what the writer is told of each that was refused.
    """

    item: str
    tool: str
    kind: str
    number: int
    written: Exchange
    judged: Exchange | None
    fates: tuple[str, ...]
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written(Generic[Item]):
    """A set by language models.

    Args:
        items: accepted, in the order of what was wanted.
        wanted: items asked for; fewer are there when tools ran out.
        attempts: every prompt, answer and verdict, in order.
        tools: how many were tried.
        replaced: tools that failed and gave way to the next.
        rejected: reason -> drafts or answers refused for it.
        writer: what the writer was asked.
        judge: what the judge was asked.
    """

    items: tuple[Item, ...]
    wanted: int
    attempts: tuple[Attempt, ...] = ()
    tools: int = 0
    replaced: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    writer: Usage = field(default_factory=Usage)
    judge: Usage = field(default_factory=Usage)


class LlmWriter(Generic[Item]):
    """Writes items about tools, one tool an item.

    Source: ToolSense 2606.12451. Deviations: writer and judge see whole documents in random orders, a program checks
    arity, names, lengths, repetitions and quoted evidence, the judge finds answers by itself and must say yes to
    every check, and a tool that fails gives way to the next one.

    Args:
        writer: writes drafts.
        judge: must say yes to every check of a draft; anything else refuses it.
        recipe: how.
    """

    kind: Callable[[Ground], Kind]

    def __init__(self, writer: Chat, judge: Chat, recipe: Recipe | None = None) -> None:
        """Ask nothing yet."""
        self.writer, self.judge, self.recipe = writer, judge, recipe or Recipe()

    def start(
        self, catalog: Catalog, chosen: Sequence[int], near: Neighbourhood, *, seed: int, store: Path
    ) -> Writing[Item]:
        """A set in the making, of which nothing is asked yet.

        Args:
            catalog: all tools.
            chosen: positions of tools, in the order in which they are used; those beyond the wanted number replace
                tools that fail. Of tools with the same document the first is used.
            near: where hard negatives and wrong options come from.
            seed: of pools' orders.
            store: file of the answers, append-only; a run that is continued asks nothing twice.
        """
        kind = type(self).kind(Ground(catalog, near, self.recipe, seed))
        near.prepare(chosen, self.recipe.pool if kind.name == "rrb" else self.recipe.neighbours)
        chats = AnswerLog(self.writer, store), AnswerLog(self.judge, store, "generator.judge")
        return Writing(kind, catalog, self.recipe, *chats, chosen)

    def write(
        self,
        catalog: Catalog,
        chosen: Sequence[int],
        near: Neighbourhood,
        wanted: int | Mapping[str, int],
        *,
        seed: int,
        store: Path,
        progress: Progress | None = None,
    ) -> Written[Item]:
        """`start` and `Writing.until` in one."""
        return self.start(catalog, chosen, near, seed=seed, store=store).until(wanted, progress)


class RequestWriter(LlmWriter[RetrievalItem]):
    """Requests (RRB); `wanted` is tier -> number."""

    kind = Requests


class ChoiceWriter(LlmWriter[ChoiceItem]):
    """Multiple-choice questions (MCQ)."""

    kind = Choices


class YesNoWriter(LlmWriter[YesNoItem]):
    """Yes/no questions (QA), both answers equally often within each pattern."""

    kind = YesNo


class Writing(Generic[Item]):
    """One set in the making: open items, tools that are left, what was accepted.

    Args:
        kind: of items.
        catalog: all tools.
        recipe: how.
        writer: writes drafts.
        judge: checks them.
        chosen: see `LlmWriter.start`.
    """

    def __init__(
        self,
        kind: Kind,
        catalog: Catalog,
        recipe: Recipe,
        writer: AnswerLog,
        judge: AnswerLog,
        chosen: Sequence[int],
    ) -> None:
        """Ask nothing yet."""
        self.kind, self.catalog, self.recipe, self.writer, self.judge = kind, catalog, recipe, writer, judge
        first = {catalog.documents[tool]: tool for tool in reversed(chosen)}
        self.chosen = [tool for tool in dict.fromkeys(chosen) if first[catalog.documents[tool]] == tool]
        self.left = list(self.chosen)
        self.open: list[Slot] = []
        self.wanted = 0
        self.active: list[Case] = []
        self.items: dict[int, Any] = {}
        self.accepted: defaultdict[str, list[Tokens]] = defaultdict(list)
        self.attempts: list[Attempt] = []
        self.rejected: Counter[str] = Counter()
        self.tools = self.replaced = self.told = 0

    def until(self, wanted: int | Mapping[str, int], progress: Progress | None = None) -> Written[Item]:
        """Write until everything wanted is there or the chosen tools have run out.

        Of questions more may be wanted later: those that are there stay, and nothing is asked again.

        Args:
            wanted: number of items in all; for requests, by tier.
            progress: told of items that are finished.

        Raises:
            UserError: nothing can be asked of these tools, or a model that does not answer at all.
        """
        slots = self.kind.slots(wanted, self.chosen)
        self.open += slots[self.wanted :]
        self.wanted, self.told = len(slots), 0
        self._refuse_impossible()
        while self.fill(progress or (lambda count: None)):
            self.round()
        return self.written()

    def _refuse_impossible(self) -> None:
        """Of every kind of item, at least one tool can have one."""
        for slot in {slot.kind: slot for slot in self.open}.values():
            if not any(self.kind.is_usable(slot, tool) for tool in self.chosen):
                raise UserError(
                    f"no tool can have a{'n' if slot.kind[0] in 'aeio' else ''} {slot.kind} item of {self.kind.name}",
                    where=f"catalog {self.catalog.name} ({len(self.catalog)} tools)", expected=self.kind.lacking(slot),
                    fix="choose a larger catalog" + (", or other generator.tiers" if self.kind.name == "rrb" else ""),
                )  # fmt: skip

    def fill(self, progress: Progress) -> bool:
        """Give open items a tool each until a batch is full; False when nothing is left to do."""
        if self.items or self.replaced < self.recipe.patience:
            while self.open and len(self.active) < self.recipe.batch_size:
                slot = self.open.pop(0)
                tool = next((tool for tool in self.left if self.kind.is_usable(slot, tool)), None)
                if tool is not None:
                    self.left.remove(tool)
                    self.tools += 1
                    self.active.append(Case(slot, tool))
        self.active.sort(key=lambda case: case.slot.number)
        finished = self.wanted - len(self.open) - len(self.active)
        progress(finished - self.told)
        self.told = finished
        log.info("%s: %d of %d items, %d tools tried", self.kind.name, len(self.items), self.wanted, self.tools)
        return bool(self.active)

    def round(self) -> None:
        """One answer for every case, one verdict for every answer that holds a draft."""
        asked = [self.kind.prompt(case) for case in self.active]
        replies = self.writer.answer(asked, max_tokens=self.recipe.max_tokens, temperature=self.recipe.temperature)
        found = [self._drafted(case, reply) for case, reply in zip(self.active, replies, strict=True)]
        judged = self._verdicts(found)
        again: list[Case] = []
        for i, case in enumerate(list(self.active)):
            written = exchange(self.writer.name, asked[i], replies[i])
            faults, verdict = judged[i]
            if not self._settled(case, found[i], faults, written, verdict):
                again.append(case)
        self.active = again

    def _drafted(self, case: Case, reply: Reply) -> list[Any]:
        """Drafts and faults of an answer; what an accepted item says already is a fault."""
        out = []
        for draft in self.kind.drafts(case, reply.text):
            fault = None if isinstance(draft, Fault) else self._repeats(draft)
            out.append(fault or draft)
        return out

    def _repeats(self, draft: Any) -> Fault | None:
        group, words = self.kind.words(draft)
        return repeat_fault(words, self.accepted[group], self.recipe.novelty)

    def _verdicts(self, found: Sequence[Sequence[Any]]) -> list[tuple[list[Fault | None], Exchange | None]]:
        """For every case the judge's word on each of its drafts, and the conversation; faults are not shown to it."""
        whole = [[d for d in drafts if not isinstance(d, Fault)] for drafts in found]
        shown = [i for i, drafts in enumerate(whole) if drafts]
        asked = {i: self.kind.judge_prompt(self.active[i], whole[i]) for i in shown}
        replies = ask_judge(self.judge, [asked[i][0] for i in shown], self.recipe.max_tokens)
        out: list[tuple[list[Fault | None], Exchange | None]] = [([], None)] * len(found)
        for i, reply in zip(shown, replies, strict=True):
            messages, answers = asked[i]
            out[i] = verdicts(reply, self.kind.checks, answers), exchange(self.judge.name, messages, reply)
        return out

    def _settled(
        self,
        case: Case,
        drafts: Sequence[Any],
        faults: Sequence[Fault | None],
        written: Exchange,
        judged: Exchange | None,
    ) -> bool:
        """Take the first draft that passes; whether the case is over, one way or the other."""
        verdict, fates, told = iter(faults), list[str](), list[str]()
        for draft in drafts:
            fault = draft if isinstance(draft, Fault) else next(verdict)
            if fault is None and ACCEPTED in fates:
                fates.append(SPARE)
                continue
            if fault is None:
                fault = self._repeats(draft)  # since another item of this round may say the same
            if fault is None:
                self._accept(case, draft)
            else:
                self.rejected[fault.reason] += 1
                told.append(fault.told)
            fates.append(fault.reason if fault else ACCEPTED)
        ids = f"{self.kind.name}-{case.slot.number:05d}", self.catalog.tools[case.tool].id
        self.attempts.append(Attempt(*ids, case.slot.label, case.attempt, written, judged, tuple(fates), tuple(told)))
        return ACCEPTED in fates or self._over(case, told)

    def _accept(self, case: Case, draft: Any) -> None:
        """Make it an item, known to all that come after."""
        self.items[case.slot.number] = self.kind.item(case, draft)
        group, words = self.kind.words(draft)
        self.accepted[group].append(words)

    def _over(self, case: Case, told: Sequence[str]) -> bool:
        """Try again with the reasons, or leave the item to the next tool."""
        case.reasons += told
        case.attempt += 1
        if case.attempt <= self.recipe.attempts:
            return False
        self.replaced += 1
        self.open = sorted([case.slot, *self.open], key=lambda slot: slot.number)
        return True

    def written(self) -> Written[Item]:
        """What there is."""
        judged = [a.judged for a in self.attempts if a.judged is not None]
        return Written(
            items=tuple(self.items[number] for number in sorted(self.items)),
            wanted=self.wanted,
            attempts=tuple(self.attempts),
            tools=self.tools,
            replaced=self.replaced,
            rejected=dict(self.rejected.most_common()),
            writer=usage([a.written for a in self.attempts]),
            judge=usage(judged),
        )


def refuse_empty(written: Written[Any], writer: str) -> None:
    """Say what went wrong when a model wrote nothing that passes; fewer items than wanted are logged.

    Args:
        written: the set.
        writer: name of the model.

    Raises:
        UserError: there is no item.
    """
    reasons = ", ".join(f"{name} {count}" for name, count in list(written.rejected.items())[:_SHOWN])
    if not written.items:
        raise UserError(
            f"nothing that {writer} wrote about {written.tools} tools has passed ({reasons})", where="generator.llm",
            expected="a language model that follows the instructions, and a judge that agrees with it",
            fix="choose larger models, raise generator.attempts, or write offline with generator.backend=template",
        )  # fmt: skip
    if len(written.items) < written.wanted:
        log.warning(
            "%d of %d items were written before the tools ran out (refused: %s)",
            len(written.items), written.wanted, reasons or "nothing",
        )  # fmt: skip
