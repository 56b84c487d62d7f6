"""Checks a whole run before any work starts: every value, every `_target_`, every path, model and folder."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from toolsavvy.config import schema
from toolsavvy.config.asked import groups_asked
from toolsavvy.config.compose import Job, build, typed
from toolsavvy.config.explain import unknown_key
from toolsavvy.config.generation import check_generator
from toolsavvy.config.methods import ContrastiveConfig, EvaluateConfig, MethodConfig, ReportConfig
from toolsavvy.config.necessity import NecessityConfig
from toolsavvy.config.outline import definitions, keywords
from toolsavvy.config.places import conf_dir, groups
from toolsavvy.config.predictions import answers_tasks, check_files, check_tasks, ranks
from toolsavvy.config.ranges import LARGEST_SEED, between
from toolsavvy.config.sources import (
    check_chat,
    check_model,
    check_paths,
    check_retrieval_model,
    check_source,
    refuse_double,
    targets,
)
from toolsavvy.config.trainers import check_trainer
from toolsavvy.config.values import fits, kinds, wanted
from toolsavvy.errors import UserError, did_you_mean

MINIMUM_DISK = 500_000_000
"""Bytes that must be free below outputs/."""
SEVERAL = ("retriever", "suite")
"""Groups of which several options can be chosen, each under its own name."""
PROBES = ("toolsavvy.suites.mcq.Mcq", "toolsavvy.suites.qa.Qa")
"""Suites that ask questions about tools instead of ranking."""
EXECUTED = "toolsavvy.suites.downstream.Downstream"
"""The suite that has calls carried out."""
_HYDRA_KEYS = frozenset({"_target_", "_partial_", "_recursive_", "_convert_", "_args_"})


def preflight(job: Job) -> schema.Config:
    """Check a job; nothing is written but an empty probe file.

    Returns:
        The resolved, typed config.

    Raises:
        UserError: the first thing that would have stopped the run later.
    """
    config = check_config(job)
    used = config.method.uses
    if isinstance(config.method, NecessityConfig):
        used = groups_asked(config.questions, config.method)
    if isinstance(config.method, EvaluateConfig):
        check_files(config)
        used -= frozenset() if ranks(config) else {"retriever"}
        used |= frozenset({"model"} if answers_tasks(config) else ())
    if "catalog" in used:
        used |= _writers(config)
        check_source(config.catalog)
        check_paths(config.catalog, "catalog")
    nodes = {group: getattr(config, group) for group in sorted(used & {"encoder", "retriever"})}
    if isinstance(config.method, ContrastiveConfig):
        nodes["method.mining.retriever"] = config.method.mining.retriever
    for where, node in nodes.items():
        check_paths(node, where)
    _check_runs(config)
    if "suite" in used:
        for name, node in config.suite.items():
            check_paths({"path": node.get("path")}, f"suite.{name}")
        used |= frozenset({"model"} if _asks_model(config) else ())
    if "model" in used:
        check_model(config.model)
    if "generator" in used:
        check_generator(config.generator)
    nodes |= {group: getattr(config, group) for group in sorted(used & {"catalog", "suite", "llm"})}
    for key, node in (found for where, part in nodes.items() for found in targets(part, where)):
        check_chat(node, key)
        check_retrieval_model(node, key)
    check_trainer(config)
    _check_logger(config.logger)
    _check_outputs(config, job)
    return config


def check_config(job: Job) -> schema.Config:
    """The checks that look at no file and no network: keys, types, ranges, interpolations, `_target_` signatures."""
    _refuse_extra_keys(job.config, "", job)
    config = typed(job.config, job.overrides)
    if not isinstance(config.method, MethodConfig):
        raise UserError("method has no schema", where="method", expected="an option of the group method")
    _check_groups(config)
    check_tasks(config)
    _check_expand(config, job)
    _check_something_to_do(config)
    resolved = OmegaConf.to_container(job.config, resolve=True)
    for key, node in targets(resolved, ""):
        bind(node, key, job)
        _check_seed(node, key)
    return config


def _check_seed(node: Mapping[str, Any], where: str) -> None:
    """Seeds of parts are drawn with late, at the end of a training too: numpy and torch refuse what is out of range."""
    seed = node.get("seed")
    if isinstance(seed, int):
        between(seed, 0, LARGEST_SEED, f"{where}.seed")


def _check_groups(config: schema.Config) -> None:
    """Every system and suite must be something that can be built; a '+' can add what is not."""
    for group, chosen in (("retriever", config.retriever), ("suite", config.suite)):
        for name, node in chosen.items():
            if not isinstance(node, Mapping) or "_target_" not in node:
                options = groups().get(group, ())
                expected = f"{group}=OPTION with one of {', '.join(options)}"
                fix = did_you_mean(name, options)
                raise UserError(f"'{group}.{name}' has no _target_", where=group, expected=expected, fix=fix)
    refuse_double(config.suite)


def _check_something_to_do(config: schema.Config) -> None:
    """An evaluation needs systems and suites; training alone needs neither."""
    for group in SEVERAL if isinstance(config.method, EvaluateConfig) else ():
        if not getattr(config, group) and (group == "suite" or ranks(config)):
            options = ", ".join(groups().get(group, ()))
            fix = f"add {group}=OPTION or '{group}=[OPTION,OPTION]'"
            raise UserError("nothing is chosen", where=group, expected=f"at least one of {options}", fix=fix)


def _check_expand(config: schema.Config, job: Job) -> None:
    """`catalog.expand` belongs to no loader, so no signature tells what it may hold."""
    if not isinstance(config.catalog, Mapping):
        return
    try:
        schema.ExpandConfig.of(config.catalog.get("expand"))
    except UserError as error:
        where = origin("catalog.expand", job)
        where = error.where if where.startswith("key ") else where
        raise UserError(error.what, where=where, expected=error.expected, fix=error.fix) from error


def _asks_model(config: schema.Config) -> bool:
    """Whether an evaluation puts questions to the model, or lets it call what was retrieved."""
    asking = {str(node["_target_"]) for node in config.suite.values()} & {*PROBES}
    probes = isinstance(config.method, EvaluateConfig) and config.method.probe_model and bool(asking)
    executed = (node for node in config.suite.values() if node["_target_"] == EXECUTED)
    return probes or any(node.get("pick", "model") == "model" or node.get("caller") == "llm" for node in executed)


def _writers(config: schema.Config) -> frozenset[str]:
    """The group `llm` where `catalog.expand` asks it; writers and judges of its own stand in the catalog's node."""
    how = schema.ExpandConfig.of(config.catalog.get("expand"))
    return frozenset({"llm"} if how and how.how == "llm" and not (how.writer and how.judge) else ())


