"""Attribution and costs as tables and figures: how results become ribbons, curves and rows of text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from toolsavvy.figures.canvas import Paths
from toolsavvy.figures.curves import Curve, Panel, curve_panels
from toolsavvy.figures.sankey import Ribbon, sankey
from toolsavvy.metrics import Interval
from toolsavvy.necessity.attribution import Attribution, Way
from toolsavvy.necessity.need import CostPoint

COLUMNS = ("Factual", "Cognition", "Action")
NODES = (("necessary", "unnecessary"), ("reads as necessary", "reads as unnecessary"), ("called", "not called"))
KIND_NAMES = {
    "aligned": "aligned",
    "cancelled": "aligned, two errors cancel",
    "stage_1": "mismatch in stage 1 (cognition is wrong)",
    "stage_2": "mismatch in stage 2 (action against cognition)",
}
KIND_COLOURS = {"aligned": "#0072b2", "cancelled": "#9ecae1", "stage_1": "#d55e00", "stage_2": "#f0b060"}
ATTRIBUTION_HEAD = (
    "cognition at or above", "aligned", "two errors", "stage 1", "stage 2", "stage 1 of mismatch, %",
    "by the probe's errors alone, %", "excess, points",
)  # fmt: skip
ATTRIBUTION_NOTE = (
    "Questions by kind: a mismatch has one error, in stage 1 (the probe reads the need wrongly) or in stage 2 (the "
    "action contradicts what the probe reads). The control permutes the probe's readings among the necessary and among "
    "the unnecessary questions: same errors, same AUC, no knowledge of the action. Only the excess is about the model."
)
POLICIES = {
    "always": "always call",
    "never": "never call",
    "model": "the model's own calls",
    "label": "hard label",
    "need": "cost-aware rule",
}


def told(value: Interval, scale: float = 1.0, digits: int = 2, sign: str = "") -> str:
    """'0.16 [0.12, 0.19]', the value alone where it has no interval, 'undefined' where it has none."""
    if value.value is None:
        return "undefined"
    ends = [value.value, *([] if value.low is None or value.high is None else [value.low, value.high])]
    texts = [f"{scale * end:{sign}.{digits}f}" for end in ends]
    return texts[0] if len(texts) == 1 else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def attribution_rows(found: Sequence[Attribution]) -> list[list[str]]:
    """One row a threshold, under `ATTRIBUTION_HEAD`."""
    return [
        [
            f"{one.threshold:.2f}",
            *(f"{one.count(kind):,}" for kind in KIND_NAMES),
            *(told(value, 100, 1) for value in (one.stage_1, one.control)),
            told(one.excess, 100, 1, "+"),
        ]
        for one in found
    ]


def way_rows(found: Attribution) -> list[list[str]]:
    """The eight ways, under factual, cognition, action, kind, questions, share in %."""
    return [
        [*_nodes(way), KIND_NAMES[way.kind], f"{way.count:,}", told(way.share, 100, 1)] for way in found.ways
    ]  # fmt: skip


def _nodes(way: Way) -> tuple[str, str, str]:
    wanted = (way.factual, way.cognition, way.action)
    first, second, third = (NODES[i][0 if yes else 1] for i, yes in enumerate(wanted))
    return first, second, third


def draw_sankey(paths: Paths, found: Attribution, *, title: str = "") -> list[Path]:
    """Factual -> Cognition -> Action, by counts of questions."""
    ribbons = [Ribbon(_nodes(way), way.count, KIND_NAMES[way.kind]) for way in found.ways]
    colours = {KIND_NAMES[kind]: colour for kind, colour in KIND_COLOURS.items()}
    return sankey(paths, COLUMNS, NODES, ribbons, colours=colours, title=title)


def draw_stages(
    paths: Paths, found: Sequence[Attribution], *, chosen: float | None = None, title: str = ""
) -> list[Path]:
    """Stage 1's share of the mismatch beside the control, and both kinds of errors, over the probe's threshold.

    Args:
        paths: of the .png or .svg files.
        found: one a threshold, ascending; x is the share of questions that the probe reads as necessary, since scores
            of different probes have different units.
        chosen: threshold that is marked.
        title: above the figure.
    """
    x = [_read_as_necessary(one) for one in found]
    names = {"stage_1": "mismatch in stage 1", "control": "the same by the probe's errors alone"}
    shares = tuple(_curve(names[n], x, [getattr(one, n) for one in found], n == "control") for n in names)
    names = {"cognition_error": "need read wrongly", "action_error": "action against the reading"}
    errors = tuple(_curve(names[n], x, [getattr(one, n) for one in found]) for n in names)
    at = next((x[i] for i, one in enumerate(found) if one.threshold == chosen), None)
    line = None if at is None else (at, "chosen threshold")
    read = "% of questions that the probe reads as necessary"
    panels = [
        Panel("where the mismatch arises", read, "% of the mismatch", shares, line=line),
        Panel("errors of all questions, cancelled ones among them", read, "% of all questions", errors, line=line),
    ]
    return curve_panels(paths, panels, title=title)


def _read_as_necessary(one: Attribution) -> float:
    return 100 * sum(way.share.value or 0.0 for way in one.ways if way.cognition)


def _curve(
    label: str, x: Sequence[float], values: Sequence[Interval], control: bool = False, scale: float = 100.0
) -> Curve:
    """A line with its band; gaps where a value is undefined."""
    y, low, high = (
        [scale * v if v is not None else np.nan for v in (getattr(one, name) for one in values)]
        for name in ("value", "low", "high")
    )
    return Curve(label, x, y, low, high, control)


def draw_costs(paths: Paths, points: Sequence[CostPoint], *, title: str = "") -> list[Path]:
    """What policies cost over the price of a call, and what the model loses against the cost-aware rule."""
    x = [point.cost for point in points]
    policies = tuple(_curve(text, x, [getattr(p, name) for p in points], scale=1) for name, text in POLICIES.items())
    regret = (_curve("the model's own calls minus cost-aware rule", x, [p.regret for p in points], scale=1),)
    price = "price of a call (a wrong answer: 1)"
    panels = [
        Panel("expected cost a question", price, "cost", policies),
        Panel("regret of the model's own calls", price, "cost above the rule", regret, level=(0, "")),
    ]
    return curve_panels(paths, panels, title=title)
