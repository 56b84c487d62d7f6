"""What `model/` carries: a probe that says the same after loading, an example that runs, files that are refused."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from toolsavvy.classification import sigmoid
from toolsavvy.config.schema import ModelConfig
from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cell
from toolsavvy.metrics import Interval
from toolsavvy.models.loading import toy_model
from toolsavvy.models.prompts import render
from toolsavvy.models.text import TextEncoder
from toolsavvy.necessity.deployed import DeployedProbe, load_probe, save_probe
from toolsavvy.necessity.probe_card import ProbeCard
from toolsavvy.necessity.questions.arithmetic import CALCULATOR
from toolsavvy.probes.problems import Fits

KNOWN = "What is 348 * 917?"
RNG = np.random.default_rng(0)
FITS = Fits(
    RNG.standard_normal((2, 64)).astype(np.float32), np.array([0.3, -0.2], np.float32),
    0.01 * RNG.standard_normal((2, 64)).astype(np.float32), np.full((2, 64), 0.08, np.float32),
    np.zeros(2, np.int64), np.zeros(2),
)  # fmt: skip
CARD = ProbeCard(
    ModelConfig(), "toy", "abc", Cell(1, -2), "strict", 0.6, "neutral", "You may call tools.", (CALCULATOR,),
    "arithmetic", {"mcc": Interval(0.4, 0.3, 0.5, 100), "auc": Interval(None, None, None, 100)},
)  # fmt: skip


@pytest.fixture(scope="module")
def toy() -> tuple[Any, Any]:
    return toy_model(seed=0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, toy: tuple[Any, Any]) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    save_probe(folder, DeployedProbe.of(FITS, 1, CARD), *toy, KNOWN)
    return folder


@pytest.fixture
def folder(tmp_path: Path, saved: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def test_a_probe_says_after_loading_what_its_weights_say_of_the_hidden_state(
    folder: Path, toy: tuple[Any, Any]
) -> None:
    model, tokenizer = toy
    probe = load_probe(folder)
    prompt = render(tokenizer, TextEncoder(tokenizer), probe.prompt("How far is the moon?"))
    with torch.no_grad():
        states = model(torch.tensor([prompt.ids]), output_hidden_states=True).hidden_states
    odds = FITS.scores(states[1][0, -2].numpy()[None])[1, 0]
    assert probe.needs_tool(model, tokenizer, "How far is the moon?") == pytest.approx(float(sigmoid(odds)), abs=1e-5)
    assert replace(probe.card, known_question="", known_score=0.0) == CARD
    np.testing.assert_array_equal(probe.weights, FITS.weights[1])
    assert probe.card.known_question == KNOWN
    assert "no statement" in probe.card.limits
    assert probe.prefill(0.7) == CARD.prefills.call
    assert probe.prefill(0.5) == CARD.prefills.answer


def test_the_example_runs_and_gives_the_known_score(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (folder / "example.py").read_text().strip().splitlines()
    code = [line for line in lines if line and not line.startswith(('"""', "import", "from"))]
    assert len(code) <= 10
    monkeypatch.setattr("sys.argv", ["example.py"])
    runpy.run_path(str(folder / "example.py"), run_name="__main__")
    score, decision = capsys.readouterr().out.split(maxsplit=1)
    known = load_probe(folder).card.known_score
    assert float(score) == pytest.approx(known, abs=1e-3)
    assert decision.strip() == ("call the tool" if known >= 0.6 else "answer directly")


def test_another_model_is_noticed(folder: Path) -> None:
    with pytest.raises(UserError, match="known question gets") as caught:
        load_probe(folder).check(*toy_model(seed=5))
    assert caught.value.where.endswith("probe.json")
    with pytest.raises(UserError, match="width 32"):
        load_probe(folder).check(*toy_model(width=32))


