"""suite=parameters: calls from files of predictions, or of the run's model, scored against a source's tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape

from toolsavvy.assets import sha256
from toolsavvy.calls.attempts import Call
from toolsavvy.calls.lenient import DEPTH, read_arguments
from toolsavvy.catalog import RetrievalSet
from toolsavvy.catalogs.audit import render_audit
from toolsavvy.catalogs.reading import Record, as_record, read_jsonl, shorten
from toolsavvy.config.compose import build
from toolsavvy.config.predictions import prediction_files, task_suites
from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.methods.plans import MODEL, named_files
from toolsavvy.methods.sets import load_set
from toolsavvy.report import console, pair_table, result_table
from toolsavvy.retrieval.trec import encode
from toolsavvy.suites.parameters import Answer, Coverage, Parameters, Prediction
from toolsavvy.suites.table import Outcome, write_jsonl
from toolsavvy.tasks import ParamTask, TaskSet
from toolsavvy.tracking import Run


@dataclass(frozen=True)
class PredictionFile:
    """What a file of predictions says.

    Args:
        answers: task id -> answer, of the tasks that were asked.
        elsewhere: lines about tasks of the same source that were not asked (another split).
        texts: calls whose arguments are JSON in a string.
    """

    answers: Mapping[str, Answer] = field(default_factory=dict)
    elsewhere: int = 0
    texts: int = 0


def score_calls(cfg: Config, run: Run) -> list[Outcome]:
    """Score what files say, or what the run's model answers, with every suite over tasks; record and show it."""
    with run.stage("load tasks"):
        data = load_set(cfg, folder=run.dir if run.is_writer else None)
        tasks = tasks_of(data)
    run.note(catalog_fingerprint=data.catalog.fingerprint, tasks_fingerprint=tasks.fingerprint, audit=dict(tasks.audit))
    _tell_tasks(tasks)
    outcomes = []
    for suite in (build(cfg.suite[name]) for name in task_suites(cfg)):
        asked, systems = _systems(cfg, run, suite, tasks)
        with run.stage(f"score {suite.name}"):
            outcome = suite.run(asked, systems)
            run.record(outcome.results)
            _write(outcome, run)
        _show(outcome, tasks, run)
        _show_coverage(asked, systems, run)
        _show_items(asked, outcome, cfg.show)
        outcomes.append(outcome)
    return outcomes


def tasks_of(data: RetrievalSet) -> TaskSet:
    """The parameter tasks of a set.

    Raises:
        UserError: it has none.
    """
    if data.tasks is None or not data.tasks.calls + data.tasks.records:
        raise UserError(
            "has no parameter tasks", where=f"catalog {data.catalog.name}",
            expected="a catalog with calls that are right: parambench_aws, bfcl, nestful, sealtools, …",
            fix="catalog=parambench_aws",
        )  # fmt: skip
    return data.tasks


def _systems(
    cfg: Config, run: Run, suite: Parameters, tasks: TaskSet
) -> tuple[tuple[ParamTask, ...], dict[str, Mapping[str, Answer]]]:
    """What is asked, and what every system says to it."""
    files = named_files(prediction_files(cfg))
    if not files:
        from toolsavvy.methods.answering import answers_of_model

        asked = suite.tasks(tasks, form="calls")
        return asked, {MODEL: answers_of_model(cfg, run, asked)}
    asked, systems = suite.tasks(tasks), {}
    known = {task.id for task in (*tasks.scored, *(tasks.calls if suite.form == "calls" else ()))}
    with run.stage("read predictions"):
        for name, file in files.items():
            found = read_predictions(Path(file).expanduser(), asked, known)
            systems[name] = found.answers
            _tell_file(name, found)
    run.note(predictions={file: sha256(Path(file).expanduser()) for file in files.values()})
    return asked, systems


def read_predictions(path: Path, tasks: Sequence[ParamTask], known: Collection[str] = ()) -> PredictionFile:
    """Read a file of predictions: `{id, calls: [{name, arguments}]}` a line.

    Several calls answer a task that wants several, none (`[]`) says that no tool is called. `arguments` is an object,
    or text that holds one: JSON in a string is taken as it is, anything else is read leniently and counted as mended.
    An answer that can't be read even so counts as one without a readable call. A task without a line counts as wrong.

    Args:
        path: the file.
        tasks: that are asked.
        known: ids of the source that are not asked; lines about them are counted and left out.

    Raises:
        UserError: a line is no such object, its id is unknown, or a line before has it.
    """
    asked = {task.id for task in tasks}
    answers: dict[str, Answer] = {}
    places: dict[str, str] = {}
    elsewhere = texts = 0
    for record in read_jsonl(path):
        key = record.text("id", None)
        if key in places:
            raise record.wrong(
                "id", f"{shorten(key)} occurs twice (first: line {places[key]})", "one line for every task",
                "keep one of them",
            )  # fmt: skip
        places[key] = record.place.rsplit(" ", 1)[1]
        if key not in asked:
            if key not in known:
                raise _unknown(record, key, asked)
            elsewhere += 1
            continue
        answers[key], strings = _answer(record)
        texts += strings
    if not places:
        raise UserError("the file has no line", where=str(path), expected="a prediction a line", fix="check it")
    return PredictionFile(answers, elsewhere, texts)


