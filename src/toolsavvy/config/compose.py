"""Composes configurations and builds objects from them; with `__main__` the only user of Hydra."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict

from toolsavvy.config import schema
from toolsavvy.config.explain import explain
from toolsavvy.config.literals import literal
from toolsavvy.config.methods import METHODS
from toolsavvy.config.places import conf_dir, groups
from toolsavvy.errors import UserError

DEFAULT_EXPERIMENT = "quickstart"
BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


@dataclass(frozen=True)
class Job:
    """One composed job before it runs.

    Args:
        config: without Hydra's own node, interpolations not yet resolved.
        choices: group -> chosen option(s), as typed or by default.
        overrides: the command line of this job.
        folder: where Hydra would put it: the run's folder, or the sweep's.
        config_dir: the user's own folder of options, which goes before ours.
        launcher: class that starts the jobs of a sweep.
        sweeper: class that chooses them.
    """

    config: DictConfig
    choices: dict[str, str]
    overrides: tuple[str, ...]
    folder: Path
    config_dir: Path | None = None
    launcher: str = ""
    sweeper: str = BASIC

    @property
    def is_searched(self) -> bool:
        """Whether the jobs of a sweep are chosen as it goes: this one then stands for all."""
        return self.sweeper != BASIC


@cache
def register() -> None:
    """Make the schemas and resolvers known; safe to call again."""
    store = ConfigStore.instance()
    store.store(name="schema", node=schema.Config)
    for name, node in METHODS.items():
        store.store(group="schema/method", name=name, node=node)
    OmegaConf.register_new_resolver("run_name", _run_name, replace=True)
    # Cached: one token per composed run, carried over to the jobs of a sweep.
    OmegaConf.register_new_resolver("run_token", lambda: secrets.token_hex(3), use_cache=True, replace=True)


def _run_name(*, _root_: DictConfig) -> str:
    """The experiment, or else the sweep, or else the method: the first folder below outputs/."""
    choices = OmegaConf.select(_root_, "hydra.runtime.choices") or {}
    named = (choices.get(group) for group in ("experiment", "sweep", "method"))
    return str(next((name for name in named if name not in (None, "null")), "run")).replace("/", "-")


def key_of(override: str) -> str:
    """The group or key that an override names: '+a/b@c=d' -> 'a/b'."""
    return override.lstrip("+~").split("=", 1)[0].split("@", 1)[0]


def with_experiment(overrides: Sequence[str]) -> list[str]:
    """Choose the quickstart unless an override names a group; Hydra's own groups (launchers) do not count."""
    named = {key_of(o) for o in overrides} & set(groups()) - {"hydra"}
    return list(overrides) if named else [*overrides, f"experiment={DEFAULT_EXPERIMENT}"]


@contextmanager
def _hydra() -> Iterator[None]:
    """Hydra's global state for the time of a composition, restored afterwards."""
    register()
    before = GlobalHydra.instance().hydra
    with hydra.initialize_config_dir(str(conf_dir()), version_base="1.3", job_name="toolsavvy"):
        yield
    GlobalHydra.instance().hydra = before


def _search(config_dir: str | None) -> list[str]:
    """The override that makes Hydra look into a user's folder of options too."""
    if config_dir is None:
        return []
    folder = Path(config_dir).resolve()
    if not folder.is_dir():
        expected, fix = "a folder of YAML files", "make it, or correct its path"
        raise UserError(f"no folder {config_dir}", where="--config-dir", expected=expected, fix=fix)
    return [f"hydra.searchpath=[{quoted(f'file://{folder}')}]"]


def quoted(text: str) -> str:
    """A text as a value of Hydra's grammar, whatever characters it holds."""
    return "'" + re.sub(r"\\*(?='|$)", lambda m: m[0] * 2, text).replace("'", "\\'").replace("${", "\\${") + "'"


def compose(overrides: Sequence[str] = (), *, config_dir: str | None = None) -> Job:
    """Compose one job.

    Args:
        overrides: Hydra's grammar, without sweeps; nothing is added to them.
        config_dir: a further folder of options.

    Raises:
        UserError: a group, option or key does not exist, or a value has the wrong type.
    """
    try:
        with _hydra():
            return _compose(list(overrides), config_dir)
    except UserError:
        raise
    except Exception as error:
        raise explain(error, overrides, groups(), conf_dir()) from error


