"""Hidden states with known contents: a direction in one cell, a surface confound, noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from toolsavvy.hidden.cells import Cell


@dataclass(frozen=True)
class Planted:
    """Cells that count how often they are read."""

    cells: tuple[Cell, ...]
    states: np.ndarray  # [cell, item, d]
    reads: list[int] = field(default_factory=list)
    stop_after: int | None = None

    def read(self, index: int) -> np.ndarray:
        if self.stop_after is not None and len(self.reads) >= self.stop_after:
            raise KeyboardInterrupt
        self.reads.append(index)
        return self.states[index].copy()


LAYERS, POSITIONS = (0, 1, 2), (-3, -2, -1)
PLACES = tuple(Cell(layer, position) for layer in LAYERS for position in POSITIONS)


@dataclass(frozen=True)
class World:
    """Items in families, with surface features, and what is planted where."""

    families: tuple[str, ...]
    surface: np.ndarray
    latent: np.ndarray  # independent of all surface
    states: np.ndarray


def unit(rng: np.random.Generator, d: int) -> np.ndarray:
    vector = rng.normal(size=d)
    return vector / np.linalg.norm(vector)


def world(n: int = 600, d: int = 12, families: int = 8, *, strength: float = 1.5, seed: int = 0) -> World:
    """Surface and family are written into every cell; a latent of known strength into layer 1, position -2 alone."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % families
    surface = np.column_stack([rng.normal(size=n), rng.integers(2, 9, size=n)])
    latent = rng.normal(size=n)
    states = rng.normal(size=(len(PLACES), n, d))
    shown = (surface - surface.mean(0)) / surface.std(0)
    for index, place in enumerate(PLACES):
        states[index] += 3 * shown @ np.stack([unit(rng, d), unit(rng, d)])
        states[index] += 2 * rng.normal(size=(families, d))[codes]
        if (place.layer, place.position) == (1, -2):
            states[index] += strength * latent[:, None] * unit(rng, d)
    return World(tuple(f"family {c}" for c in codes), surface, latent, states.astype(np.float32))


def cells(states: np.ndarray, stop_after: int | None = None) -> Planted:
    return Planted(PLACES[: len(states)], states, stop_after=stop_after)
