"""A linear probe on the state just before each value: will the value be right (ParamBench, 2608.03071)?

Rows come from cross-fitting: every labelled task is answered by a model that has not seen its reference, since on its
own training tasks a model is right nearly always, and a probe would learn that. `fit` refuses other rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.catalogs.reading import Record
from toolsavvy.classification import auc
from toolsavvy.errors import UserError
from toolsavvy.metrics import Interval, Resamples, interval
from toolsavvy.parameters.fields import FieldTable
from toolsavvy.parameters.linear import STRENGTHS, Calibrated, Fitted, fit_calibrated
from toolsavvy.probes.problems import Problems

FORMAT = 1
CARD, WEIGHTS = "value_probe.json", "value_probe.safetensors"
_VECTORS, _NUMBERS = ("weights", "mean", "scale"), ("bias", "slope", "offset", "strength")
AGAIN = "copy the folder again from the run that trained the probe"


@dataclass(frozen=True)
class ProbeCard:
    """What a probe was trained on.

    Args:
        model: whose states it reads, as the caller names it.
        origins: models that wrote the training answers.
        tasks: number of training tasks.
        rows: number of training values.
        right: share of right ones.
        calibrated_on: "held-out folds of the training tasks" or "validation tasks".
        auc: of training values, each by a probe of other tasks; None where it is undefined.
        seed: of the folds.
    """

    model: str
    origins: tuple[str, ...]
    tasks: int
    rows: int
    right: float
    calibrated_on: str
    auc: float | None
    seed: int


@dataclass(frozen=True)
class ValueProbe:
    """A probe of one layer.

    Args:
        layer: 0 = embeddings, i = output of block i.
        linear: weights and calibration.
        card: what it was trained on.
    """

    layer: int
    linear: Calibrated
    card: ProbeCard

    def score(self, states: np.ndarray) -> np.ndarray:
        """Probability that the value after each state [row, d] is right, float64 [row]."""
        if not len(states):
            return np.zeros(0)
        return self.linear.probabilities(states)

    def score_fields(self, table: FieldTable) -> np.ndarray:
        """Probability that each value of a table is right, float64 [field]."""
        return self.score(table.layer(self.layer)) if len(table) else np.zeros(0)


def default_layer(depth: int) -> int:
    """The paper's layer, round(2L/3), of a model with L blocks."""
    return int(2 * depth / 3 + 0.5)


def fit(
    table: FieldTable, *, layer: int | None = None, validation: FieldTable | None = None,
    strengths: Sequence[float] = STRENGTHS, folds: int = 5, seed: int = 0, model: str = "",
) -> ValueProbe:  # fmt: skip
    """Train the probe of one layer.

    Args:
        table: labelled answers, cross-fitted.
        layer: which; None where the table holds one alone.
        validation: other labelled answers to calibrate on; None: held-out folds of the training tasks.
        strengths: inverse penalties to choose from, by log loss over folds of whole clusters.
        folds: for that choice.
        seed: of the folds.
        model: named in the card.

    Raises:
        UserError: rows that are not cross-fitted or not labelled, or one class alone.
        ValueError: no layer is given and the table holds several, or it does not hold that one.
    """
    if layer is None and len(table.layers) != 1:
        raise ValueError(f"name one of the layers {list(table.layers)}")
    chosen = table.layers[0] if layer is None else layer
    (found,) = fit_layers(
        table, [chosen], validation=validation, strengths=strengths, folds=folds, seed=seed, model=model
    )
    return found[0]


def fit_layers(
    table: FieldTable, layers: Sequence[int] | None = None, *, validation: FieldTable | None = None,
    strengths: Sequence[float] = STRENGTHS, folds: int = 5, seed: int = 0, model: str = "",
) -> list[tuple[ValueProbe, np.ndarray]]:  # fmt: skip
    """Train the probes of many layers in one pass; arguments as in `fit`.

    Returns:
        For each layer the probe, and the log-odds of its training rows by probes of other tasks, float64 [field].
    """
    check_rows(table)
    wanted = list(table.layers if layers is None else layers)
    other = None
    if validation is not None:
        check_rows(validation)
        other = ([validation.layer(i) for i in wanted], validation.right)
    fitted = fit_calibrated(
        [table.layer(i) for i in wanted], table.right, table.field_clusters, strengths=strengths, folds=folds,
        seed=seed, validation=other,
    )  # fmt: skip
    blank = ProbeCard(
        model, tuple(o.name for o in table.origins), len(table.tasks), len(table), float(table.right.mean()),
        "held-out folds of the training tasks" if validation is None else "validation tasks", None, seed,
    )  # fmt: skip
    return [
        (ValueProbe(i, f.model, replace(blank, auc=_held_out_auc(table.right, f))), f.held_out)
        for i, f in zip(wanted, fitted, strict=True)
    ]


