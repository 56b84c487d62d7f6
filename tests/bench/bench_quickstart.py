"""Item 8: the quickstart, from the bare command to its table, with the caches as they are."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from record import Record, Row

SECONDS, GIGABYTES = 600.0, 5.0
POLL = 0.5
"""Seconds between two looks at the child's memory; VmHWM is a peak, so nothing is missed but the very end."""


def run(overrides: Sequence[str] = ()) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        wall, peak, code = watch([sys.executable, "-m", "toolsavvy", *overrides, f"paths.outputs={folder}"])
        runs = sorted(Path(folder).glob("*/*/run.json"))
        told = json.loads(runs[0].read_text(encoding="utf-8")) if runs else {}
        status = json.loads((runs[0].parent / "status.json").read_text(encoding="utf-8"))["status"] if runs else "none"
        results = len((runs[0].parent / "results.jsonl").read_text().splitlines()) if status == "done" else 0
    rows = [
        Row("wall", wall, None, SECONDS, {"stages": told.get("stages"), "exit_code": code}),
        Row(
            "peak memory", peak / 1e9, None, GIGABYTES, {"run_json": told.get("peak_memory"), "vm_hwm": peak}, unit="GB"
        ),
    ]
    return Record(
        "8_quickstart", "bare `toolsavvy`: at most 10 minutes on 2 cores after installation, at most 5 GB",
        "exit code 0, status done, results written", code == 0 and status == "done" and results > 0, rows,
        f"{results} numbers. Caches as they were; memory of the process itself, without W&B's.",
    )  # fmt: skip


def watch(command: list[str]) -> tuple[float, int, int]:
    """Run a command with its output shown; returns wall seconds, peak resident bytes and the exit code."""
    peaks = [0]
    start = time.perf_counter()
    with subprocess.Popen(command) as process:
        looking = threading.Thread(target=look, args=(process, peaks), daemon=True)
        looking.start()
        code = process.wait()
        wall = time.perf_counter() - start
    looking.join(2 * POLL)
    return wall, max(peaks), code


def look(process: subprocess.Popen[bytes], peaks: list[int]) -> None:
    """Read the kernel's own peak of the child until it ends."""
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            return
        peaks += [1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
        time.sleep(POLL)
