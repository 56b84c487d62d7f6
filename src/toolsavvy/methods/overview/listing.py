"""The runs behind a report: where they are, how to repeat them, which failed, and in what they differ unasked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolsavvy.methods.overview.gathering import Entry, Unfinished, name_of
from toolsavvy.methods.overview.results import Board
from toolsavvy.page import Cell, Table


def run_table(entries: Sequence[Entry], labels: Mapping[str, str], own: Path) -> Table:
    """Every done run with its settings, time and command."""
    commits = len({_commit(e) for e in entries}) > 1
    pages = any((e.folder / "report.html").is_file() for e in entries)
    head = ["run", "method", "settings", "seed", "seconds", *(["commit"] if commits else ())]
    head += [*(["own report"] if pages else ()), "command"]
    rows: list[list[str | Cell]] = []
    for entry in entries:
        row: list[str | Cell] = [
            Cell(name_of(entry.folder), relative(entry.folder, own)), entry.method, labels.get(entry.cell, ""),
            str(entry.seed), _seconds(entry), *([_commit(entry)] if commits else ()),
        ]  # fmt: skip
        if pages:
            page = entry.folder / "report.html"
            row.append(Cell("open", relative(page, own)) if page.is_file() else "")
        rows.append([*row, Cell(entry.command, is_code=True)])
    return Table(head, rows, f"The {len(entries)} runs behind the numbers, each with the command that repeats it.")


def unfinished_table(runs: Sequence[Unfinished], own: Path) -> Table:
    """Runs that have no part in any number above."""
    rows: list[list[str | Cell]] = [
        [
            Cell(one.name, relative(one.folder, own)) if one.folder is not None else one.name, one.state,
            one.error or "none recorded", Cell(one.command, is_code=True),
        ]
        for one in runs
    ]  # fmt: skip
    counts = Counter(one.state for one in runs)
    told = ", ".join(f"{n} {state}" for state, n in counts.most_common())
    return Table(["run", "state", "error", "command"], rows, f"Runs without final numbers: {told}.")


def relative(path: Path, own: Path) -> str:
    """A link that holds as long as the runs and the report move together."""
    try:
        return Path(os.path.relpath(path, own)).as_posix()
    except ValueError:  # another drive
        return path.as_posix()


def differences(entries: Sequence[Entry], boards: Sequence[Board]) -> list[str]:
    """What differs between the runs without being a setting, a sentence each."""
    found = []
    for (suite, part), group in _by_suite(boards).items():
        if len(group) > 1:
            counts = [len({e.folder for r in b.rows for e in r.entries}) for b in group]
            places = ", ".join(f"{b.place} {b.data[:6]} ({_runs(n)})" for b, n in zip(group, counts, strict=True))
            found.append(
                f"{suite}, {part or 'all'}: the runs were tested on {len(group)} different sets of tools or test items "
                f"({places}). They stand in tables of their own, and their numbers do not compare."
            )
    marks = _groups(entries, lambda e: (e.choices.get("catalog"), e.record.get("catalog_fingerprint")))
    by_name: dict[Any, list[str]] = {}
    for (name, mark), count in marks.items():
        if mark:
            by_name.setdefault(name, []).append(f"{str(mark)[:8]} ({_runs(count)})")
    for name, told in by_name.items():
        if len(told) > 1:
            found.append(
                f"Catalog {name} has {len(told)} fingerprints: {', '.join(told)}. It changed between the runs."
            )
    found += _versions(entries)
    commits = _groups(entries, _commit)
    if len(commits) > 1:
        told = ", ".join(f"{commit} ({_runs(n)})" for commit, n in commits.most_common())
        found.append(f"The runs are of {len(commits)} states of the code: {told}.")
    elif any(commit.endswith("+") for commit in commits):
        found.append(f"The code had been changed since commit {next(iter(commits)).rstrip('+')} (uncommitted).")
    if mixed := [name_of(e.folder) for e in entries if e.record.get("earlier_attempts")]:
        found.append(f"Continued with other code or packages than they began with: {', '.join(mixed)}.")
    return found


def _by_suite(boards: Sequence[Board]) -> dict[tuple[str, str], list[Board]]:
    found: dict[tuple[str, str], list[Board]] = {}
    for board in boards:
        found.setdefault((board.suite, board.slice), []).append(board)
    return found


def _versions(entries: Sequence[Entry]) -> list[str]:
    packages: dict[str, Counter[str]] = {}
    for entry in entries:
        versions = entry.record.get("versions")
        for package, version in versions.items() if isinstance(versions, Mapping) else ():
            packages.setdefault(str(package), Counter())[str(version)] += 1
    told = [
        f"{package} {', '.join(f'{v} ({_runs(n)})' for v, n in counts.most_common())}"
        for package, counts in packages.items()
        if len(counts) > 1
    ]
    return [f"Versions differ: {'; '.join(told)}."] if told else []


def _groups(entries: Sequence[Entry], key: Any) -> Counter[Any]:
    return Counter(key(e) for e in entries)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _commit(entry: Entry) -> str:
    """Short commit, a plus where the code was changed since."""
    git = entry.record.get("git")
    if not isinstance(git, Mapping) or not git.get("commit"):
        return "unknown"
    return f"{str(git['commit'])[:9]}{'+' if git.get('dirty') else ''}"


def _seconds(entry: Entry) -> str:
    wall = entry.record.get("wall_seconds")
    return f"{wall:,.0f}" if isinstance(wall, int | float) else ""


def methods_of(entries: Iterable[Entry]) -> str:
    """'toolgen and necessity'."""
    names = list(dict.fromkeys(entry.method for entry in entries))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "no method"
