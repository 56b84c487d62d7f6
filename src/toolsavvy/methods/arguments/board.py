"""Every system's calls on the same test tasks: suite=parameters, tables, figure, predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from toolsavvy.calls.attempts import Call
from toolsavvy.calls.lenient import read_arguments
from toolsavvy.config.schema import Config
from toolsavvy.methods.arguments.numbers import SUITE, shown
from toolsavvy.methods.common import say
from toolsavvy.methods.story import Story
from toolsavvy.metrics import Interval
from toolsavvy.parameters.fields import Candidate
from toolsavvy.suites.parameters import ALL, Answer, Parameters
from toolsavvy.suites.table import Comparison, Outcome, Result, write_jsonl
from toolsavvy.tasks import LEVELS, ParamTask
from toolsavvy.tracking import Run

COLUMNS = ("exact_match", "field_f1", "field_precision", "field_recall", "schema_valid", "execution_match")
_RIVALS = tuple(
    rival
    for name in ("self_train", "logprob_train", "consist_train", "p_true_train", "control_train", "oracle_train")
    for rival in (name, f"{name}-equal")
)
TESTED = tuple(("pbt", rival) for rival in ("seed_sft", *_RIVALS))
"""What is compared besides every system with its best rival: PBT's claims."""


class Board:
    """Answers of all systems to the test tasks.

    Args:
        cfg: method.resamples and seed.
        run: takes results and predictions.
        tasks: test tasks with their levels.
    """

    def __init__(self, cfg: Config, run: Run, tasks: Sequence[ParamTask]) -> None:
        self.cfg, self.run, self.tasks = cfg, run, tuple(tasks)
        self.names = {task.id: task.tool.name for task in tasks}
        self.systems: dict[str, dict[str, Answer]] = {}

    def add(self, system: str, candidates: Sequence[Candidate]) -> None:
        """A system's greedy calls; how it did is said at once."""
        greedy = [c for c in candidates if c.index == 0]
        self.systems[system] = {c.task_id: self._read(c) for c in greedy}
        self._tell(system)

    def add_arguments(self, system: str, arguments: Sequence[Mapping[str, Any] | None]) -> None:
        """A system's argument objects, in the order of the tasks."""
        pairs = zip(self.tasks, arguments, strict=True)
        self.systems[system] = {task.id: self._answer(task.id, found) for task, found in pairs}
        self._tell(system)

    def _read(self, candidate: Candidate) -> Answer:
        repairs = read_arguments(candidate.text).repairs if candidate.arguments is not None else ()
        return self._answer(candidate.task_id, candidate.arguments, repairs)

    def _answer(self, task: str, arguments: Mapping[str, Any] | None, repairs: tuple[str, ...] = ()) -> Answer:
        return Answer(None if arguments is None else (Call(self.names[task], arguments),), repairs)

    def _tell(self, system: str) -> None:
        """Exact match so far: a long run shows what it has."""
        quick = Parameters(resamples=1, execute=False).run(self.tasks, {system: self.systems[system]})
        value = next(r.value for r in quick.results if r.slice == ALL and r.metric == "exact_match")
        say(f"[bold]{escape(system)}[/bold]: exact match {100 * (value or 0):.1f} %")
        self.run.log({f"{SUITE}/{system}/exact_match": value or 0.0}, len(self.systems))

    def score(self, story: Story) -> Outcome:
        """Every number, with its interval, in records, tables, a figure and predictions."""
        pairs = [pair for pair in TESTED if set(pair) <= set(self.systems)]
        pairs += [(name, name.removesuffix("+pgr")) for name in self.systems if name.endswith("+pgr")]
        suite = Parameters(resamples=self.cfg.method.resamples, seed=self.cfg.seed, pairs=pairs)
        with self.run.stage("score"):
            outcome = suite.run(self.tasks, self.systems)
        self.run.record(outcome.results)
        if self.run.is_writer and self.cfg.predictions:
            for system, records in outcome.predictions.items():
                write_jsonl(self.run.predictions / f"{SUITE}.{system}.jsonl", records)
        if self.run.is_writer:
            write_jsonl(self.run.dir / "comparisons.jsonl", outcome.comparisons)
        self._tables(story, outcome, pairs)
        return outcome

    def _tables(self, story: Story, outcome: Outcome, pairs: Sequence[tuple[str, str]]) -> None:
        found = {(r.system, r.slice, r.metric): r for r in outcome.results}
        columns = [c for c in COLUMNS if any(key[2] == c for key in found)]
        rows = [[s, *(_cell(found.get((s, ALL, c))) for c in columns)] for s in self.systems]
        story.table(f"Arguments: {len(self.tasks)} test tasks", ["system", *columns], rows, "percent, 95 % intervals")
        levels = [level for level in LEVELS if any(key[1] == f"level={level}" for key in found)]
        sizes = {level: next(r.n for key, r in found.items() if key[1] == f"level={level}") for level in levels}
        rows = [
            [s, *(_cell(found.get((s, f"level={level}", "exact_match"))) for level in levels)] for s in self.systems
        ]
        story.table("Levels: exact match", ["system", *(f"{level} (n={sizes[level]})" for level in levels)], rows)
        kinds = sorted({key[2] for key in found if key[2].startswith("error_")})
        rows = [[s, *(_cell(found.get((s, ALL, k)), plain=True) for k in kinds)] for s in self.systems]
        story.table("Mistakes: share of tasks", ["system", *(k.removeprefix("error_") for k in kinds)], rows)
        self._differences(story, outcome.comparisons, pairs)
        self._figure(story, found, levels, sizes)

    def _differences(self, story: Story, comparisons: Sequence[Comparison], pairs: Sequence[tuple[str, str]]) -> None:
        """Paired differences that were asked for."""
        kept = [
            c for c in comparisons
            if (c.system, c.rival) in pairs and c.slice == ALL and c.metric in Parameters().compared
        ]  # fmt: skip
        rows = [
            [c.system, c.rival, c.metric, shown(Interval(c.difference, c.low, c.high, c.n), sign=True), f"{c.p:.4f}"]
            for c in dict.fromkeys(kept)
        ]
        if rows:
            story.table("Paired differences", ["system", "rival", "metric", "difference", "p"], rows, "percent")

    def _figure(
        self,
        story: Story,
        found: Mapping[tuple[str, str, str], Result],
        levels: Sequence[str],
        sizes: Mapping[str, int],
    ) -> None:
        """Exact match by level of the systems that the claims are about."""
        from toolsavvy.figures.arguments import LevelBars, level_bars

        names = [s for s in ("zero_shot", "few_shot", "seed_sft", "self_train", "pbt", "pbt+pgr") if s in self.systems]
        if not names or not levels:
            return
        nan = float("nan")

        def column(system: str, end: str) -> list[float]:
            values = (getattr(found.get((system, f"level={level}", "exact_match")), end, None) for level in levels)
            return [nan if v is None else 100 * v for v in values]

        bars = [LevelBars(s, column(s, "value"), column(s, "low"), column(s, "high")) for s in names]
        labels = [f"{level} (n={sizes[level]})" for level in levels]
        story.figure(
            "levels", "Exact match by level", lambda paths: level_bars(paths, labels, bars, measure="exact match, %")
        )


def _cell(result: Result | None, *, plain: bool = False) -> str:
    if result is None:
        return ""
    value = Interval(result.value, None if plain else result.low, None if plain else result.high, result.n)
    return shown(value)
