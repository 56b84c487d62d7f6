"""Embedding models that can't be had are told before a run starts, and without torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from toolsavvy.config import sources as checks
from toolsavvy.config.compose import compose
from toolsavvy.config.places import conf_dir
from toolsavvy.config.preflight import preflight
from toolsavvy.errors import UserError

LIGHT = ("method=evaluate", "catalog=toy", "retriever=[dense]")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checks, "_hub_cached", lambda name, revision: name == "cached/one")
    return tmp_path


def test_a_hub_encoder_that_is_not_cached_is_refused(offline: Path) -> None:
    with pytest.raises(UserError) as caught:
        preflight(compose([*LIGHT, "encoder=e5_base", f"paths.outputs={offline}"]))
    assert "intfloat/e5-base-v2" in caught.value.what and caught.value.where == "encoder.id"
    assert "encoder.source=path" in caught.value.fix


def test_one_that_is_cached_or_not_asked_for_passes(offline: Path) -> None:
    preflight(compose([*LIGHT, "encoder=e5_base", "encoder.id=cached/one", f"paths.outputs={offline}"]))
    bm25 = ("method=evaluate", "catalog=toy", "retriever=[bm25]", "encoder=e5_base")
    preflight(compose([*bm25, f"paths.outputs={offline}"]))
    preflight(compose([*LIGHT, "encoder=toy", f"paths.outputs={offline}"]))


def test_a_server_that_takes_no_connection_is_refused(offline: Path) -> None:
    job = compose([*LIGHT, "encoder=openai", "encoder.base_url=http://127.0.0.1:9/v1", f"paths.outputs={offline}"])
    with pytest.raises(UserError) as caught:
        preflight(job)
    assert "connection" in caught.value.what and "encoder.base_url" in f"{caught.value.where}{caught.value.fix}"


MINER = "method.mining.retriever={_target_:toolsavvy.retrieval.dense.Dense,encoder:{_target_:%s.Encoder,source:%s}}"
ENCODERS = "toolsavvy.retrieval.encoders"


@pytest.mark.parametrize(
    ("overrides", "where"),
    [
        (["encoder=minilm", "encoder.source=path", "encoder.path=no/folder"], "encoder.path"),
        (["encoder=toy", MINER % (ENCODERS, "path,path:no/folder")], "method.mining.retriever.encoder.path"),
        (["encoder=toy", MINER % (ENCODERS, "hub,id:no/such")], "encoder.id"),
    ],
)
def test_what_training_reads_is_looked_for_too(offline: Path, overrides: list[str], where: str) -> None:
    with pytest.raises(UserError) as caught:
        preflight(
            compose(["method=contrastive", "catalog=toy", "retriever=[]", *overrides, f"paths.outputs={offline}"])
        )
    assert caught.value.where == where


def test_names_of_hub_models_are_names() -> None:
    for file in [*(conf_dir() / "encoder").glob("*.yaml"), *(conf_dir() / "reranker").glob("*.yaml")]:
        name = yaml.safe_load(file.read_text(encoding="utf-8")).get("id")
        assert name is None or re.fullmatch(r"[\w.-]+/[\w.-]+", name), file.name


def test_the_check_needs_no_torch() -> None:
    code = (
        "import sys; from toolsavvy.config.sources import check_retrieval_model as check\n"
        "node = {'_target_': 'toolsavvy.retrieval.encoders.Encoder', 'source': 'hub', 'id': 'no/such'}\n"
        "try: check(node, 'encoder')\n"
        "except Exception as error: assert 'no/such' in str(error), error\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HF_HUB_OFFLINE": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
