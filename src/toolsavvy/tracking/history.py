"""history.csv: the learning curves of a run as rows (step, metric, value), whichever logger is told about them too."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolsavvy.tracking.records import drop_torn_line

HEADER = ("step", "metric", "value")


class History:
    """The file of one run.

    A resumed run takes some steps again: what an earlier attempt has written of them stays, and is not written twice.

    Args:
        folder: of the run.
        continued: whether an earlier attempt of the same run may have written here; else its file goes.
    """

    def __init__(self, folder: Path, *, continued: bool) -> None:
        self._path = folder / "history.csv"
        if not continued:
            self._path.unlink(missing_ok=True)
        drop_torn_line(self._path)
        try:
            self._earlier = Counter((step, name) for step, name, _ in read_history(folder))
        except (ValueError, KeyError, TypeError):  # damaged: curves start anew, no number hangs on them
            self._path.unlink()
            self._earlier = Counter()

    def append(self, metrics: Mapping[str, float], step: int | None) -> dict[str, float]:
        """Write one row a metric; the file exists once there is a point.

        Returns:
            The metrics that are new; without a step all are.
        """
        new = {name: v for name, v in metrics.items() if step is None or not self._earlier[step, name]}
        self._earlier.subtract((step, name) for name in metrics if name not in new)  # a step may have several points
        if not new:
            return new
        rows = [(step, name, value) for name, value in new.items()]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        is_begun = self._path.exists() and self._path.stat().st_size > 0
        writer.writerows(rows if is_begun else [HEADER, *rows])
        with self._path.open("a", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
        return new


def read_history(folder: Path) -> Iterator[tuple[int | None, str, float]]:
    """(step, metric, value) of every point of a run, in order; nothing where it has no curves.

    A last row that was torn off, or is still being written, is left out.
    """
    path = folder / "history.csv"
    if not path.is_file():
        return
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    for row in csv.DictReader(io.StringIO(whole)):
        yield int(row["step"]) if row["step"] else None, row["metric"], float(row["value"])
