"""ToolSense's three benchmarks for any catalog as generators: realistic requests, multiple-choice, yes/no questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from toolsavvy.catalog import RetrievalSet
from toolsavvy.config.toolsense import Prices, Recipe, Settings, check_pool, checked_tiers
from toolsavvy.generators.product import Product
from toolsavvy.generators.toolsense.kinds import ChoiceMaker, RequestMaker, YesNoMaker
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
        attempts: answers asked for one request of one tool until a draft passes; then the next tool is tried.
        drafts: in one answer; the first that passes is taken.
        novelty: ROUGE-L F1 with an accepted request from which one is a near-duplicate.
        batch_size: requests that are worked on at once.
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
        drafts: int = 2,
        novelty: float = 0.7,
        batch_size: int = 32,
        temperature: float = 0.7,
        max_tokens: int = 600,
        prices: Mapping[str, float | None] | None = None,
    ) -> None:
        check_pool(pool)
        recipe = Recipe(attempts, drafts, batch_size, temperature, max_tokens, pool=pool, novelty=novelty)
        how = Settings(n, backend, seed, cap, self_judging, recipe, Prices.of(prices))
        self._maker = RequestMaker(catalog, how, llm, judge, near, checked_tiers(tiers))

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
        attempts: answers asked for one question of one tool until a draft passes; then the next tool is tried.
        drafts: in one answer; the first that passes is taken.
        novelty: ROUGE-L F1 with an accepted question from which one is a near-duplicate.
        batch_size: questions that are worked on at once.
        neighbours: tools that wrong options come from.
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
        drafts: int = 2,
        novelty: float = 0.7,
        batch_size: int = 32,
        neighbours: int = 4,
        temperature: float = 0.7,
        max_tokens: int = 600,
        prices: Mapping[str, float | None] | None = None,
    ) -> None:
        recipe = Recipe(attempts, drafts, batch_size, temperature, max_tokens, novelty=novelty, neighbours=neighbours)
        how = Settings(n, backend, seed, cap, self_judging, recipe, Prices.of(prices))
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
        attempts: answers asked for one question of one tool until a draft passes; then the next tool is tried.
        drafts: in one answer; the first that passes is taken.
        novelty: ROUGE-L F1 with an accepted question from which one is a near-duplicate.
        batch_size: questions that are worked on at once.
        neighbours: tools that wrong claims come from.
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
        drafts: int = 2,
        novelty: float = 0.7,
        batch_size: int = 32,
        neighbours: int = 4,
        temperature: float = 0.7,
        max_tokens: int = 600,
        prices: Mapping[str, float | None] | None = None,
    ) -> None:
        recipe = Recipe(attempts, drafts, batch_size, temperature, max_tokens, novelty=novelty, neighbours=neighbours)
        how = Settings(n, backend, seed, cap, self_judging, recipe, Prices.of(prices))
        self._maker = YesNoMaker(catalog, how, llm, judge, near)

    def fingerprint(self) -> str:
        """As `Generator.fingerprint`."""
        return self._maker.fingerprint()

    def generate(self, run: Run) -> Product:
        """Write qa.jsonl, its audit, a sheet for people and, with `backend=llm`, every prompt and answer."""
        return self._maker.generate(run)
