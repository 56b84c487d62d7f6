"""Hidden states on disk, read cell by cell; and the state of one prompt, for use outside a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cell
from toolsavvy.hidden.layout import Layout, recorded, sidecar
from toolsavvy.hidden.positions import MISSING, Kind, token_index
from toolsavvy.models.prompts import Rendered


@dataclass(frozen=True)
class States:
    """Captured hidden states: a `Cells` over one file, of which no more than a cell is ever in memory.

    Args:
        path: the file.
        layout: what it holds.
        cells: those of this view, in the order in which they are read.
        items: int64 [item], which captured items this view has.
    """

    path: Path
    layout: Layout
    cells: tuple[Cell, ...]
    items: np.ndarray

    def __len__(self) -> int:
        """Number of items."""
        return len(self.items)

    @property
    def width(self) -> int:
        """Length d of a state."""
        return self.layout.width

    def read(self, index: int) -> np.ndarray:
        """States of one cell, float32 [item, d]; rows of NaN where a prompt is too short to have the position."""
        place, rows, layout = self._place(self.cells[index]), self._rows(), self.layout
        count = len(layout.order)
        # Mapped anew and dropped again: pages that stay mapped would count as this process's memory.
        stored = np.memmap(self.path, layout.dtype, "r", layout.state_offset(place, 0), (count, layout.width))
        exponents = np.memmap(self.path, np.int8, "r", layout.exponent_offset(place, 0), (count,))
        states = np.asarray(stored[rows], np.float32)
        shift = np.asarray(exponents[rows], np.int32)
        return np.ldexp(states, shift[:, None]) if shift.any() else states

    def subset(
        self,
        *,
        layers: Sequence[int] | None = None,
        positions: Sequence[int] | None = None,
        kinds: Sequence[Kind] | None = None,
    ) -> States:
        """The same items at fewer cells; None keeps all.

        Raises:
            UserError: something asked for was not captured.
        """
        wanted = {"layer": layers, "position": positions, "of": kinds}
        for name, values in wanted.items():
            there = {getattr(cell, name) for cell in self.cells}
            if missing := [value for value in values or () if value not in there]:
                raise UserError(
                    f"{name} {missing[0]} was not captured",
                    where=str(self.path),
                    expected=f"of {', '.join(map(str, sorted(there)))}",
                )
        kept = (c for c in self.cells if all(v is None or getattr(c, name) in v for name, v in wanted.items()))
        return replace(self, cells=tuple(kept))

    def rows(self, chosen: np.ndarray) -> States:
        """The same cells for fewer items: bool [item] or int [item], which may reorder and repeat."""
        return replace(self, items=self.items[chosen])

    def _place(self, cell: Cell) -> int:
        """Number of the cell in the file."""
        kinds, layers, positions, _, _ = self.layout.shape
        place = (
            self.layout.kinds.index(cell.of),
            self.layout.layers.index(cell.layer),
            self.layout.positions + cell.position,
        )
        return int(np.ravel_multi_index(place, (kinds, layers, positions)))

    def _rows(self) -> np.ndarray:
        """Row in the file of every item of this view."""
        inverse = np.empty(len(self.layout.order), np.int64)
        inverse[list(self.layout.order)] = np.arange(len(inverse))
        return inverse[self.items]


def open_states(path: Path | str) -> States:
    """Hidden states that were captured before.

    Raises:
        UserError: there are none, the capture was cut off, or the file is damaged.
    """
    path = Path(path)
    found = recorded(path)
    if found is None:
        raise UserError("no captured hidden states here", where=str(path), expected=f"a file and {sidecar(path).name}")
    layout, done = found
    fix = "run the capture again; it continues where it was"
    if done < len(layout.order):
        raise UserError(f"the capture was cut off after {done} of {len(layout.order)} items", where=str(path), fix=fix)
    size = path.stat().st_size if path.is_file() else 0
    if size != layout.size:
        raise UserError(f"the file has {size} bytes", where=str(path), expected=f"{layout.size} bytes", fix=fix)
    return States(path, layout, tuple(layout.cells()), np.arange(len(layout.order)))


def state_of(model: Any, prompt: Rendered, cell: Cell, *, precision: str = "model") -> np.ndarray:
    """The state of one prompt at one cell, by a forward pass that ends at its layer and its token.

    Args:
        model: a causal LM.
        prompt: as the model reads it.
        cell: where.
        precision: as it was captured: model | bf16.

    Returns:
        float32 [d].

    Raises:
        UserError: the prompt is too short to have the position, or the state is not finite.
    """
    import torch

    from toolsavvy.decoding.prefill import inference
    from toolsavvy.hidden.hooks import computing, run

    index = token_index(prompt, cell.position, cell.of)
    if index == MISSING:
        raise UserError(
            f"the prompt has {len(prompt.ids)} tokens, too few for position {cell.position} of its {cell.of}",
            where="prompt",
            fix="choose a cell nearer to the end",
        )
    ids = torch.tensor([prompt.ids[: index + 1]], device=model.device)  # causal: what follows changes nothing
    with inference(model), computing(model, precision):
        found = run(model, [cell.layer], {"input_ids": ids, "use_cache": False}, lambda _, x: x[0, -1].float().cpu())
    state = found[cell.layer].numpy()
    if not np.isfinite(state).all():
        raise UserError(f"the hidden state at layer {cell.layer} is not finite", where="model", expected="numbers")
    return state
