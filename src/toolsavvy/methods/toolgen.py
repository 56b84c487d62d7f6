"""Two-stage ToolGen, from a catalog to one table: memorize every tool, then learn query -> token, beside fair rivals.

Read top to bottom: `run` is the experiment, each function below it one step (ToolGen, arXiv 2410.03439, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from toolsavvy.catalog import Query, RetrievalSet, relevant_indices
from toolsavvy.config.compose import build
from toolsavvy.config.methods import RecipeConfig
from toolsavvy.config.schema import Config, MemorizationConfig
from toolsavvy.errors import UserError
from toolsavvy.methods.after import run_after
from toolsavvy.methods.benchmarks import training_needs
from toolsavvy.methods.board import Board, refuse_unknown_members
from toolsavvy.methods.common import (
    hardware,
    leave,
    load_catalog,
    load_suites,
    make_retrievers,
    neighbours,
    show_answers,
    show_outcomes,
)
from toolsavvy.methods.probing import Probing
from toolsavvy.models.loading import load_base, load_tensors, place, resolve_precision, save_tensors
from toolsavvy.models.text import chat_frame
from toolsavvy.models.tuning import TOOLS_FILE, Tuning, adapt, interpolate, load, restore, save, snapshot
from toolsavvy.models.virtual import ToolModel, add_virtual_tokens
from toolsavvy.retrieval.toolgen import ToolGen
from toolsavvy.tracking import Run
from toolsavvy.training.fitting import fit
from toolsavvy.training.formats import NEAR, TO_TOKEN, Row, named
from toolsavvy.training.rows import memorization_rows, query_rows
from toolsavvy.training.sft import CausalSFT, Regularization, RowData, collate
from toolsavvy.training.validation import recall_of

NEIGHBOURS = 8
"""Near tools from which multiple-choice rows draw their wrong options."""


def run(cfg: Config, run: Run) -> None:
    """Train and evaluate, then print one table."""
    data = load_catalog(cfg, run)
    check(cfg, data)
    fused = {member for fusion in cfg.method.fusions.values() for member in fusion.members}
    probing = Probing(cfg, run, data.catalog)
    board = Board(data, load_suites(cfg, run), run, cfg.method.depth, fused, probing=probing)
    if cfg.method.rivals:
        for name, retriever in make_retrievers(cfg, data).items():
            board.add(name, retriever)
    tools = prepare(cfg, data)
    if probing and not cfg.method.resume_from and run.is_writer:
        place(tools.model, cfg.trainer.accelerator)
        probing.before(tools)
    stage_1 = memorize(cfg, run, data, tools)
    board.add_generator("toolgen_stage1", retriever_of(cfg, tools))
    if "retrieval" in cfg.stages:
        for name, recipe in cfg.method.recipes.items():
            learn_retrieval(cfg, run, data, tools, stage_1, name, recipe)
            board.add_generator(f"toolgen_{name}", retriever_of(cfg, tools))
    leave(run)
    for name, fusion in cfg.method.fusions.items():
        board.fuse(name, fusion.members, fusion.rule, fusion.weights)
    with run.stage("save model"):
        save(tools, run.model_dir)
    outcomes = board.score()
    show_outcomes(outcomes, data, run, board.facts, probing.mute)
    show_answers(outcomes, cfg.show)
    run_after(cfg, run)


def check(cfg: Config, data: RetrievalSet) -> None:
    """Refuse before training what would only be met after it.

    Raises:
        UserError: stage 2 without training queries, a divergence over codes of several tokens, an unknown member of a
            fusion, or a model to start from that is none.
    """
    recipes = cfg.method.recipes if "retrieval" in cfg.stages else {}
    if recipes and not data.train:
        raise UserError(
            "stage 2 needs training queries", where=f"catalog {data.catalog.name}, split 'train'",
            expected="at least one training query",
            fix="use stages=[memorization], or a catalog with a train split (train_share=0.5 where it has none)",
        )  # fmt: skip
    for name, recipe in recipes.items():
        if recipe.kl > 0 and cfg.indexing["scheme"] != "atomic":
            raise UserError(
                "the divergence from stage 1 is over tools of one token each", where=f"method.recipes.{name}.kl",
                expected="0 with this indexing", fix="set it to 0, or use indexing=atomic",
            )  # fmt: skip
    systems = [*(cfg.retriever if cfg.method.rivals else ()), "toolgen_stage1", *(f"toolgen_{r}" for r in recipes)]
    for name, fusion in cfg.method.fusions.items():
        refuse_unknown_members(name, fusion.members, systems)
        systems.append(name)
    if cfg.method.resume_from and not (Path(cfg.method.resume_from) / TOOLS_FILE).is_file():
        load(Path(cfg.method.resume_from))  # its message says what is missing


def prepare(cfg: Config, data: RetrievalSet) -> ToolModel:
    """Load the model, spell every tool in tokens, and choose what trains."""
    t = cfg.tuning
    tuning = Tuning(t.kind, t.rank, t.alpha, t.dropout, t.targets, t.first_block)
    if cfg.method.resume_from:
        tools = load(Path(cfg.method.resume_from), fingerprint=data.catalog.fingerprint)
        return adapt(tools, tuning, cfg.seed)
    model, tokenizer = load_base(cfg.model, seed=cfg.seed)
    frame = chat_frame(tokenizer, cfg.model.prompt_prefix, cfg.model.prompt_suffix)
    vectors = (
        build(cfg.encoder).encode_documents(data.catalog.documents)
        if cfg.indexing["scheme"] == "hierarchical"
        else None
    )
    book = build(cfg.indexing)(data.catalog, embeddings=vectors, queries=data.train, seed=cfg.seed)
    tools = add_virtual_tokens(model, tokenizer, data.catalog, book, frame, init=cfg.memorization.init, seed=cfg.seed)
    return adapt(tools, tuning, cfg.seed)


def memorize(cfg: Config, run: Run, data: RetrievalSet, tools: ToolModel) -> dict[str, Tensor]:
    """Stage 1: document -> token in one or five formats; returns the trained weights."""
    stage = cfg.memorization
    if "memorization" not in cfg.stages:
        return snapshot(tools.model)
    rows = document_rows(cfg, data, tools, named(stage.formats), stage.max_length)
    return train(cfg, run, data, tools, rows, "memorization", stage)


def learn_retrieval(
    cfg: Config,
    run: Run,
    data: RetrievalSet,
    tools: ToolModel,
    stage_1: Mapping[str, Tensor],
    name: str,
    recipe: RecipeConfig,
) -> None:
    """Stage 2 of one recipe: query -> token, starting from stage 1's weights."""
    restore(tools.model, stage_1)
    rows = query_rows(tools, data.catalog, data.train, recipe.max_length, recipe.targets)
    taught = {t for row in rows for t in (*row.golds, *row.target[:-1])}
    absent = torch.tensor([i for i in tools.new_ids if i not in taught])
    rows = rows * recipe.repeat + document_rows(cfg, data, tools, recipe.replay, recipe.max_length)
    regularization = Regularization(
        absent=absent if recipe.negatives == "taught" else None,
        teacher=teacher_scores(cfg, tools, rows) if recipe.kl > 0 else None,
        tool_ids=torch.tensor([code[0] for code in tools.codes]),
        weight=recipe.kl,
    )
    end = train(cfg, run, data, tools, rows, f"retrieval_{name}", recipe, regularization)
    if recipe.interpolation > 0:
        restore(tools.model, interpolate(end, stage_1, recipe.interpolation))