def _refuse_extra_keys(node: Any, path: str, job: Job) -> None:
    """A '+' on the command line can add keys that a schema doesn't have; refuse them too."""
    if not isinstance(node, DictConfig) or node._is_missing() or node._is_none():
        return
    kind = OmegaConf.get_type(node)
    known = {f.name for f in fields(kind)} if is_dataclass(kind) else set[str]()
    for key in node:
        full = f"{path}.{key}" if path else str(key)
        if known and str(key) not in known:
            raise unknown_key(str(key), path, known - {"_target_"}, origin(full, job))
    for key in known - set(node):  # a '~' on the command line can take away what a schema has
        full = f"{path}.{key}" if path else key
        where, fix = origin(full, job), f"leave ~{full} out, or give it a value: {full}=..."
        raise UserError(f"'{full}' cannot be taken away", where=where, expected=f"a value of {full}", fix=fix)
    for key in node:
        full = f"{path}.{key}" if path else str(key)
        if not OmegaConf.is_missing(node, key) and not OmegaConf.is_interpolation(node, str(key)):
            _refuse_extra_keys(node[key], full, job)


def locate(target: str, where: str) -> Callable[..., Any]:
    """Import what a `_target_` names.

    Raises:
        UserError: there is no such module or object.
    """
    module_name, _, name = target.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        missing = getattr(error, "name", None) or module_name
        fix = f"install {missing}, or name its folder in PYTHONPATH" if not missing.startswith("toolsavvy") else ""
        raise UserError(
            f"cannot import '{target}': {error}", where=where, expected="a function or class", fix=fix
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise UserError(f"'{module_name}' has no '{name}'", where=where, fix=did_you_mean(name, public))
    return found


def bind(node: Mapping[str, Any], path: str, job: Job) -> None:
    """Refuse keys that the target does not take; arguments that only exist at run time may be missing.

    Raises:
        UserError: with file and key.
    """
    if path == "method":  # it takes (cfg, run), and its schema has checked its keys
        _check_method(str(node["_target_"]), origin("method._target_", job))
        return
    taken = _takes(str(node["_target_"]), origin(f"{path}._target_", job))
    if taken is None:
        return
    is_catalog = path == "catalog" or str(node["_target_"]).startswith("toolsavvy.catalogs.")
    taken |= {"expand"} if is_catalog else frozenset()  # taken out before the loader is called
    for key in node:
        if key not in taken | _HYDRA_KEYS:
            raise unknown_key(str(key), path, taken, origin(f"{path}.{key}", job))
    _check_values(node, path, job)


def _check_values(node: Mapping[str, Any], path: str, job: Job) -> None:
    """Values of our own targets must be of the kind that their signature says."""
    module, _, name = str(node["_target_"]).rpartition(".")
    known = (definitions(module) or {}) if module.startswith("toolsavvy.") else {}
    if name not in known:
        return
    for key, kind in kinds(known[name]).items():
        if key in node and not fits(node[key], kind):
            expected, given = wanted(kind), node[key]
            fix = f"quote it: '{path}.{key}=\"{given}\"'" if "text" in expected and given not in (None, "") else ""
            fix = f"'{path}.{key}=[{given}]'" if "a list" in expected and isinstance(given, str | int) else fix
            where = origin(f"{path}.{key}", job)
            raise UserError(f"{given!r} is no valid value of '{path}.{key}'", where=where, expected=expected, fix=fix)


def _takes(target: str, where: str) -> frozenset[str] | None:
    """Names of a target's arguments, None where it takes any; imported only if its source doesn't tell."""
    module, _, name = target.rpartition(".")
    if module.startswith("toolsavvy."):
        with contextlib.suppress(ImportError):
            known = definitions(module) or {}
            if name in known and (told := keywords(known[name])) is not None:
                return told
    found = locate(target, where)
    try:
        parameters = inspect.signature(found).parameters
    except ValueError:  # written in C: it has no signature to bind to
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return frozenset(n for n, p in parameters.items() if p.kind not in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL))