def test_a_model_beside_the_probe_is_found_wherever_the_folder_is(folder: Path, toy: tuple[Any, Any]) -> None:
    model, tokenizer = toy
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    beside = replace(CARD, model=ModelConfig(source="path", path="."))
    save_probe(folder, DeployedProbe.of(FITS, 1, beside), model, tokenizer, KNOWN)
    moved = folder.rename(folder.parent / "elsewhere")
    loaded, _ = load_probe(moved).load_model()
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        card = json.loads((folder / "probe.json").read_text())
        change(card)
        (folder / "probe.json").write_text(json.dumps(card))

    return edit


def tensors(change: Callable[[dict[str, np.ndarray]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        found = dict(safetensors.numpy.load_file(folder / "probe.safetensors"))
        change(found)
        safetensors.numpy.save_file(found, folder / "probe.safetensors")

    return edit


BAD: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "no card": (lambda f: (f / "probe.json").unlink(), "probe.json", "no such file"),
    "no weights": (lambda f: (f / "probe.safetensors").unlink(), "probe.safetensors", "no such file"),
    "no JSON": (lambda f: (f / "probe.json").write_text("{"), "probe.json", "no probe can be read"),
    "a list": (lambda f: (f / "probe.json").write_text("[]"), "probe.json", "no JSON object"),
    "torn weights": (lambda f: (f / "probe.safetensors").write_bytes(b"\x80\x02}"), "probe.safetensors", "no probe"),
    "format": (edited(lambda c: c.update(format=9)), "field 'format'", "format 9"),
    "no threshold": (edited(lambda c: c.pop("threshold")), "field 'threshold'", "missing"),
    "threshold": (edited(lambda c: c.update(threshold=1.5)), "field 'threshold'", "no probability"),
    "NaN": (edited(lambda c: c.update(threshold=float("nan"))), "field 'threshold'", "no probability"),
    "layer": (edited(lambda c: c["cell"].update(layer=-1)), "field 'cell', field 'layer'", "-1"),
    "position": (edited(lambda c: c["cell"].update(position=0)), "field 'cell', field 'position'", "0"),
    "of": (edited(lambda c: c["cell"].update(of="answer")), "field 'cell', field 'of'", "answer"),
    "source": (edited(lambda c: c["model"].update(source="ftp")), "field 'model', field 'source'", "ftp"),
    "unknown": (edited(lambda c: c["model"].update(adress="x")), "field 'model', field 'adress'", "unknown"),
    "tools": (edited(lambda c: c.update(tools=["x"])), "field 'tools'", "not every entry"),
    "metric": (edited(lambda c: c["metrics"]["mcc"].update(n="x")), "field 'mcc', field 'n'", "'x'"),
    "no bias": (tensors(lambda t: t.pop("bias") and None), "field 'bias'", "missing"),
    "shape": (tensors(lambda t: t.update(mean=t["mean"][:3])), "field 'mean'", "shape (3,)"),
    "scale": (tensors(lambda t: t.update(scale=0 * t["scale"])), "field 'scale'", "no probe"),
    "infinite": (tensors(lambda t: t.update(weights=t["weights"] / 0)), "field 'weights'", "no probe"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", list(BAD))
def test_damaged_files_are_named_with_the_field(folder: Path, name: str) -> None:
    damage, where, what = BAD[name]
    damage(folder)
    with pytest.raises(UserError) as caught:
        load_probe(folder)
    assert where in caught.value.where
    assert what in caught.value.what
    assert caught.value.expected
    assert caught.value.fix


def test_remote_code_is_never_asked_for(folder: Path) -> None:
    edited(lambda c: c["model"].update(trust_remote_code=True))(folder)
    assert not load_probe(folder).card.model.trust_remote_code


def test_a_probe_of_another_width_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="width 32"):
        save_probe(tmp_path, DeployedProbe.of(FITS, 0, CARD), *toy_model(width=32), KNOWN)
    assert not list(tmp_path.iterdir())
