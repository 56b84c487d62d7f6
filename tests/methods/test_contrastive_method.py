"""method=contrastive in this process on the toy catalog: what it saves, what may change it, what it refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from toolsavvy.__main__ import main
from toolsavvy.catalog import RetrievalSet
from toolsavvy.config.compose import compose, typed
from toolsavvy.errors import UserError
from toolsavvy.methods.board import Board
from toolsavvy.methods.common import make_retrievers
from toolsavvy.methods.contrastive import check
from toolsavvy.retrieval.encoder_models import load
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Ranking
from toolsavvy.suites.catalog_test import CatalogTest
from world import toy_set

TOY = ("method=contrastive", "catalog=toy", "encoder=toy", "retriever=bm25")
QUICK = (
    *TOY, "logger=none", "trainer.precision=fp32", "trainer.threads=1", "suite.catalog_test.resamples=5",
    "method.mining.relative=null", "method.mining.window=[2,8]",
)  # fmt: skip
ONLY = "~method.recipes.hard"
RECIPE = "{batch_size:8,learning_rate:3e-3,negatives:2,max_length:48"


@pytest.fixture(autouse=True)
def _argv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])


def done(folder: Path, *args: str) -> Path:
    """Run a command; its run folder."""
    assert main([*args, f"paths.outputs={folder}"]) == 0
    (status,) = folder.rglob("status.json")
    return status.parent


def trained(folder: Path, *args: str) -> Path:
    tools = () if "catalog=jsonl" in args else ("catalog.tools=12",)
    return done(folder, *QUICK, *tools, *args)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def values(run: Path, system: str) -> dict[tuple[str, str, int], float]:
    rows = lines(run / "results.jsonl")
    return {(r["slice"], r["metric"], r["k"]): r["value"] for r in rows if r["system"] == system}


def ranking(run: Path, system: str) -> list[list[str]]:
    """Query, tool, rank and score."""
    text = (run / "predictions" / f"catalog_test.{system}.run").read_text(encoding="utf-8")
    return [line.split()[:5] for line in text.splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(v, second[k]) for k, v in first.items())


def recall(folder: Path | None) -> float:
    """Recall@1 on the training queries by sentence-transformers itself."""
    from sentence_transformers import SentenceTransformer

    from toolsavvy.catalogs.toy import load as toy

    data = toy(12)
    model = SentenceTransformer(str(folder)) if folder else Encoder().model
    options: dict[str, Any] = {"normalize_embeddings": True, "show_progress_bar": False}
    scores = (
        model.encode([q.text for q in data.train], **options) @ model.encode(list(data.catalog.documents), **options).T
    )
    first = scores.argmax(axis=1).tolist()
    return float(np.mean([data.catalog.tools[t].id in q.relevant for t, q in zip(first, data.train, strict=True)]))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every weight is trained, by two recipes; the other one is better told and asked both ways."""
    sys.argv = ["toolsavvy"]
    recipes = f"+method.recipes={{a:{RECIPE},epochs:8}},b:{{epochs:1,negatives:0,symmetric:true,batch_size:16}}}}"
    return trained(tmp_path_factory.mktemp("full"), "tuning=full", ONLY, recipes)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.argv = ["toolsavvy"]
    recipes = f"+method.recipes={{a:{RECIPE},epochs:1}},b:{RECIPE},epochs:1,symmetric:true,instructions:mixed}}}}"
    return trained(tmp_path_factory.mktemp("adapted"), "tuning=lora", ONLY, recipes)


def test_it_learns_and_what_it_learned_reloads_as_a_sentence_transformer(full: Path) -> None:
    assert recall(full / "checkpoints" / "a") > max(0.6, recall(None) + 0.3)
    names = {r["system"] for r in lines(full / "results.jsonl")}
    assert names == {"bm25", "zero_shot", "contrastive_a", "contrastive_b"}
    best = json.loads((full / "run.json").read_text())["model"]
    assert equal(weights(full / "model"), weights(full / "checkpoints" / best))
    assert not list((full / "checkpoints").glob("*.ckpt"))


