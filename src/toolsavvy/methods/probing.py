"""What models know about tools: asks every system the questions of the chosen suites, once, and scores the answers."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from toolsavvy.benchmark import ItemSet
from toolsavvy.catalog import Catalog
from toolsavvy.config.schema import Config
from toolsavvy.decoding import options
from toolsavvy.methods import asking
from toolsavvy.methods.arrays import load_arrays, save_arrays
from toolsavvy.methods.asking import TOKEN, Asker, retrieved_choices
from toolsavvy.methods.benchmarks import questions
from toolsavvy.methods.common import say
from toolsavvy.methods.plans import UNTRAINED
from toolsavvy.methods.shared_answers import SharedAnswers
from toolsavvy.models.digest import weights_digest
from toolsavvy.models.loading import load_base, resolve_precision
from toolsavvy.models.text import TextEncoder, chat_frame
from toolsavvy.models.tuning import plain
from toolsavvy.models.virtual import ToolModel
from toolsavvy.retrieval.ranking import Retriever
from toolsavvy.retrieval.trec import Run as RunFile
from toolsavvy.retrieval.trec import encode
from toolsavvy.suites.mcq import LETTERS, LIKELIHOOD, ChoiceAnswers, Mcq
from toolsavvy.suites.qa import Qa
from toolsavvy.suites.table import Outcome, write_jsonl
from toolsavvy.tracking import Run

log = logging.getLogger("toolsavvy")
Answers = Mapping[str, np.ndarray]
"""Array -> float64: `likelihood` and `letters` [item, option], or `yes` [item]."""


class Probing:
    """Collect answers system by system and score them together.

    Answers are kept in the run's checkpoints, so that a run that was cut off asks nothing twice.

    Args:
        cfg: the whole config: its suites and their files.
        run: where records go.
        catalog: the tools.

    Raises:
        UserError: a file of questions is malformed, or asks about tools that the catalog lacks.
    """

    def __init__(self, cfg: Config, run: Run, catalog: Catalog) -> None:
        self.run, self.catalog = run, catalog
        self.asked = questions(cfg, catalog)
        self.precision = resolve_precision(cfg.trainer.precision, cfg.trainer.accelerator)
        self.answers: dict[str, dict[str, Answers]] = {key: {} for key in self.asked}
        self._marks = {key: _mark(items) for key, (_, items) in self.asked.items()}
        self._mute: list[str] = []
        self._digest: str | None = None
        if self.asked:
            self._tell()

    def __bool__(self) -> bool:
        """Whether anything is asked."""
        return bool(self.asked)

    def wants(self, name: str) -> bool:
        """Whether a retriever has yet to be asked; answers from before the run was cut off count."""
        return any(isinstance(self.asked[key][0], Mcq) for key in self._missing(name))

    def before(self, tools: ToolModel) -> None:
        """Ask the model that has not been trained: question alone, with the name, the document, the new token."""
        for name, view in UNTRAINED.items():
            if view != TOKEN or tools.codes:
                self.ask(name, tools, view)

    def ask(self, name: str, tools: ToolModel, view: str = TOKEN, precision: str | None = None) -> None:
        """Ask a model that is shown tools in one way."""
        if not (missing := self._missing(name)):
            return
        asker = Asker(tools, self.catalog, view, precision or self.precision)
        shared = self._shared(asker) if view != TOKEN else None
        with self.run.stage(f"probe {name}"):
            for key in missing:
                answers = shared.load(self._marks[key]) if shared else None
                if answers is None:
                    answers = _asked(asker, *self.asked[key])
                    if shared:
                        shared.save(self._marks[key], answers)
                self._keep(key, name, answers)

    def ask_retriever(self, name: str, retriever: Retriever) -> None:
        """Let a fitted retriever choose among options by where it ranks the tool; it cannot answer yes or no."""
        if isinstance(retriever, RunFile):
            return
        if any(isinstance(suite, Qa) for suite, _ in self.asked.values()):
            self._mute.append(name)
        missing = [key for key in self._missing(name) if isinstance(self.asked[key][0], Mcq)]
        if missing:
            with self.run.stage(f"probe {name}"):
                for key in missing:
                    items = self.asked[key][1].items
                    self._keep(key, name, _arrays(retrieved_choices(retriever, self.catalog, items)))

    @property
    def mute(self) -> tuple[str, ...]:
        """Retrievers, which no yes/no question can be put to."""
        return tuple(dict.fromkeys(self._mute))

    def score(self) -> list[Outcome]:
        """Run the suites, write results and predictions."""
        outcomes = []
        for key, (suite, items) in self.asked.items():
            with self.run.stage(f"score {suite.name}"):
                outcome = _outcome(suite, items, self.answers[key])
                self.run.record(outcome.results)
                if self.run.config.predictions and self.run.is_writer:
                    for system, records in outcome.predictions.items():
                        write_jsonl(self.run.predictions / f"{suite.name}.{encode(system)}.jsonl", records)
            outcomes.append(outcome)
        return outcomes

    def _shared(self, asker: Asker) -> SharedAnswers:
        """Answers that do not depend on what a run trains, in the cache."""
        if self._digest is None:
            self._digest = weights_digest(plain(asker.tools.model))
        frame = asker.tools.frame
        facts = (self.catalog.fingerprint, repr((frame.prefix, frame.suffix, frame.end)), asker.view, asker.precision)
        return SharedAnswers(self._digest, (_code(), *facts))

    def _tell(self) -> None:
        """Say how many questions there are: a small catalog gives fewer than were asked for."""
        counts = {suite.name: len(items.items) for suite, items in self.asked.values()}
        self.run.note(questions=counts)
        made = {s.name: s.n for s, _ in self.asked.values() if s.path is None}
        told = [
            f"{n} {name}" + (f" of {made[name]} asked for" if n < made.get(name, 0) else "")
            for name, n in counts.items()
        ]
        say(f"questions about tools: {escape(', '.join(told))}")

    def _missing(self, name: str) -> list[str]:
        """Suites that a system has not answered."""
        for key, answers in self.answers.items():
            if name not in answers and (stored := self._load(key, name)) is not None:
                answers[name] = stored
        return [key for key, answers in self.answers.items() if name not in answers]

    def _file(self, key: str, name: str) -> Path:
        return self.run.checkpoints / f"probe.{encode(key)}.{encode(name)}.npz"

    def _keep(self, key: str, name: str, answers: Answers) -> None:
        self.answers[key][name] = answers
        save_arrays(self._file(key, name), {"items": np.array(self._marks[key]), **answers})

    def _load(self, key: str, name: str) -> Answers | None:
        """Answers to these very questions; None where there are none, or they are damaged."""
        path = self._file(key, name)
        if (stored := load_arrays(path)) is None:
            return None
        mark = stored.pop("items", None)
        expected = {LIKELIHOOD} if isinstance(self.asked[key][0], Mcq) else {"yes"}
        if mark is None or str(mark) != self._marks[key] or not expected <= set(stored):
            log.warning("%s answers other questions and is made again", path.name)
            return None
        return stored


def _code() -> str:
    """What tells the code that asks from other versions of it: prompts that change get answers of their own."""
    digest = hashlib.sha256()
    for module in (asking, options):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


def _asked(asker: Asker, suite: Mcq | Qa, items: ItemSet[Any]) -> Answers:
    """What a model answers to the questions of a suite."""
    if isinstance(suite, Mcq):
        return _arrays(asker.choices(items.items))
    return {"yes": asker.yes_no(items.items)}


def untrained(cfg: Config) -> ToolModel:
    """The run's model as it is, without any tool."""
    model, tokenizer = load_base(cfg.model, seed=cfg.seed)
    frame = chat_frame(tokenizer, cfg.model.prompt_prefix, cfg.model.prompt_suffix)
    return ToolModel(model, tokenizer, TextEncoder(tokenizer), frame, (), (), (), "", "none")


def _outcome(suite: Mcq | Qa, items: ItemSet[Any], answers: Mapping[str, Answers]) -> Outcome:
    """Score what systems answered."""
    if isinstance(suite, Mcq):
        return suite.run(items, {s: ChoiceAnswers(a[LIKELIHOOD], a.get(LETTERS)) for s, a in answers.items()})
    return suite.run(items, {s: a["yes"] for s, a in answers.items()})


def _mark(items: ItemSet[Any]) -> str:
    """What tells these items from others."""
    return hashlib.sha256(repr(items.items).encode("utf-8", "surrogatepass")).hexdigest()


def _arrays(answers: ChoiceAnswers) -> Answers:
    """As they are stored."""
    return {kind: a for kind in (LIKELIHOOD, LETTERS) if (a := answers.of(kind)) is not None}
