"""ToolSense's three benchmarks for any catalog as generators: realistic requests, multiple-choice, yes/no questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from toolsavvy.catalog import RetrievalSet
from toolsavvy.generators.product import Product
from toolsavvy.generators.toolsense.kinds import ChoiceMaker, RequestMaker, YesNoMaker
from toolsavvy.generators.toolsense.settings import Prices, Settings, checked_pool, checked_tiers
from toolsavvy.models.chat import Chat
from toolsavvy.retrieval.ranking import Retriever
from toolsavvy.tracking import Run

TIER_SHARES: Mapping[str, float] = {"easy": 0.34, "medium": 0.33, "hard": 0.33}
"""Of requests, as in the released RRB (167, 167 and 166 of 500)."""


class Rrb:
    """A realistic retrieval benchmark (RRB): requests that need one tool, two or three, or at least four.

    Source: ToolSense 2606.12451. Deviations: tools are sampled over the whole catalog with a cap per service, the pool
    is shuffled, the anchor is always a gold tool, writer and judge see whole documents, and a judge that says nothing
    clear has said no.

    Args:
        catalog: the run's own catalog.
        llm: writes requests with `backend=llm`.
        judge: checks them; another model than the writer unless `self_judging`.
        near: finds hard negatives over whole documents; None: by words, without a model.
        n: requests.
        backend: template (offline, deterministic) | llm.
        seed: of all draws.
        cap: most requests about tools of one service; None: 5 % of n.
        pool: tools that a request is chosen from.
        tiers: share of each tier.
        self_judging: the writer may check its own work.
        attempts: answers asked for one request until one passes.
        temperature: of the writer; the judge is greedy.
        max_tokens: of an answer.
        prices: of a million tokens: input, output, judge_input, judge_output.

    Raises:
        UserError: a value out of range, or no judge for `backend=llm`.
    """

    def __init__(
        self,
        catalog: RetrievalSet,
        llm: Chat | None = None,
        judge: Chat | None = None,
        near: Retriever | None = None,
        *,
        n: int = 500,
        backend: Literal["template", "llm"] = "template",
        seed: int = 0,
        cap: int | None = None,
        pool: int = 14,
        tiers: Mapping[str, float] = TIER_SHARES,
        self_judging: bool = False,
        attempts: int = 3,
        temperature: float = 0.7,
        max_tokens: int = 600,
        prices: Mapping[str, float | None] | None = None,
    ) -> None:
        how = Settings(n, backend, seed, cap, self_judging, attempts, temperature, max_tokens, Prices.of(prices))
        self._maker = RequestMaker(catalog, how, llm, judge, near, checked_pool(pool), checked_tiers(tiers))

    def fingerprint(self) -> str:
        """As `Generator.fingerprint`."""
        return self._maker.fingerprint()

    def generate(self, run: Run) -> Product:
        """Write rrb.jsonl, its audit, a sheet for people and, with `backend=llm`, every prompt and answer."""
        return self._maker.generate(run)


class Mcq:
    """Multiple-choice questions (MCQ) about single tools: four options, the wrong ones true of neighbours.

    Source: ToolSense 2606.12451. Deviations: tools are sampled over the whole catalog with a cap per service, and
    questions that attacks without any tool answer too often are replaced.

    Args:
        catalog: the run's own catalog.
        llm: writes questions with `backend=llm`.
        judge: checks them; another model than the writer unless `self_judging`.
        near: finds the tools that wrong options come from; None: by words, without a model.
        n: questions.
        backend: template (offline, deterministic) | llm.
        seed: of all draws.
        cap: most questions about tools of one service; None: 5 % of n.
        self_judging: the writer may check its own work.
        attempts: answers asked for one question until one passes.
        temperature: of the writer; the judge is greedy.
        max_tokens: of an answer.
        prices: of a million tokens: input, output, judge_input, judge_output.

    Raises:
        UserError: a value out of range, or no judge for `backend=llm`.
    """

    def __init__(
        self,
        catalog: RetrievalSet,
        llm: Chat | None = None,
        judge: Chat | None = None,
        near: Retriever | None = None,
        *,
        n: int = 500,
        backend: Literal["template", "llm"] = "template",
        seed: int = 0,
        cap: int | None = None,
        self_judging: bool = False,
        attempts: int = 3,
        temperature: float = 0.7,
        max_tokens: int = 600,
        prices: Mapping[str, float | None] | None = None,
    ) -> None:
        how = Settings(n, backend, seed, cap, self_judging, attempts, temperature, max_tokens, Prices.of(prices))
        self._maker = ChoiceMaker(catalog, how, llm, judge, near)

    def fingerprint(self) -> str:
        """As `Generator.fingerprint`."""
        return self._maker.fingerprint()

    def generate(self, run: Run) -> Product:
        """Write mcq.jsonl, its audit, a sheet for people and, with `backend=llm`, every prompt and answer."""
        return self._maker.generate(run)


class Qa:
    """Yes/no questions (QA) about single tools, balanced within each pattern of question.

    Source: ToolSense 2606.12451. Deviations: tools are sampled over the whole catalog with a cap per service, a No is
    true of a neighbour instead of "not mentioned", and questions that give their answer away are replaced.

    Args:
        catalog: the run's own catalog.
        llm: writes questions with `backend=llm`.
        judge: checks them; another model than the writer unless `self_judging`.
        near: finds the tools that wrong claims come from; None: by words, without a model.
        n: questions.
        backend: template (offline, deterministic) | llm.
        seed: of all draws.
        cap: most questions about tools of one service; None: 5 % of n.
        self_judging: the writer may check its own work.
        attempts: answers asked for one question until one passes.
        temperature: of the writer; the judge is greedy.
        max_tokens: of an answer.
        prices: of a million tokens: input, output, judge_input, judge_output.

    Raises:
        UserError: a value out of range, or no judge for `backend=llm`.
    """

    def __init__(
        self,
        catalog: RetrievalSet,
        llm: Chat | None = None,
        judge: Chat | None = None,
        near: Retriever | None = None,
        *,
        n: int = 500,
        backend: Literal["template", "llm"] = "template",
        seed: int = 0,
        cap: int | None = None,
        self_judging: bool = False,
        attempts: int = 3,
        temperature: float = 0.7,
        max_tokens: int = 600,
        prices: Mapping[str, float | None] | None = None,
    ) -> None:
        how = Settings(n, backend, seed, cap, self_judging, attempts, temperature, max_tokens, Prices.of(prices))
        self._maker = YesNoMaker(catalog, how, llm, judge, near)

    def fingerprint(self) -> str:
        """As `Generator.fingerprint`."""
        return self._maker.fingerprint()

    def generate(self, run: Run) -> Product:
        """Write qa.jsonl, its audit, a sheet for people and, with `backend=llm`, every prompt and answer."""
        return self._maker.generate(run)
