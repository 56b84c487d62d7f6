"""The card of a deployed probe: which model, layer and prompt it belongs to, how good it is, what it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write
from toolsavvy.catalogs.reading import Record
from toolsavvy.config.schema import ModelConfig
from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cell
from toolsavvy.metrics import Interval
from toolsavvy.necessity.prefilling import Prefills

FORMAT = 1
LIMITS = (
    "This probe reads one layer and position of one model under one prompt and was trained on one kind of questions. "
    "It says whether that model, as it was then, would likely answer wrongly without the tool. It is no statement "
    "about other models, later versions, other prompts, tools, languages or kinds of questions, and its probability "
    "is only as well calibrated as on the questions named here. Measure it on your own questions first."
)
AGAIN = "copy the folder again from the run that trained the probe"


@dataclass(frozen=True)
class ProbeCard:
    """What a probe is, and what it is not.

    Args:
        model: where its model comes from; a relative `path` counts from the probe's folder.
        model_name: what tables call it.
        model_digest: of its weights and prompts, as samples are keyed.
        cell: where the state is read.
        rule: of the necessity labels that it was trained on.
        threshold: probability at or above which the tool is called.
        wording: name of the system prompt.
        system: the system prompt itself; '' is none.
        tools: function schemas that are offered.
        questions: name of the question set that it was trained on.
        metrics: name -> value on held-out questions.
        prefills: sentences that steer the answer once the probe has decided.
        thinking: whether the model may reason first.
        seed: of a toy model's weights.
        known_question: a question whose score is known, so that another model is noticed.
        known_score: its probability.
        limits: what the probe is not.
    """

    model: ModelConfig
    model_name: str
    model_digest: str
    cell: Cell
    rule: str
    threshold: float
    wording: str
    system: str
    tools: tuple[Mapping[str, Any], ...]
    questions: str
    metrics: Mapping[str, Interval]
    prefills: Prefills = field(default_factory=Prefills.of)
    thinking: bool = False
    seed: int = 0
    known_question: str = ""
    known_score: float = 0.0
    limits: str = LIMITS


def write_card(path: Path, card: ProbeCard) -> None:
    """Write a card as JSON, whole or not at all.

    Raises:
        UserError: the disk is full.
    """
    text = json.dumps({"format": FORMAT, **asdict(card)}, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    with atomic_write(path, text=True) as file:
        file.write(text + "\n")


def _plain(value: Any) -> Any:
    """Mappings and numbers of other libraries, as JSON has them."""
    return dict(value) if isinstance(value, Mapping) else value.item()


def read_card(path: Path) -> ProbeCard:
    """Read a card field by field.

    Raises:
        UserError: it is missing or damaged, or a field has no sense; with file and field.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from error
    if not isinstance(value, dict):
        raise unreadable(path, ValueError("no JSON object"))
    record = Record(value, str(path))
    if record.get("format", int) != FORMAT:
        raise record.wrong("format", f"format {value['format']}", str(FORMAT), "use the version that wrote it")
    prefills, metrics = _inner(record, "prefills"), _inner(record, "metrics")
    return ProbeCard(
        model=_model(_inner(record, "model")),
        model_name=record.text("model_name", None),
        model_digest=record.text("model_digest"),
        cell=_cell(_inner(record, "cell")),
        rule=record.text("rule", None),
        threshold=_probability(record, "threshold"),
        wording=record.text("wording"),
        system=record.text("system"),
        tools=tuple(_objects(record, "tools")),
        questions=record.text("questions"),
        metrics={name: _interval(_inner(metrics, name)) for name in metrics.value},
        prefills=Prefills(prefills.text("answer"), prefills.text("call")),
        thinking=record.get("thinking", bool),
        seed=record.get("seed", int),
        known_question=record.text("known_question", None),
        known_score=_probability(record, "known_score"),
        limits=record.text("limits"),
    )


def _inner(record: Record, name: str) -> Record:
    """An object inside a record; its fields are named with the outer one."""
    return Record(record.get(name, dict), record.where(name))


def _objects(record: Record, name: str) -> Sequence[Mapping[str, Any]]:
    """A list of objects."""
    found = record.get(name, list)
    if not all(isinstance(part, dict) for part in found):
        raise record.wrong(name, "not every entry is an object", "a list of function schemas")
    return found


def _probability(record: Record, name: str) -> float:
    """A number from 0 to 1."""
    value = record.get(name, (int, float))
    if not 0 <= value <= 1:
        raise record.wrong(name, f"{value} is no probability", "0 to 1")
    return float(value)


def _cell(record: Record) -> Cell:
    """Where the state is read."""
    layer, position, of = record.get("layer", int), record.get("position", int), record.text("of", None)
    if layer < 0:
        raise record.wrong("layer", f"{layer}", "0 (embeddings) or above")
    if position >= 0:
        raise record.wrong("position", f"{position}", "-1 (the last token) or below")
    if of not in ("prompt", "question"):
        raise record.wrong("of", f"{of!r}", "prompt or question")
    return Cell(layer, position, "prompt" if of == "prompt" else "question")


def _interval(record: Record) -> Interval:
    """An estimate; null where it is undefined."""
    value, low, high = (record.get(name, (int, float), None) for name in ("value", "low", "high"))
    return Interval(value, low, high, record.get("n", int))


def _model(record: Record) -> ModelConfig:
    """Where the model comes from; a probe never asks for code from elsewhere to be run."""
    known = set(ModelConfig.__dataclass_fields__)
    if unknown := sorted(set(record.value) - known):
        raise record.wrong(unknown[0], "unknown field", f"fields of a model group: {', '.join(sorted(known))}")
    try:
        return ModelConfig(**{**record.value, "trust_remote_code": False})
    except UserError as error:
        raise record.wrong(error.where.removeprefix("model."), error.what, error.expected) from error
    except TypeError as error:
        raise record.wrong("source", str(error), "the fields of a model group") from error


def unreadable(path: Path, error: Exception) -> UserError:
    """The error about a file of a probe that is missing or damaged."""
    why = "no such file" if isinstance(error, FileNotFoundError) else (str(error).splitlines() or ["damaged"])[0]
    return UserError(
        f"no probe can be read ({why})", where=str(path), expected="the files that a run wrote to model/",
        fix=AGAIN,
    )  # fmt: skip
