from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from toolsavvy.config import compose as composing
from toolsavvy.config.compose import build, compose, compose_sweep, typed, with_experiment
from toolsavvy.config.methods import RecipeConfig
from toolsavvy.config.places import conf_dir
from toolsavvy.config.preflight import check_config, preflight
from toolsavvy.config.schema import Config, ModelConfig, TuningConfig
from toolsavvy.config.sources import check_model
from toolsavvy.errors import UserError
from toolsavvy.tracking import cell_hash, config_hash


def refused(*overrides: str, config_dir: Path | None = None) -> UserError:
    """The error of composing and checking."""
    if not any("method" in o or "experiment" in o for o in overrides):
        overrides = (*overrides, "method=doctor")
    with pytest.raises(UserError) as caught:
        check_config(compose(overrides, config_dir=str(config_dir) if config_dir else None))
    return caught.value


@pytest.mark.parametrize(
    ("given", "is_quickstart"),
    [
        ([], True),
        (["seed=2"], True),
        (["dry_run=true", "catalog.path=x"], True),
        (["hydra/launcher=joblib"], True),
        (["trainer.threads=1"], True),
        (["method=evaluate"], False),
        (["seed=1", "retriever=[bm25,dense]"], False),
        (["logger=none"], False),
        (["experiment=toolgen_aws"], False),
    ],
)
def test_the_quickstart_is_chosen_only_when_no_group_is_named(given: list[str], is_quickstart: bool) -> None:
    assert ("experiment=quickstart" in with_experiment(given)) is is_quickstart


