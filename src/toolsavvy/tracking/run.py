"""A run from its first to its last moment: folder, records, log, W&B; whatever happens in between."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from omegaconf import DictConfig, OmegaConf

from toolsavvy.assets import clear_cache
from toolsavvy.config.literals import literal
from toolsavvy.config.schema import Config
from toolsavvy.drafts import clear_drafts
from toolsavvy.errors import UserError, plain
from toolsavvy.tracking import memory
from toolsavvy.tracking.disk import disk_error
from toolsavvy.tracking.history import History, read_history
from toolsavvy.tracking.inputs import fingerprints, refuse_changed
from toolsavvy.tracking.loggers import Logger, NoLogger
from toolsavvy.tracking.masking import (
    MaskingFormatter,
    learn_from,
    learn_from_overrides,
    mask,
    mask_override,
    mask_text,
    told,
)
from toolsavvy.tracking.records import (
    State,
    Status,
    append_lines,
    cell_hash,
    config_hash,
    git_state,
    is_alive,
    read_lines,
    read_record,
    read_status,
    summary_key,
    to_lines,
    versions,
    write_atomic,
    write_json,
    write_status,
)
from toolsavvy.tracking.samples import sample_tables
from toolsavvy.tracking.wandb_run import WandbLogger

log = logging.getLogger("toolsavvy")
TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process that a scheduler has ended."""
RUN_DIR = "TOOLSAVVY_RUN_DIR"
"""Tells the further ranks of a distributed run where rank 0 writes."""
RESULT_FILES = ("results.jsonl", "comparisons.jsonl", "history.csv", "run.json", "config.yaml", "report.html")
"""What the artifact of a run's results holds, where it is there."""
RESULT_COLUMNS = ("system", "suite", "slice", "metric", "k", "value", "low", "high", "n")


@dataclass(frozen=True)
class Identity:
    """What a run is called.

    Args:
        choices: group -> chosen option(s).
        overrides: the command line of this job.
        group: sweep id or experiment.
        number: of the job in its sweep, None for a single run.
    """

    choices: Mapping[str, str]
    overrides: tuple[str, ...]
    group: str
    number: int | None = None


def is_writer() -> bool:
    """Whether this process is rank 0; the others compute and write nothing."""
    return int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0) == 0


def identify(settings: Any, cfg: DictConfig) -> Identity:
    """Read names from Hydra's settings of the running job; a sweep is the W&B group of its jobs."""
    choices = {k: str(v) for k, v in settings.runtime.choices.items() if not k.startswith(("hydra/", "schema"))}
    choices |= {group: ",".join(sorted(cfg.get(group) or ())) for group in ("retriever", "suite")}
    overrides = tuple(str(o) for o in settings.overrides.task)
    experiment = choices.get("experiment", "None")
    number = settings.job.get("num") if not OmegaConf.is_missing(settings.job, "num") else None
    alone = experiment if experiment != "None" else choices.get("method", "run")
    group = Path(str(settings.sweep.dir)).name if number is not None else alone
    group = os.environ.get("WANDB_SWEEP_ID") or group  # an agent of a W&B sweep runs this
    return Identity(choices, overrides, group, number)


