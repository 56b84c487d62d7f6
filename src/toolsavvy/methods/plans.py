"""What each method is about to do, for dry runs; nothing here imports torch, so that a plan takes a second.

One function per method, named like its module.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolsavvy.config.generation import chat_name
from toolsavvy.config.predictions import prediction_files, ranks, task_suites
from toolsavvy.config.preflight import PROBES
from toolsavvy.config.schema import Config, Plan
from toolsavvy.methods.sets import load_set
from toolsavvy.tracking.records import finished_runs
from toolsavvy.training.formats import named

MODEL = "model"
"""What method=evaluate suite=parameters calls the run's model, as it is."""
BEFORE = "zero_shot"
"""What method=contrastive calls the encoder before training."""
UNTRAINED = {"prior": "nothing", "name": "name", "document": "document", "untrained": "token"}
"""Systems that probing makes of the untrained model -> what stands for the tool in their prompts."""
CHARACTERS_PER_TOKEN, FRAME_TOKENS = 4.0, 10
"""Of English under a BPE vocabulary, and around every prompt: an estimate before any model is loaded."""


def toolgen(cfg: Config) -> Plan:
    """Stages, systems and an estimate of the training tokens, from the catalog's texts alone."""
    data = load_set(cfg, offline=True)
    stages, tokens = [], 0
    if "memorization" in cfg.stages:
        stage = cfg.memorization
        formats = named(stage.formats)
        count = len(formats) * len(data.catalog) * stage.epochs
        tokens += _estimate(data.catalog.documents, stage.max_length) * len(formats) * stage.epochs
        stages.append(f"memorization ({_words(stage.formats)}): {count} rows in {stage.epochs} epochs")
    for name, recipe in cfg.method.recipes.items() if "retrieval" in cfg.stages else ():
        own = _estimate([q.text for q in data.train], recipe.max_length) * recipe.repeat
        replayed = _estimate(data.catalog.documents, recipe.max_length) * len(recipe.replay)
        tokens += (own + replayed) * recipe.epochs
        rows = (len(data.train) * recipe.repeat + len(recipe.replay) * len(data.catalog)) * recipe.epochs
        stages.append(f"retrieval ({name}): {rows} rows in {recipe.epochs} epochs")
    systems = [*(cfg.retriever if cfg.method.rivals else ()), *_probed(cfg), "toolgen_stage1"]
    systems += [f"toolgen_{name}" for name in cfg.method.recipes if "retrieval" in cfg.stages]
    return Plan(tuple(stages), (*systems, *cfg.method.fusions), tuple(cfg.suite), round(tokens))


def _probed(cfg: Config) -> list[str]:
    """What the model is asked as before it is trained, where questions are asked at all."""
    if not probes(cfg) or getattr(cfg.method, "resume_from", None) or not getattr(cfg.method, "probe_model", True):
        return []
    return [name for name, view in UNTRAINED.items() if view != "token" or hasattr(cfg.method, "resume_from")]


def probes(cfg: Config) -> list[str]:
    """Suites that ask questions about tools."""
    return [name for name, node in cfg.suite.items() if node["_target_"] in PROBES]


def _words(formats: str | Sequence[str]) -> str:
    return formats if isinstance(formats, str) else ", ".join(formats)


def _estimate(texts: Sequence[str], limit: int) -> float:
    return sum(min(limit, len(text) / CHARACTERS_PER_TOKEN) + FRAME_TOKENS for text in texts)


def contrastive(cfg: Config) -> Plan:
    """Recipes, systems and an estimate of the training tokens, from the catalog's texts alone."""
    data = load_set(cfg, offline=True)
    pairs = sum(len(q.relevant) for q in data.train)
    documents = _estimate(data.catalog.documents, 128) / len(data.catalog)
    queries = _estimate([q.text for q in data.train], 128) / max(1, len(data.train))
    stages, tokens = [], 0.0
    for name, recipe in cfg.method.recipes.items():
        hard = f", {recipe.negatives} hard negatives each" if recipe.negatives else ""
        stages.append(f"contrastive ({name}): {pairs} pairs x {recipe.epochs} epochs{hard}, tuning={cfg.tuning.kind}")
        tokens += pairs * recipe.epochs * (queries + documents * (1 + recipe.negatives))
    return Plan(tuple(stages), (*systems_of(cfg), *cfg.method.fusions), tuple(cfg.suite), round(tokens))


def systems_of(cfg: Config) -> list[str]:
    """Systems of method=contrastive as the table calls them, but for fusions."""
    names = [*(cfg.retriever if cfg.method.rivals else ()), *(() if is_dense_zero_shot(cfg) else (BEFORE,))]
    return [
        name + suffix for name in (*names, *map("contrastive_{}".format, cfg.method.recipes)) for suffix in asked(cfg)
    ]


HOW = ("index_path", "memory_map", "recall_queries")
"""Settings of a dense retriever that change no ranking."""


def is_dense_zero_shot(cfg: Config) -> bool:
    """Whether retriever=dense ranks by the encoder that training starts from, so that it need not rank twice."""
    dense = (cfg.retriever or {}).get("dense") if cfg.method.rivals else None
    own = {"_target_": "toolsavvy.retrieval.dense.Dense", "encoder": cfg.encoder, "index": "Flat"}
    return dense is not None and own == {k: v for k, v in dense.items() if v and k not in HOW}


