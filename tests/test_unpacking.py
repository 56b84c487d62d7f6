"""Folders of the cache are made once, and again when they are damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolsavvy import checksums
from toolsavvy.unpacking import damaged_folders, kept_folder


class Maker:
    """Makes a folder and counts how often."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    def __call__(self) -> None:
        self.count += 1
        (self.folder / "deep").mkdir(parents=True)
        (self.folder / "deep" / "weights").write_bytes(b"0123456789")
        (self.folder / "config.json").write_text("{}")

    def kept(self) -> int:
        """Ask for the folder; how often it has been made by now."""
        assert kept_folder(self.folder, self) == self.folder
        assert (self.folder / "deep" / "weights").read_bytes() == b"0123456789"
        return self.count


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    made = Maker(tmp_path / "assets" / "model")
    assert made.kept() == 1
    return made


def test_a_start_hashes_nothing(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "sha256", lambda _: pytest.fail("hashed again"))
    assert maker.kept() == 1


@pytest.mark.parametrize("content", [b"", b"01234", b"0123456788"], ids=["emptied", "cut", "a bit flipped"])
def test_what_was_damaged_is_made_again(maker: Maker, content: bytes) -> None:
    (maker.folder / "deep" / "weights").write_bytes(content)
    assert damaged_folders(maker.folder.parent) == [maker.folder]
    assert maker.kept() == 2
    assert damaged_folders(maker.folder.parent) == []


@pytest.mark.parametrize("name", ["model.sha256", "model/config.json"])
def test_what_is_missing_is_made_again(maker: Maker, name: str, caplog: pytest.LogCaptureFixture) -> None:
    (maker.folder.parent / name).unlink()
    assert maker.kept() == 2
    (said,) = caplog.messages
    assert ("has no checksum yet" in said, "damaged" in said) == (name == "model.sha256", name != "model.sha256")


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]"])
def test_without_its_stamp_or_with_another_time_it_is_hashed_and_kept(maker: Maker, content: bytes | None) -> None:
    stamp = maker.folder.with_name("model.checked")
    stamp.unlink()
    if content is not None:
        stamp.write_bytes(content)
    os.utime(maker.folder / "config.json", ns=(0, 0))
    assert maker.kept() == 1 and stamp.stat().st_size > 2


def test_a_bit_that_turned_without_a_trace_is_found_by_the_doctor(maker: Maker) -> None:
    path = maker.folder / "deep" / "weights"
    before = path.stat()
    path.write_bytes(b"0123456780")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert damaged_folders(maker.folder.parent) == [maker.folder]
