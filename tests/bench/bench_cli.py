"""Item 7: the command answers quickly because heavy imports stay inside the code that needs them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from record import Record, Row, median, timed

ROUNDS = 5
COMMANDS = {
    "toolsavvy --help": (["--help"], 1.0),
    "toolsavvy dry_run=true (compose and check)": (["dry_run=true"], 2.0),
    "toolsavvy --cfg job (compose)": (["--cfg", "job"], 2.0),
}


def run() -> Record:
    rows, works = [], True
    with tempfile.TemporaryDirectory() as folder:
        for name, (arguments, limit) in COMMANDS.items():
            times = []
            for _ in range(ROUNDS):
                seconds, done = timed(lambda a=arguments: call(a, Path(folder)))
                times.append(seconds)
                works &= done.returncode == 0 and bool(done.stdout.strip())
                if done.returncode:
                    print(f"  {name}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
                    break
            rows.append(Row(name, median(times), None, limit, {"all_seconds": times}))
    return Record(
        "7_cli", "help within 1 s, composing and checking a run within 2 s", "exit code 0 and an answer", works, rows
    )


def call(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """As a user's shell would, in an empty folder."""
    command = [sys.executable, "-m", "toolsavvy", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