def document_rows(
    cfg: Config, data: RetrievalSet, tools: ToolModel, formats: Sequence[str], max_length: int
) -> list[Row]:
    """Rows made of the tools' own records alone, in every format."""
    near = neighbours(cfg, data.catalog, NEIGHBOURS) if {*NEAR} & {*formats} and len(data.catalog) > 1 else None
    needs = training_needs(data, cfg.seed) if {"need", "together"} & {*formats} else ()
    return memorization_rows(tools, data.catalog, formats, max_length, near, cfg.seed, needs)


def train(
    cfg: Config,
    run: Run,
    data: RetrievalSet,
    tools: ToolModel,
    rows: Sequence[Row],
    name: str,
    stage: MemorizationConfig | RecipeConfig,
    regularization: Regularization | None = None,
) -> dict[str, Tensor]:
    """Fit one stage, or take it from the checkpoint of a run that was cut off; returns the weights it chose."""
    path = run.checkpoints / f"{name}.safetensors"
    if (stored := load_tensors(path)) is not None:
        restore(tools.model, stored)
        return stored
    pad: Any = tools.tokenizer.pad_token_id or tools.eos_id
    loader = RowData(rows, max(1, stage.batch_size // stage.accumulate), int(pad), cfg.seed)
    steps = stage.epochs * math.ceil(len(loader.sampler) / stage.accumulate)
    module = CausalSFT(
        tools, learning_rate=stage.learning_rate or _rate(cfg, name), steps=steps, warmup=stage.warmup,
        weight_decay=stage.weight_decay, regularization=regularization,
        validate=validator(cfg, data, tools), keep_best=stage.keep == "best",
        watch=lambda point: run.log({f"{name}/{k}": v for k, v in point.items() if k != "step"}, int(point["step"])),
    )  # fmt: skip
    with run.stage(name):
        fit(module, loader, epochs=stage.epochs, seed=cfg.seed, hardware=hardware(cfg), accumulate=stage.accumulate)
    run.note(**{name: {"rows": len(rows), "tokens": module.tokens, "tokens_per_second": module.tokens_per_second}})
    weights = module.chosen()
    restore(tools.model, weights)
    if run.is_writer:
        save_tensors(weights, path)
    return weights


def _rate(cfg: Config, name: str) -> float:
    """The peak that goes with what is trained, for a stage that names none."""
    return cfg.tuning.memorization_rate if name == "memorization" else cfg.tuning.retrieval_rate


def retriever_of(cfg: Config, tools: ToolModel) -> ToolGen:
    """The trained model behind the retriever protocol, where training runs."""
    place(tools.model, cfg.trainer.accelerator)
    precision = resolve_precision(cfg.trainer.precision, cfg.trainer.accelerator)
    return ToolGen(tools, batch_size=cfg.method.batch_size, precision=precision)


def validator(cfg: Config, data: RetrievalSet, tools: ToolModel) -> Callable[[], dict[str, float]] | None:
    """Recall@1 on the validation queries: the mean over tiers (seen, unseen), so that neither drowns the other."""
    groups: dict[str, list[Query]] = {}
    for query in data.validation:
        groups.setdefault(query.tier or "all", []).append(query)
    if not groups:
        return None
    retriever = retriever_of(cfg, tools)

    def validate() -> dict[str, float]:
        recalls = {}
        for tier, queries in groups.items():
            ranking = retriever.search(queries, min(5, len(data.catalog)))
            recalls[f"recall@1/{tier}"] = recall_of(ranking, relevant_indices(data.catalog, queries))
        return {**recalls, "recall@1": sum(recalls.values()) / len(recalls)}

    return validate


def teacher_scores(cfg: Config, tools: ToolModel, rows: Sequence[Row], batch_size: int = 32) -> Tensor:
    """Stage 1's log-probabilities over the tools at every replayed row: [row, tool]; NaN for query rows."""
    tool_ids = torch.tensor([code[0] for code in tools.codes])
    scores = torch.full((len(rows), len(tool_ids)), torch.nan)
    module = CausalSFT(tools, learning_rate=1.0, steps=1)
    wanted = [(i, row) for i, row in enumerate(rows) if row.kind in TO_TOKEN and row.kind != "query"]
    tools.model.eval()
    for start in range(0, len(wanted), batch_size):
        batch = collate(wanted[start : start + batch_size], tools.eos_id).to(next(tools.model.parameters()).device)
        with torch.no_grad():
            logits = module(batch)[batch.first].cpu()[:, tool_ids]
        scores[batch.rows.cpu()] = logits.log_softmax(-1)
    return scores