@pytest.mark.parametrize("kind", ["full", "adapted"])
def test_saved_models_rank_exactly_as_the_table_says(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run: Path = request.getfixturevalue(kind)
    best = json.loads((run / "run.json").read_text())["model"]
    folder = run / "model" if kind == "full" else run / "checkpoints" / best
    assert not [k for k in weights(folder) if "lora" in k or "base_" in k]
    again = done(
        tmp_path, "method=evaluate", *QUICK[1:3], "catalog.tools=12", "retriever=tuned", "logger=none",
        f"retriever.tuned.encoder.path={folder}", "suite.catalog_test.resamples=5", f"paths.cache={tmp_path / 'cache'}",
    )  # fmt: skip
    assert ranking(again, "tuned") == ranking(run, f"contrastive_{best}")
    told = values(run, f"contrastive_{best}")
    assert told and values(again, "tuned") == told


def test_recipes_start_from_the_same_encoder_whatever_came_before(adapted: Path, tmp_path: Path) -> None:
    """The other way round, later in the same process, after other draws, and asked otherwise."""
    torch.manual_seed(77)
    recipes = f"+method.recipes={{b:{RECIPE},epochs:1,symmetric:true,instructions:mixed}},a:{RECIPE},epochs:1}}}}"
    again = trained(tmp_path, "tuning=lora", ONLY, recipes, "method.instructions=[without,with]")
    for name in ("a", "b"):
        assert equal(weights(again / "checkpoints" / name), weights(adapted / "checkpoints" / name)), name
        assert values(again, f"contrastive_{name}") == values(adapted, f"contrastive_{name}")
    assert not equal(weights(again / "checkpoints" / "a"), weights(again / "checkpoints" / "b"))
    names = {r["system"] for r in lines(again / "results.jsonl")}
    plain = {"bm25", "zero_shot", "contrastive_a", "contrastive_b"}
    assert names == plain | {f"{name}-inst" for name in plain}
    for name in ("bm25", "zero_shot"):
        assert ranking(again, name) == ranking(adapted, name)
        assert ranking(again, f"{name}-inst") != ranking(again, name)
    source = Encoder().source
    kept, fresh = load(source).state_dict(), load.__wrapped__(source).state_dict()
    assert all(torch.equal(kept[k], v) for k, v in fresh.items())


def test_keeping_no_graph_over_chunks_gives_the_same_table(tmp_path: Path) -> None:
    runs = [
        trained(
            tmp_path / word, "tuning=full", ONLY, f"+method.recipes={{a:{RECIPE},epochs:1,chunk:6,cached:{word}}}}}"
        )
        for word in ("false", "true")
    ]
    assert values(runs[0], "contrastive_a") == pytest.approx(values(runs[1], "contrastive_a"))


def test_any_retriever_mines(tmp_path: Path) -> None:
    node = ("method.mining.retriever=${retriever.bm25}", "method.mining.relative=0.95", "method.mining.window=[1,12]")
    run = trained(tmp_path, "tuning=full", *node, "method.recipes.hard.epochs=1")
    pools = json.loads((run / "checkpoints" / "negatives.json").read_text())
    assert pools["counts"]["kept"] > 0 and any(pools["of_query"])


def with_instructions(folder: Path) -> Path:
    """The toy catalog as files, with instructions and negatives of its own."""
    folder.mkdir()
    data = toy_set(8)
    tools = [{"id": t.id, "name": t.name, "description": t.description, "group": t.group} for t in data.catalog.tools]
    queries = [
        {"id": f"{split}{q.id}", "text": q.text, "relevant": list(q.relevant), "split": split,
         "instruction": f"find tools of number {i % 3}",
         "negatives": [t["id"] for t in tools if t["id"] not in q.relevant][:3]}
        for split in ("train", "test") for i, q in enumerate(data.train[:24] if split == "train" else data.train[24:])
    ]  # fmt: skip
    for name, rows in (("tools", tools), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_a_catalogs_own_instructions_and_negatives_are_used(tmp_path: Path) -> None:
    args = (
        "catalog=jsonl", f"catalog.path={with_instructions(tmp_path / 'data')}", "tuning=full",
        "method.mining.given=true", "method.instructions=[with]",
        "method.recipes.hard.instructions=with", "method.recipes.hard.epochs=1",
    )  # fmt: skip
    run = trained(tmp_path / "out", *args)
    assert {r["system"] for r in lines(run / "results.jsonl")} == {
        "bm25-inst", "zero_shot-inst", "contrastive_hard-inst",
    }  # fmt: skip
    told = json.loads((run / "run.json").read_text())
    assert "instructions" not in told  # none was made by template
    assert not (run / "checkpoints" / "negatives.json").exists()  # and nothing mined


def test_rows_of_toolret_train_bring_their_own_negatives_and_instructions(tmp_path: Path) -> None:
    documents = [json.dumps({"name": t.name, "description": t.description}) for t in toy_set(8).catalog.tools]
    rows = [
        {"query": f"{word} {i}", "pos": [documents[i]], "neg": [d for d in documents if d != documents[i]],
         "prompt": f"find {word}"}
        for i in range(8) for word in ("please", "now", "kindly")
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    args = (
        "catalog=toolret_train", f"catalog.path={tmp_path / 'rows.jsonl'}", "catalog.test_share=0.2", "tuning=full",
        "catalog.validation_share=0.1", "method.mining.given=true", "method.recipes.hard.instructions=with",
        "method.recipes.hard.epochs=1", "method.instructions=[with]",
    )  # fmt: skip
    run = done(tmp_path / "out", *QUICK, *args)
    noted = json.loads((run / "run.json").read_text())
    assert noted["train_hard"]["pairs"] == 17
    assert "instructions" not in noted and not (run / "checkpoints" / "negatives.json").exists()
    assert {r["system"] for r in lines(run / "results.jsonl")} >= {"zero_shot-inst", "contrastive_hard-inst"}


def test_instructions_that_nobody_wrote_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("method=evaluate", "catalog=toy", "retriever=bm25", "logger=none", "method.instructions=[without,with]")
    assert main([*args, f"paths.outputs={tmp_path}"]) == 2
    told = capsys.readouterr().err
    for word in ("no test query has an instruction", "method.instructions", "method=contrastive", "[without]"):
        assert word in told


@pytest.mark.parametrize(
    ("overrides", "where", "says"),
    [
        (["method.mining.window=[5,2]"], "method.mining.window", "first <= last"),
        (["method.mining.window=[0,2]"], "method.mining.window", "first <= last"),
        (["method.mining.window=[3]"], "method.mining.window", "first <= last"),
        (["method.mining.relative=1.5"], "method.mining.relative", "between 0 and 1"),
        (["method.mining.margin=-1"], "method.mining.margin", ">= 0"),
        (["method.mining.duplicates=2"], "method.mining.duplicates", "between 0 and 1"),
        (["method.mining.retriever=bm25"], "method.mining.retriever", "${retriever.bm25}"),
        (["method.instructions=[both]"], "method.instructions", "without, with"),
        (["method.depth=0"], "method.depth", ">= 1"),
        (["method.validation_tools=-1"], "method.validation_tools", ">= 0"),
        ([ONLY], "method.recipes", "at least one recipe"),
        (["+method.recipes={a/b:{epochs:1}}"], "method.recipes", "letters, digits"),
        (["method.recipes.hard.epochs=0"], "method.recipes.hard.epochs", ">= 1"),
        (["method.recipes.hard.batch_size=0"], "method.recipes.hard.batch_size", ">= 1"),
        (["method.recipes.hard.chunk=0"], "method.recipes.hard.chunk", ">= 1"),
        (["method.recipes.hard.negatives=-1"], "method.recipes.hard.negatives", ">= 0"),
        (["method.recipes.hard.max_length=2"], "method.recipes.hard.max_length", ">= 8"),
        (["method.recipes.hard.learning_rate=nan"], "method.recipes.hard.learning_rate", "> 0"),
        (["method.recipes.hard.temperature=0"], "method.recipes.hard.temperature", "> 0"),
        (["method.recipes.hard.warmup=2"], "method.recipes.hard.warmup", "between 0 and 1"),
        (["method.recipes.hard.weight_decay=-1"], "method.recipes.hard.weight_decay", ">= 0"),
        (["method.recipes.hard.instructions=both"], "method.recipes.hard.instructions", "mixed"),
        (["method.recipes.hard.keep=worst"], "method.recipes.hard.keep", "last"),
        (["method.recipes.hard.negative=3"], "method.recipes.hard.negative", "negatives"),
        (["method.recipes.hard.epochs=many"], "method.recipes.hard.epochs", "integer"),
        (["+method.recipes.two={epochs:1}"], "command line", "a whole recipe"),
    ],
)
def test_values_out_of_range_name_key_and_range(overrides: list[str], where: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        typed(compose([*TOY, *overrides]).config, overrides)
    assert where in error.value.where
    assert says in f"{error.value.expected} {error.value.fix}"


def test_a_typo_inside_the_mining_retriever_is_refused_with_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = "+method.mining.retriever={_target_:toolsavvy.retrieval.bm25.BM25,k2:1}"
    assert main([*TOY, node.lstrip("+"), "logger=none", f"paths.outputs={tmp_path}"]) == 2
    told = capsys.readouterr().err
    assert "method.mining.retriever" in told and "k2" in told and "k1" in told
    assert not list(tmp_path.rglob("status.json"))


@pytest.mark.parametrize(
    ("overrides", "train", "where", "says"),
    [
        ([], False, "split 'train'", "train split"),
        (["method.mining.given=true"], True, "split 'train'", "method.mining.given=false"),
        (["method.mining.window=[11,20]"], True, "method.mining.window", "[1,60]"),
        (["method.mining.window=[11,20]", "method.recipes.hard.negatives=0"], True, "", ""),
        (["+method.fusions={x:{members:[bm26,zero_shot]}}"], True, "method.fusions.x.members", "bm25"),
        (["+method.fusions={x:{members:[bm25,zero_shot]}}"], True, "", ""),
        (["retriever=[bm25,dense]", "+method.fusions={x:{members:[bm25,zero_shot]}}"], True, "method.fusions.x", ""),
        (["method.instructions=[with]", "+method.fusions={x:{members:[bm25,zero_shot]}}"], True, "fusions.x", "bm25"),
        (["method.instructions=[with]", "+method.fusions={x:{members:[bm25-inst,zero_shot-inst]}}"], True, "", ""),
    ],
)
def test_what_would_fail_late_is_refused_early(overrides: list[str], train: bool, where: str, says: str) -> None:
    config: Any = typed(compose([*TOY, *overrides]).config)
    data = toy_set(10)
    if not train:
        data = replace(data, splits={k: v for k, v in data.splits.items() if k != "train"})
    if not where:
        check(config, data)
        return
    with pytest.raises(UserError) as error:
        check(config, data)
    assert where in error.value.where
    assert says in error.value.fix
    assert error.value.expected


def test_a_loss_that_is_no_number_ends_the_run_with_step_and_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    huge = ("tuning=full", "method.recipes.hard.learning_rate=1e30", "method.recipes.hard.warmup=0")
    assert main([*QUICK, *huge, f"paths.outputs={tmp_path}"]) == 1
    assert "FloatingPointError" in (told := capsys.readouterr().err) and "at step" in told and "pairs [(" in told
    (status,) = tmp_path.rglob("status.json")
    assert json.loads(status.read_text())["status"] == "failed"
    assert not list(tmp_path.rglob("results.jsonl"))


class FakeRun:
    """What a board needs of a run."""

    def __init__(self, folder: Path) -> None:
        self.dir, self.checkpoints = folder, folder / "checkpoints"
        self.config, self.is_writer = SimpleNamespace(predictions=False), True

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        yield

    def note(self, **facts: Any) -> None:
        pass


def told(data: RetrievalSet, how: str | None) -> RetrievalSet:
    """Every query with an instruction, or without."""
    splits = {
        s: tuple(replace(q, instruction=how and how.format(len(q.text) % 7)) for q in qs)
        for s, qs in data.splits.items()
    }
    return replace(data, splits=splits)


DATA = toy_set(8, taught_share=0.5, queries_per_tool=6)
ASKED = told(DATA, "the {}th note of many tools for sending parcels")


def systems(folder: Path, kind: str, data: RetrievalSet, *overrides: str) -> dict[str, dict[str, Ranking]]:
    """Rankings of a retriever by its name in the table."""
    choice = (f"retriever={kind}", "catalog=toy", "encoder=toy", "reranker=toy", "model=toy", "trainer.precision=fp32")
    extra = ["retriever.finetuned.epochs=1", "retriever.finetuned.batch_size=8"] if kind == "finetuned" else []
    config: Any = typed(compose(["method=evaluate", *choice, *extra, *overrides]).config)
    board = Board(data, [CatalogTest(resamples=5)], FakeRun(folder), 5, (), config.method.instructions)  # type: ignore[arg-type]
    for name, retriever in make_retrievers(config, data).items():
        board.add(name, retriever)
    return {name: modes[""] for name, modes in board.systems.items()}


def same(first: dict[str, Ranking], second: dict[str, Ranking]) -> bool:
    return all(
        np.array_equal(first[s].indices, second[s].indices)
        and np.allclose(first[s].scores, second[s].scores, atol=1e-5)
        for s in ("test_seen", "test_unseen")
    )


@pytest.mark.parametrize("kind", ["bm25", "dense", "knn", "late", "rerank", "fusion", "graph", "finetuned"])
def test_without_is_the_plain_ranking_and_with_reads_the_instruction(kind: str, tmp_path: Path) -> None:
    both = systems(tmp_path / "a", kind, ASKED, "method.instructions=[without,with]")
    assert set(both) == {kind, f"{kind}-inst"}
    assert same(both[kind], systems(tmp_path / "b", kind, told(DATA, None))[kind])
    assert not same(both[f"{kind}-inst"], both[kind])


@pytest.mark.parametrize("kind", ["knn", "bm25"])
def test_a_run_that_was_cut_off_between_the_two_asks_the_same_system(kind: str, tmp_path: Path) -> None:
    asked = "method.instructions=[without,with]"
    both = systems(tmp_path, kind, ASKED, asked)
    (tmp_path / "checkpoints" / f"{kind}-inst.npz").unlink()
    assert same(systems(tmp_path, kind, ASKED, asked)[f"{kind}-inst"], both[f"{kind}-inst"])
