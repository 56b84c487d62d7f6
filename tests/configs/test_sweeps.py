from __future__ import annotations

import re

import pytest

from toolsavvy.__main__ import main
from toolsavvy.config.compose import compose, compose_sweep, typed
from toolsavvy.config.help import help_text
from toolsavvy.config.places import conf_dir, groups
from toolsavvy.config.preflight import check_config, origin
from toolsavvy.methods.trained import CONFIGURATIONS
from toolsavvy.tracking.records import config_hash

FIVE = {
    "tg": ("atomic", "single", "full"),
    "tg_h": ("hierarchical", "single", "full"),
    "tg_5fm": ("atomic", "multi", "full"),
    "tg_lora": ("atomic", "single", "lora"),
    "tg_5fm_lora": ("atomic", "multi", "lora"),
}


@pytest.mark.parametrize("name", FIVE)
def test_a_configuration_is_a_choice_of_three_parts_and_works_alone(name: str) -> None:
    job = compose(["method=toolgen", f"configuration={name}"])
    config = check_config(job)
    assert (config.indexing["scheme"], config.memorization.formats, config.tuning.kind) == FIVE[name]
    assert job.choices["configuration"] == name


def test_every_configuration_has_toolsenses_name() -> None:
    assert set(groups()["configuration"]) == set(CONFIGURATIONS) == set(FIVE)


def test_whole_models_learn_slower_than_adapters_unless_told_otherwise() -> None:
    rates = [typed(compose(["method=toolgen", f"tuning={kind}"]).config).tuning for kind in ("full", "lora")]
    for key in ("memorization_rate", "retrieval_rate"):
        full, lora = (getattr(tuning, key) for tuning in rates)
        assert full < lora
    config = typed(compose(["method=toolgen", "tuning=full", "memorization.learning_rate=3e-4"]).config)
    assert (config.memorization.learning_rate, config.method.recipes["plain"].learning_rate) == (3e-4, None)


def test_the_five_are_trained_on_all_suites_beside_their_rivals() -> None:
    jobs = compose_sweep(["+sweep=five_configurations"])
    assert [job.choices["configuration"] for job in jobs] == list(FIVE)
    for job in jobs:
        config = check_config(job)
        assert list(config.suite) == ["catalog_test", "rrb", "mcq", "qa"]
        assert list(config.retriever) == ["bm25", "dense", "finetuned"]
        assert (config.catalog["name"], config.catalog["operations"]) == ("aws_network", 120)
        assert [config.suite[s]["n"] for s in ("rrb", "mcq", "qa")] == [120, 120, 120]
        assert config.suite["rrb"]["ks"] == config.suite["catalog_test"]["ks"] == [1, 5, 10, 50]
        assert (config.method.depth, list(config.method.recipes)) == (50, ["plain"])
        assert config.after_sweep == "dissociation"
        assert job.folder.parent.name == "five_configurations"


def test_model_and_catalog_alone_switch_the_whole_sweep() -> None:
    overrides = ["+sweep=five_configurations", "catalog=toolbench", "catalog.path=x", "model=qwen3_4b"]
    configs = [check_config(job) for job in compose_sweep(overrides)]
    assert {c.model.id for c in configs} == {"Qwen/Qwen3-4B"}
    assert {c.catalog["name"] for c in configs} == {"toolbench"}
    assert [(c.indexing["scheme"], c.memorization.formats, c.tuning.kind) for c in configs] == list(FIVE.values())


@pytest.mark.parametrize(
    ("overrides", "values"),
    [
        (["+sweep=seeds", "method=toolgen"], [0, 1, 2]),
        (["+sweep=seeds", "method=toolgen", "seed=5,6"], [5, 6]),
        (["+sweep=seeds", "method=toolgen", "tuning=lora,full"], [0, 0, 1, 1, 2, 2]),
        (["+sweep=five_configurations", "configuration=tg_lora"], [0]),
    ],
)
def test_what_the_command_line_names_wins_over_the_sweep(overrides: list[str], values: list[int]) -> None:
    assert [check_config(job).seed for job in compose_sweep(overrides)] == values