def check_rows(table: FieldTable) -> None:
    """Refuse what no probe may be trained, calibrated or tested on.

    Raises:
        UserError: no labels, no rows, or answers of models that were trained on their tasks.
    """
    if not table.labelled:
        raise UserError("the answers carry no labels", where="probe", expected="tasks with references")
    if not len(table):
        raise UserError(
            f"none of {len(table.candidates)} answers holds a value that could be read", where="probe",
            expected="answers with arguments", fix="train the seed model longer, or on more tasks",
        )  # fmt: skip
    table.check_cross_fitted()


def _held_out_auc(right: np.ndarray, fitted: Fitted) -> float | None:
    there = np.isfinite(fitted.held_out)
    value = float(auc(right[there], fitted.held_out[there]))
    return value if np.isfinite(value) else None


def held_out_scores(table: FieldTable, layer: int, *, folds: int = 5, seed: int = 0) -> np.ndarray:
    """Probability of every training value by a probe of other tasks, float64 [field]; for choices made on train.

    Values that no probe could be trained for have the base rate.
    """
    ((probe, log_odds),) = fit_layers(table, [layer], folds=folds, seed=seed)
    there = np.isfinite(log_odds)
    return np.where(there, probe.linear.calibrated(np.where(there, log_odds, 0.0)), table.right.mean())


@dataclass(frozen=True)
class LayerPoint:
    """One layer of the curve.

    Args:
        layer: which.
        held_out: AUC on the other table, resampled by cluster.
        folds: AUC on the training table by probes of other tasks: what a layer is chosen by.
        shuffled: AUC of probes with shuffled labels on the other table, float64 [shuffle].
        strength: inverse penalty.
    """

    layer: int
    held_out: Interval
    folds: float | None
    shuffled: np.ndarray
    strength: float


def layer_curve(
    train: FieldTable, test: FieldTable, *, shuffles: int = 3, resamples: int = 1000, seed: int = 0,
    strengths: Sequence[float] = STRENGTHS,
) -> tuple[LayerPoint, ...]:  # fmt: skip
    """AUC of a probe on every layer, with its shuffled-label control.

    Args:
        train: cross-fitted answers, with the states of all layers.
        test: answers to other tasks.
        shuffles: permutations of the training labels.
        resamples: bootstrap replicates over the clusters of `test`.
        seed: of folds, shuffles and resamples.
        strengths: inverse penalties.

    Raises:
        UserError: a task lies in both, or rows are not cross-fitted.
    """
    check_apart(train, test)
    points = []
    for probe, _ in fit_layers(train, seed=seed, strengths=strengths):
        scores = probe.linear.log_odds(test.layer(probe.layer))
        points.append(LayerPoint(
            probe.layer, auc_interval(test.right, scores, test.field_clusters, n=resamples, seed=seed),
            probe.card.auc, shuffled(train, test, probe, shuffles=shuffles, seed=seed), probe.linear.strength,
        ))  # fmt: skip
    return tuple(points)


def best_layer(curve: Sequence[LayerPoint]) -> int:
    """Layer with the highest AUC over folds of training tasks; ties go to the earlier one."""
    return min(curve, key=lambda point: (-(point.folds if point.folds is not None else -1.0), point.layer)).layer


def check_apart(train: FieldTable, test: FieldTable) -> None:
    """Refuse a task that is trained and tested on.

    Raises:
        UserError: names it.
    """
    check_rows(test)
    if common := sorted({t.id for t in train.tasks} & {t.id for t in test.tasks}):
        raise UserError(
            f"{len(common)} tasks train the probe and test it (first: {common[0]!r})", where="probe",
            expected="a split by task",
        )  # fmt: skip


