"""The self-test of method=doctor: what a run is made of, tried on made-up data in seconds.

The checks that load weights are processes of their own, so that a library that crashes fails one check and no more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolsavvy.tracking.records import read_lines, read_status

SECONDS = 300
"""After which a check has failed, on however slow a machine."""
TRAINED = ("method=toolgen", "catalog=toy", "model=toy", "encoder=toy", "logger=none")
TRAINED += ("memorization.epochs=1", "trainer.threads=1")
RELOAD = "import sys; from transformers import AutoModelForCausalLM as A; A.from_pretrained(sys.argv[1])"


@dataclass(frozen=True)
class Check:
    """How one check ended.

    Args:
        name: what was tried.
        seconds: that it took.
        error: what went wrong; empty where nothing did.
    """

    name: str
    seconds: float
    error: str = ""


def self_test() -> Iterator[Check]:
    """Every check, one after the other; whatever one raises is its result."""
    with tempfile.TemporaryDirectory(prefix="toolsavvy-") as name:
        folder = Path(name)
        for title, check in CHECKS.items():
            start, error = time.monotonic(), ""
            try:
                check(folder)
            except Exception as fault:
                error = f"{type(fault).__name__}: {fault}"
            yield Check(title, round(time.monotonic() - start, 1), error)


def _process(*words: str) -> None:
    """Another Python with this package on its path; its last words are the error."""
    package = Path(__file__).parents[2]
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}  # toys are too small to be shared between threads
    alone = {k: v for k, v in os.environ.items() if not k.startswith("TOOLSAVVY_RUN")} | own
    done = subprocess.run(
        [sys.executable, *words], env=alone, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}\n{(done.stderr or done.stdout)[-1500:].rstrip()}")


def train(folder: Path) -> None:
    """Two-stage ToolGen and its rivals on a made-up catalog, as the command does it."""
    _process("-m", "toolsavvy", *TRAINED, f"paths.outputs={folder}", f"hydra.run.dir={folder / 'toolgen'}")
    status, rows = read_status(folder / "toolgen"), read_lines(folder / "toolgen" / "results.jsonl")
    if status is None or status.status != "done" or not any(row["system"] == "bm25" for row in rows):
        raise RuntimeError(f"the run ended without its results: {status}")


def reload(folder: Path) -> None:
    """The model of that run is an ordinary one."""
    _process("-c", RELOAD, str(folder / "toolgen" / "model"))


def probe(folder: Path) -> None:
    """A direction that was planted in noise is found on items that were not trained on."""
    import numpy as np

    from toolsavvy.classification import auc
    from toolsavvy.probes.logistic import fit
    from toolsavvy.probes.problems import Problems

    rng = np.random.default_rng(0)
    states, truth = rng.normal(size=(2000, 16)).astype(np.float32), np.arange(2000) % 2 == 1
    states[:, 3] += 2.0 * truth
    rows = np.arange(2000) < 1000
    found = fit(states, Problems(truth[None], rows[None], np.array([1.0]))).scores(states)[0]
    reached = float(auc(truth[~rows], found[~rows]))
    if reached < 0.85:
        raise RuntimeError(f"AUC {reached:.2f} where about 0.92 was planted")


def call(folder: Path) -> None:
    """A tool call is read out of an answer, and its arguments are compared with the right ones."""
    from toolsavvy.calls.parsing import parse_calls

    schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    tools = [{"name": "forecast", "description": "", "parameters": schema}]
    text = 'Let me look.\n<tool_call>\n{"name": "forecast", "arguments": {"city": "Bern", "days": 3}}\n</tool_call>'
    found = parse_calls(text, tools).calls
    if [(c.name, dict(c.arguments)) for c in found] != [("forecast", {"city": "Bern", "days": 3})]:
        raise RuntimeError(f"read {found}")


CHECKS: dict[str, Callable[[Path], None]] = {
    "toolgen and its rivals on a toy catalog, end to end": train,
    "its model reloads with from_pretrained": reload,
    "a probe finds what was planted": probe,
    "a tool call is parsed": call,
}
"""What is tried -> how, in order; none needs an extra or the network."""
