"""A method for tests of the entry point, chosen by `method=probe` with --config-dir tests/cli/conf."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

from toolsavvy.config.schema import Config, Plan
from toolsavvy.errors import UserError
from toolsavvy.tracking import Run


@dataclass(frozen=True)
class Number:
    """As the suites' results."""

    system: str
    suite: str
    slice: str
    metric: str
    k: int | None
    value: float
    low: float
    high: float
    n: int


def plan(cfg: Config) -> Plan:
    return Plan(stages=("memorization: 7 rows x 2 epochs",), systems=("probe",), training_tokens=12345)


def run(cfg: Config, run: Run) -> None:
    with run.stage("work"):
        run.log({"loss": 1.0 / (1 + cfg.seed)}, step=3)
        run.record([Number("probe", "catalog_test", "all", "recall", 5, 0.25 + cfg.seed, 0.1, 0.9, 40)])
        run.record([Number("probe", "catalog_test", "short", "recall", 5, 0.5, 0.1, 0.9, 40)])
        mark = run.checkpoints / "half.txt"
        was_cut_off = mark.exists()
        mark.write_text("half done")
        _misbehave(cfg, was_cut_off)
    run.note(catalog_fingerprint="abc", continued=was_cut_off)


def _misbehave(cfg: Config, was_cut_off: bool) -> None:
    """PROBE=<how>:<seed> in the environment."""
    how, _, seed = os.environ.get("PROBE", "").partition(":")
    if not how or int(seed) != cfg.seed:
        return
    if how == "raise":
        raise RuntimeError(f"planned failure{os.environ.get('OPENAI_API_KEY', '')}")
    if how == "user":
        raise UserError("planned mistake", where="tools.jsonl, line 3, field 'id'", expected="text", fix="mend it")
    if how == "kill" and not was_cut_off:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "sleep":
        time.sleep(60)
