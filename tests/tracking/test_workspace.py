"""Workspaces as a fake W&B server on loopback receives them, and what is told where none can be made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fake_wandb import ENTITY, KEY, FakeWandb, fake_wandb
from toolsavvy.config.schema import LoggerConfig
from toolsavvy.errors import UserError
from toolsavvy.tracking.workspace import PANELS, contents, upload_workspaces


def run_folder(place: Path, method: str, seed: int, tuning: str, **more: Any) -> Path:
    """A finished run, as far as workspaces read it."""
    (place / "figures").mkdir(parents=True)
    (place / "predictions").mkdir()
    choices = {"method": method, "model": "toy", "tuning": tuning, "logger": f"l{seed}"}
    (place / "run.json").write_text(json.dumps({"choices": choices, "seed": seed, "cell": f"cell-{tuning}", **more}))
    rows = [
        {"system": system, "suite": suite, "slice": part, "metric": metric, "k": k, "value": 0.5}
        for suite, parts in (("catalog_test", ("test_seen", "test_unseen", "test_seen/short")), ("mcq", ("all", "x")))
        for part in parts for system in ("bm25", "toolgen (free)")
        for metric, k in (("recall", 5), ("recall", 1), ("accuracy", None), ("odd_metric", None))
    ]  # fmt: skip
    (place / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (place / "history.csv").write_text("step,metric,value\n1,memorization/loss,2.0\n1,retrieval/loss,1.0\n")
    (place / "figures" / "mcc_need.png").touch()
    (place / "predictions" / "catalog_test.bm25.jsonl").touch()
    return place


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeWandb]:
    for name in [n for n in os.environ if n.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    with fake_wandb() as fake:
        monkeypatch.setenv("WANDB_BASE_URL", fake.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        yield fake
        import wandb

        wandb.teardown()


def config(**settings: Any) -> Any:
    return SimpleNamespace(logger=LoggerConfig(name="wandb", **settings))


def panels(spec: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    sections = spec["section"]["panelBankConfig"]["sections"]
    return {s["name"]: [p["config"] | {"kind": p["viewType"]} for p in s["panels"]] for s in sections}


def test_a_workspace_a_method_by_cell_with_its_own_runs(tmp_path: Path, server: FakeWandb) -> None:
    folders = [
        run_folder(tmp_path / f"t{i}", "toolgen", i, tuning) for i, tuning in enumerate(("lora", "lora", "full"))
    ]
    folders += [run_folder(tmp_path / "n", "necessity", 0, "lora")]
    addresses = upload_workspaces(config(project="p"), folders)
    assert len(set(addresses)) == 2
    assert all(a.startswith(f"{server.url}/{ENTITY}/p?nw=") for a in addresses)
    views = {v["displayName"]: json.loads(v["spec"]) for v in server.views.values()}
    assert set(views) == {"toolsavvy toolgen", "toolsavvy necessity"}
    spec = views["toolsavvy toolgen"]
    (runs,) = spec["section"]["runSets"]
    assert [(f["key"]["name"], f["op"], f["value"]) for f in runs["filters"]["filters"]] == [
        ("jobType", "=", "toolgen")
    ]
    assert [g["name"] for g in runs["grouping"]] == [
        "choices.value.tuning",
        "cell.value",
    ]  # not the logger, not the seed
    found = panels(spec)
    seen = found["catalog_test:test_seen: mean of the seeds, with their standard error"]
    assert [p["chartTitle"] for p in seen] == ["recall@1", "recall@5", "accuracy"]
    assert seen[0]["metrics"] == [
        "catalog_test:test_seen/bm25/recall@1",
        "catalog_test:test_seen/toolgen (free)/recall@1",
    ]
    assert {(p["groupBy"], p["groupAgg"], p["groupArea"]) for p in seen} == {("cell.value", "mean", "stderr")}
    assert "mcq: mean of the seeds, with their standard error" in found
    assert not any("short" in name or "mcq:" in name.partition(": mean")[0] for name in found)
    (curve,) = found["memorization: learning curves"]
    assert (curve["xAxis"], curve["metrics"], curve["groupBy"]) == (
        "memorization/step",
        ["memorization/loss"],
        "cell.value",
    )
    assert found["figures"][0]["mediaKeys"] == ["figures/mcc_need"]
    assert "predictions/catalog_test" in json.dumps(found["tables"])
    assert found["what the parameters did"][2]["targetKey"] == "catalog_test:test_seen/bm25/recall@1"
    other = views["toolsavvy necessity"]["section"]["runSets"][0]
    assert [g["name"] for g in other["grouping"]] == ["cell.value"]


def test_a_second_report_writes_over_the_first(tmp_path: Path, server: FakeWandb, caplog: Any) -> None:
    online = run_folder(tmp_path / "a", "toolgen", 0, "lora", wandb={"mode": "online", "id": "x"})
    first = upload_workspaces(config(entity="team"), [online])
    assert "wandb sync" not in caplog.text
    second = upload_workspaces(config(entity="team"), [online, run_folder(tmp_path / "b", "toolgen", 1, "full")])
    assert first == second
    assert "/team/toolsavvy?nw=" in first[0]
    (view,) = server.views.values()
    assert "choices.value.tuning" in view["spec"]
    assert (
        f"1 runs of method=toolgen are only in their folders; upload them with: wandb sync {tmp_path}/b" in caplog.text
    )


def test_a_method_without_results_has_curves_and_tables(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", "generate", 0, "lora")
    (folder / "results.jsonl").unlink()
    found = contents("generate", [folder])
    assert (found.results, found.headline) == ({}, None)
    assert found.curves == (("memorization", "loss"), ("retrieval", "loss"))
    many = [
        {"system": "a", "suite": "s", "slice": "all", "metric": "recall", "k": k, "value": 0.1} for k in range(1, 50)
    ]
    (folder / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in many))
    assert len(contents("generate", [folder]).results["s"]) == PANELS


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("extra", ("upload: wandb-workspaces is not installed", "pip install 'toolsavvy[workspaces]'")),
        ("key", ("upload: W&B has no key", "set WANDB_API_KEY, or leave out upload=true")),
        ("mode", ("upload: a workspace is made on the server", "logger.mode=auto or online")),
        ("server", ("W&B did not take the workspace", "check the network")),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, server: FakeWandb, monkeypatch: pytest.MonkeyPatch, missing: str, words: tuple[str, ...]
) -> None:
    settings = {}
    if missing == "extra":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    elif missing == "key":
        monkeypatch.delenv("WANDB_API_KEY")
    elif missing == "mode":
        settings = {"mode": "offline"}
    else:
        server.answer = lambda query, variables: {"errors": "no"}  # type: ignore[method-assign]
    with pytest.raises(UserError) as error:
        upload_workspaces(config(**settings), [run_folder(tmp_path / "a", "toolgen", 0, "lora")])
    for word in words:
        assert word in str(error.value)
    assert server.views == {}
