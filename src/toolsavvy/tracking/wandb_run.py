"""A W&B run per job: its settings, what it is told, and how it ends, whatever happens to the network.

W&B must never cost a run: where it cannot be reached in time the run goes on with offline files, what it cannot take is
left out with a warning, and its end is waited for only so long.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolsavvy.config.schema import LoggerConfig
from toolsavvy.errors import UserError
from toolsavvy.tracking.masking import told

log = logging.getLogger("toolsavvy")
WAITS = {"init_timeout": 30.0, "finish_timeout": 300.0}
"""Seconds that W&B may hold up a run's start and its end; WANDB_INIT_TIMEOUT and WANDB_FINISH_TIMEOUT change them."""
UPLOAD_SECONDS = 3600.0
"""The same for the end of a run that uploads its model."""
OF_ONE_RUN = ("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_NAME")
"""Variables that name one run: an agent of a W&B sweep sets them. Jobs of a multirun would share them."""


class WandbLogger:
    """One W&B run per job, also when several jobs share a process.

    Args:
        config: project, entity and mode.
        folder: of the run; W&B writes nowhere else.
        values: the resolved, masked config, with `choices` and `cell`.
        group: sweep or experiment.
        job_type: the method.
        name: method-model-catalog-tuning-seed.
        tags: for filtering.
        run_id: of an earlier W&B run to continue, when this one is resumed online.
        is_job: of a multirun, whose jobs must not share an id that the environment names.
        uploads: whether there will be artifacts to wait for.

    Raises:
        UserError: W&B refuses the settings (a project's name, say).
    """

    def __init__(
        self,
        config: LoggerConfig,
        folder: Path,
        values: Mapping[str, Any],
        *,
        group: str,
        job_type: str,
        name: str,
        tags: Sequence[str],
        run_id: str | None = None,
        is_job: bool = False,
        uploads: bool = False,
    ) -> None:
        """Start a run; one that was left open in this process by others is closed first."""
        self.mode: Any = wandb_mode(config)
        self._axes: set[str] = set()
        self._missed: set[str] = set()
        self._environment = contextlib.ExitStack()
        self._environment.enter_context(_wandb_environment(folder, OF_ONE_RUN if is_job else ()))
        facts = {
            "project": config.project, "entity": config.entity, "dir": str(folder), "config": dict(values),
            "group": group, "job_type": job_type, "name": name[:128], "tags": [t[:64] for t in tags if t],
        }  # fmt: skip
        waits = dict(WAITS) | ({"finish_timeout": UPLOAD_SECONDS} if uploads else {})
        try:
            import wandb

            self._wandb: Any = wandb
            self._run: Any = self._start(facts, run_id, waits)
        except BaseException:
            self._environment.close()
            raise
        self.id: str = self._run.id

    def _start(self, facts: Mapping[str, Any], run_id: str | None, waits: Mapping[str, float]) -> Any:
        """Begin, online if that is wanted and can be had."""
        wandb = self._wandb
        if wandb.run is not None:
            self._try("close the run before", wandb.finish)
        settings = wandb.Settings(
            console="off", silent=True, quiet=True, disable_git=True, save_code=False, x_disable_meta=True,
            **{key: value for key, value in waits.items() if f"WANDB_{key.upper()}" not in os.environ},
        )  # fmt: skip
        before = set(Path(facts["dir"]).glob("wandb/run-*"))
        try:
            resume = "allow" if run_id and self.mode == "online" else None
            return wandb.init(**facts, mode=self.mode, id=run_id, resume=resume, settings=settings)
        except (ValueError, wandb.errors.UsageError) as error:
            if isinstance(error, wandb.errors.AuthenticationError):
                return self._go_offline(facts, settings, error, before)
            what = f"W&B refuses: {str(error).strip()[:300]}"
            fix = "mend logger.project, logger.entity or WANDB_* variables, or add logger=none"
            raise UserError(what, where="logger", expected="names that W&B takes", fix=fix) from error
        except Exception as error:
            if self.mode != "online":
                raise
            return self._go_offline(facts, settings, error, before)

    def _go_offline(self, facts: Mapping[str, Any], settings: Any, error: Exception, before: set[Path]) -> Any:
        """A server that is down, a key that is refused: the run is worth more than its mirror."""
        self.mode = "offline"
        for stale in set(Path(facts["dir"]).glob("wandb/run-*")) - before:
            shutil.rmtree(stale, ignore_errors=True)  # an empty run, which nobody should upload
        place = f"{facts['dir']}/wandb/offline-run-*"
        log.warning(
            "W&B could not be reached (%s); the run goes on offline, upload it with: wandb sync %s", told(error), place
        )
        # An agent's id is held by the attempt that failed.
        own = self._wandb.util.generate_id() if "WANDB_RUN_ID" in os.environ else None
        return self._wandb.init(**facts, mode="offline", id=own, settings=settings)

    def _try(self, what: str, call: Callable[[], Any]) -> None:
        """Do something that the run does not depend on; a warning for each kind of failure, once."""
        try:
            call()
        except Exception as error:
            if what not in self._missed:
                self._missed.add(what)
                log.warning("W&B failed to %s (%s: %s); the run goes on", what, type(error).__name__, str(error)[:200])

    def log(self, metrics: Mapping[str, float], step: int | None) -> None:
        """One point of the history; a stage's curves have an x-axis of their own, `<stage>/step`."""
        self._try("log metrics", lambda: self._log(metrics, step))

    def _log(self, metrics: Mapping[str, float], step: int | None) -> None:
        row = dict(metrics)
        for stage in {name.partition("/")[0] if "/" in name else "" for name in metrics} if step is not None else ():
            axis = f"{stage}/step" if stage else "step"
            if axis not in self._axes:
                self._run.define_metric(axis)
                self._run.define_metric(f"{stage}/*" if stage else "*", step_metric=axis)
                self._axes.add(axis)
            row[axis] = float(step or 0)
        self._run.log(row)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Final numbers."""
        self._try("take results", lambda: self._run.summary.update(dict(values)))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table, kept in the run folder when offline."""
        data = [list(row) for row in rows]
        made = lambda: self._wandb.Table(columns=list(columns), data=data, allow_mixed_types=True)  # noqa: E731
        self._try("take a table", lambda: self._run.log({name: made()}))

    def figure(self, name: str, path: Path) -> None:
        """A picture, kept in the run folder when offline; as Plotly where it was drawn so and plotly is installed."""
        self._try("take a figure", lambda: self._run.log({f"figures/{name}": self._picture(path)}))

    def _picture(self, path: Path) -> Any:
        interactive = path.with_suffix(".plotly.json")
        if interactive.is_file() and importlib.util.find_spec("plotly") is not None:
            import plotly.io

            return self._wandb.Plotly(plotly.io.read_json(str(interactive)))
        return self._wandb.Image(str(path))

    def upload(self, kind: str, paths: Sequence[Path]) -> None:
        """Store files and folders as an artifact, `<kind>-<run id>`; they stay where they are when offline."""
        if self.mode != "online":
            log.info("offline: %s is not uploaded, it is kept in the run's folder", kind)
            return
        self._try(f"store {kind}", lambda: self._upload(kind, paths))

    def _upload(self, kind: str, paths: Sequence[Path]) -> None:
        artifact = self._wandb.Artifact(f"{kind}-{self.id}", type=kind)
        for path in paths:
            if path.is_dir():
                artifact.add_dir(str(path), name=path.name if len(paths) > 1 else None)
            else:
                artifact.add_file(str(path))
        self._run.log_artifact(artifact)

    def finish(self, exit_code: int) -> None:
        """Close the run, so that a failed job is shown as failed and the next one gets its own."""
        try:
            self._try("end the run", lambda: self._run.finish(exit_code=exit_code))
        finally:
            self._environment.close()


def wandb_mode(config: LoggerConfig) -> str:
    """Online only with a key; WANDB_MODE has the last word when the mode is left open."""
    if config.mode != "auto":
        return config.mode
    return os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")


def has_key() -> bool:
    """Whether W&B would let somebody in: a key in the environment, or a login kept in .netrc."""
    netrc = os.environ.get("NETRC") or Path.home() / ".netrc"
    return bool(os.environ.get("WANDB_API_KEY")) or Path(netrc).exists()


@contextlib.contextmanager
def _wandb_environment(folder: Path, without: Sequence[str] = ()) -> Iterator[None]:
    """Keep W&B's cache, staging and settings inside the run folder, and some variables from it."""
    home = folder / "wandb"
    places: dict[str, Path | None] = {
        "WANDB_CACHE_DIR": home / "cache",
        "WANDB_CONFIG_DIR": home / "config",
        "WANDB_DATA_DIR": home / "data",
        "WANDB_ARTIFACT_DIR": home / "artifacts",
    }
    places |= dict.fromkeys(without)
    before = {name: os.environ.get(name) for name in places}
    home.mkdir(parents=True, exist_ok=True)
    _set({name: None if path is None else str(path) for name, path in places.items()})
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    """Set variables of the environment; None takes one away."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
