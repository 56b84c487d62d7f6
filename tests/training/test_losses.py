"""The cached loss is the plain one, in value and gradient, whatever the chunks and however many processes."""

from __future__ import annotations

import copy
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from toolsavvy.catalog import relevant_indices
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.training.contrastive import ContrastiveModule, Examples, Settings
from toolsavvy.training.losses import Contrast, info_nce
from toolsavvy.training.negatives import Pools
from world import toy_set

DATA = toy_set(8)
GOLDS = relevant_indices(DATA.catalog, DATA.train)
PAIRS = [(q, g[0]) for q, g in enumerate(GOLDS[::3]) for _ in range(1)]


def examples(pools: bool = True) -> Examples:
    queries = [(q.text,) for q in DATA.train[::3]]
    golds = GOLDS[::3]
    tools = range(len(DATA.catalog))
    pool = Pools(tuple(tuple(t for t in tools if t not in g)[:6] for g in golds)) if pools else None
    return Examples(queries, list(DATA.catalog.documents), golds, pool)


def distinct(n: int) -> list[tuple[int, int]]:
    seen: dict[int, tuple[int, int]] = {}
    for q, t in PAIRS:
        seen.setdefault(t, (q, t))
    return list(seen.values())[:n]


def close(found: Tensor, wanted: Tensor) -> bool:
    """Equal but for float32's sums in another order."""
    return float((found - wanted).norm()) <= 1e-4 * float(wanted.norm()) + 1e-6


def gradients(settings: Settings, model: Any, dropout: bool) -> tuple[float, dict[str, Tensor]]:
    module = ContrastiveModule(model, examples(), settings, steps=1)
    module.train(dropout)
    torch.manual_seed(5)
    loss = module.training_step(distinct(8), 0)
    (3 * loss).backward()  # what stands above the loss (accumulation, scaling) must reach the parameters
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return float(loss.detach()), found


@pytest.mark.parametrize("chunk", [1, 3, 5, 100])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_cached_loss_equals_the_plain_one(chunk: int, symmetric: bool) -> None:
    model = copy.deepcopy(Encoder().model)
    plain, wanted = gradients(Settings(negatives=2, symmetric=symmetric, chunk=100), model, dropout=False)
    cached, found = gradients(
        Settings(negatives=2, symmetric=symmetric, chunk=chunk, cached=True), model, dropout=False
    )
    assert cached == pytest.approx(plain, rel=1e-6)
    for name, gradient in wanted.items():
        assert close(found[name], gradient), name
    assert sum(float(g.abs().sum()) for g in found.values()) > 0


def test_dropout_is_the_same_in_both_passes_of_the_cached_loss() -> None:
    """With one chunk size, plain and cached draw the same masks: equal only if the second pass repeats the first's."""
    model = copy.deepcopy(Encoder().model)
    plain, wanted = gradients(Settings(negatives=2, chunk=4), model, dropout=True)
    cached, found = gradients(Settings(negatives=2, chunk=4, cached=True), model, dropout=True)
    still, _ = gradients(Settings(negatives=2, chunk=4), model, dropout=False)
    assert cached == pytest.approx(plain, rel=1e-6)
    assert cached != pytest.approx(still, rel=1e-4)
    assert all(close(found[n], g) for n, g in wanted.items())


@pytest.mark.parametrize("temperature", [0.02, 1.0])
def test_the_symmetric_loss_is_that_of_sentence_transformers(temperature: float) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesSymmetricRankingLoss

    model = copy.deepcopy(Encoder().model).eval()
    module = ContrastiveModule(
        model, examples(pools=False), Settings(temperature=temperature, symmetric=True), steps=1
    )  # fmt: skip
    pairs = distinct(6)
    ours = module.training_step(pairs, 0)
    oracle = MultipleNegativesSymmetricRankingLoss(model, scale=1 / temperature)
    texts = [module.examples.queries[q][0] for q, _ in pairs], [module.examples.documents[t] for _, t in pairs]
    features = [dict(model.preprocess(t)) for t in texts]
    assert float(ours.detach()) == pytest.approx(float(oracle(features, None).detach()), rel=1e-5)


