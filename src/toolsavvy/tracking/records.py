"""The files of a run folder: how they are written, and how they are found again."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import platform
import socket
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from toolsavvy import __version__
from toolsavvy.drafts import draft_path
from toolsavvy.errors import UserError

State = Literal["running", "done", "failed", "skipped"]
NOT_RESULTS = (
    "paths",
    "dry_run",
    "resume",
    "on_error",
    "after_sweep",
    "objective",
    "show",
    "upload",
    "logger",
    "predictions",
)
"""Keys that don't change a run's numbers, and so don't belong to its identity."""
HEADLINE = ("", "all")
"""Slices whose numbers stand under the suite's own name in W&B; others are `<suite>:<slice>`."""
_RUNS = "run folders, sweep folders or globs"
PACKAGES = ("torch", "transformers", "peft", "sentence-transformers", "pytorch-lightning", "torchmetrics")
PACKAGES += ("numpy", "faiss-cpu", "bm25s", "hydra-core", "omegaconf", "wandb")


@dataclass(frozen=True)
class Status:
    """What status.json says.

    Args:
        status: running, done, failed or skipped.
        error: one line for a failed job.
        pid: of the process that wrote it.
        host: of that process.
        started: start time of that process (seconds), since process ids are used again.
        wall_seconds: of the whole job, once it has ended.
    """

    status: State
    error: str | None = None
    pid: int = 0
    host: str = ""
    started: float = 0.0
    wall_seconds: float | None = None


