from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from toolsavvy.config.compose import compose, typed
from toolsavvy.errors import UserError
from toolsavvy.methods.toolgen import check
from world import toy_set

TOY = ("method=toolgen", "catalog=toy", "model=toy", "encoder=toy", "retriever=[bm25,knn]")


@pytest.mark.parametrize(
    ("overrides", "trained", "where", "says"),
    [
        (["+method.fusions={both:{members:[bm26,toolgen_plain]}}"], True, "method.fusions.both.members", "bm25"),
        (["+method.fusions={both:{members:[bm25,toolgen_stage1]}}"], True, "", ""),
        (["method.recipes.plain.kl=1", "indexing=semantic"], True, "method.recipes.plain.kl", "indexing=atomic"),
        (["method.recipes.plain.kl=1"], True, "", ""),
        ([], False, "split 'train'", "stages=[memorization]"),
        (["stages=[memorization]"], False, "", ""),
    ],
)
def test_what_would_fail_late_is_refused_before_training(
    overrides: list[str], trained: bool, where: str, says: str
) -> None:
    config: Any = typed(compose([*TOY, *overrides]).config)
    data = toy_set(10)
    if not trained:
        data = replace(data, splits={k: v for k, v in data.splits.items() if k != "train"})
    if not where:
        check(config, data)
        return
    with pytest.raises(UserError) as error:
        check(config, data)
    assert where in error.value.where
    assert says in error.value.fix
    assert error.value.expected


def test_a_folder_without_a_model_is_refused_before_training(tmp_path: Any) -> None:
    config: Any = typed(compose([*TOY, f"method.resume_from={tmp_path}"]).config)
    with pytest.raises(UserError) as error:
        check(config, toy_set(10))
    assert str(tmp_path) in str(error.value)
    assert error.value.fix
