"""Figures that runs have drawn themselves, held by the page as far as there is room."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolsavvy.methods.overview.gathering import Entry, name_of
from toolsavvy.page import Figure

ROOM = 2_200_000
"""Bytes of files; as text in the page they take a third more."""
MOST = 30
_SAFE = re.compile(rb"<script|<foreignObject|xlink:href=[\"'](?!#|data:image)|\son\w+=", re.I)
"""What no figure of ours has in it."""


def run_figures(entries: Sequence[Entry], labels: Mapping[str, str]) -> tuple[list[Figure], list[str]]:
    """One seed's figures of each cell, figure by figure, so that cells stand beside one another.

    Returns:
        Figures, and a sentence where some are left to the run folders.
    """
    cells = list({entry.cell: entry for entry in reversed(entries)}.values())[::-1]
    found: dict[str, list[tuple[Path, Entry]]] = {}
    for entry in cells:
        for path in _smallest(entry.folder / "figures"):
            found.setdefault(path.stem, []).append((path, entry))
    kept, room, left = [], ROOM, 0
    for group in found.values():
        for path, entry in group:
            size = path.stat().st_size
            if size > room or len(kept) == MOST:
                left += 1
                continue
            room -= size
            kept.append(Figure(path, _caption(path, entry, labels), path.stem.replace("_", " ")))
    more = sum(len(_smallest(e.folder / "figures")) for e in entries) - sum(map(len, found.values()))
    notes = []
    if left or more:
        notes.append(f"Figures of one seed a cell; {left + more} more are in the runs' figures/ folders.")
    return kept, notes


def _smallest(folder: Path) -> list[Path]:
    """Each figure once, as whichever of its files is smaller."""
    best: dict[str, Path] = {}
    for path in sorted((*folder.glob("*.png"), *folder.glob("*.svg"))):
        if path.is_symlink() or not path.is_file() or (path.suffix == ".svg" and _SAFE.search(path.read_bytes())):
            continue
        other = best.get(path.stem)
        if other is None or path.stat().st_size < other.stat().st_size:
            best[path.stem] = path
    return list(best.values())


def _caption(path: Path, entry: Entry, labels: Mapping[str, str]) -> str:
    told = labels.get(entry.cell) or name_of(entry.folder)
    return f"{path.stem.replace('_', ' ')} of {entry.method}, {told}, seed {entry.seed}."