def _unknown(record: Record, key: str, asked: Collection[str]) -> UserError:
    """The error for a task that the source does not have."""
    near = did_you_mean(key, asked) if len(asked) < 5000 else ""
    example = next(iter(asked), "")
    fix = near if near.startswith("did you mean") else f"ids are the source's own, as {example!r}; or another catalog"
    return record.wrong("id", f"unknown task {shorten(key)}", f"the id of one of the {len(asked)} tasks", fix)


def _answer(record: Record) -> tuple[Answer, int]:
    """What a line says, and how many of its calls have their arguments in a string."""
    calls: list[Call] = []
    repairs: dict[str, None] = {}
    texts, is_readable = 0, True
    for number, value in enumerate(record.get("calls", list)):
        call = as_record(value, record.where(f"calls[{number}]"))
        name, given = call.text("name", None), call.get("arguments", (dict, str), {})
        if isinstance(given, str):
            found = read_arguments(given)
            texts += not found.repairs and found.arguments is not None
            repairs |= dict.fromkeys(found.repairs)
            given = found.arguments
        elif _too_deep(given):
            given = None
        if given is None:
            is_readable = False
        else:
            calls.append(Call(name, given))
    return Answer(tuple(calls) if is_readable else None, tuple(repairs)), texts


def _too_deep(value: Any) -> bool:
    """Whether objects and arrays nest past what is read anywhere."""
    level = [value]
    for _ in range(DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _write(outcome: Outcome, run: Run) -> None:
    """Predictions, one file a system."""
    if run.config.predictions and run.is_writer:
        for system, records in outcome.predictions.items():
            write_jsonl(run.predictions / f"{outcome.suite}.{encode(system)}.jsonl", records)


def _say(text: str) -> None:
    console().print(text, soft_wrap=True)


def _tell_tasks(tasks: TaskSet) -> None:
    """Say what the source holds, and what is odd about it."""
    records = f", {len(tasks.records)} records" if tasks.records else ""
    _say(f"[bold]{escape(tasks.name)}[/bold]: {len(tasks.calls)} calls{records}")
    for line in render_audit(tasks.audit):
        _say(f"  [dim]{escape(line)}[/dim]")


def _tell_file(name: str, found: PredictionFile) -> None:
    """Say what a file holds beside answers to what is asked."""
    if found.elsewhere:
        _say(f"[dim]{escape(name)}: {found.elsewhere} lines are about tasks that are not asked; left out[/dim]")
    if found.texts:
        _say(f"[dim]{escape(name)}: arguments of {found.texts} calls are JSON in a string[/dim]")


def _show(outcome: Outcome, tasks: TaskSet, run: Run) -> None:
    """Print the main table: everything, then the levels; and where everything is."""
    title = f"{outcome.suite} on {tasks.name}: % with 95 % interval"
    console().print(
        result_table(outcome.results, outcome.shown, columns=outcome.columns, title=title, unit="tasks")
    )  # fmt: skip
    if outcome.pairs:
        console().print(pair_table(outcome.comparisons, outcome.pairs, outcome.shown, unit="tasks"))
    _say(f"by category, kinds of mistakes: {escape(str(run.dir / 'results.jsonl'))}")


def _show_coverage(tasks: Collection[ParamTask], systems: Mapping[str, Mapping[str, Answer]], run: Run) -> None:
    """Say, loudly, what is missing, could not be read or had to be mended."""
    noted = {}
    for name, answers in systems.items():
        found = Coverage.of(tasks, answers)
        noted[name] = {**vars(found), "mended": dict(found.mended)}
        if found.missing:
            told = f"no answer to {found.missing} of {found.asked} tasks; they count as wrong"
            _say(f"[yellow]{escape(name)}: {told}[/yellow]")
        if found.unreadable:
            _say(
                f"[yellow]{escape(name)}: {found.unreadable} answers can't be read: wrong where a call is due[/yellow]"
            )
        if found.mended:
            told = ", ".join(f"{kind} {n}" for kind, n in found.mended.items())
            _say(f"[dim]{escape(name)}: mended before scoring: {escape(told)}[/dim]")
    run.note(coverage=noted)


def _show_items(tasks: Sequence[ParamTask], outcome: Outcome, count: int) -> None:
    """Print some tasks with what is right and what every system said (`show=3`)."""
    for i, task in enumerate(tasks[:count]):
        _say(f"[bold]{escape(task.id)}[/bold] {task.level} {escape(shorten(task.instruction, 300))}")
        for reference in task.references:
            _say(f"  right: {escape(reference.name)} {escape(shorten(dict(reference.arguments), 300))}")
        for system, records in outcome.predictions.items():
            record: Prediction = records[i]
            said = "nothing readable" if record.calls is None else "; ".join(map(_call_text, record.calls)) or "no call"
            mark = (
                "[green]right[/green]" if record.exact else f"[red]{escape(', '.join(record.faults) or 'wrong')}[/red]"
            )
            _say(f"  {escape(system)} ({mark}): {escape(said)}")


def _call_text(call: Mapping[str, Any]) -> str:
    return f"{call['name']} {shorten(call['arguments'], 300)}"


def merge_comparisons(outcomes: Sequence[Outcome], run: Run) -> None:
    """Write paired tests of all suites of a run."""
    if run.is_writer:
        write_jsonl(run.dir / "comparisons.jsonl", [c for o in outcomes for c in o.comparisons])
