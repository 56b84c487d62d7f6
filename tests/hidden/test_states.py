from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_blocks import build
from test_capture import TOLERANCE, counted, rendered

from toolsavvy.errors import UserError
from toolsavvy.hidden.blocks import blocks
from toolsavvy.hidden.capture import capture
from toolsavvy.hidden.cells import Cell, Cells
from toolsavvy.hidden.states import States, open_states, state_of
from toolsavvy.models.prompts import Rendered


@pytest.fixture(scope="module")
def llama() -> Any:
    return build("llama")


@pytest.fixture(scope="module")
def prompts() -> list[Rendered]:
    return [*rendered(6, start=4), Rendered((5, 6), 1)]


@pytest.fixture(scope="module")
def states(llama: Any, prompts: list[Rendered], tmp_path_factory: pytest.TempPathFactory) -> States:
    return capture(llama, prompts, tmp_path_factory.mktemp("states") / "a", positions=4, dtype="float32")


def test_states_are_cells(states: States) -> None:
    cells: Cells = states
    assert len(cells.cells) == len(set(cells.cells)) == 2 * 4 * 4
    assert cells.read(0).shape == (7, 32) == (len(states), states.width)


def test_a_subset_reads_the_same_states(states: States) -> None:
    part = states.subset(layers=[3, 1], positions=[-1], kinds=["question"])
    assert part.cells == (Cell(1, -1, "question"), Cell(3, -1, "question"))
    for i, cell in enumerate(part.cells):
        assert np.array_equal(part.read(i), states.read(states.cells.index(cell)))


@pytest.mark.parametrize("chosen", [np.array([5, 0, 0]), np.array([True, False, False, True, False, True, False])])
def test_rows_select_items(states: States, chosen: np.ndarray) -> None:
    part = states.rows(chosen)
    assert len(part) == 3
    assert np.array_equal(part.read(4), states.read(4)[chosen])
    assert np.array_equal(part.rows(np.array([2])).read(4), states.read(4)[chosen][[2]])


@pytest.mark.parametrize("wanted", [{"layers": [4]}, {"positions": [-5]}, {"kinds": ["answer"]}])
def test_cells_that_were_not_captured_are_named(states: States, wanted: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        states.subset(**wanted)
    assert str(next(iter(wanted.values()))[0]) in caught.value.what
    assert caught.value.where == str(states.path)
    assert caught.value.expected


def test_states_travel_to_other_processes_and_open_again(states: States) -> None:
    copied = pickle.loads(pickle.dumps(states))
    opened = open_states(states.path)
    for other in (copied, opened):
        assert np.array_equal(other.read(7), states.read(7), equal_nan=True)


def test_nothing_captured_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no captured hidden states"):
        open_states(tmp_path / "a")


def test_one_prompts_state_equals_the_captured_one(llama: Any, prompts: list[Rendered], states: States) -> None:
    for i, cell in enumerate(states.cells):
        for item in (0, 3):
            np.testing.assert_allclose(state_of(llama, prompts[item], cell), states.read(i)[item], **TOLERANCE)


def test_one_prompts_state_runs_no_further_than_its_layer_and_token(llama: Any, prompts: list[Rendered]) -> None:
    ran: list[int] = []
    hooks = [
        block.register_forward_pre_hook(lambda m, a, i=i: ran.append(i)) for i, block in enumerate(blocks(llama), 1)
    ]
    with counted(llama) as tokens:
        state = state_of(llama, prompts[0], Cell(2, -2, "question"))
    for hook in hooks:
        hook.remove()
    assert state.shape == (32,)
    assert state.dtype == np.float32
    assert ran == [1, 2]
    assert tokens == [prompts[0].question_end - 1]


def test_too_short_a_prompt_has_no_state(llama: Any) -> None:
    with pytest.raises(UserError) as caught:
        state_of(llama, Rendered((5, 6), 1), Cell(1, -2, "question"))
    assert "-2" in caught.value.what
    assert caught.value.fix


def test_a_state_that_is_not_finite_names_its_layer(prompts: list[Rendered]) -> None:
    model = build("llama")
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[0, 0] = float("nan")
    with pytest.raises(UserError, match="layer 2"):
        state_of(model, prompts[0], Cell(2, -1))
    state_of(model, prompts[0], Cell(1, -1))
