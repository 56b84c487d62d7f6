"""Attribution told: from need over cognition to action, as counts, table, curve and Sankey diagram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from toolsavvy.config.schema import Config
from toolsavvy.methods.knowing.probed import NECESSITY, Probed
from toolsavvy.methods.knowing.results import count, number
from toolsavvy.methods.story import Story
from toolsavvy.necessity.attribution import KINDS, Attribution, attribution, curve_thresholds, matched_threshold
from toolsavvy.necessity.showing import (
    ATTRIBUTION_HEAD,
    ATTRIBUTION_NOTE,
    attribution_rows,
    draw_sankey,
    draw_stages,
    way_rows,
)
from toolsavvy.suites.table import Result
from toolsavvy.tracking import Run

SUITE = "attribution"
RATES = ("stage_1", "stage_2", "control", "excess", "cognition_error", "action_error", "cancelled")


def attribute(cfg: Config, run: Run, story: Story, system: str, probed: Probed) -> None:
    """Attribute the mismatch by the necessity probe's scores out of fold."""
    for split, by_label in probed.study.out_of_fold.items():
        scores = by_label.get(NECESSITY)
        if scores is None or not np.isfinite(scores).any():
            continue
        known = np.isfinite(scores)
        need, call, said = probed.necessary[known], probed.called[known], scores[known]
        named = {"half": 0.0, "matched": matched_threshold(need, said)}
        drawn = {"resamples": cfg.method.resamples, "seed": cfg.seed}
        points = dict(zip(named, attribution(need, said, call, tuple(named.values()), **drawn), strict=True))
        run.record(r for name, point in points.items() for r in _results(system, f"{split}/{name}", point))
        _show(story, system, split, points)
        if split == "random":
            curve = attribution(need, said, call, curve_thresholds(said), **drawn)
            _draw(story, points["half"], curve)


def _results(system: str, where: str, point: Attribution) -> Iterator[Result]:
    total = sum(way.count for way in point.ways)
    for kind in KINDS:
        yield count(system, where, f"n_{kind}", point.count(kind), total, SUITE)
    for way in point.ways:
        name = ("n" if way.factual else "un") + ("_n" if way.cognition else "_un") + ("_c" if way.action else "_nc")
        yield count(system, where, f"way_{name}", way.count, total, SUITE)
    for rate in RATES:
        yield number(system, where, rate, getattr(point, rate), SUITE)


def _show(story: Story, system: str, split: str, points: Mapping[str, Attribution]) -> None:
    """The table of both thresholds, and the eight ways at the first."""
    rows = [[name, *row] for name, row in zip(points, attribution_rows(tuple(points.values())), strict=True)]
    title = f"attribution, {split} split: {system}"
    note = f"{ATTRIBUTION_NOTE} matched: as many questions read as necessary as are."
    story.table(title, ["threshold", *ATTRIBUTION_HEAD], rows, note)
    head = ["factual", "cognition", "action", "kind", "questions", "share, %"]
    story.table(f"ways, {split} split: {system}", head, way_rows(points["half"]))


def _draw(story: Story, point: Attribution, curve: list[Attribution]) -> None:
    title = "Factual → Cognition → Action"
    story.figure("sankey", title, lambda paths: draw_sankey(paths, point, title=title))
    over = "Where the mismatch arises, as the probe's threshold varies"
    story.figure("attribution", over, lambda paths: draw_stages(paths, curve, title=over))
