"""Does this machine work: versions, devices, caches, what can be reached."""

from __future__ import annotations

import importlib
import os
import shutil

from rich.markup import escape
from rich.table import Table

from toolsavvy.assets import cache_root
from toolsavvy.config.schema import Config
from toolsavvy.config.sources import reachable
from toolsavvy.report import console
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import versions

HOSTS = ("huggingface.co", "api.wandb.ai")


def run(cfg: Config, run: Run) -> None:
    """Look, print one table, and note the findings in run.json."""
    facts = {**versions(), **devices(), **caches(), **network()}
    table = Table(title="this machine", show_header=False, title_justify="left")
    for name, value in facts.items():
        table.add_row(escape(name), escape(str(value)))
    console().print(table)
    run.note(doctor=facts)


def devices() -> dict[str, str]:
    """Cores, memory and GPUs as torch sees them; a torch that cannot be imported is told, not raised."""
    import psutil

    found = {"cores": str(os.cpu_count()), "memory": f"{psutil.virtual_memory().total / 1e9:.1f} GB"}
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        return {**found, "gpu": f"torch cannot be imported: {error}"}
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {**found, "gpu": ", ".join(names) or "none"}


def caches() -> dict[str, str]:
    """Where weights and data are kept, and the room there."""
    cache = cache_root()
    place = next(p for p in (cache, *cache.parents) if p.exists())
    size = sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()) if cache.is_dir() else 0
    free = shutil.disk_usage(place).free
    return {"cache": f"{cache} ({size / 1e6:.0f} MB used, {free / 1e9:.1f} GB free)"}


def network() -> dict[str, str]:
    """Whether hosts answer; nothing is needed from them when weights and data are cached."""
    answers = {host: reachable(host, 443) for host in HOSTS}
    told = {host: "reachable" if ok else "not reachable" for host, ok in answers.items()}
    told["W&B"] = "online, WANDB_API_KEY is set" if os.environ.get("WANDB_API_KEY") else "offline, no WANDB_API_KEY"
    told["gated models"] = "HF_TOKEN is set" if os.environ.get("HF_TOKEN") else "no HF_TOKEN"
    return told
