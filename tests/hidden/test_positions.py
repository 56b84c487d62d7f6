from __future__ import annotations

import numpy as np

from toolsavvy.hidden.positions import MISSING, token_index, token_indices
from toolsavvy.models.prompts import Rendered


def test_positions_count_back_from_the_prompts_and_the_questions_end() -> None:
    prompt = Rendered(tuple(range(10)), question_end=7)
    assert token_indices([prompt], 3, ("prompt", "question")).tolist() == [[[7, 8, 9], [4, 5, 6]]]
    assert prompt.ids[token_index(prompt, -1, "question")] == 6
    assert prompt.ids[token_index(prompt, -1, "prompt")] == 9


def test_prompts_that_are_too_short_miss_their_first_positions() -> None:
    short, long = Rendered((1, 2), 1), Rendered(tuple(range(9)), 9)
    found = token_indices([short, long], 4, ("question", "prompt"))
    assert found.shape == (2, 2, 4)
    assert found.dtype == np.int64
    assert found[0].tolist() == [[MISSING, MISSING, MISSING, 0], [MISSING, MISSING, 0, 1]]
    assert found[1].tolist() == [[5, 6, 7, 8]] * 2
    assert [token_index(short, p, "prompt") for p in (-3, -2, -1)] == [MISSING, 0, 1]