def auc_interval(
    right: np.ndarray, scores: np.ndarray, clusters: Sequence[str], *, n: int = 1000, seed: int = 0
) -> Interval:
    """AUC with a 95 % interval over clusters of tasks."""
    resamples = Resamples.of(clusters, n, seed)
    if not len(right):
        return Interval(None, None, None, 0)
    cells = max(1, 4_000_000 * resamples.units // len(right))
    drawn = [auc(right, scores, w[:, resamples.clusters]) for w in resamples.weights(cells)]
    return interval(float(auc(right, scores)), np.concatenate(drawn), len(right), resamples.units)


def shuffled(
    train: FieldTable, test: FieldTable, probe: ValueProbe, *, shuffles: int = 10, seed: int = 0
) -> np.ndarray:
    """AUC on `test` of probes whose training labels were permuted, float64 [shuffle]: what a state gives by itself."""
    from toolsavvy.probes.logistic import fit as solve

    if not shuffles:
        return np.zeros(0)
    rng = np.random.default_rng([seed, 5])
    targets = np.stack([rng.permutation(train.right) for _ in range(shuffles)])
    problems = Problems(targets, np.ones_like(targets), np.full(shuffles, probe.linear.strength))
    fits = solve(np.asarray(train.layer(probe.layer), dtype=np.float32), problems)
    return auc(test.right, fits.scores(np.asarray(test.layer(probe.layer), dtype=np.float32)).T)


def save(folder: Path | str, probe: ValueProbe) -> None:
    """Write weights as safetensors and the rest as JSON; other files in the folder stay.

    Raises:
        UserError: the disk is full.
    """
    import safetensors.numpy

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: np.ascontiguousarray(getattr(probe.linear, name), dtype=np.float32) for name in _VECTORS}
    numbers = {name: getattr(probe.linear, name) for name in _NUMBERS}
    card = {"format": FORMAT, "layer": probe.layer, **numbers, **asdict(probe.card)}
    with atomic_write(folder / WEIGHTS) as file:
        file.write(safetensors.numpy.save(tensors))
    with atomic_write(folder / CARD, text=True) as file:
        file.write(json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def load(folder: Path | str) -> ValueProbe:
    """Read a probe that `save` wrote.

    Raises:
        UserError: a file is missing or damaged, or a field has no sense; with file and field.
    """
    folder = Path(folder).expanduser()
    record = Record(_read_card(folder / CARD), str(folder / CARD))
    if record.get("format", int) != FORMAT:
        raise record.wrong("format", f"format {record.value['format']}", str(FORMAT), "use the version that wrote it")
    tensors = _read_tensors(folder / WEIGHTS)
    bias, slope, offset, strength = (float(record.get(name, (int, float))) for name in _NUMBERS)
    card = ProbeCard(
        record.text("model"), tuple(str(o) for o in record.get("origins", list)), record.get("tasks", int),
        record.get("rows", int), float(record.get("right", (int, float))), record.text("calibrated_on"),
        record.get("auc", (int, float), None), record.get("seed", int),
    )  # fmt: skip
    weights, mean, scale = (tensors[name] for name in _VECTORS)
    linear = Calibrated(weights, bias, mean, scale, slope, offset, strength)
    return ValueProbe(record.get("layer", int), linear, card)


def _read_card(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error
    if not isinstance(value, dict):
        raise _unreadable(path, ValueError("no JSON object"))
    return value


def _read_tensors(path: Path) -> dict[str, np.ndarray]:
    import safetensors.numpy
    from safetensors import SafetensorError

    try:
        found = safetensors.numpy.load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, error) from error
    shapes = {array.shape for array in found.values()}
    if set(found) != set(_VECTORS) or len(shapes) != 1 or found["weights"].ndim != 1:
        raise _unreadable(path, ValueError(f"arrays { ({n: v.shape for n, v in found.items()}) }"))
    return found


def _unreadable(path: Path, error: Exception) -> UserError:
    why = "no such file" if isinstance(error, FileNotFoundError) else (str(error).splitlines() or ["damaged"])[0]
    return UserError(f"no probe can be read ({why})", where=str(path), expected="the files that a run wrote", fix=AGAIN)
