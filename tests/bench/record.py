"""What one bench says: a ratio against its target, whether its oracle held, and where it was measured."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass
class Row:
    """One measurement.

    Args:
        case: what was run.
        ours: seconds (median), or another unit's number.
        theirs: seconds (median), None where there is no rival.
        target: least ratio theirs / ours, or the most of the unit where there is no rival; None = for information.
        detail: anything else worth keeping.
        unit: of ours and theirs.
    """

    case: str
    ours: float
    theirs: float | None
    target: float | None
    detail: dict[str, Any] = field(default_factory=dict)
    unit: str = "s"

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None else self.theirs / self.ours

    @property
    def met(self) -> bool:
        if self.target is None:
            return True
        return self.ours <= self.target if self.ratio is None else self.ratio >= self.target


@dataclass
class Record:
    """One item of the design's list of speeds.

    Args:
        item: file name under results/.
        title: the claim.
        oracle: what was checked in the same run, None where nothing can be.
        oracle_ok: whether it held.
        rows: measurements.
        note: how to read them.
    """

    item: str
    title: str
    oracle: str | None
    oracle_ok: bool
    rows: list[Row]
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.oracle_ok and all(row.met for row in self.rows)

    def write(self) -> None:
        rows = [{**asdict(row), "ratio": row.ratio, "met": row.met} for row in self.rows]
        content = {**asdict(self), "rows": rows, "passed": self.passed, **surroundings()}
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self.item}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def show(self) -> None:
        print(f"\n{self.item}: {self.title}")
        if self.oracle:
            print(f"  oracle: {self.oracle}: {'holds' if self.oracle_ok else 'FAILS'}")
        print(f"  {'case':44} {'ours':>10} {'rival':>10} {'ratio':>8} {'target':>8}")
        for row in self.rows:
            rival = "" if row.theirs is None else amount(row.theirs, row.unit)
            ratio = "" if row.ratio is None else f"{row.ratio:.1f}x"
            unit = f" {row.unit}" if row.ratio is None else "x"
            target = "" if row.target is None else f"{row.target:g}{unit}"
            missed = "" if row.met else "  MISSED"
            print(f"  {row.case:44} {amount(row.ours, row.unit):>10} {rival:>10} {ratio:>8} {target:>8}{missed}")


def amount(number: float, unit: str) -> str:
    """Seconds as milliseconds while they are few."""
    return f"{number * 1e3:.2f} ms" if unit == "s" and number < 10 else f"{number:.2f} {unit}"


def surroundings() -> dict[str, Any]:
    """Kind of machine, day and versions; nothing that names the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ("torch", "transformers", "numpy", "hydra-core")
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB, no accelerator used",
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
    }


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


class Stopwatch:
    """Adds up the time inside a function that it wraps."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start


def median(values: list[float]) -> float:
    return statistics.median(values)