def _check_method(target: str, where: str) -> None:
    """Look a method's function up without importing its module."""
    module, _, name = target.rpartition(".")
    try:
        known = definitions(module) or {}
    except ImportError as error:
        what = f"there is no module '{module}'"
        fix = "correct method._target_; a module of your own is found in a folder that PYTHONPATH names"
        raise UserError(what, where=where, expected="a function run(cfg, run)", fix=fix) from error
    if name not in known:
        fix = did_you_mean(name, list(known))
        raise UserError(f"'{module}' has no function '{name}'", where=where, expected="run(cfg, run)", fix=fix)


def origin(key: str, job: Job) -> str:
    """Where a key was written: the override, the experiment's file or the option's file."""
    for override in job.overrides:
        if override.lstrip("+~").split("=", 1)[0] == key:
            return f"command line, {override}"
    for base in (*([job.config_dir] if job.config_dir else []), conf_dir()):
        for file in _files(key, base, job):
            if _holds(file, key, base):
                return f"{base.name}/{file.relative_to(base)}, key '{key}'"
    return f"key '{key}'"


def _files(key: str, base: Path, job: Job) -> Iterator[Path]:
    """Files that may have set a key, the strongest first."""
    group, _, rest = key.partition(".")
    option = rest.split(".")[0] if group in SEVERAL else job.choices.get(group, "")
    whole = (f"{part}/{job.choices.get(part)}" for part in ("sweep", "experiment", "configuration"))
    names = (*whole, f"{group}/{option}", "config")
    yield from (f for name in names if (f := base / f"{name}.yaml").is_file())