class Run:
    """Context manager around one job.

    Everything is written below `dir`. Leaving the block normally means done; any exception, Ctrl-C and SIGTERM mean
    failed, with the traceback in run.log. On ranks other than 0 of a distributed run nothing is written.

    Args:
        config: the typed config.
        cfg: the same as composed, for config.yaml and the hashes.
        folder: of the run; made if missing.
        identity: names for W&B and run.json.
    """

    def __init__(self, config: Config, cfg: DictConfig, folder: Path, identity: Identity) -> None:
        """Write nothing yet."""
        self.dir = folder
        self.config = config
        self.identity = identity
        self.seed = config.seed
        self.config_hash, self.cell = config_hash(cfg), cell_hash(cfg)
        self.is_writer = is_writer()
        resolved = OmegaConf.to_container(cfg, resolve=True)
        learn_from(resolved)
        learn_from_overrides(identity.overrides)
        self._plain = mask(resolved)
        self._record: dict[str, Any] = {}
        self._stages: dict[str, float] = {}
        self._logger: Logger = NoLogger()
        self._history: History | None = None
        self._benchmark: list[Path] = []
        self._handler: logging.Handler | None = None
        self._signal: Any = None
        self._start = time.monotonic()
        self._status = Status("running")

    def __enter__(self) -> Run:
        """Make the folder, say that the job runs, start the log and the logger."""
        self._start = time.monotonic()
        if not self.is_writer:
            return self
        self.dir.mkdir(parents=True, exist_ok=True)
        _refuse_shared(self.dir)
        clear_drafts(self.dir, is_owned=True)
        clear_cache()
        os.environ[RUN_DIR] = str(self.dir.resolve())
        self._status = Status("running", pid=os.getpid(), host=socket.gethostname(), started=_process_start())
        write_status(self.dir, self._status)
        self._open_log()
        self._catch_sigterm()
        memory.reset_peak()
        try:
            self._write_start()
            self._logger = self._make_logger()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write how it ended; a failing logger must not hide the run's own error."""
        if not self.is_writer:
            return
        if error is not None:
            log.error("failed", exc_info=(type(error), error, trace))
        wall = round(time.monotonic() - self._start, 3)
        try:
            self._logger.summary({"wall_seconds": wall, "peak_memory": memory.peak()})
            self._send_results()
            if error is None and self.config.upload:
                self._upload()
        except Exception:
            log.exception("the logger failed")
        finally:
            self._close(error, wall)

    def _close(self, error: BaseException | None, wall: float) -> None:
        """Records first, then the logger, then what was borrowed from the process.

        On a full disk the last record of a failed run may be missing; its first error is what counts.
        """
        try:
            with contextlib.suppress(*([OSError] if error is not None else [])):
                self.note(wall_seconds=wall, stages=self._stages, peak_memory=memory.peak())
                message = None if error is None else _one_line(error, self.dir)
                state: State = "done" if error is None else "failed"
                self._status = replace(self._status, status=state, error=message, wall_seconds=wall)
                write_status(self.dir, self._status)
        finally:
            try:
                self._logger.finish(exit_code=1 if error is not None else 0)
            except Exception:
                log.exception("the logger failed to finish")
            self._close_log()
            os.environ.pop(RUN_DIR, None)
            if self._signal is not None:
                signal.signal(signal.SIGTERM, self._signal)

    def _write_start(self) -> None:
        """run.json and config.yaml; what an attempt that was cut off has noted stays on record."""
        earlier = read_record(self.dir)
        is_continued = earlier.get("config_hash") == self.config_hash
        inputs = fingerprints(self._plain)
        self._history = History(self.dir, continued=is_continued)
        if is_continued:
            refuse_changed(earlier.get("inputs") or {}, inputs)
            self._stages = dict(earlier.get("stages") or {})
            self._record = {**earlier, "attempts": int(earlier.get("attempts", 1)) + 1}
        code = {"versions": versions(), "git": git_state()}
        before = {name: earlier.get(name) for name in code}
        if is_continued and before != code:
            log.warning("continued with other code or packages than it began with: run.json has both")
            self._record["earlier_attempts"] = [*earlier.get("earlier_attempts", ()), before]
        self.note(
            overrides=[mask_override(o) for o in self.identity.overrides],
            choices=dict(self.identity.choices),
            config_hash=self.config_hash,
            cell=self.cell,
            seed=self.seed,
            inputs=inputs,
            group=self.identity.group,
            job=self.identity.number,
            **code,
            catalog_fingerprint=self._record.get("catalog_fingerprint"),
        )
        write_atomic(self.dir / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(literal(self._plain))))

    def note(self, **facts: Any) -> None:
        """Add facts to run.json (a catalog's fingerprint and audit, tokens per second, ...)."""
        self._record.update(mask(facts))
        if self.is_writer:
            write_json(self.dir / "run.json", self._record)

    def noted(self, name: str) -> dict[str, Any]:
        """A fact of run.json, also of an attempt that was cut off; empty where it was never noted."""
        return dict(self._record.get(name) or {})

    @property
    def checkpoints(self) -> Path:
        """Folder of what a resumed run continues from."""
        return self._folder("checkpoints")

    @property
    def predictions(self) -> Path:
        """Folder of predictions and TREC files."""
        return self._folder("predictions")

    @property
    def model_dir(self) -> Path:
        """Folder of the trained model, reloadable with `from_pretrained`."""
        return self._folder("model")

    def _folder(self, name: str) -> Path:
        """A folder of the run, made when first asked for."""
        path = self.dir / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; its wall seconds reach run.json as soon as it ends, also when it fails."""
        log.info("%s", name)
        start = time.monotonic()
        try:
            yield
        finally:
            self._stages[name] = round(self._stages.get(name, 0.0) + time.monotonic() - start, 3)
            self.note(stages=self._stages)

    def seconds(self, name: str) -> float:
        """Wall seconds that a stage has taken, over all attempts of a resumed run; 0 if it never ran."""
        return self._stages.get(name, 0.0)

    def record(self, results: Iterable[Any]) -> None:
        """Append results (dataclasses with the fields of `RESULT_COLUMNS`) to results.jsonl and tell the logger.

        Numbers that a resumed run already wrote are not written twice: the last record of a key counts.
        """
        rows = [{c: getattr(r, c) for c in RESULT_COLUMNS} for r in results]
        if not self.is_writer or not rows:
            return
        path = self.dir / "results.jsonl"
        old = read_lines(path)
        keys = {_key(r) for r in rows}
        kept = [r for r in old if _key(r) not in keys]
        if len(kept) < len(old):
            write_atomic(path, to_lines([*kept, *rows]))
        else:
            append_lines(path, rows)
        self._logger.summary({summary_key(r): r["value"] for r in rows})

    def results(self) -> list[dict[str, Any]]:
        """What results.jsonl holds so far."""
        return read_lines(self.dir / "results.jsonl")

    def log(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """A point of the learning curves; its step may also be a metric called `step` or `<stage>/step`."""
        points = {plain(k): float(v) for k, v in metrics.items()}  # names may hold those of slices
        named = next((k for k in points if k == "step" or k.endswith("/step")), None)
        if named is not None:
            step = int(points.pop(named))
        if self.is_writer and self._history is not None and (new := self._history.append(points, step)):
            self._logger.log(new, step)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table for the logger; results get theirs when the run ends."""
        if self.is_writer:
            self._logger.table(name, columns, mask(rows))

    def made(self, paths: Iterable[Path]) -> None:
        """Name the files of a benchmark that this run has made, for `upload=true`."""
        self._benchmark += paths

    def figure(self, name: str, path: Path) -> None:
        """A picture of the run's folder for the logger."""
        if self.is_writer:
            self._logger.figure(name, path)

    def _make_logger(self) -> Logger:
        """The logger that the config asks for; without W&B where that cannot even be started."""
        if self.config.logger.name != "wandb":
            return NoLogger()
        earlier = self._record.get("wandb") or {}
        try:
            logger = self._wandb(earlier.get("id") if earlier.get("mode") == "online" else None)
        except UserError:
            raise
        except Exception as error:
            log.warning("no W&B (%s); the run's own files have everything", told(error))
            return NoLogger()
        self.note(wandb={"id": logger.id, "mode": logger.mode})
        if earlier and logger.id != earlier.get("id"):
            self._retell(logger)
        return logger

    def _wandb(self, run_id: str | None) -> WandbLogger:
        """A W&B run of this job's own, or the one that an earlier attempt began online."""
        choices, method = self.identity.choices, self.identity.choices.get("method", "run")
        parts = (method, choices.get("model"), choices.get("catalog"), choices.get("tuning"), f"seed{self.seed}")
        experiment = choices.get("experiment", "None")
        return WandbLogger(
            self.config.logger,
            self.dir,
            {**self._plain, "choices": mask(dict(choices)), "cell": self.cell, "config_hash": self.config_hash},
            group=mask_text(self.identity.group),
            job_type=method,
            name=mask_text("-".join(str(p) for p in parts if p)),
            tags=mask([*sorted({experiment} - {"None"}), choices.get("catalog", ""), *self.config.logger.tags]),
            run_id=run_id,
            is_job=self.identity.number is not None,
            uploads=self.config.upload,
        )

    def _retell(self, logger: Logger) -> None:
        """What an earlier attempt told a W&B run that cannot be continued."""
        for step, points in itertools.groupby(read_history(self.dir), key=lambda point: point[0]):
            logger.log({name: value for _, name, value in points}, step)
        logger.summary({summary_key(r): r["value"] for r in self.results()})

    def _send_results(self) -> None:
        """All results as one table, and a sample of the predictions of every suite."""
        if isinstance(self._logger, NoLogger):
            return
        rows = self.results()
        if rows:
            self.table("results", RESULT_COLUMNS, [[r.get(c) for c in RESULT_COLUMNS] for r in rows])
        for sample in sample_tables(self.dir / "predictions", self.seed):
            if sample.rows:
                self.table(f"predictions/{sample.suite}", sample.columns, sample.rows)

    def _upload(self) -> None:
        """Store what the run made: weights, a benchmark, its numbers, its predictions."""
        is_adapter = (self.dir / "model" / "adapter_config.json").is_file()
        kinds = {"adapter" if is_adapter else "model": [self.dir / "model"], "benchmark": self._benchmark}
        kinds |= {"results": [self.dir / name for name in RESULT_FILES], "predictions": [self.dir / "predictions"]}
        for kind, paths in kinds.items():
            if there := [path for path in paths if path.exists()]:
                self._logger.upload(kind, there)

    def _open_log(self) -> None:
        """Everything that is logged goes into run.log; warnings of the package reach the terminal too."""
        handler = _LogFile(self.dir / "run.log", encoding="utf-8")
        handler.setFormatter(MaskingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._handler = handler
        logging.getLogger().addHandler(handler)
        log.setLevel(logging.INFO)

    def _close_log(self) -> None:
        """Give the root logger back."""
        if self._handler is not None:
            logging.getLogger().removeHandler(self._handler)
            with contextlib.suppress(OSError):
                self._handler.close()
            self._handler = None

    def _catch_sigterm(self) -> None:
        """A scheduler's SIGTERM ends the run as failed, with its records written."""
        if threading.current_thread() is threading.main_thread():
            self._signal = signal.signal(signal.SIGTERM, _terminate)


class _LogFile(logging.FileHandler):
    """A log file that keeps quiet about a full disk: the run itself will say it once."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Lose the line."""


def _refuse_shared(folder: Path) -> None:
    """A folder belongs to one run at a time, also where the user has chosen it."""
    status = read_status(folder)
    if status is not None and is_alive(status) and status.pid != os.getpid():
        fix = "wait for it, or end it first, or choose another folder"
        raise UserError("a run is still going on in this folder", where=str(folder), fix=fix)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Turn the signal into an exception that unwinds the run."""
    sys.exit(128 + number)


def _process_start() -> float:
    """When this process started: with its id it names a process."""
    import psutil

    return psutil.Process().create_time()


def _one_line(error: BaseException, folder: Path) -> str:
    """Type and message of an error for status.json and tables."""
    error = disk_error(error, folder) or error
    if isinstance(error, UserError):
        return mask_text(str(error)).replace("\n", ";")
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and error.code == TERMINATED):
        return "interrupted"
    return told(error, 500)


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a number unique within a run."""
    return tuple(row.get(c) for c in ("system", "suite", "slice", "metric", "k"))
