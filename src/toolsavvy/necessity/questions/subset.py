"""Some of the questions, drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from toolsavvy.errors import UserError
from toolsavvy.necessity.question import Question


def subset(questions: Sequence[Question], n: int | None, seed: int) -> tuple[Question, ...]:
    """So many of the questions, in their order; all of them for None. A larger `n` keeps what a smaller one has.

    Raises:
        UserError: there are fewer.
    """
    if n is None:
        return tuple(questions)
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= len(questions):
        raise UserError(
            f"{n!r} of {len(questions):,} questions", where="questions.n",
            expected=f"a whole number from 1 to {len(questions):,}, or null for all", fix="set questions.n=null",
        )  # fmt: skip
    order = list(range(len(questions)))
    random.Random(f"{seed} subset").shuffle(order)
    return tuple(questions[i] for i in sorted(order[:n]))
