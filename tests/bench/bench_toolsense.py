"""Benchmarks by template for the whole AWS catalog: three commands, and the same bytes again from the same seed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from record import Record, Row, timed

ITEMS, SECONDS = 500, 180.0
KINDS = ("rrb", "mcq", "qa")


def run() -> Record:
    rows, digests, counts = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for attempt in range(2):  # the first may have to read the catalog from its wheel
            total = 0.0
            for kind in KINDS:
                out = Path(folder) / str(attempt) / kind
                seconds, done = timed(lambda k=kind, o=out: call(k, o))
                total += seconds
                lines = (out / f"{kind}.jsonl").read_bytes() if done.returncode == 0 else b""
                digests.append(hashlib.sha256(lines).hexdigest())
                counts[kind] = lines.count(b"\n")
        rows.append(Row("rrb + mcq + qa, whole commands", total, None, SECONDS, {"items": counts}))
    same = digests[:3] == digests[3:] and all(counts[kind] == ITEMS for kind in KINDS)
    return Record(
        "9_toolsense", "500 items each of RRB, MCQ and QA by template for all AWS operations within 3 minutes",
        "500 items each; the same seed gives the same bytes", same, rows,
    )  # fmt: skip


def call(kind: str, out: Path) -> subprocess.CompletedProcess[str]:
    """One command, as a user's shell would run it."""
    words = ["method=generate", f"generator={kind}", "catalog=aws", f"generator.n={ITEMS}", "logger=none"]
    command = [sys.executable, "-m", "toolsavvy", *words, f"hydra.run.dir={out}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
