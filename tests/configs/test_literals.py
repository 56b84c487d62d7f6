"""Text that looks like an interpolation is never resolved a second time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from toolsavvy.config.compose import build, compose, quoted, typed
from toolsavvy.config.literals import literal
from toolsavvy.tracking import Run, cell_hash, config_hash
from toolsavvy.tracking.run import Identity

PARTS = ("\\", "${", "oc.env:BAIT", "}", "$", "{", "a", "'", '"', "\n", ":", "seed", " ", "!!python/object")


@pytest.fixture(autouse=True)
def bait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAIT", "was resolved")


def test_any_text_comes_back_from_omegaconf_and_from_its_yaml() -> None:
    rng = random.Random(0)
    for _ in range(1000):
        text = "".join(rng.choice(PARTS) for _ in range(rng.randint(0, 9)))
        node = OmegaConf.create(literal({"a": text, "b": [text, {"c": (text,)}], "n": 1}))
        assert OmegaConf.to_container(node, resolve=True) == {"a": text, "b": [text, {"c": [text]}], "n": 1}
        assert OmegaConf.create(OmegaConf.to_yaml(node)).a == text


TEXTS = ("${oc.env:BAIT}", "${seed}", "${", "${oc.env:", r"\${oc.env:BAIT}", "a ${oc.decode:'${oc.env:BAIT}'} b")


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_built_gets_the_text_itself(text: str) -> None:
    inner = {"_target_": "builtins.dict", "a": text, "b": [text, {"c": text}]}
    same = {"a": text, "b": [text, {"c": text}]}
    assert build({"_target_": "builtins.dict", "x": inner, "y": [inner], "z": {"z": inner}}, k=text) == {
        "x": same, "y": [same], "z": {"z": same}, "k": text
    }  # fmt: skip
    assert build({"_target_": "builtins.dict", "_args_": [{"a": [text]}]}) == {"a": [text]}
    assert build({**inner, "_recursive_": False}) == same
    assert build({**inner, "_partial_": True})() == same


@pytest.mark.parametrize("text", TEXTS)
def test_a_run_records_the_text_itself(text: str, tmp_path: Path) -> None:
    typed_in = quoted(text) if "\\" not in text else r"'\\\${oc.env:BAIT}'"
    cfg = compose(["method=doctor", "catalog=jsonl", f"catalog.path={typed_in}", "logger=none"]).config
    config = typed(cfg)
    assert config.catalog["path"] == text
    hashes = config_hash(cfg), cell_hash(cfg)
    with Run(config, cfg, tmp_path, Identity({"catalog": text}, (f"catalog.path={text}",), "group")):
        pass
    written = (tmp_path / "config.yaml").read_text()
    assert "was resolved" not in written + (tmp_path / "run.json").read_text()
    assert OmegaConf.create(written).catalog.path == text
    assert yaml.safe_load(written)["catalog"]["path"].replace("\\", "") == text.replace("\\", "")
    assert hashes == (config_hash(cfg), cell_hash(cfg))
    with pytest.MonkeyPatch.context() as patch:  # what is not resolved does not change with the environment
        patch.setenv("BAIT", "other")
        assert config_hash(cfg) == hashes[0]
