"""Item 3: a probe for each of 30 layers x 20 positions, against a scikit-learn loop at the same tolerance and threads.

Also the time and the memory by number of cells, and cells with the 60 problems that a study fits on each.
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
import yaml
from record import Record, Row, median, timed
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from toolsavvy.hidden.cells import Cell, Cells
from toolsavvy.probes.logistic import fit_cells
from toolsavvy.probes.problems import Fits, Problems

LAYERS, POSITIONS, D, ITEMS, TRAIN = 30, 20, 576, 1200, 1000
TOLERANCE, ROUNDS, SAMPLE = 1e-4, 6, 60
FIXED = 1.0, 0.01  # C: scikit-learn's own, and what selection on training items mostly picks at this size
SIZES = (75, 150, 300, 600)
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)


@dataclass
class Some:
    """Some cells of others."""

    source: Cells
    chosen: Sequence[int]

    @property
    def cells(self) -> Sequence[Cell]:
        return [self.source.cells[i] for i in self.chosen]

    def read(self, index: int) -> np.ndarray:
        return self.source.read(self.chosen[index])


@dataclass
class Made:
    """States with a falling spectrum, means far from 0 and three huge dimensions, neighbouring layers alike."""

    items: int

    @property
    def cells(self) -> Sequence[Cell]:
        return [Cell(i + 1, -j) for i in range(LAYERS) for j in range(POSITIONS, 0, -1)]

    def read(self, index: int) -> np.ndarray:
        cell, rng = self.cells[index], np.random.default_rng(0)
        hidden = rng.standard_normal((self.items, D), np.float32) * np.arange(1, D + 1, dtype=np.float32) ** -0.8
        rng = np.random.default_rng((cell.layer, -cell.position))
        states = hidden @ rng.standard_normal((D, D), np.float32) + 2 * rng.standard_normal(D, np.float32)
        states[:, :3] = states[:, :3] * 50 + 300
        return states


def run() -> Record:
    threads = torch.get_num_threads()
    try:
        with tempfile.TemporaryDirectory() as folder:
            kept = os.environ.get("TOOLSAVVY_CACHE")  # a second run need not capture again
            states, hard, source = captured(Path(kept) / "bench" if kept else Path(folder))
            return measure(states, hard, source)
    finally:
        torch.set_num_threads(threads)


def measure(states: Cells, hard: np.ndarray, source: str) -> Record:
    rng = np.random.default_rng(0)
    label = hard ^ (rng.random(ITEMS) < 0.1)
    problems = [Problems(label[None], np.arange(ITEMS)[None] < TRAIN, np.array([c])) for c in FIXED]
    one, rows, agreements = problems[0], [], []
    for (threads, target), each in product(((2, 10.0), (1, None)), problems):
        ours, theirs, same = contest(states, each, threads)
        agreements.append(same)
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        detail = {"ms_a_cell_by_round": {"ours": [1e3 * x for x in ours], "scikit-learn": [1e3 * x for x in theirs]},
                  "median_of_paired_ratios": median(ratios)}  # fmt: skip
        case = f"{LAYERS * POSITIONS} probes, C = {each.strengths[0]:g}, {threads} thread{'s' * (threads > 1)}"
        scale = LAYERS * POSITIONS
        rows.append(Row(case, scale * median(ours), scale * median(theirs), target, detail))
    rows += by_number(states, one)
    rows += studies(states, hard)
    same = min(agreements)
    return Record(
        "3_probes", "600 probes at least 10 times faster than a scikit-learn loop, same tolerance, same threads",
        f"predictions of {SAMPLE} cells on {ITEMS} items: {same:.2%} equal (at least 99.5 %)", same >= 0.995, rows,
        f"{source}; {TRAIN} training items, {D} dimensions, gradient at most {TOLERANCE}. Both standardise "
        f"each cell, read before, in float32. scikit-learn's loop is timed on {SAMPLE} cells and scaled, in turn with "
        "ours on all.",
    )  # fmt: skip


def contest(states: Cells, problems: Problems, threads: int) -> tuple[list[float], list[float], float]:
    """Seconds a cell of both, round by round, and the share of predictions that are equal."""
    ours, theirs, same, count = [], [], [], len(states.cells)
    with limited(threads):
        fit_cells(Some(states, [0, 1]), problems)
        library(states, 0, problems)
        for turn in range(ROUNDS):
            first = turn * count // ROUNDS  # neighbours, as a run has them
            held = HeldCells([states.read(i) for i in range(first, first + count // ROUNDS)])
            sample = range(0, len(held.held), len(held.held) * ROUNDS // SAMPLE)
            spent, models = timed(lambda h=held, s=sample: [library(h, i, problems) for i in s])
            theirs.append(spent / len(sample))
            spent, fits = timed(lambda h=held: fit_cells(h.held, problems, tolerance=TOLERANCE))
            ours.append(spent / len(held.held))
            same += [agreement(held.read(i), fits[i], m) for i, m in zip(sample, models, strict=True)]
    return ours, theirs, float(np.mean(same))


def library(states: Cells, cell: int, problems: Problems, index: int = 0) -> Pipeline:
    """One probe as it is usually fitted."""
    rows = problems.rows[index]
    model = LogisticRegression(C=problems.strengths[index], tol=TOLERANCE, max_iter=10000)
    return make_pipeline(StandardScaler(), model).fit(states.read(cell)[rows], problems.targets[index, rows])


def agreement(features: np.ndarray, fits: Fits, model: Pipeline) -> float:
    return float(((fits.scores(features)[0] > 0) == model.predict(features)).mean())


def by_number(states: Cells, problems: Problems) -> list[Row]:
    """Time and memory for more and more cells: a cell takes as long among 600 as among 75, and memory stays."""
    rows, first = [], None
    with limited(2):
        for size in SIZES:
            chosen = range(0, len(states.cells), len(states.cells) // size)
            with watched() as peak:
                spent, _ = timed(lambda chosen=chosen: fit_cells(Some(states, chosen), problems, tolerance=TOLERANCE))
            first = first or (spent / size, peak())
            case = f"seconds a cell, {SIZES[0]} cells / {size}"
            detail = {"seconds": spent, "peak_mb_above_start": peak()}
            rows.append(Row(case, spent / size, first[0], None, detail))
            rows.append(
                Row(f"memory added by {size} cells", peak(), None, 250 if size == SIZES[-1] else None, {}, "MB")
            )
    return rows


def studies(states: Cells, hard: np.ndarray) -> list[Row]:
    """Two labels x five strengths x three folds x two divisions on a cell, as a study fits them."""
    rows = []
    made = Made(4000)
    score = made.read(0)[:, 10]
    for name, source, one, other in (
        (f"{ITEMS} items", states, hard, np.roll(hard, 1)),
        ("4,000 made items", made, score > np.median(score), score > np.quantile(score, 0.7)),
    ):
        problems = study(one, other)
        for threads in (2, 1):
            chosen = range(7, len(source.cells), len(source.cells) // 4)
            held = [source.read(i) for i in chosen]
            with limited(threads):
                fit_cells(held[:1], problems)
                spent, _ = timed(lambda held=held, problems=problems: fit_cells(held, problems, tolerance=TOLERANCE))
                theirs = None
                if threads == 1:
                    some = range(0, len(problems), 6 if source is made else 3)
                    loop = HeldCells(held)
                    theirs, _ = timed(lambda p=problems, s=some, h=loop: [library(h, 0, p, i) for i in s])
                    theirs *= len(problems) / len(some)
            detail = {"problems": len(problems), "training_items": int(problems.rows[0].sum()), "cells": len(held)}
            case = f"a cell with {len(problems)} problems, {name}, {threads} thread{'s' * (threads > 1)}"
            rows.append(Row(case, spent / len(held), theirs, None, detail))
    return rows


@dataclass
class HeldCells:
    """The same, read as `library` reads."""

    held: list[np.ndarray]

    @property
    def cells(self) -> Sequence[Cell]:
        return [Cell(1, -1)] * len(self.held)

    def read(self, index: int) -> np.ndarray:
        return self.held[index]


def study(one: np.ndarray, other: np.ndarray) -> Problems:
    rng = np.random.default_rng(1)
    targets, rows, strengths = [], [], []
    for _ in range(2):
        train, fold = rng.random(len(one)) < 0.7, rng.integers(0, 3, len(one))
        for label in (one ^ (rng.random(len(one)) < 0.1), other ^ (rng.random(len(one)) < 0.2)):
            for left_out in range(3):
                for strength in STRENGTHS:
                    targets.append(label)
                    rows.append(train & (fold != left_out))
                    strengths.append(strength)
    return Problems(np.stack(targets), np.stack(rows), np.array(strengths))


@contextmanager
def limited(threads: int) -> Iterator[None]:
    torch.set_num_threads(threads)
    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def watched() -> Iterator[Callable[[], float]]:
    """Most memory (MB) that this process had meanwhile, above what it began with."""
    gc.collect()
    process, stop = psutil.Process(os.getpid()), threading.Event()
    start = most = process.memory_info().rss

    def look() -> None:
        nonlocal most
        while not stop.is_set():
            most = max(most, process.memory_info().rss)
            time.sleep(0.01)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: (most - start) / 2**20
    finally:
        stop.set()
        thread.join()


def captured(folder: Path) -> tuple[Cells, np.ndarray, str]:
    """SmolLM2's states of arithmetic questions where its weights can be had, and whether an answer is large."""
    try:
        from toolsavvy.config.schema import ModelConfig
        from toolsavvy.hidden.capture import capture
        from toolsavvy.models.chat import Message
        from toolsavvy.models.loading import load_base
        from toolsavvy.models.prompts import Prompt, render
        from toolsavvy.models.text import TextEncoder
        from toolsavvy.necessity.questions.arithmetic import Arithmetic

        file = Path(__file__).parents[2] / "conf" / "model" / "smollm2_135m.yaml"
        options = yaml.safe_load(file.read_text(encoding="utf-8"))
        model, tokenizer = load_base(ModelConfig(**options))
        questions = Arithmetic(n=ITEMS).load().questions
        order = np.random.default_rng(0).permutation(len(questions))
        text = TextEncoder(tokenizer)
        prompts = [render(tokenizer, text, Prompt((Message("user", questions[i].text),))) for i in order]
        with limited(1):
            states: Any = capture(
                model, prompts, folder / "states", layers=range(1, LAYERS + 1), kinds=("prompt",), precision="bf16",
                key="bench",
            )  # fmt: skip
        size = np.array([abs(float(questions[i].gold or 0)) for i in order])
        return (
            states,
            size > np.median(size),
            "SmolLM2-135M-Instruct's states of arithmetic questions (label: a large answer, 10 % flipped)",
        )
    except Exception as error:  # any failure to fetch or load: the speed is that of the shape
        print(f"  real states not available ({type(error).__name__}: {error}); made ones with a falling spectrum")
        made = Made(ITEMS)
        return made, made.read(0)[:, 10] > np.median(made.read(0)[:, 10]), "made states with a falling spectrum"
