"""What --help tells of exists, and what exists is told of."""

from __future__ import annotations

import re
import shlex

import pytest

from toolsavvy.config.compose import compose, compose_sweep, with_experiment
from toolsavvy.config.help import HELP, WIDTH, help_text
from toolsavvy.config.places import groups
from toolsavvy.config.preflight import check_config


def told_methods() -> list[str]:
    """Methods that the help tells of."""
    section = HELP.partition("Methods (method=...)\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\w+)  ", section, re.M)


def told_commands() -> list[str]:
    """Commands that the help shows, without what they are for."""
    section = HELP.partition("Commands that people use\n")[2].partition("\n\n")[0]
    return [re.split(r" {2,}", line.strip())[0] for line in section.splitlines() if line.startswith("  toolsavvy")]


def test_all_methods_are_told_of_once() -> None:
    assert sorted(told_methods()) == sorted(groups()["method"])


def test_about_ten_commands_are_shown() -> None:
    assert 10 <= len(told_commands()) <= 14
    assert len(set(told_commands())) == len(told_commands())


@pytest.mark.parametrize("command", told_commands())
def test_its_commands_compose(command: str) -> None:
    words = shlex.split(command)[1:]
    overrides = with_experiment([w for w in words if "=" in w])
    for job in compose_sweep(overrides) if "-m" in words else [compose(overrides)]:
        check_config(job)
    assert {w for w in words if w.startswith("-")} <= {"-m", "--cfg"}


def test_every_group_has_its_menu_and_lines_fit() -> None:
    text = help_text(groups())
    menus = " ".join(text.partition("\nGroups\n")[2].partition("\n\n")[0].split())
    for name, options in groups().items():
        if name not in ("hydra", "paths"):
            assert f"{name} {' '.join(options)}" in menus
    assert max(map(len, text.splitlines())) <= WIDTH