def write_atomic(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new one, never a half."""
    part = draft_path(path)
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write readable JSON, atomically."""
    write_atomic(path, json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")


def append_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Append JSON lines with one write; a torn last line that a killed run left is cut off first."""
    if not records:
        return
    drop_torn_line(path)
    content = to_lines(records).encode()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        before = os.fstat(handle).st_size
        if os.write(handle, content) < len(content):  # the disk took a part of it
            os.ftruncate(handle, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(handle)


def to_lines(records: Sequence[Mapping[str, Any]]) -> str:
    """JSON lines, one a record."""
    return "".join(json.dumps(r, ensure_ascii=False, default=_number) + "\n" for r in records)


def _number(value: Any) -> Any:
    """Numpy's scalars as Python's; anything else as text."""
    return value.item() if hasattr(value, "item") else str(value)


def drop_torn_line(path: Path) -> None:
    """Cut a file back to its last line end."""
    if not path.exists() or not (end := path.stat().st_size):
        return
    with path.open("rb+") as file:
        file.seek(end - 1)
        if file.read(1) == b"\n":  # nearly always: a store of many megabytes is not read for every line
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def read_lines(path: Path, texts: Sequence[str] = (), others: Sequence[str] = ()) -> list[dict[str, Any]]:
    """JSON lines; a torn last line is left out, and a missing file is empty.

    Args:
        path: of the file.
        texts: fields that every line must hold, as texts.
        others: fields that every line must hold, of any type.

    Raises:
        UserError: a line is damaged, or is another file's.
    """
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    # Not splitlines(): JSON strings may hold U+2028 and the like, which it takes for line ends.
    lines = [(i, line) for i, line in enumerate(text.split("\n")[:-1], 1) if line.strip()]
    records = [_read_line(line, path, i) for i, line in lines]
    for (number, _), record in zip(lines, records, strict=True):
        for name in (*texts, *others):
            if name not in record or (name in texts and not isinstance(record[name], str)):
                what = "the field is missing" if name not in record else f"{record[name]!r} is no text"
                raise UserError(
                    what, where=f"{path}, line {number}, field {name!r}", expected="a line as runs write it",
                    fix="put the run's own file back, or repeat the run",
                )  # fmt: skip
    return records


def _read_line(line: str, path: Path, number: int) -> dict[str, Any]:
    """One record; a line that is none and was not torn off is damage that nobody should build on."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    where, fix = f"{path}, line {number}", "delete that line, or start a new run without resume=true"
    raise UserError("broken JSON", where=where, expected="one JSON object a line", fix=fix)


def read_status(folder: Path) -> Status | None:
    """The status of a run folder, None where there is none (or it cannot be read)."""
    try:
        return Status(**json.loads((folder / "status.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def read_record(folder: Path) -> dict[str, Any]:
    """What run.json holds; empty where there is none (or it cannot be read)."""
    try:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def write_status(folder: Path, status: Status) -> None:
    """Write status.json atomically."""
    write_json(folder / "status.json", asdict(status))


def is_alive(status: Status) -> bool:
    """Whether the process that wrote a status still runs; one on another host is taken to be alive."""
    import psutil

    if status.status != "running":
        return False
    if status.host != socket.gethostname():
        return True
    try:
        return abs(psutil.Process(status.pid).create_time() - status.started) < 1.0
    except psutil.Error:
        return False


def config_hash(cfg: DictConfig) -> str:
    """Twelve hex digits over everything resolved that can change a number."""
    return hashlib.sha256(json.dumps(_identity(cfg), sort_keys=True, default=str).encode()).hexdigest()[:12]


def cell_hash(cfg: DictConfig) -> str:
    """`config_hash` without the seed, also where other keys refer to it: runs of one cell are averaged."""
    without = copy.deepcopy(cfg)
    without.seed = 0
    return config_hash(without)


def _identity(cfg: DictConfig) -> dict[str, Any]:
    """The config without the keys that do not matter to results; all of it is resolved before, and once."""
    plain: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=False)
    is_scored = not isinstance(plain.get("predictions"), bool)  # files of predictions are what is scored
    return {k: v for k, v in plain.items() if k not in NOT_RESULTS or (k == "predictions" and is_scored)}


def summary_key(row: Mapping[str, Any]) -> str:
    """`<suite>/<system>/<metric>@<k>`, and `<suite>:<slice>/...` for slices that are not the headline."""
    part = row["slice"]
    suite = row["suite"] if part is None or part in HEADLINE else f"{row['suite']}:{part}"
    depth = "" if row["k"] is None else f"@{row['k']}"
    return f"{suite}/{row['system']}/{row['metric']}{depth}"


def run_folders(outputs: Path) -> Iterator[Path]:
    """Every run folder below outputs/, jobs of sweeps included."""
    for depth in ("*/*/run.json", "*/*/*/run.json"):
        yield from (p.parent for p in sorted(outputs.glob(depth)))


def find_run(outputs: Path, wanted: str, first: Path | None = None) -> Path | None:
    """The folder of an earlier run with this config hash: a finished one if there is one, else the newest.

    Args:
        outputs: where runs are.
        wanted: the hash.
        first: a folder to look into before all others are read.
    """
    if first is not None and read_record(first).get("config_hash") == wanted:
        status = read_status(first)
        if status is not None and status.status == "done":
            return first
    return find_runs(outputs, [wanted]).get(wanted)


def find_runs(outputs: Path, wanted: Collection[str]) -> dict[str, Path]:
    """Config hash -> folder as in `find_run`, for several of them; those that never ran are left out."""
    found: dict[str, tuple[bool, float, Path]] = {}
    for folder in run_folders(outputs) if wanted else ():
        key = str(read_record(folder).get("config_hash"))
        if key in wanted and (status := read_status(folder)) is not None and status.status != "skipped":
            this = (status.status == "done", (folder / "run.json").stat().st_mtime, folder)
            found[key] = max(found.get(key, this), this)
    return {key: folder for key, (_, _, folder) in found.items()}


def finished_runs(patterns: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Runs that are done, and those that are not, among run folders, sweep folders and globs; each once.

    Raises:
        UserError: there is no pattern, one holds no run, or no run is done.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        base = Path(pattern).expanduser().absolute()
        is_glob = any(c in pattern for c in "*?[")
        places = sorted(Path(base.anchor).glob(str(base.relative_to(base.anchor)))) if is_glob else [base]
        folders = [folder for place in places for folder in _runs_in(place)]
        if not folders:
            raise UserError(
                f"'{pattern}' holds no run", where="runs", expected=_RUNS, fix="name folders with a run.json"
            )
        found |= dict.fromkeys(folder.resolve() for folder in folders)
    done = [f for f in found if (s := read_status(f)) is not None and s.status == "done"]
    if not found:
        raise UserError("no run is named", where="runs", expected=_RUNS, fix="add runs='[outputs/toolgen/*]'")
    if not done:
        raise UserError("no run is done", where="runs", expected="finished runs", fix="finish them with resume=true")
    return done, [f for f in found if f not in done]


def _runs_in(place: Path) -> list[Path]:
    """A run folder itself, or all below it: jobs of a sweep, sweeps of a method, a whole outputs folder.

    A run that failed before it could write run.json has its status.json. The table of a sweep that found jobs done
    by an earlier one (`resume=true`) says where those are.
    """
    names = ("run.json", "status.json")
    if any((place / name).is_file() for name in names):
        return [place]
    found = {p.parent for depth in ("*", "*/*", "*/*/*") for name in names for p in place.glob(f"{depth}/{name}")}
    jobs = read_lines(place / "sweep.jsonl") if (place / "sweep.jsonl").is_file() else []
    told = [place / folder for job in jobs if isinstance(folder := job.get("folder"), str) and folder]
    found |= {folder for folder in told if any((folder / name).is_file() for name in names)}
    return sorted(found, key=lambda p: (p.parent, len(p.name), p.name))


def versions() -> dict[str, str]:
    """Python and the packages that numbers depend on."""
    known = {"toolsavvy": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            known[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return known


def git_state(folder: Path | None = None) -> dict[str, Any]:
    """Commit of this source tree and whether it was changed since; empty outside a checkout."""
    where = folder or Path(__file__).parent

    def ask(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(where), *args], capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return {}
