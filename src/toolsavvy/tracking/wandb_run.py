"""A W&B run per job: its settings, what it is told, and how it ends whatever happens to the network."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolsavvy.config.schema import LoggerConfig


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
    ) -> None:
        """Start a run; one that was left open in this process by others is closed first."""
        with _wandb_environment(folder):
            import wandb

            if wandb.run is not None:
                wandb.finish()
            quiet = wandb.Settings(
                console="off", silent=True, quiet=True, disable_git=True, save_code=False, x_disable_meta=True
            )
            self.mode: Any = wandb_mode(config)
            self._wandb: Any = wandb
            self._environment = contextlib.ExitStack()
            self._run: Any = wandb.init(
                project=config.project,
                entity=config.entity,
                mode=self.mode,
                dir=str(folder),
                config=dict(values),
                group=group,
                job_type=job_type,
                name=name[:128],
                tags=[t[:64] for t in tags if t],
                id=run_id,
                resume="allow" if run_id and self.mode == "online" else None,
                settings=quiet,
            )
        self._environment.enter_context(_wandb_environment(folder))
        self.id: str = self._run.id
        self._axes: set[str] = set()

    def log(self, metrics: Mapping[str, float], step: int | None) -> None:
        """One point of the history; a stage's curves have an x-axis of their own, `<stage>/step`."""
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
        self._run.summary.update(dict(values))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table, kept in the run folder when offline."""
        data = [list(row) for row in rows]
        self._run.log({name: self._wandb.Table(columns=list(columns), data=data, allow_mixed_types=True)})

    def figure(self, name: str, path: Path) -> None:
        """A picture, kept in the run folder when offline."""
        self._run.log({f"figures/{name}": self._wandb.Image(str(path))})

    def upload(self, folder: Path, kind: str) -> None:
        """Store a folder as an artifact."""
        artifact = self._wandb.Artifact(f"{kind}-{self.id}", type=kind)
        artifact.add_dir(str(folder))
        self._run.log_artifact(artifact)

    def finish(self, exit_code: int) -> None:
        """Close the run, so that a failed job is shown as failed and the next one gets its own."""
        try:
            self._run.finish(exit_code=exit_code)
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
def _wandb_environment(folder: Path) -> Iterator[None]:
    """Keep W&B's cache, staging and settings inside the run folder."""
    home = folder / "wandb"
    places = {
        "WANDB_CACHE_DIR": home / "cache",
        "WANDB_CONFIG_DIR": home / "config",
        "WANDB_DATA_DIR": home / "data",
        "WANDB_ARTIFACT_DIR": home / "artifacts",
    }
    before = {name: os.environ.get(name) for name in places}
    home.mkdir(parents=True, exist_ok=True)
    os.environ.update({name: str(path) for name, path in places.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