def _holds(file: Path, key: str, base: Path) -> bool:
    """Whether a file sets the key, spelled from the root or from the option's package."""
    text = file.read_text(encoding="utf-8")
    is_global = "@package _global_" in text or file.parent == base
    skip = 0 if is_global else 2 if file.parent.name in SEVERAL else 1
    node: Any = yaml.safe_load(text) or {}
    for part in key.split(".")[skip:]:
        if not isinstance(node, Mapping) or part not in node:
            return False
        node = node[part]
    return True


def _check_runs(config: schema.Config) -> None:
    """A report needs finished runs, and so may suites that come after all others.

    These are made once, so that faults in the files that they read are told before the start.
    """
    from toolsavvy.tracking.records import finished_runs

    is_report = isinstance(config.method, ReportConfig)
    reads = is_report or "suite" in config.method.uses
    after = {name: node for name, node in config.suite.items() if _is_after(str(node["_target_"]))} if reads else {}
    own = set(config.suite) - set(after) if not is_report else set[str]()
    for node in after.values():
        check_sources([side for side in build(node).reads if side.suite not in own], config.runs)
    if config.runs if after else is_report:
        finished_runs(config.runs)


def _is_after(target: str) -> bool:
    """Whether a suite reads what other suites have recorded: its class says `after = True`."""
    module, _, name = target.rpartition(".")
    found = (definitions(module) or {}).get(name)
    return isinstance(found, ast.ClassDef) and any(ast.unparse(node) == "after = True" for node in found.body)


def check_sources(sides: list[Any], runs: list[str]) -> None:
    """What this run does not measure must come from finished ones."""
    for side in sides if not runs else ():
        where, expected = f"{side.where}.suite", "a suite of this run, or finished runs"
        raise UserError(f"nobody measures {side.suite!r}", where=where, expected=expected, fix="add runs='[FOLDER]'")


def _check_logger(logger: schema.LoggerConfig) -> None:
    """W&B online needs a key, and would ask for one only after the first minutes of work."""
    has_login = bool(os.environ.get("WANDB_API_KEY")) or (Path.home() / ".netrc").exists()
    if logger.name == "wandb" and logger.mode == "online" and not has_login:
        fix = "set WANDB_API_KEY, or logger.mode=offline and `wandb sync` later"
        raise UserError("W&B has no key", where="logger.mode", expected="auto or offline without a key", fix=fix)


def _check_outputs(config: schema.Config, job: Job) -> None:
    """Everywhere a run writes: its own folder, which may have been chosen apart from outputs/, and the cache."""
    if not config.paths.outputs.strip():
        raise UserError("is empty", where="paths.outputs", expected="a folder", fix="set paths.outputs=FOLDER")
    _check_folder(Path(config.paths.outputs), "paths.outputs", MINIMUM_DISK)
    if not job.folder.is_relative_to(Path(config.paths.outputs).resolve()):
        _check_folder(job.folder, "hydra.run.dir", MINIMUM_DISK)
    if config.paths.cache and {"model", "encoder", "catalog", "generator", "questions"} & config.method.uses:
        _check_folder(Path(config.paths.cache).expanduser(), "paths.cache", 0)


def _check_folder(folder: Path, key: str, least: int) -> None:
    """A folder must be one, or be such that it can be made; writable, with room."""
    place = folder.resolve()  # of a link whose target is not there yet, the target will be made
    expected, fix = "a writable folder", f"set {key}=FOLDER"
    try:
        existing = next(p for p in (place, *place.parents) if p.exists())
    except OSError as error:  # a name is too long, or a folder above may not be entered
        what = f"{str(place)[:300]} can't be looked at ({error.strerror or error})"
        raise UserError(what, where=key, expected=expected, fix=fix) from error
    if not existing.is_dir():
        raise UserError(f"{existing} is a file", where=key, expected=expected, fix=fix)
    try:
        with tempfile.TemporaryFile(dir=existing):  # asking for rights is not enough: disks can be read-only
            pass
    except OSError as error:
        what = f"cannot write to {existing} ({error.strerror or error})"
        raise UserError(what, where=key, expected=expected, fix=fix) from error
    free = shutil.disk_usage(existing).free
    if free < least:
        expected = f"at least {least // 10**6} MB free"
        raise UserError(f"{free // 10**6} MB are free in {existing}", where=key, expected=expected, fix=fix)
