"""A tool-savvy encoder, from a catalog to one table: mine hard negatives, train, and rank before and after.

Read top to bottom: `run` is the experiment, each function below it one step (TOOLRET, arXiv 2503.01763, section 5).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.catalog import Query, RetrievalSet, relevant_indices
from toolsavvy.checksums import is_folder_intact, seal_folder
from toolsavvy.config.compose import build
from toolsavvy.config.methods import ContrastiveRecipeConfig
from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError
from toolsavvy.methods.after import run_after
from toolsavvy.methods.board import Board, refuse_unknown_members
from toolsavvy.methods.common import (
    hardware,
    learns,
    leave,
    load_catalog,
    load_suites,
    make_retrievers,
    reading_instructions,
    say,
    show_answers,
    show_outcomes,
)
from toolsavvy.methods.plans import BEFORE, is_dense_zero_shot, systems_of
from toolsavvy.methods.probing import Probing
from toolsavvy.models.loading import atomic_folder, quiet_transformers
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoder_models import load
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Retriever
from toolsavvy.tracking import Run
from toolsavvy.training.contrastive import Examples, Settings, Validation, refuse_idle
from toolsavvy.training.finetuned import LoRA, document_texts, tune
from toolsavvy.training.instructions import has_instructions, with_templates
from toolsavvy.training.negatives import Filter, Pools, Twins, given, mine, shared_golds
from toolsavvy.training.ranks import wait_for_all


def run(cfg: Config, run: Run) -> None:
    """Train and evaluate, then print one table."""
    data = load_catalog(cfg, run)
    check(cfg, data)
    encoder = build(cfg.encoder)
    _ = encoder.model  # an encoder that can't be trained says so now
    data = instructed(cfg, run, data, encoder)
    # How test queries are asked must not change what is mined and trained.
    reader = build(reading_instructions(cfg.encoder)) if cfg.method.instructions else encoder
    fused = {member for fusion in cfg.method.fusions.values() for member in fusion.members}
    probing = Probing(cfg, run, data.catalog)
    board = Board(data, load_suites(cfg, run), run, cfg.method.depth, fused, cfg.method.instructions, probing)
    if cfg.method.rivals:
        for name, retriever in make_retrievers(cfg, data).items():
            board.add(name, retriever)
    if not is_dense_zero_shot(cfg):
        board.add(BEFORE, Dense(reader))
    twins = twins_of(cfg, data, encoder)
    pools = negatives(cfg, run, data, encoder, twins)
    models = {name: train(cfg, run, data, encoder, pools, twins, name) for name in cfg.method.recipes}
    leave(run)
    for name, folder in models.items():
        board.add(f"contrastive_{name}", Dense(saved(reader, folder)))
    for name, fusion in cfg.method.fusions.items():
        board.fuse(name, fusion.members, fusion.rule, fusion.weights)
    keep_model(run, models)
    outcomes = board.score()
    show_outcomes(outcomes, data, run, unasked=probing.mute)
    show_answers(outcomes, cfg.show)
    run_after(cfg, run)


def check(cfg: Config, data: RetrievalSet) -> None:
    """Refuse before training what would only be met after it.

    Raises:
        UserError: no training queries, rows without the negatives they should bring, ranks that no tool has, or an
            unknown member of a fusion.
    """
    where = f"catalog {data.catalog.name}, split 'train'"
    if not any(q.relevant for q in data.train):
        raise UserError(
            "contrastive training needs training queries", where=where, expected="at least one training query",
            fix="choose a catalog with a train split (train_share=0.5 where it has none)",
        )  # fmt: skip
    if cfg.method.mining.given and not any(q.negatives for q in data.train):
        raise UserError(
            "no training row brings negatives", where=where, expected="negatives, as method.mining.given=true",
            fix="method.mining.given=false mines them",
        )  # fmt: skip
    mines = not cfg.method.mining.given and any(recipe.negatives for recipe in cfg.method.recipes.values())
    if mines and cfg.method.mining.window[0] > len(data.catalog):
        raise UserError(
            f"the window starts at rank {cfg.method.mining.window[0]}, and the catalog has {len(data.catalog)} tools",
            where="method.mining.window", expected=f"a first rank of at most {len(data.catalog)}",
            fix="method.mining.window=[1,60]",
        )  # fmt: skip
    systems = systems_of(cfg)
    for name, fusion in cfg.method.fusions.items():
        refuse_unknown_members(name, fusion.members, systems)
        systems.append(name)


def instructed(cfg: Config, run: Run, data: RetrievalSet, encoder: Encoder) -> RetrievalSet:
    """The set with an instruction for every query, where instructions are asked for and the train split has none.

    What the source wrote for test queries stays.
    """
    wanted = "with" in cfg.method.instructions or any(r.instructions != "without" for r in cfg.method.recipes.values())
    if not wanted or has_instructions(data.train):
        return data
    run.note(instructions="template, from training rows alone")
    say("  [dim]instructions that the catalog lacks are made by template, from training rows alone[/dim]")

    def embed(queries: Any) -> np.ndarray:
        vectors = encoder.encode_queries([replace(q, instruction=None) for q in queries])
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    return with_templates(data, embed)


def twins_of(cfg: Config, data: RetrievalSet, encoder: Encoder) -> Twins:
    """Tools that are no negatives for one another's queries."""
    documents = document_texts(encoder, data.catalog)
    threshold = cfg.method.mining.duplicates
    vectors = encoder.encode_documents(data.catalog.documents) if threshold is not None else None
    return Twins.of(documents, vectors, threshold)


