"""A quick command for every method on the toy world, and what two runs of the same command must have alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lamps import write_lamps

PLAIN = ("catalog=toy", "logger=none", "trainer.threads=1")
TRAINED = ("catalog.tools=12", "encoder=toy", "trainer.precision=fp32", "suite.catalog_test.resamples=20")


@dataclass(frozen=True)
class Command:
    """A command of a method.

    Args:
        words: without `paths.outputs`.
        prepare: see `killing.Plan.prepare`.
        made: what has to be there before: called with an empty folder, gives further words.
    """

    words: tuple[str, ...]
    prepare: str = ""
    made: Callable[[Path], Sequence[str]] = field(default=lambda folder: ())


def _lamps(folder: Path) -> list[str]:
    return [f"catalog.path={write_lamps(folder / 'lamps')}"]


def _runs(folder: Path) -> list[str]:
    from run_folders import made_sweep, trained

    trained(folder / "runs" / "trained")
    made_sweep(folder / "runs" / "sweep", {"tuning": ("lora", "full")}, seeds=(0, 1), steps=5)
    return [f"runs=[{folder / 'runs'}]"]


def _one_run(folder: Path) -> list[str]:
    from run_folders import trained

    return [f"runs=[{trained(folder / 'trained')}]"]


COMMANDS: Mapping[str, Command] = {
    "toolgen": Command((
        "method=toolgen", *PLAIN, *TRAINED, "model=toy", "retriever=bm25", "memorization.epochs=2",
        "method.recipes.plain.epochs=2", "tuning=lora",
    )),
    "contrastive": Command((
        "method=contrastive", *PLAIN, *TRAINED, "retriever=bm25", "tuning=lora", "method.mining.relative=null",
        "method.mining.window=[2,8]", "~method.recipes.hard",
        "+method.recipes={a:{epochs:1,batch_size:16},b:{epochs:3,batch_size:8,negatives:1,learning_rate:2e-3}}",
    )),
    "necessity": Command((
        "method=necessity", "questions=arithmetic", "model=toy", "logger=none", "trainer.threads=1",
        "probe.positions=2", "probe.shuffles=1", "probe.halvings=1", "probe.splits=[random]", "method.sampling.n=4",
        "method.sampling.temperature=0.02", "method.sampling.max_tokens=4", "method.action.max_tokens=4",
        "method.resamples=50", "method.action.samples=2", "method.steering.alphas=[1.0]", "method.steering.random=1",
        "method.steering.questions=8", "method.steering.directions=[action]", "method.prefill=8",
    ), prepare="planted_commands:knowing"),
    "pbt": Command((
        "method=pbt", "catalog=parambench", "model=toy", "logger=none", "trainer.threads=1",
        "method.division.labelled=24", "method.division.unlabelled=16", "method.division.validation=12",
        "method.division.test=12", "method.sft.epochs=1", "method.sft.batch_size=12", "method.generation.samples=2",
        "method.prompt.shots=1", "method.resamples=50", "method.prompt.schema_tokens=60", "method.probe.shuffles=1",
        "method.filter.arms=[none,probe]", "method.filter.equal=false", "method.filter.thresholds=[0.3,0.5]",
    ), prepare="planted_commands:lamps", made=_lamps),
    "generate": Command((
        "method=generate", *PLAIN, "encoder=toy", "generator.per_source=20",
    )),
    "evaluate": Command((
        "method=evaluate", *PLAIN, "encoder=toy", "retriever=[bm25,dense,knn]", "suite.catalog_test.resamples=20",
    )),
    "report": Command(("method=report", "logger=none", "method.resamples=20"), made=_runs),
    "report of a model": Command(
        ("method=report", "logger=none", "method.kind=dissociation", "method.resamples=20"), made=_one_run
    ),
}  # fmt: skip
"""Small random models, made-up runs: nothing that comes out means anything, but it must be the same every time."""

_OF_AN_ATTEMPT = re.compile(
    r"seconds|per_second|_time|peak_memory|attempts|stages|started|pid|host|git|created|speed|overrides|drawn|reused"
)


def contents(run: Path) -> dict[str, Any]:
    """File -> what it holds, of all that a run has written, but for times, processes and logs."""
    return {
        str(path.relative_to(run)): _content(path, run)
        for path in sorted(run.rglob("*"))
        if path.is_file() and "wandb" not in path.relative_to(run).parts and path.name != "run.log"
        and not path.name.endswith(".lock")
    }  # fmt: skip


def _content(path: Path, run: Path) -> Any:
    if path.name in ("run.json", "status.json"):
        return _timeless(json.loads(_placeless(path, run)))
    if path.name == "config.yaml":
        return _placeless(path, run).replace("resume: true", "resume: false")
    if path.suffix in (".html", ".md", ".txt", ".jsonl", ".json", ".csv", ".yaml"):
        return re.sub(r"\b\d+(\.\d+)? ?(s|min)\b", "TIME", _placeless(path, run))
    return path.read_bytes()


def _placeless(path: Path, run: Path) -> str:
    """A text without the place of its run, and of outputs and cache."""
    return path.read_text(encoding="utf-8").replace(str(run), "RUN").replace(str(run.parents[2]), "PLACE")


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if not _OF_AN_ATTEMPT.search(k)}
    return value


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Names of files that are missing, too many, or hold something else."""
    told = [f"{name}: missing" for name in wanted if name not in found]
    told += [f"{name}: too much" for name in found if name not in wanted]
    both = [(name, found[name], wanted[name]) for name in wanted if name in found]
    return told + [f"{name}: {_difference(one, two)}" for name, one, two in both if one != two]


def _difference(found: Any, wanted: Any) -> str:
    """What differs first, for messages."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [k for k in {**wanted, **found} if found.get(k) != wanted.get(k)]
        return f"{keys[0]}.{_difference(found.get(keys[0]), wanted.get(keys[0]))}"
    if isinstance(found, str) and isinstance(wanted, str):
        lines = zip([*found.splitlines(), ""], [*wanted.splitlines(), ""], strict=False)
        one, two = next(pair for pair in lines if pair[0] != pair[1])
        return f"differs: {one[:200]!r}, not {two[:200]!r}"
    return "differs" if isinstance(found, bytes) else f"differs: {str(found)[:200]}, not {str(wanted)[:200]}"


def half_written(*folders: Path) -> Iterator[str]:
    """Files under a temporary name, and JSON that cannot be read."""
    for path in (p for folder in folders for p in sorted(folder.rglob("*")) if "wandb" not in p.parts):
        if path.suffix in (".part", ".tmp"):
            yield f"{path}: half-written"
        if path.is_file() and path.suffix in (".json", ".jsonl"):
            text = path.read_text(encoding="utf-8")
            for line in text.splitlines() if path.suffix == ".jsonl" else [text]:
                try:
                    json.loads(line)
                except ValueError:
                    yield f"{path}: not JSON"
                    break
