"""What a run reads is known by its content: data whole, weights by their ends and size."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolsavvy.errors import UserError
from toolsavvy.tracking.inputs import fingerprints, refuse_changed

SIZE = 5 << 20


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize(
    ("name", "place", "is_seen"),
    [
        ("questions.jsonl", SIZE // 2, True), ("questions.jsonl", SIZE - 1, True), ("model.safetensors", 0, True),
        ("model.safetensors", SIZE - 1, True), ("model.safetensors", SIZE // 2, False),
    ],
)  # fmt: skip
def test_an_edit_of_the_same_size_is_seen(
    tmp_path: Path, is_folder: bool, name: str, place: int, is_seen: bool
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path, content = folder / name, bytearray(SIZE)
    config = {"questions": {"path": str(folder if is_folder else path)}}
    path.write_bytes(content)
    before = fingerprints(config)
    assert set(before) == {"questions.path"} and fingerprints(config) == before
    content[place] = 1
    path.write_bytes(content)
    assert (fingerprints(config) != before) == is_seen
    if is_seen:
        with pytest.raises(UserError, match="has changed"):
            refuse_changed(before, fingerprints(config))
