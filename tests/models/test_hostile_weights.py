"""Weights, checkpoints and arrays that would run code when a careless reader opens them: refused, and nothing runs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from toolsavvy.config.schema import ModelConfig
from toolsavvy.errors import UserError
from toolsavvy.models.loading import load_base, toy_model
from toolsavvy.retrieval.encoders import Encoder


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


def zipped(path: Path, marker: Path) -> None:
    torch.save({"weight": torch.zeros(1), "more": Payload(marker)}, path)


def bare(path: Path, marker: Path) -> None:
    path.write_bytes(pickle.dumps(Payload(marker)))


def test_the_payload_works(tmp_path: Path, marker: Path) -> None:
    bare(tmp_path / "a", marker)
    pickle.loads((tmp_path / "a").read_bytes())
    assert marker.exists()


WRITERS = pytest.mark.parametrize("write", [zipped, bare])


def saved_model(folder: Path) -> Path:
    model, tokenizer = toy_model()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def load_model(folder: Path) -> Any:
    return load_base(ModelConfig(source="path", path=str(folder)))


def load_encoder(folder: Path) -> Any:
    return Encoder(source="path", path=str(folder)).model


def load_scorer(folder: Path) -> Any:
    from toolsavvy.retrieval.scorers import Weights, _open

    return _open(Weights("cross_encoder", "path", None, None, str(folder), "float32", None, False, 0))


def refused(call: Callable[[], Any], marker: Path, word: str = "") -> None:
    with pytest.raises(UserError) as caught:
        call()
    assert word in str(caught.value)
    assert not marker.exists()


@WRITERS
@pytest.mark.parametrize("load", [load_model, load_scorer])
def test_a_model(tmp_path: Path, marker: Path, write: Any, load: Any) -> None:
    folder = saved_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    write(folder / "pytorch_model.bin", marker)
    refused(lambda: load(folder), marker, "would run code")
    (folder / "pytorch_model.bin").rename(tmp_path / "elsewhere.bin")
    index = {"metadata": {}, "weight_map": {"model.embed_tokens.weight": "../elsewhere.bin"}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    refused(lambda: load(folder), marker)


def test_a_model_with_code_of_its_own(tmp_path: Path, marker: Path) -> None:
    folder = saved_model(tmp_path / "model")
    for name in ("evil.py", "modeling_evil.py", "custom_generate/generate.py", "sitecustomize.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"open({str(marker)!r}, 'w')")
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "pytorch_model.bin"):
        bare(folder / name, marker)
    load_model(folder)  # what lies beside is not looked at
    assert not marker.exists()
    change(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", "evil.T"]}, tokenizer_class="EvilT")
    refused(lambda: load_model(folder), marker, "trust_remote_code")
    change(folder / "config.json", auto_map={"AutoModelForCausalLM": "evil.M", "AutoConfig": "evil.C"}, model_type="e")
    refused(lambda: load_model(folder), marker, "trust_remote_code")


@WRITERS
def test_an_encoder(tmp_path: Path, marker: Path, write: Any) -> None:
    folder = tmp_path / "encoder"
    Encoder(source="toy").model.save(str(folder))
    modules = json.loads((folder / "modules.json").read_text())

    def add(kind: str) -> None:
        more = {"idx": 2, "name": "2", "path": "2_X", "type": kind}
        (folder / "modules.json").write_text(json.dumps([*modules, more]))

    (folder / "2_X").mkdir()
    (folder / "2_X" / "config.json").write_text(json.dumps({"in_features": 32, "out_features": 8}))
    write(folder / "2_X" / "pytorch_model.bin", marker)
    add("sentence_transformers.models.Dense")
    refused(lambda: load_encoder(folder), marker, "would run code")
    (folder / "evilmod.py").write_text(f"open({str(marker)!r}, 'w')")
    for kind in ("evilmod.E", "os.system", "pickle.Unpickler"):
        add(kind)
        refused(lambda: load_encoder(folder), marker)
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "model.safetensors").unlink()
    write(folder / "pytorch_model.bin", marker)
    refused(lambda: load_encoder(folder), marker, "would run code")


@WRITERS
def test_a_trained_tool_model(tmp_path: Path, marker: Path, write: Any) -> None:
    from toolsavvy.models.tuning import TOOLS_FILE, load

    folder = saved_model(tmp_path / "model")
    record = {name: [] for name in ("scheme", "tool_ids", "codes", "new_ids", "prefix", "suffix", "end")}
    (folder / TOOLS_FILE).write_text(json.dumps({**record, "fingerprint": ""}))
    (folder / "model.safetensors").unlink()
    write(folder / "pytorch_model.bin", marker)
    refused(lambda: load(folder), marker, "would run code")


@WRITERS
def test_a_checkpoint_of_training_is_dropped_and_training_starts_anew(tmp_path: Path, marker: Path, write: Any) -> None:
    from toolsavvy.training.fitting import _resumable

    path = tmp_path / "epoch.ckpt"
    write(path, marker)
    assert _resumable(path) is None
    assert not marker.exists()
    assert not path.exists()


def test_arrays_of_objects_are_no_arrays(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolsavvy.methods.arrays import load_arrays

    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    objects = np.array([Payload(marker)], dtype=object)
    np.savez(tmp_path / "a.npz", a=objects)
    assert load_arrays(tmp_path / "a.npz") is None
    encoder = Encoder(source="toy", cache=True)
    expected = encoder.encode_documents(["a text"])
    (kept,) = (tmp_path / "cache" / "embeddings").glob("*.npy")
    np.save(kept, objects, allow_pickle=True)
    assert np.array_equal(encoder.encode_documents(["a text"]), expected)
    assert not marker.exists()
