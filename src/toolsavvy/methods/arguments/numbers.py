"""Numbers of method=pbt: as records of results.jsonl, and as they are shown."""

from __future__ import annotations

from toolsavvy.metrics import Interval
from toolsavvy.suites.table import Result

SUITE = "parameters"


def number(system: str, slice_: str, metric: str, value: Interval) -> Result:
    """One number with its interval."""
    return Result(system, SUITE, slice_, metric, None, value.value, value.low, value.high, value.n)


def shown(value: Interval, *, scale: float = 100, digits: int = 1, sign: bool = False) -> str:
    """`52.1 [48.0, 56.2]`, in percent unless scaled otherwise; "undefined" where it is."""
    if value.value is None:
        return "undefined"
    form = f"{'+' if sign else ''}.{digits}f"
    middle = format(scale * value.value, form)
    if value.low is None or value.high is None:
        return middle
    return f"{middle} [{scale * value.low:{form}}, {scale * value.high:{form}}]"
