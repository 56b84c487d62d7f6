"""Where the configuration files are, and what they offer; imports nothing that takes time."""

from __future__ import annotations

from pathlib import Path


def conf_dir() -> Path:
    """The folder of configuration files: inside the installed package, or beside src in a checkout."""
    inside = Path(__file__).parent.parent / "conf"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "conf"


def groups() -> dict[str, tuple[str, ...]]:
    """Every config group and its options, as the folders say."""
    folders = sorted(p for p in conf_dir().iterdir() if p.is_dir())
    found = {p.name: tuple(sorted(f.stem for f in p.glob("*.yaml"))) for p in folders}
    return {name: options for name, options in found.items() if options}
