"""What a full or read-only disk does to libraries is told as the user's to mend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toolsavvy.tracking.disk import disk_error


def test_a_full_disk_is_known_whoever_met_it() -> None:
    for error in (
        OSError(28, "No space left on device"),
        OSError("3200 requested and 992 written"),
        ValueError("write failed (os error 28)"),
    ):
        told = disk_error(error, "here")
        assert told is not None and "disk is full" in told.what and told.where == "here"
    assert disk_error(OSError("something else")) is None and disk_error(ValueError("28")) is None


@pytest.mark.parametrize("size", [10, 100_000])
def test_what_numpy_says_on_a_full_device(size: int) -> None:
    device = Path("/dev/full")
    assert device.exists(), "Linux has one"
    with pytest.raises(OSError) as caught, device.open("wb") as full:
        np.save(full, np.zeros(size))
    told = disk_error(caught.value, "here")
    assert told is not None and "disk is full" in told.what
