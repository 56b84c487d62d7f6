"""What runs differ in: the fewest settings that tell their cells apart, read from choices, overrides and configs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.methods.overview.gathering import Entry, flat
from toolsavvy.tracking.records import NOT_RESULTS

NO_AXES = (*NOT_RESULTS, "runs", "seed", "stage", "choices")
METHOD = "method"
MISSING = "–"  # noqa: RUF001 - what a cell shows where a run has no such setting


@dataclass(frozen=True)
class Axis:
    """A setting in which cells differ.

    Args:
        key: group (`tuning`) or dotted key (`method.sampling.n`).
        name: as tables show it.
        values: cell -> value; cells of methods that are not set apart by it are left out.
    """

    key: str
    name: str
    values: Mapping[str, Any]

    def at(self, cell: str) -> str:
        """What a table shows of a cell."""
        return shown(self.values.get(cell))

    @property
    def distinct(self) -> list[Any]:
        """Its values, numbers ascending, others in order of appearance."""
        found = [v for v in dict.fromkeys(self.values.values()) if v is not None]
        return sorted(found) if self.is_numeric else found

    @property
    def is_numeric(self) -> bool:
        """Whether it can be the x of a line plot."""
        known = [v for v in self.values.values() if v is not None]
        return bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)


def all_axes(entries: Sequence[Entry]) -> tuple[Axis, ...]:
    """The settings that tell the cells of each method apart; first the method, where there are several."""
    methods = list(dict.fromkeys(entry.method for entry in entries))
    found: dict[str, Axis] = {}
    if len(methods) > 1:
        found[METHOD] = Axis(METHOD, METHOD, {entry.cell: entry.method for entry in entries})
    for method in methods:
        for axis in find_axes([entry for entry in entries if entry.method == method]):
            before = found.get(axis.key)
            found[axis.key] = axis if before is None else Axis(axis.key, axis.name, {**before.values, **axis.values})
    return tuple(found.values())


def find_axes(entries: Sequence[Entry]) -> tuple[Axis, ...]:
    """The settings that tell cells apart.

    Taken in turn are chosen groups and keys that the command lines name, then other choices, then other keys; those
    that are settled by the ones before (a learning rate that comes with tuning=full) are left out, and so is whatever
    follows the seed.
    """
    cells: dict[str, list[Entry]] = {}
    for entry in entries:
        cells.setdefault(entry.cell, []).append(entry)
    if len(cells) < 2:
        return ()
    settings = {cell: _settings(group) for cell, group in cells.items()}
    named = [key for entry in entries for key in map(_key, entry.overrides)]
    groups = list(dict.fromkeys(key for entry in entries for key in entry.choices))
    keys = dict.fromkeys(key for one in settings.values() for key in one)
    order = [*(k for k in groups if k in named), *(k for k in dict.fromkeys(named) if k in keys), *groups]
    order += sorted(keys, key=lambda key: (key.count("."), len(key), key))
    chosen: list[str] = []
    classes: dict[str, tuple[Any, ...]] = dict.fromkeys(cells, ())
    for key in dict.fromkeys(order):
        if len(set(classes.values())) == len(cells):
            break
        values = {cell: settings[cell].get(key) for cell in cells}
        if not _is_settled(values, classes):
            chosen.append(key)
            classes = {cell: (*classes[cell], _plain(values[cell])) for cell in cells}
    names = _names(chosen)
    return tuple(Axis(key, names[key], {cell: settings[cell].get(key) for cell in cells}) for key in chosen)


def _settings(entries: Sequence[Entry]) -> dict[str, Any]:
    """Choices and config leaves of a cell; those in which its seeds differ are none of its settings."""
    found: list[dict[str, Any]] = []
    for entry in entries:
        leaves = {k: v for k, v in flat(entry.config).items() if not _is_no_axis(k)}
        found.append({**leaves, **{str(k): str(v) for k, v in entry.choices.items() if k not in ("logger", "paths")}})
    first, *others = found
    return {k: v for k, v in first.items() if all(k in one and _plain(one[k]) == _plain(v) for one in others)}


def _is_no_axis(key: str) -> bool:
    parts = key.split(".")
    return not key or parts[0] in NO_AXES or parts[-1] == "_target_"


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~").partition("@")[0]


def _plain(value: Any) -> Any:
    """True is not 1 here."""
    return (type(value).__name__, value) if isinstance(value, bool) else value


def _is_settled(values: Mapping[str, Any], classes: Mapping[str, Any]) -> bool:
    """Whether cells that are alike so far have the same value."""
    seen: dict[Any, Any] = {}
    return all(seen.setdefault(classes[cell], _plain(value)) == _plain(value) for cell, value in values.items())


def _names(keys: Sequence[str]) -> dict[str, str]:
    """The last part of a key where that is enough."""
    last = Counter(key.rpartition(".")[2] for key in keys)
    named = {key: key.rpartition(".")[2] for key in keys}
    return {key: name if last[name] == 1 and name not in ("name", "path") else key for key, name in named.items()}


def pairs_of(axes: Sequence[Axis], cells: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(Before, after): cells that differ in one setting alone, which is no number; before has its first value."""
    found = []
    for axis in (a for a in axes if not a.is_numeric and a.key != METHOD):
        others = [a for a in axes if a is not axis]
        first = axis.distinct[0] if axis.distinct else None
        for before in (c for c in cells if axis.values.get(c) == first):
            alike = [c for c in cells if all(a.values.get(c) == a.values.get(before) for a in others)]
            found += [(before, c) for c in alike if axis.values.get(c) not in (first, None)]
    return tuple(found)


def labels(entries: Sequence[Entry], axes: Sequence[Axis]) -> dict[str, str]:
    """Cell -> what tells it apart; '' where there is but one."""
    cells = list(dict.fromkeys(entry.cell for entry in entries))
    found = {cell: told(axes, cell) for cell in cells}
    twice = Counter(found.values())
    return {c: text if twice[text] == 1 else f"{text} cell {c[:6]}".strip() for c, text in found.items()}


def told(axes: Sequence[Axis], cell: str) -> str:
    """'tuning=lora, lr=0.001', without settings that a cell does not have."""
    parts = [(a.name, a.values.get(cell)) for a in axes]
    return ", ".join(
        value if name == METHOD else f"{name}={shown(value)}" for name, value in parts if value is not None
    )


def shown(value: Any) -> str:
    """A setting as a table shows it."""
    if value is None:
        return MISSING
    return f"{value:g}" if isinstance(value, float) else str(value)
