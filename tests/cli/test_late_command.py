"""The command with late interaction, matching by field and a kept index on the toy catalog."""

from __future__ import annotations

from pathlib import Path

from commands import lines, record, runs, toolsavvy

COMMON = ("method=evaluate", "catalog=toy", "encoder=toy", "logger=none")


def test_dense_by_field_and_late_interaction_share_a_table_and_tell_their_facts(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *COMMON, "retriever=[dense,late]", "retriever.dense.fields=[name,description]")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    assert {row["system"] for row in lines(run / "results.jsonl")} == {"dense", "late"}
    weights = record(run)["facts"]["dense"]
    assert abs(weights["weight_name"] + weights["weight_description"] - 1) < 1e-9
    assert "weight_name" in done.stdout


def test_a_kept_index_is_read_again_and_refused_for_another_encoder(tmp_path: Path) -> None:
    kept = (*COMMON, "retriever=dense", "retriever.dense.index=HNSW8", f"retriever.dense.index_path={tmp_path / 'i'}")
    first, again = (toolsavvy(tmp_path / name, *kept) for name in ("first", "again"))
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    told, twice = (record(runs(tmp_path / name)[0])["facts"]["dense"] for name in ("first", "again"))
    assert told == twice and all(key.startswith("recall_of_flat@") for key in told)
    other = toolsavvy(tmp_path / "other", *kept, "encoder.seed=1")
    assert other.returncode == 2
    assert "the index was built from another encoder" in other.stderr and "index_path" in other.stderr
