"""What kind of mistake a call makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolsavvy.calls.comparing import Alignment
from toolsavvy.calls.flattening import Leaf, Path, scalar_key

KINDS = ("omitted", "spurious", "wrong_value", "wrong_depth", "not_json", "no_call", "extra_call", "wrong_tool")
"""omitted: an argument that is due is not there. spurious: one that nothing asks for. wrong_value: the right place,
another value. wrong_depth: the right value at another path. not_json: nothing readable. no_call: none, and one was
due. extra_call: more than were due. wrong_tool: another tool."""
_TELLING = 3
"""Characters from which a value alone says where it comes from."""


def faults_of(found: Alignment) -> tuple[str, ...]:
    """Kinds of mistakes in a call's fields, in the order of `KINDS`.

    A predicted value that has no place is matched with a reference value that was missed: the same value at another
    path is `wrong_depth`, once for both. Truth values, null, empty ones and those of one or two characters are too
    common for that, unless their last key is the same.
    """
    # A call without arguments is a leaf at the empty path, and no argument.
    spurious, omitted = ([leaf for leaf in side if leaf.path] for side in (found.spurious, found.omitted))
    moved = 0
    for leaf in tuple(spurious):
        other = next((gone for gone in omitted if _same_moved(leaf, gone)), None)
        if other is not None:
            omitted.remove(other)
            spurious.remove(leaf)
            moved += 1
    kinds = {"omitted": omitted, "spurious": spurious, "wrong_value": found.changed, "wrong_depth": range(moved)}
    return tuple(kind for kind, cases in kinds.items() if len(cases))


def _same_moved(leaf: Leaf, other: Leaf) -> bool:
    """Whether two leaves hold the same value at different paths."""
    key = scalar_key(leaf.value, number=True)
    if leaf.path == other.path or key != scalar_key(other.value, number=True):
        return False
    return _is_telling(leaf.value) or _name(leaf.path) == _name(other.path)


def _is_telling(value: object) -> bool:
    """Whether a value is rare enough to be known again."""
    if value is None or isinstance(value, bool | Mapping | list | tuple):
        return False
    return len(str(value)) >= _TELLING


def _name(path: Path) -> str | None:
    """The last key of a path, indices aside."""
    return next(_keys(path), None)


def _keys(path: Path) -> Iterator[str]:
    return (part for part in reversed(path) if isinstance(part, str))
