"""Archives that lead out of their folder, replace their own members, or would fill the disk."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from toolsavvy import archives
from toolsavvy.archives import check_members, check_zip, unpack_tar
from toolsavvy.errors import UserError


def members(*names: str, mode: int = 0) -> list[zipfile.ZipInfo]:
    found = [zipfile.ZipInfo(name) for name in names]
    for member in found:
        member.external_attr = mode << 16
    return found


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["a/../../b"], "would leave"),
        (["/etc/passwd"], "would leave"),
        (["a/..\\..\\b"], "would leave"),
        (["C:evil"], "would leave"),
        (["a/file.txt:stream"], "would leave"),
        (["./.."], "would leave"),
        (["a/aux.json"], "a device"),
        (["NUL"], "a device"),
        (["com1 .txt"], "a device"),
        (["a/b", "a/b"], "twice"),
        (["a/b", "a/./b"], "twice"),
        (["a/Data.json", "A/data.JSON"], "twice"),
        (["a", "a/b"], "twice"),
        (["a/b", "a"], "twice"),
    ],
)
def test_members_that_are_not_plain_new_files_below_the_folder(names: list[str], fault: str) -> None:
    with pytest.raises(UserError, match="nothing was unpacked") as caught:
        check_members(members("good", *names), Path("x.whl"))
    assert fault in caught.value.what
    assert repr(names[-1]) in caught.value.what


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_and_devices_of_a_zip_are_refused(kind: int) -> None:
    with pytest.raises(UserError, match="is no file or folder"):
        check_members(members("a", mode=kind | 0o777), Path("x.whl"))


def test_ordinary_members_are_taken() -> None:
    check_members(
        members("a/", "a/b", "a/c/", "a/c/d", "e/f", "console.py", "auxiliary/nul_values.json"), Path("x.whl")
    )
    check_members(members("a", "b", mode=stat.S_IFREG | 0o4777), Path("x.whl"))


def test_a_zip_bomb_is_refused_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolsavvy.assets import open_zip, read_member

    monkeypatch.setattr(archives, "FREE", 10_000)
    path = tmp_path / "bomb.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(20):
            archive.writestr(f"{i}", b"0" * 100_000)
    for call in (lambda: open_zip(path), lambda: read_member(path, "0")):
        with pytest.raises(UserError, match="2,000,000; nothing was unpacked"):
            call()
    with zipfile.ZipFile(tmp_path / "plain.whl", "w") as archive:
        archive.writestr("a", b"0" * 100_000)
        check_zip(archive, path)


def test_a_member_that_holds_more_than_it_declares_is_not_read_on(tmp_path: Path) -> None:
    """What is checked are declared sizes: the reader must hold to them."""
    path = tmp_path / "liar.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"0" * 500_000)
    content = path.read_bytes()
    path.write_bytes(content.replace((500_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with zipfile.ZipFile(path) as archive, pytest.raises(zipfile.BadZipFile):
        archive.read("a")


def tar(path: Path, *added: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, data in added:
            member.size = len(data) or member.size
            archive.addfile(member, io.BytesIO(data))
    return path


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


@pytest.mark.parametrize(
    "bad",
    [
        info("../evil"), info("/evil"), info("a/../../evil"), info("evil", tarfile.SYMTYPE, "/etc/passwd"),
        info("evil", tarfile.LNKTYPE, "../evil"), info("evil", tarfile.SYMTYPE, "evil"), info("evil", tarfile.FIFOTYPE),
        info("evil", tarfile.CHRTYPE), info("good/evil"),
    ],
)  # fmt: skip
def test_a_tar_member_that_leads_out_links_out_or_is_no_file(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    path, folder = tar(tmp_path / "a.tgz", (info("good"), b"good"), (bad, b"")), tmp_path / "in" / "folder"
    folder.mkdir(parents=True)
    with pytest.raises(UserError, match="can't be unpacked"):
        unpack_tar(path, folder)
    assert not list(tmp_path.rglob("evil"))


def bomb(path: Path) -> Path:
    return tar(path, (info("big"), b"0" * 3_000_000))


def linked_bomb(path: Path) -> Path:
    links = [(info(f"l{i}", tarfile.LNKTYPE, "big"), b"") for i in range(30)]
    return tar(path, (info("big"), b"0" * 100_000), *links)


@pytest.mark.parametrize("make", [bomb, linked_bomb])
def test_a_tar_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path]) -> None:
    monkeypatch.setattr(archives, "FREE", 1_000_000)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="times its own size"):
        unpack_tar(make(tmp_path / "a.tgz"), tmp_path / "folder")
    assert sum(p.stat().st_size for p in (tmp_path / "folder").rglob("*")) <= 2_000_000


def test_an_ordinary_tar_is_unpacked_links_as_files(tmp_path: Path) -> None:
    added = [(info(".", tarfile.DIRTYPE), b""), (info("a/b"), b"one"), (info("c", tarfile.SYMTYPE, "a/b"), b"")]
    unpack_tar(tar(tmp_path / "a.tgz", *added), tmp_path / "folder")
    assert {p.name: p.read_bytes() for p in (tmp_path / "folder").rglob("*") if p.is_file()} == {
        "b": b"one",
        "c": b"one",
    }
    assert not any(p.is_symlink() for p in (tmp_path / "folder").rglob("*"))