def test_the_report_at_the_end_does_not_make_another_run() -> None:
    plain, told = (compose(["method=toolgen", "catalog=toy", *more]) for more in ([], ["after_sweep=seeds"]))
    assert config_hash(plain.config) == config_hash(told.config)


def test_faults_in_what_a_sweep_sets_name_its_file() -> None:
    job = compose(["+sweep=five_configurations"])
    assert origin("method.depth", job) == "conf/sweep/five_configurations.yaml, key 'method.depth'"


@pytest.mark.parametrize("name", groups()["sweep"])
def test_every_sweep_says_how_it_is_started(name: str) -> None:
    text = (conf_dir() / "sweep" / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith("# @package _global_\n")
    assert re.search(rf"`toolsavvy -m \+sweep={name}\b", text)
    assert f"sweep={name}" in help_text(groups()) or name in help_text(groups())


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["+sweep=seeds"], ("+sweep=seeds", "a sweep is of several jobs", "expected: toolsavvy -m +sweep=seeds")),
        (["-m", "sweep=seeds"], ("command line, sweep=seeds", "expected: toolsavvy -m +sweep=seeds")),
        (["-m", "+sweep=seed", "method=toolgen"], ("'sweep' has no option 'seed'", "did you mean 'seeds'?")),
        (["-m", "after_sweep=seed", "seed=1,2"], ("after_sweep", "one of page, seeds, dissociation")),
        (["method=report", "method.kind=table", "runs=[x]"], ("method.kind", "one of page, seeds, dissociation")),
        (["method=toolgen", "configuration=tg5"], ("'configuration' has no option 'tg5'", "tg_5fm")),
    ],
)
def test_sweeps_that_cannot_be_are_refused(
    words: list[str], parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told


def test_a_dry_run_of_the_sweep_prints_a_plan_for_each_job(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    words = ["-m", "+sweep=five_configurations", "catalog=toy", "model=toy", "encoder=toy", "dry_run=true"]
    assert main([*words, f"paths.outputs={tmp_path}"]) == 0
    told = capsys.readouterr().out
    assert told.count("dry run") == 5
    for word in ("hierarchical", "memorization (multi)", "full", "lora"):
        assert word in told


PRESETS = {
    "necessity_n_t": 9,
    "layers": 7,
    "lora_vs_full": 2,
    "five_configurations": 5,
    "pbt_threshold": 5,
    "encoders": 6,
}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_of_different_jobs(name: str) -> None:
    jobs = compose_sweep([f"+sweep={name}"])
    check_config(jobs[0])
    assert len({config_hash(job.config) for job in jobs}) == len(jobs) == PRESETS[name]
    assert {job.folder.parent.name for job in jobs} == {name}


def test_every_preset_says_what_it_is() -> None:
    for file in (conf_dir() / "sweep").glob("*.yaml"):
        package, told, *_ = file.read_text(encoding="utf-8").splitlines()
        assert (package, told[:2]) == ("# @package _global_", "# ")
        assert f"toolsavvy -m +sweep={file.stem}" in file.read_text(encoding="utf-8")


def test_lora_and_full_differ_in_the_tuning_alone() -> None:
    jobs = compose_sweep(["+sweep=lora_vs_full", "seed=1,2,3"])
    configs = [check_config(job) for job in jobs]
    assert sorted((c.tuning.kind, c.seed) for c in configs) == [(k, s) for k in ("full", "lora") for s in (1, 2, 3)]
    quickstart = check_config(compose(["experiment=quickstart"]))
    for config in configs:
        assert (config.catalog, config.method, config.memorization) == (
            quickstart.catalog, quickstart.method, quickstart.memorization,
        )  # fmt: skip
        assert config.after_sweep == "page"
