"""Does this machine work: versions, devices, caches, what can be reached, what is installed; then small runs as a test.

A part that cannot be told is named with its reason, and the others are told all the same.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from toolsavvy import assets
from toolsavvy.assets import cache_root
from toolsavvy.config.schema import Config
from toolsavvy.config.sources import reachable
from toolsavvy.methods.self_test import Check, self_test
from toolsavvy.report import console
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import versions
from toolsavvy.tracking.wandb_run import has_key, wandb_mode
from toolsavvy.unpacking import damaged_folders

HOSTS = ("huggingface.co", "api.wandb.ai")
WHEELS = (assets.SMOLLM2, assets.MINILM, assets.AWSCLI, assets.BFCL, assets.NESTFUL)
EXTRAS = {
    "cloud": (("boto3", "moto"), "calls carried out on a simulated AWS: suite=downstream, generator=parambench"),
    "joblib": (("hydra-joblib-launcher",), "jobs of a sweep side by side: hydra/launcher=joblib"),
    "submitit": (("hydra-submitit-launcher",), "jobs of a sweep on SLURM: hydra/launcher=submitit_slurm"),
    "ray": (("hydra-ray-launcher", "ray"), "jobs of a sweep on Ray: hydra/launcher=ray"),
    "optuna": (("optuna", "hydra-optuna-sweeper"), "searches: hydra/sweeper=search"),
    "workspaces": (("wandb-workspaces",), "W&B workspaces: method=report upload=true"),
    "notebooks": (("ipykernel", "nbclient", "nbformat", "plotly"), "notebooks/, figures that move"),
    "deepspeed": (("deepspeed",), "optimizer states in shards: trainer=deepspeed"),
}
"""Extra of the package -> its packages, and what it is for."""


def run(cfg: Config, run: Run) -> None:
    """Look, print tables, note the findings in run.json; then try small runs.

    Raises:
        RuntimeError: a check of the self-test failed.
    """
    sections = {
        "versions": _looked(versions),
        "devices": _looked(devices),
        "places": _looked(lambda: places(Path(cfg.paths.outputs))),
        "reachable": _looked(lambda: network(cfg)),
        "extras": _looked(extras),
    }
    for title, facts in sections.items():
        console().print(_table(title, facts))
    run.note(doctor=sections)
    if cfg.method.self_test:
        console().print("self-test: small made-up runs; no number of them means anything")
        with run.stage("self-test"):
            checks = [_told(check) for check in self_test()]
        run.note(self_test=[vars(check) for check in checks])
        if failed := [check.name for check in checks if check.error]:
            raise RuntimeError(f"{len(failed)} of {len(checks)} checks of the self-test failed: {', '.join(failed)}")


def _looked(look: Callable[[], Mapping[str, str]]) -> dict[str, str]:
    """What a look finds; one that breaks says why."""
    try:
        return dict(look())
    except Exception as error:
        return {"cannot be told": f"{type(error).__name__}: {error}"}


def _table(title: str, facts: Mapping[str, str]) -> Table:
    """One section."""
    table = Table(title=title, show_header=False, title_justify="left", box=None, padding=(0, 2), title_style="bold")
    table.add_column(width=len("sentence-transformers"), no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(escape(name), escape(str(value)))
    return table


def _told(check: Check) -> Check:
    """One line a check, as soon as it is done."""
    state = "[red]failed[/red]" if check.error else "ok"
    console().print(f"  {state:<6} {check.seconds:5.1f} s  {escape(check.name)}", soft_wrap=True)
    if check.error:
        console().print(escape(check.error), soft_wrap=True)
    return check


def devices() -> dict[str, str]:
    """Cores, memory and GPUs as torch sees them; a torch that cannot be imported is told, not raised."""
    import psutil

    memory = psutil.virtual_memory()
    found = {
        "cores": f"{os.cpu_count()}, of which {len(os.sched_getaffinity(0))} for this process",
        "memory": f"{memory.total / 1e9:.1f} GB, of which {memory.available / 1e9:.1f} GB free",
    }
    try:
        torch = importlib.import_module("torch")
        from toolsavvy.models.loading import resolve_precision
    except ImportError as error:
        return {**found, "gpu": f"torch cannot be imported: {error}"}
    limit = os.environ.get("OMP_NUM_THREADS")
    found["threads"] = f"{torch.get_num_threads()} of torch" + (f", OMP_NUM_THREADS={limit}" if limit else "")
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    found["gpu"] = ", ".join(names) or "none"
    for device in ("cpu", "gpu") if names else ("cpu",):
        native = resolve_precision("auto", device) == "bf16"
        found[f"bf16 on the {device}"] = "native" if native else "not native: precision=auto computes in float32"
    return found


def places(outputs: Path) -> dict[str, str]:
    """Where runs, weights and data are kept, whether these folders can be written, and the room there."""
    cache = cache_root()
    files = [f for f in cache.rglob("*") if f.is_file()] if cache.is_dir() else []
    kept = [w.name for w in WHEELS if any((cache / "assets").glob(w.pattern))]
    missing = [w.name for w in WHEELS if w.name not in kept]
    damaged = ", ".join(folder.name for folder in damaged_folders(cache / "assets"))
    return {
        "outputs": f"{outputs.absolute()} ({_room(outputs.absolute())})",
        "cache": f"{cache} ({sum(f.stat().st_size for f in files) / 1e6:.0f} MB used, {_room(cache)})",
        "pinned wheels": f"kept: {', '.join(kept) or 'none'}; fetched when first used: {', '.join(missing) or 'none'}",
        "unpacked": f"DAMAGED, remove: {damaged}" if damaged else "every file has its sha256",
        "TOOLSAVVY_WHEELS": os.environ.get("TOOLSAVVY_WHEELS") or "not set: wheels come from pip's package index",
    }


def _room(folder: Path) -> str:
    """Free space of a folder that may not be there yet, and whether a file can be made in it."""
    place = next(p for p in (folder, *folder.parents) if p.exists())
    free = f"{shutil.disk_usage(place).free / 1e9:.1f} GB free"
    try:
        with tempfile.TemporaryFile(dir=place):
            return f"{free}, can be written"
    except OSError as error:
        return f"{free}, CANNOT be written: {error.strerror or error}"


def network(cfg: Config) -> dict[str, str]:
    """Whether hosts answer; nothing is needed from them when weights and data are cached."""
    answers = {host: reachable(host, 443) for host in HOSTS}
    told = {host: "reachable" if ok else "not reachable" for host, ok in answers.items()}
    key = "there is a key" if has_key() else "no WANDB_API_KEY"
    told["W&B"] = f"{cfg.logger.name}, {wandb_mode(cfg.logger)} ({key})" if cfg.logger.name == "wandb" else "not used"
    told["gated models"] = "HF_TOKEN is set" if os.environ.get("HF_TOKEN") else "no HF_TOKEN"
    return told


def extras() -> dict[str, str]:
    """Which optional parts are installed, and what each is for."""
    found = {}
    for name, (packages, purpose) in EXTRAS.items():
        missing = [package for package in packages if not _is_installed(package)]
        way = f"not installed (pip install 'toolsavvy[{name}]')"
        found[name] = f"{way if missing else 'installed'}: {purpose}"
    return found


def _is_installed(package: str) -> bool:
    """Whether a distribution is there."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