def test_hard_negatives_are_columns_of_the_softmax() -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = copy.deepcopy(Encoder().model).eval()
    pairs = distinct(3)
    own = {t for _, t in pairs}
    others = [t for t in range(len(DATA.catalog)) if t not in own][:3]
    pool = [()] * len(GOLDS[::3])
    for (q, _), t in zip(pairs, others, strict=True):
        pool[q] = (t,)
    data = Examples(examples().queries, list(DATA.catalog.documents), GOLDS[::3], Pools(tuple(pool)))
    ours = ContrastiveModule(model, data, Settings(negatives=1), steps=1).training_step(pairs, 0)
    texts = (
        [data.queries[q][0] for q, _ in pairs],
        [data.documents[t] for _, t in pairs],
        [data.documents[t] for t in others],
    )
    oracle = MultipleNegativesRankingLoss(model, scale=20.0)
    assert float(ours.detach()) == pytest.approx(
        float(oracle([dict(model.preprocess(t)) for t in texts], None).detach()), rel=1e-5
    )


def test_excluded_columns_have_no_gradient() -> None:
    torch.manual_seed(0)
    queries, tools = torch.randn(2, 4), torch.randn(3, 4, requires_grad=True)
    contrast = Contrast(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([[0, 0, 1], [0, 0, 1]]).bool())
    info_nce(queries, tools, contrast, 0.1).backward()
    assert tools.grad is not None
    assert tools.grad[2].abs().sum() == 0
    assert tools.grad[:2].abs().sum() > 0


WORKER = """
import json, os, sys
from pathlib import Path
import torch
import pytorch_lightning as pl
sys.path[:0] = {paths!r}
import test_losses as t
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.training.contrastive import ContrastiveModule, Settings
from toolsavvy.training.fitting import Hardware, fit
from toolsavvy.training.losses import process
from toolsavvy.training.sampling import DistinctTools
from torch.utils.data import DataLoader

def main(devices, out):
    torch.set_num_threads(1)
    model = Encoder().model
    for m in model.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
    model[0].model.config.attention_probs_dropout_prob = 0.0
    data = t.examples()
    sampler = DistinctTools(data.pairs, 7, 0)
    settings = Settings(negatives=2, chunk=3, epochs=2, learning_rate=1e-3)
    module = ContrastiveModule(model, data, settings, steps=2 * len(sampler))
    loader = DataLoader(data.pairs, batch_sampler=sampler, collate_fn=list)
    hardware = Hardware(devices=devices, strategy="ddp" if devices > 1 else "auto", precision="fp32")
    worlds = []
    module.on_train_start = lambda: worlds.append(process()[1])
    fit(module, loader, epochs=2, seed=0, hardware=hardware)
    if int(os.environ.get("LOCAL_RANK", 0)) == 0:
        weights = {{k: v.double().sum().item() for k, v in model.state_dict().items() if v.is_floating_point()}}
        Path(out).write_text(json.dumps({{"world": worlds, "history": module.history, "weights": weights}}))

if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
"""


def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    """Lightning's DDP on two CPU processes: the same losses and weights as one process with the same global batch."""
    script = tmp_path / "worker.py"
    root = Path(__file__).parents[2]
    script.write_text(WORKER.format(paths=[str(root / "src"), str(root / "tests"), str(Path(__file__).parent)]))
    found: dict[int, Any] = {}
    for devices in (1, 2):
        out = tmp_path / f"{devices}.json"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_PORT": str(port), "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(
            [sys.executable, str(script), str(devices), str(out)], capture_output=True, text=True, timeout=300, env=env,
            cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        found[devices] = json.loads(out.read_text())
    assert [found[n]["world"] for n in (1, 2)] == [[1], [2]]
    losses = {n: [p["loss"] for p in found[n]["history"] if "loss" in p] for n in (1, 2)}
    assert len(losses[1]) == len(losses[2]) > 4
    assert losses[2] == pytest.approx(losses[1], rel=1e-5)
    assert found[2]["weights"] == pytest.approx(found[1]["weights"], rel=1e-4, abs=1e-4)
    assert losses[1][-1] < losses[1][0]
