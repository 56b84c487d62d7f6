"""What `predictions=…` says: whether a run writes them, or which files of predictions it scores."""

from __future__ import annotations

from pathlib import Path

from toolsavvy.config.methods import EvaluateConfig
from toolsavvy.config.schema import Config
from toolsavvy.config.sources import check_exists
from toolsavvy.errors import UserError

TASKS = ("toolsavvy.suites.parameters.Parameters",)
"""Suites that score calls instead of rankings."""


def prediction_files(config: Config) -> tuple[str, ...]:
    """Files of predictions that are scored; none where `predictions` only says whether they are written."""
    given = config.predictions
    if isinstance(given, bool):
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def task_suites(config: Config) -> list[str]:
    """Suites that score calls."""
    return [name for name, node in config.suite.items() if str(node["_target_"]) in TASKS]


def ranks(config: Config) -> bool:
    """Whether an evaluation ranks tools or asks about them, beside or instead of scoring calls."""
    return len(task_suites(config)) < len(config.suite)


def reads_files_alone(config: Config) -> bool:
    """Whether a run does nothing but score files of predictions: it needs no model, and no torch."""
    return isinstance(config.method, EvaluateConfig) and bool(prediction_files(config)) and not ranks(config)


def answers_tasks(config: Config) -> bool:
    """Whether the run's own model answers parameter tasks in an evaluation."""
    return isinstance(config.method, EvaluateConfig) and bool(task_suites(config)) and not prediction_files(config)


def check_tasks(config: Config) -> None:
    """Calls are scored by method=evaluate alone, and files of predictions by suite=parameters alone.

    Raises:
        UserError: another method or suite was chosen.
    """
    is_evaluation, files = isinstance(config.method, EvaluateConfig), prediction_files(config)
    if files and not (is_evaluation and task_suites(config)):
        raise UserError(
            f"nothing reads {files[0]!r}", where="predictions",
            expected="true or false, or files with method=evaluate suite=parameters",
            fix="add suite=parameters" if is_evaluation else "method=evaluate suite=parameters",
        )  # fmt: skip
    if not is_evaluation and "suite" in config.method.uses and (names := task_suites(config)):
        raise UserError(
            f"suite {names[0]!r} scores calls, which this method makes none of", where="suite",
            expected="suites over rankings", fix="method=evaluate suite=parameters, or method=pbt",
        )  # fmt: skip


def check_files(config: Config) -> None:
    """Every file of predictions must be there, and be a file.

    Raises:
        UserError: it is not.
    """
    for file in prediction_files(config):
        check_exists(file, "predictions")
        if Path(file).expanduser().is_dir():
            raise UserError(
                f"{file!r} is a folder", where="predictions", expected="a JSONL file: {id, calls: [{name, arguments}]}",
                fix="name the file in it",
            )  # fmt: skip
