from __future__ import annotations

import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from toolsavvy.config.compose import Job, compose
from toolsavvy.config.places import conf_dir, groups
from toolsavvy.config.preflight import check_config, preflight

OPTIONS = [(group, option) for group, options in groups().items() for option in options if group != "hydra"]
NEED_NO_DATA = [o for o in OPTIONS if o[0] in ("method", "tuning", "memorization", "logger", "paths")]
NEED_NO_DATA.remove(("method", "report"))  # needs finished runs
SEVERAL = [o for o in OPTIONS if o[0] in ("retriever", "suite")]
EXPERIMENTS = groups().get("experiment", ())
REQUIRED = {("model", "local"): ("model.path=nowhere",)}
"""Values that a schema asks for: None stands for 'required' there, as '???' in a file does not replace a default."""


def composed(group: str, option: str, *further: str) -> Job:
    """A job of the lightest method whose required values are filled with a path that does not exist."""
    lightest = () if group in ("method", "experiment", "sweep") else ("method=doctor",)
    added = "+" if group == "sweep" else ""
    overrides = (f"{added}{group}={option}", *lightest, *REQUIRED.get((group, option), ()), *further)
    job = compose(overrides)
    missing = sorted(OmegaConf.missing_keys(job.config))
    return compose([*overrides, *(f"{key}=nowhere" for key in missing)]) if missing else job


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_composes_and_fits_its_target(group: str, option: str) -> None:
    job = composed(group, option)
    config = check_config(job)
    if group in ("retriever", "suite"):
        assert list(getattr(config, group)) == [option]
    else:
        assert job.choices[group] == option


@pytest.mark.parametrize(("group", "option"), NEED_NO_DATA)
def test_every_option_that_needs_no_data_passes_preflight(group: str, option: str, tmp_path: Path) -> None:
    config = preflight(composed(group, option, *([] if group == "paths" else [f"paths.outputs={tmp_path}"])))
    assert group == "paths" or config.paths.outputs == str(tmp_path)


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_says_what_it_is(group: str, option: str) -> None:
    text = (conf_dir() / group / f"{option}.yaml").read_text(encoding="utf-8")
    comments = [line for line in text.splitlines() if line.startswith("# ") and "@package" not in line]
    assert comments, f"{group}/{option}.yaml starts without a sentence"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_states_paper_command_expectation_and_cost(name: str) -> None:
    text = (conf_dir() / "experiment" / f"{name}.yaml").read_text(encoding="utf-8")
    assert "# @package _global_" in text
    for part in ("paper", "command", "expected", "cost"):
        assert re.search(rf"^# {part}:\s+\S", text, re.M), f"{name}: no line '# {part}:'"
    command = re.search(r"^# command:\s+toolsavvy(.*)$", text, re.M)
    assert command is not None
    assert not command[1].strip() or f"experiment={name}" in command[1]


@pytest.mark.parametrize(("group", "option"), SEVERAL)
def test_options_of_lists_stay_apart(group: str, option: str) -> None:
    text = (conf_dir() / group / f"{option}.yaml").read_text(encoding="utf-8")
    assert text.startswith(f"# @package {group}.{option}\n")
