from __future__ import annotations

import pytest
import torch
from torch import Tensor

from toolsavvy.errors import UserError
from toolsavvy.hidden.blocks import blocks
from toolsavvy.hidden.hooks import run
from toolsavvy.models.forward import states as whole_states
from toolsavvy.models.loading import toy_model
from toolsavvy.models.tuning import Tuning, adapted
from toolsavvy.training.trunk import Trunk, frozen_blocks


def batch() -> tuple[Tensor, Tensor]:
    ids = torch.randint(4, 200, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return ids, mask


def student(first: int) -> torch.nn.Module:
    model = adapted(toy_model(seed=1, layers=4)[0], Tuning(rank=4, first_block=first), seed=2)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # B is zero at the start: adapters would do nothing
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.train()


@pytest.mark.parametrize("first", [1, 2, 3])
def test_states_and_gradients_are_those_of_the_whole_model(first: int) -> None:
    ids, mask = batch()
    found = []
    for way in (lambda m: whole_states(m, ids, mask), lambda m: Trunk(m).states(ids, mask)):
        model = student(first)
        states = way(model)[mask.bool()]
        states.square().mean().backward()
        gradients = [p.grad for p in model.parameters() if p.requires_grad]
        assert all(g is not None for g in gradients)
        found.append((states.detach(), gradients))
    torch.testing.assert_close(found[0][0], found[1][0])
    for ours, theirs in zip(found[1][1], found[0][1], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_row_is_read_below_once_whatever_stands_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, mask = batch()
    trunk, rows = Trunk(student(2)), []
    read = trunk._read
    monkeypatch.setattr(trunk, "_read", lambda i, m: rows.append(len(i)) or read(i, m))
    first = trunk.states(ids, mask)
    again = trunk.states(ids[[1, 0]], mask[[1, 0]])
    torch.testing.assert_close(again[0][:6], first[1][:6])
    assert rows == [3]


def test_rows_beyond_the_room_are_read_again_and_right() -> None:
    ids, mask = batch()
    model = student(2)
    trunk = Trunk(model, limit=9 * 64 * 4)  # one row
    expected = whole_states(model, ids, mask)[mask.bool()]
    for _ in range(2):
        torch.testing.assert_close(trunk.states(ids, mask)[mask.bool()], expected)
    assert len(trunk._kept) == 1


def test_what_is_kept_of_a_row_knows_no_dropout() -> None:
    ids, mask = batch()
    model = student(2)
    for block in blocks(model):
        block.self_attn.attention_dropout = 0.5  # type: ignore[union-attr]
    inputs = {"input_ids": ids, "attention_mask": mask}
    expected = run(model.eval(), [2], inputs, lambda _, states: states.detach())[2]
    found = Trunk(model.train())._below(ids, mask)
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()])
    assert all(module.training for module in model.modules())


def test_blocks_that_train_are_no_trunk() -> None:
    assert [frozen_blocks(student(first)) for first in (0, 1, 3)] == [0, 1, 3]
    assert frozen_blocks(adapted(toy_model()[0], Tuning("full"))) == 0


def test_a_block_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match=r"(?s)tuning.first_block.*0 to 1"):
        adapted(toy_model()[0], Tuning(first_block=2))