def negatives(cfg: Config, run: Run, data: RetrievalSet, encoder: Encoder, twins: Twins) -> Pools | None:
    """Hard negatives of every training query, mined once for all recipes; by the first of several processes."""
    if not any(recipe.negatives for recipe in cfg.method.recipes.values()):
        return None
    if cfg.method.mining.given:
        return given(data.catalog, data.train)
    path = run.checkpoints / "negatives.json"
    if (pools := _read_pools(path, len(data.train))) is not None:
        return pools
    with run.stage("mine negatives"):
        node = cfg.method.mining.retriever
        if node is None:
            retriever: Retriever = Dense(encoder)
        else:  # asked as it is itself configured, and given what retrievers that learn are given
            only = replace(cfg, retriever={"mining": node}, method=replace(cfg.method, instructions=[]))
            retriever = make_retrievers(only, data)["mining"]
        if run.is_writer or learns(retriever):
            retriever = retriever.fit(data.catalog, data.train)
        if not run.is_writer:
            return Pools(tuple(() for _ in data.train), {})  # the first process's own come with its examples
        window, rule = cfg.method.mining.window, Filter(cfg.method.mining.relative, cfg.method.mining.margin)
        pools = mine(
            retriever, data.catalog, data.train, window=(window[0], window[1]), score_filter=rule, twins=twins
        )  # fmt: skip
    run.note(negatives=pools.counts)
    if not pools.counts["kept"]:
        why = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in pools.counts.items() if count)
        say(f"  [yellow]no hard negative was found ({why}): those of the batch remain[/yellow]")
    with atomic_write(path, text=True) as file:
        json.dump({"of_query": pools.of_query, "counts": pools.counts}, file)
    return pools