def _compose(overrides: list[str], config_dir: str | None) -> Job:
    """Compose and split Hydra's node off."""
    cfg = hydra.compose("config", [*overrides, *_search(config_dir)], return_hydra_config=True)
    choices = {k: str(v) for k, v in cfg.hydra.runtime.choices.items() if not k.startswith(("hydra/", "schema"))}
    # Hydra does not record lists that were left at their defaults.
    choices |= {group: ",".join(sorted(cfg.get(group) or ())) for group in ("retriever", "suite")}
    folder, launcher = Path(str(cfg.hydra.run.dir)).resolve(), str(cfg.hydra.launcher._target_)
    sweeper = str(cfg.hydra.sweeper._target_)
    if "${" in str(folder):  # Hydra itself would read it as an interpolation once more
        fix = "set paths.outputs=FOLDER, without '${' in it"
        raise UserError("'${' in an output folder", where=f"hydra.run.dir={folder}", expected="a plain path", fix=fix)
    with open_dict(cfg):
        del cfg["hydra"]
    own = Path(config_dir) if config_dir else None
    return Job(cfg, choices, tuple(overrides), folder, own, launcher, sweeper)


def job_settings() -> Any:
    """Hydra's settings of the job that runs in this process."""
    from hydra.core.hydra_config import HydraConfig

    return HydraConfig.get()


def is_multirun(settings: Any) -> bool:
    """Whether a job is one of a sweep."""
    from hydra.types import RunMode

    return settings.mode == RunMode.MULTIRUN


def compose_sweep(overrides: Sequence[str], *, config_dir: str | None = None) -> list[Job]:
    """Compose every job of a sweep, in the order in which the basic sweeper starts them; of a search, the first point.

    Raises:
        UserError: as `compose`, for the first job it holds for.
    """
    try:
        with _hydra():
            return [_compose(job, config_dir) for job in _split(list(overrides), config_dir)]
    except UserError:
        raise
    except Exception as error:
        raise explain(error, overrides, groups(), conf_dir()) from error


def trust_composed() -> None:
    """Keep Hydra from composing every job of a sweep once more to see that it can be: all have been, and checked."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    BasicSweeper.validate_batch_is_legal = lambda self, batch: None


def _split(overrides: list[str], config_dir: str | None) -> list[list[str]]:
    """One list of overrides per job; `hydra.sweeper.params` of a sweep file count too."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    fixed = [str(o.input_line) for o in parser.parse_overrides(overrides) if not o.is_sweep_override()]
    cfg = hydra.compose("config", [*fixed, *_search(config_dir)], return_hydra_config=True)
    params = OmegaConf.select(cfg, "hydra.sweeper.params") or {}
    lines = [f"{key}={value}" for key, value in params.items()] + overrides
    parsed = parser.parse_overrides(lines)
    if str(cfg.hydra.sweeper._target_) != BASIC:
        return [[_first_point(o) for o in parsed]]
    return BasicSweeper.split_arguments(parsed, None)[0]


def _first_point(override: Any) -> str:
    """An override at the start of its space, which stands for all that a search may choose."""
    if not override.is_sweep_override():
        return str(override.input_line)
    if override.is_interval_sweep():
        return f"{override.get_key_element()}={override.value().start}"
    return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"


def typed(cfg: DictConfig, overrides: Sequence[str] = ()) -> schema.Config:
    """Resolve every interpolation and turn the config into dataclasses; `overrides` only help to say where.

    Raises:
        UserError: a value is missing, out of range, or refers to something that does not exist.
    """
    try:
        OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
        config = OmegaConf.to_object(cfg)
    except UserError as error:
        raise _named(error, cfg) from error
    except Exception as error:
        raise explain(error, overrides, groups(), conf_dir()) from error
    assert isinstance(config, schema.Config)
    return config


def _named(error: UserError, cfg: DictConfig) -> UserError:
    """The same with the name of the recipe or fusion, which cannot know its own."""
    for group in ("recipes", "fusions"):
        for name, node in (OmegaConf.select(cfg, f"method.{group}") or {}).items():
            if f"method.{group}.<name>" not in error.where:
                continue
            try:
                OmegaConf.to_object(node)
            except UserError as found:
                where = found.where.replace("<name>", str(name))
                return UserError(found.what, where=where, expected=found.expected, fix=found.fix)
    return error


def build(node: Any, *args: Any, **kwargs: Any) -> Any:
    """Build the object that a node's `_target_` names; `kwargs` add to or replace its keys.

    Plain nodes were resolved when the config was: text in them that looks like an interpolation stays text.

    Raises:
        UserError: the target raised it; Hydra's wrapping is taken off.
    """
    try:
        # Twice, since Hydra resolves a node and then its values once more.
        return instantiate(literal(literal(node)), *args, _convert_="all", **literal(literal(kwargs)))
    except InstantiationException as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, UserError):
                raise cause from error
            cause = cause.__cause__
        raise
