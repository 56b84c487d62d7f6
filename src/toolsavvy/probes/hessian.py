"""Hessians of logistic regression, rounded and factored: metrics that make conjugate gradients take few steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.linalg import get_blas_funcs, get_lapack_funcs

_FACTOR: Any = get_lapack_funcs("potrf", dtype=np.float32)
_SQUARE: Any = get_blas_funcs("syrk", dtype=np.float32)
_TRIANGLE: Any = get_blas_funcs("trsv", dtype=np.float32)


class Sketch:
    """(S'S + penalty)^-1 by Woodbury's identity; S has few rows.

    Args:
        rows: float32 [k, d], kept.
        penalty: of the weights; raised where float32 could not tell it from 0.
    """

    def __init__(self, rows: np.ndarray, penalty: float | np.floating) -> None:
        self.rows = rows
        inner = _SQUARE(1.0, rows.T, trans=1)
        diagonal = np.einsum("ii->i", inner)
        self.penalty = max(np.float32(penalty), np.float32(1e-5) * diagonal.mean())
        diagonal += self.penalty
        self.root = factor(inner, lower=0)

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        """Times a vector [d]."""
        inner = _TRIANGLE(self.root, _TRIANGLE(self.root, self.rows @ vector, lower=0, trans=1), lower=0)
        result = vector - inner @ self.rows
        result /= self.penalty
        return result


class Whole:
    """(X'X + penalty)^-1 by Cholesky's factor.

    Args:
        rows: float32 [item, d], used as scratch.
        penalty: of the weights; raised where float32 could not tell it from 0.
    """

    def __init__(self, rows: np.ndarray, penalty: float | np.floating) -> None:
        inner = products(rows)
        diagonal = np.einsum("ii->i", inner)
        diagonal += max(np.float32(penalty), np.float32(1e-5) * diagonal.mean())
        self.root = factor(inner, lower=1)

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        """Times a vector [d]."""
        return _TRIANGLE(self.root, _TRIANGLE(self.root, vector, lower=1), lower=1, trans=1)


def factor(matrix: np.ndarray, *, lower: int) -> np.ndarray:
    """Cholesky's factor of a symmetric matrix of which one triangle is there; overwrites it."""
    diagonal = np.einsum("ii->i", matrix)
    for _ in range(6):
        root, failed = _FACTOR(matrix.copy(order="F"), lower=lower, clean=0, overwrite_a=1)
        if not failed:
            break
        diagonal *= 1.001  # rounding left it indefinite
    return root


def products(rows: np.ndarray) -> np.ndarray:
    """X'X [d, d], at least the lower triangle, in Fortran's order.

    Of X rounded to 8 bits a column where the processor has products of these (five times as fast as float32): their
    sums are exact, so that the result is never indefinite. Uses `rows` as scratch.
    """
    if not (hasattr(torch, "_int_mm") and getattr(torch.cpu, "_is_vnni_supported", bool)()):
        return _SQUARE(1.0, rows.T, lower=1)
    step = torch.from_numpy(np.maximum(rows.max(0), -rows.min(0)) / np.float32(127))
    step[step == 0] = 1
    whole = torch.from_numpy(rows).mul_(1 / step).round_().to(torch.int8)
    inner = torch._int_mm(whole.T, whole).float()  # pyright: ignore[reportPrivateImportUsage]
    return inner.mul_(step).mul_(step[:, None]).numpy().T


def sums(rows: np.ndarray, few: int) -> np.ndarray:
    """Sums [few, d] of items, each item in one of them, in place; items should have signs at random."""
    for first in range(few, len(rows), few):
        part = rows[first : first + few]
        rows[: len(part)] += part
    return rows[:few]
