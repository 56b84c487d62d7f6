from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.calls.flattening import Leaf, leaves, scalar_key, shown

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def test_empty_objects_and_arrays_are_leaves_of_their_own():
    value = {"b": {"c": [1, {"d": None}]}, "a": [], "e": {}}
    assert leaves(value) == (
        Leaf(("b", "c", 0), 1), Leaf(("b", "c", 1, "d"), None), Leaf(("a",), []), Leaf(("e",), {})
    )  # fmt: skip
    assert leaves({}) == (Leaf((), {}),)
    assert shown(("b", "c", 1, "d")) == "b.c.1.d"


@settings(max_examples=50, deadline=None)
@given(JSON)
def test_leaves_say_all_there_is(value):
    def put(path, at, into):
        if not path:
            return at
        if isinstance(path[0], int):
            into = into if isinstance(into, list) else []
            into += [None] * (path[0] + 1 - len(into))
            into[path[0]] = put(path[1:], at, into[path[0]])
        else:
            into = into if isinstance(into, dict) else {}
            into[path[0]] = put(path[1:], at, into.get(path[0]))
        return into

    built = None
    for leaf in leaves(value):
        built = put(leaf.path, leaf.value, built)
    assert json.dumps(built, sort_keys=True) == json.dumps(value, sort_keys=True)


def test_depth_is_no_danger():
    value: object = 1
    for _ in range(5_000):
        value = [value]
    (leaf,) = leaves(value)
    assert len(leaf.path) == 5_000


def test_what_counts_as_the_same_scalar():
    different = [True, 1, "1", "true", None, "null", 1.5, "", {}, [], 0, False, 1.0, "None", "[]"]
    assert len({scalar_key(value) for value in different}) == len(different)
    assert scalar_key(1, number=True) == scalar_key(1.0, number=True)
    assert scalar_key(-0.0, number=True) == scalar_key(0, number=True)
    assert scalar_key(10**20, number=True) == scalar_key(1e20, number=True)
    assert scalar_key(True, number=True) != scalar_key(1, number=True)
    assert scalar_key(10**5_000) != scalar_key(10**5_000 + 1)