def asked(cfg: Config) -> list[str]:
    """What is put behind a system's name for every way in which it is asked (`method.instructions`)."""
    words = cfg.method.instructions
    return [*([""] if not words or "without" in words else []), *(["-inst"] if "with" in words else [])]


def evaluate(cfg: Config) -> Plan:
    """Systems and suites; nothing is trained but what a retriever trains itself."""
    systems = [*(name + suffix for name in cfg.retriever for suffix in asked(cfg)), *_probed(cfg)] if ranks(cfg) else []
    files = prediction_files(cfg)
    if task_suites(cfg):
        systems += [f"{name}: {file}" for name, file in named_files(files).items()] or [MODEL]
    notes = ("no model is loaded",) if files and not ranks(cfg) else ()
    return Plan(systems=tuple(systems), suites=tuple(cfg.suite), training_tokens=0, notes=notes)


def named_files(files: Sequence[str]) -> dict[str, str]:
    """What tables call the systems of prediction files: their names, with as many folders as tell them apart."""
    parts = {file: Path(file).with_suffix("").parts for file in dict.fromkeys(files)}
    found: dict[str, str] = {}
    for file, own in parts.items():
        others = [other for name, other in parts.items() if name != file]
        length = next((n for n in range(1, len(own)) if all(o[-n:] != own[-n:] for o in others)), len(own))
        name = "/".join(own[-length:])
        found[name if name not in found else file] = file
    return found


def generate(cfg: Config) -> Plan:
    """The generator, and the catalogs and files that it reads; none is loaded for it."""
    node = cfg.generator
    sources = [*(["catalog"] if node.get("catalog") else []), *(node.get("sources") or {})]
    sources += [f"{key}: {node[key]}" for key in ("rrb", "mcq", "qa", "sheet") if isinstance(node.get(key), str)]
    sources += [f"{name} beside it" for name in node.get("beside") or {}]
    stages = [f"generator: {node['_target_'].rpartition('.')[2]}", *(f"read {name}" for name in sources)]
    notes = [f"instructions and texts: {node['backend']}"] if "backend" in node else []
    if "n" in node:
        notes.append(f"items: {node['n']}")
    if node.get("near"):
        notes.append(f"neighbours: {node['near']['_target_'].rpartition('.')[2]}")
    if node.get("backend") == "llm" and "self_judging" in node:
        writer = chat_name(node["llm"])
        judge = chat_name(node["judge"]) if node.get("judge") else f"{writer} (its own work)"
        notes.append(f"writer: {writer}; judge: {judge}")
    return Plan(stages=tuple(stages), systems=("none",), suites=("none",), training_tokens=0, notes=tuple(notes))


def necessity(cfg: Config) -> Plan:
    """What is asked of the model, and how often; nothing is loaded for it."""
    s, teach = cfg.method.sampling, cfg.method.teach
    if str(cfg.questions["_target_"]).endswith(".Recorded"):
        return Plan(("labels as recorded",), (str(cfg.method.label or cfg.questions["model"]),), ("necessity",), 0)
    stages = [f"teach: {teach.questions} questions x {teach.epochs} epochs"] if teach.questions else []
    stages += [f"sample: {s.n} answers a question at T={s.temperature:g}, {s.backend}"]
    stages += [f"act: greedy, {cfg.method.action.wording} wording"]
    if cfg.probe.recipe != "none" and s.backend == "local":
        stages += ["hidden states", f"probe ({cfg.probe.recipe}): splits {', '.join(cfg.probe.splits)}", "attribution"]
        stages += ["steer"] if cfg.method.steering.alphas else []
        stages += ["prefill"] if cfg.method.prefill else []
    count = cfg.questions.get("n")
    notes = () if count is None else (f"questions: {count}",)
    return Plan(tuple(stages), ("the model",), ("necessity",), None if teach.questions else 0, notes)


def pbt(cfg: Config) -> Plan:
    """Models that are trained, and what is reranked; no task is loaded for it."""
    m = cfg.method
    parts = (m.division.labelled, m.division.unlabelled, m.division.validation, m.division.test or "all")
    stages = [f"divide by {m.division.by}: %s labelled, %s unlabelled, %s validation, %s test" % parts]
    stages += ["baselines: zero-shot" + (f", {m.prompt.shots}-shot" if m.prompt.shots else "")] if m.baselines else []
    stages += [f"seed SFT: {m.division.labelled} rows x {m.sft.epochs} epochs", f"probe: {m.probe.folds} folds"]
    for turn in range(1, m.filter.rounds + 1) if m.filter.arms else ():
        equal = ", also at equal counts" if m.filter.equal else ""
        stages.append(f"round {turn}: generate, filter ({', '.join(m.filter.arms)}{equal}), retrain")
    stages += [f"PGR of {', '.join(m.rerank.of)}"] if m.rerank.of else []
    return Plan(tuple(stages), ("the model",), ("parameters",), None)


def report(cfg: Config) -> Plan:
    """The runs that would be read."""
    done = finished_runs(cfg.runs)[0] if cfg.runs else []
    return Plan(stages=tuple(f"read {folder}" for folder in done), systems=("those of the runs",), training_tokens=0)
