"""Two processes on a CPU learn what one does: copies (ddp) and shards (fsdp), batches that do not divide evenly."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from toolsavvy.errors import UserError
from toolsavvy.models.tuning import Tuning, plain
from toolsavvy.training.fitting import Hardware, fit
from toolsavvy.training.formats import named
from toolsavvy.training.padding import Entry, Labelled, padded
from toolsavvy.training.rows import memorization_rows, query_rows
from toolsavvy.training.sft import CausalSFT, Regularization, RowData
from world import toy_set, toy_tools

CASES = (("ddp", "lora"), ("ddp", "full"), ("fsdp", "full"))
EPOCHS, BATCH = 3, 5


def trained(strategy: str, devices: int, kind: str) -> tuple[CausalSFT, dict[str, torch.Tensor]]:
    """A toy model after training on rows that do not divide evenly, the best of three epochs chosen."""
    data = toy_set(8)
    tools = toy_tools(data, tuning=Tuning(kind))
    rows = query_rows(tools, data.catalog, data.train, 64) + memorization_rows(tools, data.catalog, named("single"), 64)
    assert len(rows) % BATCH == 1  # the last batch leaves a process without a row
    teacher = torch.full((len(rows), len(tools.codes)), torch.nan)
    chance = torch.Generator().manual_seed(0)
    teacher[::3] = torch.randn(len(teacher[::3]), len(tools.codes), generator=chance).log_softmax(-1)
    codes = torch.tensor([code[0] for code in tools.codes])
    recalls = iter((0.1, 0.9, 0.5))
    batches = RowData(rows, BATCH, tools.eos_id, 0)
    module = CausalSFT(
        tools, learning_rate=1e-3, steps=EPOCHS * len(batches.sampler) // 2,
        regularization=Regularization(teacher=teacher, tool_ids=codes, weight=0.3),
        validate=lambda: {"recall@1": next(recalls)}, keep_best=True,
    )  # fmt: skip
    hardware = Hardware(devices=devices, strategy=strategy, precision="fp32", threads=1)
    fit(module, batches, epochs=EPOCHS, seed=0, hardware=hardware, accumulate=2)
    assert not any(type(p).__name__ == "DTensor" for p in plain(tools.model).parameters())
    return module, module.chosen()


WORKER = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
import os, torch
import test_ranks as t
from safetensors.torch import save_file

if __name__ == "__main__":
    for strategy, kind in t.CASES:
        module, weights = t.trained(strategy, 2, kind)
        losses = torch.tensor([p["loss"] for p in module.history if "loss" in p], dtype=torch.float64)
        counts = {{"_tokens": torch.tensor(module.tokens), "_points": torch.tensor(len(module.history))}}
        kept = {{name: value.contiguous() for name, value in weights.items()}}
        rank = os.environ["LOCAL_RANK"]
        save_file({{**kept, **counts, "_losses": losses}}, f"{{strategy}}-{{kind}}-{{rank}}.safetensors")
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What both processes of every case ended with."""
    folder = tmp_path_factory.mktemp("ranks")
    root = Path(__file__).parents[2]
    script = folder / "worker.py"
    script.write_text(WORKER.format(paths=[str(root / "src"), str(root / "tests"), str(Path(__file__).parent)]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {k: v for k, v in os.environ.items() if k not in ("LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "RANK")}
    env = {**kept, "OMP_NUM_THREADS": "1", "MASTER_PORT": str(port), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, env=env, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize(("strategy", "kind"), CASES)
def test_two_processes_have_the_losses_and_weights_of_one(two: Path, strategy: str, kind: str) -> None:
    module, weights = trained("auto", 1, kind)
    losses = [p["loss"] for p in module.history if "loss" in p]
    first, second = (load_file(two / f"{strategy}-{kind}-{rank}.safetensors") for rank in (0, 1))
    found = first["_losses"].tolist()
    assert len(found) == len(losses) == EPOCHS * 12
    assert found == pytest.approx(losses, rel=1e-5)
    assert first["_tokens"] == module.tokens
    assert first["_points"] == len(module.history) == second["_points"] + EPOCHS  # the first alone validates
    assert set(weights) == {name for name in first if not name.startswith("_")}
    for name, value in weights.items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], value, rtol=1e-4, atol=1e-5)


def test_a_share_weighs_what_it_weighs_in_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one and three labels: the loss is the mean over labels, not over the processes' means."""
    rows = [
        (4, Labelled((1, 2), (Entry(1, (3,), 1.0),))),
        (7, Labelled((1, 2, 3), tuple(Entry(j, (5,), 1.0) for j in range(3)))),
    ]
    whole = padded(rows, 0)
    shares = []
    for rank in (0, 1, 2):
        monkeypatch.setattr("toolsavvy.training.ranks.process", lambda rank=rank: (rank, 3))
        shares.append(padded(rows, 0))
    assert [s.rows.tolist() for s in shares] == [[4], [7], [-1]]
    assert [float(s.weight) for s in shares] == [4.0] * 3 == [float(whole.weight)] * 3
    assert [float(s.entry_weight.sum()) for s in shares] == [1.0, 3.0, 0.0]
    assert [int(s.tokens) for s in shares] == [5, 5, 5]
    assert all(s.all_rows.tolist() == [4, 7] for s in shares)


@pytest.mark.parametrize("case", ["adapters", "encoder"])
def test_shards_are_of_whole_causal_models_alone(case: str) -> None:
    import pytorch_lightning as pl

    data = toy_set(8)
    tools = toy_tools(data, tuning=Tuning("lora"))
    module: Any = CausalSFT(tools, learning_rate=1e-3, steps=1) if case == "adapters" else pl.LightningModule()
    with pytest.raises(UserError, match="not trained in shards"):
        fit(module, [], epochs=1, seed=0, hardware=Hardware(strategy="fsdp", devices=2, precision="fp32"))