def test_nothing_of_the_quickstart_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`method=evaluate` is the same whether or not the quickstart exists, and whatever it sets."""
    before = OmegaConf.to_yaml(compose(with_experiment(["method=evaluate"])).config)
    copy = tmp_path / "conf"
    shutil.copytree(conf_dir(), copy)
    monkeypatch.setattr(composing, "conf_dir", lambda: copy)
    quickstart = copy / "experiment" / "quickstart.yaml"
    quickstart.write_text(quickstart.read_text() + "seed: 77\ntuning:\n  rank: 3\n")
    assert typed(compose(with_experiment(["seed=78"])).config).tuning.rank == 3
    assert OmegaConf.to_yaml(compose(with_experiment(["method=evaluate"])).config) == before
    quickstart.unlink()
    assert OmegaConf.to_yaml(compose(with_experiment(["method=evaluate"])).config) == before


def test_several_retrievers_are_kept_apart() -> None:
    job = compose(["retriever=[bm25,dense]"])
    assert list(job.config.retriever) == ["bm25", "dense"]
    assert job.choices["retriever"] == "bm25,dense"
    assert list(compose(["retriever=dense"]).config.retriever) == ["dense"]
    assert list(compose(["retriever=[]"]).config.retriever) == []


def test_a_sweep_is_the_product_of_its_lists() -> None:
    jobs = compose_sweep(["model=toy", "seed=1,2", "tuning=lora,full"])
    got = [(j.config.seed, j.config.tuning.kind) for j in jobs]
    assert got == [(1, "lora"), (1, "full"), (2, "lora"), (2, "full")]
    assert all(j.config.model.source == "toy" for j in jobs)


def test_a_new_recipe_from_the_command_line() -> None:
    job = compose(["method=toolgen", "+method.recipes={ours:{epochs:2,replay:[document]}}"])
    recipes = typed(job.config).method.recipes
    assert recipes["ours"] == RecipeConfig(epochs=2, replay=["document"])
    assert recipes["plain"] == RecipeConfig()


@pytest.mark.parametrize(
    ("override", "where", "words"),
    [
        ("model=smolm", "command line, model=smolm", ("no option 'smolm'", "llama3_8b", "'smollm2_135m'")),
        ("retriever=[bm25,dens]", "command line, retriever=[bm25,dens]", ("no option 'dens'", "'dense'")),
        ("experiment=quikstart", "command line, experiment=quikstart", ("'quickstart'",)),
        ("modle=toy", "command line, modle=toy", ("unknown key 'modle'", "did you mean 'model'?")),
        ("resum=true", "command line, resum=true", ("unknown key 'resum'", "did you mean 'resume'?")),
        ("tuning.rnk=4", "command line, tuning.rnk=4", ("a key of tuning: alpha, dropout", "'rank'")),
        ("+tuning.rnk=4", "command line, +tuning.rnk=4", ("unknown key 'tuning.rnk'", "'rank'")),
        ("+sed=4", "command line, +sed=4", ("unknown key 'sed'", "'seed'")),
        ("catalog.pth=x", "command line, catalog.pth=x", ("unknown key 'catalog.pth'", "'path'")),
        ("+catalog.pth=x", "command line, +catalog.pth=x", ("unknown key 'catalog.pth'", "'path'")),
        ("method.recipes.plain.epoch=3", "command line, method.recipes.plain.epoch=3", ("'epochs'",)),
        ("seed=abc", "command line, seed=abc", ("'abc'", "integer")),
        ("~retriever", "command line, ~retriever", ("cannot be taken away", "retriever=[]")),
        ("model=[", "command line", ("cannot read 'model=['", "key=value")),
        ("seed=1,2", "command line, seed=1,2", ("one value", "-m seed=1,2")),
        ("seed=${sed}", "command line, seed=${sed}", ("'sed'",)),
        ("tuning.rank=0", "tuning.rank", ("0 is out of range", ">= 1")),
        ("tuning.kind=lorra", "tuning.kind", ("'lorra'", "one of lora, full", "did you mean 'lora'?")),
        ("seed=-1", "seed", ("out of range", "between 0 and")),
        ("suite.catalog_test.seed=-1", "suite.catalog_test.seed", ("out of range", "between 0 and")),
        ("catalog.seed=4294967296", "catalog.seed", ("out of range", "between 0 and")),
        ("stages=[memorisation]", "stages", ("'memorisation'", "did you mean 'memorization'?")),
        ("model=local", "model.path", ("has no value",)),
        ("method.recipes.plain.replay=[documents]", "method.recipes.plain.replay", ("did you mean 'document'?",)),
        (
            "+suite.two={_target_:toolsavvy.suites.catalog_test.CatalogTest}",
            "suite.two",
            ("'suite.catalog_test' and 'suite.two' would write the same", "one suite of a kind under one name"),
        ),
        ("+retriever.mine={k:3}", "retriever", ("'retriever.mine' has no _target_", "bm25")),
        ("encoder._target_=toolsavvy.retrieval.encoders.Encodr", "command line, encoder", ("did you mean 'Encoder'?",)),
        ("method._target_=toolsavvy.methods.doctor.rn", "command line, method._target_", ("did you mean 'run'?",)),
        ("method._target_=toolsavvy.methods.nothing.run", "command line, method._target_", ("there is no module",)),
        ("encoder._target_=no.such.thing", "command line, encoder._target_", ("cannot import", "PYTHONPATH")),
        ("help", "command line", ("write help=VALUE, or see toolsavvy --help",)),
        ("retriever=[bm25,letters]", "command line, retriever=", ("no option 'letters'", "--config-dir FOLDER")),
    ],
)
def test_a_wrong_override_says_what_where_and_what_instead(override: str, where: str, words: tuple[str, ...]) -> None:
    error = refused(override)
    assert error.where.startswith(where)
    for word in words:
        assert word in str(error)


def test_a_part_that_is_named_but_not_chosen_is_to_be_chosen_too() -> None:
    choices = ["catalog=toy", "method=evaluate", "retriever=rerank"]
    error = refused(*choices, "retriever.rerank.first=${retriever.fusion}")
    assert error.where == "command line, retriever.rerank.first=${retriever.fusion}"
    assert error.fix == "choose it too: 'retriever=[fusion,...]'"
    assert not refused(*choices, "retriever.rerank.first=${retriever.fusoin}").fix


@pytest.mark.parametrize(
    ("group", "text", "where", "words"),
    [
        ("model", "source: toy\nnme: 3\n", "model/typo.yaml", ("model.nme",)),
        ("tuning", "kind: lora\nrnk: 3\n", "tuning/typo.yaml", ("tuning.rnk", "'rank'")),
        ("tuning", "rank: many\n", "tuning/typo.yaml", ("many", "integer")),
        ("model", "source: toy\n  x: y: z\n", "model/typo.yaml, line 2", ("valid YAML",)),
        (
            "catalog",
            "_target_: toolsavvy.catalogs.jsonl.load\nnaem: x\n",
            "mine/catalog/typo.yaml, key 'catalog.naem'",
            ("'name'",),
        ),
        (
            "retriever",
            "# @package retriever.typo\n_target_: toolsavvy.retrieval.fusion.Fusion\nmembers: {}\nrull: x\n",
            "mine/retriever/typo.yaml, key 'retriever.typo.rull'",
            ("'rule'",),
        ),
        ("experiment", "# @package _global_\ntuning:\n  rnk: 3\n", "experiment/typo.yaml", ("tuning.rnk", "'rank'")),
        ("experiment", "# @package _global_\nsed: 3\n", "experiment/typo.yaml", ("'sed'", "'seed'")),
    ],
)
def test_a_typo_in_a_file_is_refused_by_file_and_key(
    tmp_path: Path, group: str, text: str, where: str, words: tuple[str, ...]
) -> None:
    file = tmp_path / "mine" / group / "typo.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    error = refused(f"{group}=typo", config_dir=tmp_path / "mine")
    assert where in error.where
    for word in words:
        assert word in str(error)


def test_preflight_finds_missing_paths(tmp_path: Path) -> None:
    (tmp_path / "tools.jsonl").write_text("{}")
    job = compose(["method=evaluate", "catalog=jsonl", f"catalog.path={tmp_path}/tool.jsonl"])
    with pytest.raises(UserError) as caught:
        preflight(job)
    assert caught.value.where == "catalog.path"
    assert f"did you mean '{tmp_path}/tools.jsonl'?" in str(caught.value)
    with pytest.raises(UserError, match=r"paths\.outputs"):
        preflight(compose(["method=doctor", f"paths.outputs={tmp_path}/tools.jsonl/runs"]))
    assert preflight(compose(["method=doctor", f"paths.outputs={tmp_path}/new"])).seed == 0
    endless = "x" * 5000  # no system takes such a name
    for key, job in (("paths.outputs", "method=doctor"), ("catalog.path", "method=evaluate catalog=jsonl")):
        with pytest.raises(UserError, match="can't be looked at") as caught:
            preflight(compose([*job.split(), f"paths.outputs={tmp_path}", f"{key}={tmp_path}/{endless}"]))
        assert caught.value.where == key
        assert len(str(caught.value)) < 1000
    assert not (tmp_path / "new").exists()


def test_a_hub_model_that_is_neither_cached_nor_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError) as caught:
        check_model(ModelConfig(source="hub", id="nobody/nothing"))
    assert caught.value.where == "model.id"
    assert "model=local" in caught.value.fix


def test_wandb_online_without_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"logger\.mode: W&B has no key"):
        preflight(compose(["method=doctor", "logger.mode=online", f"paths.outputs={tmp_path}"]))


def test_typed_gives_dataclasses() -> None:
    config = typed(compose(["method=toolgen"]).config)
    assert isinstance(config, Config)
    assert isinstance(config.tuning, TuningConfig)
    assert isinstance(config.method.recipes["plain"], RecipeConfig)


def test_build_gives_the_users_mistake_back() -> None:
    with pytest.raises(UserError, match="out of range"):
        build({"_target_": "toolsavvy.config.schema.TuningConfig", "rank": 0})
    assert build({"_target_": "toolsavvy.config.schema.TuningConfig"}, rank=3).rank == 3


def test_hashes_know_what_matters(tmp_path: Path) -> None:
    def hashes(*overrides: str) -> tuple[str, str]:
        cfg = compose(["method=evaluate", "catalog=toy", *overrides]).config
        return config_hash(cfg), cell_hash(cfg)

    base = hashes()
    assert hashes() == base
    assert hashes("resume=true", f"paths.outputs={tmp_path}", "logger=none", "show=3") == base
    other_seed = hashes("seed=1")
    assert other_seed[0] != base[0]
    assert other_seed[1] == base[1]
    assert hashes("tuning.rank=4")[1] != base[1]
    tied = [hashes("catalog.seed=${seed}", f"seed={s}") for s in (1, 2)]
    assert tied[0][0] != tied[1][0]
    assert tied[0][1] == tied[1][1]


def test_hydra_is_imported_in_two_places_alone() -> None:
    source = Path(composing.__file__).parents[1]
    users = {
        str(f.relative_to(source))
        for f in source.rglob("*.py")
        if re.search(r"^\s*(import hydra|from hydra)", f.read_text(encoding="utf-8"), re.M)
    }
    assert users == {"starting.py", "__main__.py", "config/compose.py"}
