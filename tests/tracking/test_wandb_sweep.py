"""README's W&B sweep: the commands that W&B's own agent makes of it compose, and its runs keep id and group."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import wandb
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

from toolsavvy.__main__ import main
from toolsavvy.config.compose import compose
from toolsavvy.config.preflight import check_config
from world import read_wandb

ROOT, CLI = Path(__file__).parents[2], Path(__file__).parents[1] / "cli"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def sweep() -> dict[str, Any]:
    (text,) = re.findall(r"^```yaml\n(# sweep\.yaml.*?)^```$", README, re.M | re.S)
    return yaml.safe_load(text)


def command(sweep: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """As W&B's agent: macros of the command become the arguments that its server chose."""
    arguments = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})
    words: list[str] = []
    for part in create_sweep_command(sweep["command"]):
        macro = re.fullmatch(r"\$\{(\w+)\}", str(part))
        words += arguments[macro[1]] if macro else [str(part)]
    return words


@pytest.mark.parametrize(
    "values",
    [
        {"memorization.learning_rate": 0.00123, "tuning.rank": 8, "seed": 2},
        {"memorization.learning_rate": 1e-4, "tuning.rank": 32, "seed": 3},
    ],
)
def test_what_the_agent_starts_composes(sweep: dict[str, Any], values: dict[str, Any]) -> None:
    assert values.keys() == sweep["parameters"].keys()
    program, *overrides = command(sweep, values)
    assert program == "toolsavvy"
    config = check_config(compose(overrides))
    assert config.memorization.learning_rate == values["memorization.learning_rate"]
    assert (config.tuning.rank, config.seed) == (values["tuning.rank"], values["seed"])
    stage = sweep["metric"]["name"].partition("/")[0].removeprefix("retrieval_")
    assert config.method.recipes[stage].epochs > sweep["early_terminate"]["min_iter"]


def test_the_agents_run_keeps_its_id_and_is_of_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    parameters = tmp_path / "config.yaml"
    parameters.write_text("wandb_version: 1\nseed:\n  value: 4\n")
    for name, value in {"SWEEP_ID": "sweep9", "RUN_ID": "run7", "SWEEP_PARAM_PATH": str(parameters)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    wandb.teardown()  # what an earlier run of this process has read from the environment; agents start a process a run
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    monkeypatch.syspath_prepend(str(CLI))
    args = ("--config-dir", str(CLI / "conf"), "method=probe", "model=toy", "logger=wandb", "seed=4")
    assert main([*args, f"paths.outputs={tmp_path / 'outputs'}"]) == 0
    (record,) = (tmp_path / "outputs").rglob("run.json")
    for _ in range(200):
        if (told := read_wandb(record.parent)).exit_code is not None:
            break
        time.sleep(0.05)
    wandb.teardown()
    assert (told.id, told.group, told.config["seed"], told.exit_code) == ("run7", "sweep9", 4, 0)