def _read_pools(path: Path, queries: int) -> Pools | None:
    """Pools that a run which was cut off has mined."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        pools = Pools(tuple(tuple(row) for row in stored["of_query"]), stored["counts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pools if len(pools.of_query) == queries else None


def train(
    cfg: Config, run: Run, data: RetrievalSet, encoder: Encoder, pools: Pools | None, twins: Twins, name: str
) -> Path:
    """Train one recipe, or find what a run that was cut off has trained; returns the folder of the model."""
    recipe: ContrastiveRecipeConfig = cfg.method.recipes[name]
    folder, checkpoint = run.checkpoints / name, run.checkpoints / f"{name}.ckpt"
    if (folder / "modules.json").is_file() and is_folder_intact(folder):
        checkpoint.unlink(missing_ok=True)
        return folder
    examples = Examples(
        [wordings(encoder, q, recipe.instructions) for q in data.train], document_texts(encoder, data.catalog),
        relevant_indices(data.catalog, data.train), pools, twins, shared_golds(data.catalog, data.train),
    )  # fmt: skip
    settings = settings_of(cfg, recipe)
    if run.is_writer:  # its examples are everybody's
        refuse_idle(examples, settings, f"method.recipes.{name}")
    with run.stage(f"train {name}"):
        model, history = tune(
            encoder, examples, settings, lora=lora_of(cfg), hardware=hardware(cfg),
            validation=validation_of(cfg, run, data, encoder, recipe), checkpoint=checkpoint, watch=curves(run, name),
        )  # fmt: skip
    best = max((point["recall@1"] for point in history if "recall@1" in point), default=None)
    run.note(**{f"train_{name}": {"pairs": len(examples.pairs), "validation_recall@1": best}})
    if run.is_writer:
        save_whole(model, folder)
        seal_folder(folder)
        checkpoint.unlink(missing_ok=True)
    wait_for_all()
    return folder


def wordings(encoder: Encoder, query: Query, instructions: str) -> tuple[str, ...]:
    """How a training query is asked."""
    plain = encoder.plain_template.format(query=query.text)
    if instructions == "without" or not query.instruction:
        return (plain,)
    told = encoder.query_template.format(instruction=query.instruction, query=query.text)
    return (told,) if instructions == "with" else (plain, told)


def settings_of(cfg: Config, recipe: ContrastiveRecipeConfig) -> Settings:
    """A recipe as `training` wants it."""
    usual = 5e-5 if cfg.tuning.kind == "full" else 5e-4
    return Settings(
        learning_rate=usual if recipe.learning_rate is None else recipe.learning_rate, epochs=recipe.epochs,
        warmup=recipe.warmup, weight_decay=recipe.weight_decay, batch_size=recipe.batch_size,
        temperature=recipe.temperature, symmetric=recipe.symmetric, negatives=recipe.negatives, chunk=recipe.chunk,
        cached=recipe.cached, max_length=recipe.max_length, seed=cfg.seed,
    )  # fmt: skip


def lora_of(cfg: Config) -> LoRA | None:
    """Adapters, or None where every weight is trained."""
    t = cfg.tuning
    return LoRA(t.rank, t.alpha, t.dropout, t.targets) if t.kind == "lora" else None


def validation_of(
    cfg: Config, run: Run, data: RetrievalSet, encoder: Encoder, recipe: ContrastiveRecipeConfig
) -> Validation | None:
    """What chooses the epoch: validation queries against their golds and what the untrained encoder ranks highest."""
    if recipe.keep == "last" or not data.validation or not run.is_writer:
        return None
    asked = "with" if recipe.instructions == "with" else "without"
    texts = [wordings(encoder, q, asked)[0] for q in data.validation]
    golds = relevant_indices(data.catalog, data.validation)
    limit = cfg.method.validation_tools
    if not limit or limit >= len(data.catalog):
        return Validation(texts, golds)
    ranked = Dense(encoder).fit(data.catalog).search(data.validation, 50).indices
    # Column by column: everybody's nearest rival first. Golds stay, however many there are.
    tools = dict.fromkeys([*(g for row in golds for g in row), *(t for t in ranked.T.ravel().tolist() if t >= 0)])
    kept = max(limit, len({g for row in golds for g in row}))
    return Validation(texts, golds, sorted(list(tools)[:kept]))


def curves(run: Run, name: str) -> Callable[[Mapping[str, float]], None]:
    """Learning curves for the logger."""
    return lambda point: run.log({f"{name}/{k}": v for k, v in point.items() if k != "step"}, int(point["step"]))


def save_whole(model: Any, folder: Path) -> None:
    """Save a SentenceTransformer; the folder appears when it is complete."""
    with quiet_transformers(), atomic_folder(folder) as partial:
        model.save_pretrained(str(partial), create_model_card=False)


def saved(encoder: Encoder, folder: Path) -> Encoder:
    """The encoder's settings around a trained model, as it is on disk."""
    source = encoder.source._replace(kind="path", path=str(folder), revision=None)
    return encoder.with_model(load.__wrapped__(source).eval())  # kept for this system alone, not in the loader's memory


def keep_model(run: Run, models: Mapping[str, Path]) -> None:
    """Put the recipe with the best validation recall into model/, the first one where nothing was validated."""
    if not run.is_writer:
        return
    best = max(models, key=lambda name: run.noted(f"train_{name}").get("validation_recall@1") or 0.0)
    folder = run.model_dir
    shutil.rmtree(folder)
    shutil.copytree(models[best], folder)
    run.note(model=best)
