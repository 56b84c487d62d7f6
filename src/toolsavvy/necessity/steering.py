"""Steering: does the mismatch go away when the residual stream is pushed along what the probes read?

alpha * direction is added at one layer while the model answers test questions with tools offered, for both signs of
alpha and for random directions of the same norm, which are the control. Beside pushing every question alike, the push
can follow the necessity probe: +alpha where it says that the tool is needed, -alpha where it says that it is not. This
is what would align action with cognition, and it needs no further answers: question by question it is one of two that
are there already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.estimates import Clusters
from toolsavvy.necessity.judged import Execute, judge
from toolsavvy.necessity.question import Checker, Question
from toolsavvy.necessity.steering_curve import RANDOM, UNSTEERED, SteeringCurve, points, ways
from toolsavvy.necessity.store import SampleStore, prompt_digest

if TYPE_CHECKING:
    from toolsavvy.decoding.sampling import LocalSampler
    from toolsavvy.decoding.steering import Push, Where

STEERING = "steering 1"
"""Kind and version of what samples follow from, in the keys of their stores."""


@dataclass(frozen=True)
class Direction:
    """A direction of the residual stream, learnt on training questions alone.

    Args:
        name: action, necessity, random_0, …
        vector: float [d]; its length does not matter.
    """

    name: str
    vector: np.ndarray


@dataclass(frozen=True)
class Setting:
    """What is pushed, and how.

    Args:
        layer: 0 is the embeddings, i the output of block i.
        scale: norm that alpha = 1 adds: `decoding.steering.scale_of` of the layer's states.
        alphas: factors above 0; both signs of each are run, and 0.
        random: random directions, orthogonal to the first direction.
        where: answer (from the prompt's last token on) | all.
        max_tokens: longest answer.
        rows: most answers that are written at once.
        seed: of the random directions and the bootstrap.
        resamples: of the bootstrap.
    """

    layer: int
    scale: float
    alphas: tuple[float, ...] = (0.1, 0.25, 0.5)
    random: int = 3
    where: Where = "answer"
    max_tokens: int = 256
    rows: int = 64
    seed: int = 0
    resamples: int = 2000

    def __post_init__(self) -> None:
        """Numbers that can be run.

        Raises:
            UserError: an alpha that is not above 0 or stands twice, or a scale that is no length.
        """
        if (
            not self.alphas
            or any(not 0 < a < float("inf") for a in self.alphas)
            or len(set(self.alphas)) < len(self.alphas)
        ):
            raise UserError(
                f"{list(self.alphas)} are no factors of a push", where="steering.alphas",
                expected="different numbers above 0; both signs of each are run", fix="set alphas=[0.1,0.25,0.5]",
            )  # fmt: skip
        if not 0 < self.scale < float("inf"):
            raise UserError(f"the layer's typical norm is {self.scale}", where="steering", expected="above 0")


@dataclass(frozen=True)
class Items:
    """Test questions: no direction was learnt on them.

    Args:
        questions: in order.
        prompts: with tools offered, one each, in the wording that the probes read.
        needed: rule -> bool [question], the necessity labels.
        checker: of answers without a call; None where nothing can check them.
        tools: offered with questions that have none of their own.
        says: bool [question], whether the necessity probe says that the tool is needed; None leaves that policy out.
        execute: carries calls out; None evaluates the calculator's.
        clusters: [question], what is independent; None for the questions.
    """

    questions: Sequence[Question]
    prompts: Sequence[Prompt]
    needed: Mapping[str, np.ndarray]
    checker: Checker | None
    tools: Sequence[Mapping[str, Any]] = ()
    says: np.ndarray | None = None
    execute: Execute | None = None
    clusters: Clusters = None


def steer(
    sampler: LocalSampler, items: Items, directions: Sequence[Direction], setting: Setting, folder: Path | None = None
) -> SteeringCurve:
    """Answer the test questions under every push, and count.

    Args:
        sampler: the model; answers are greedy.
        items: test questions.
        directions: to push along; alpha > 0 goes along the vector.
        setting: layer, norm, factors and controls.
        folder: of the samples; what was answered before is not asked again. None keeps nothing.

    Raises:
        UserError: a layer that the model has not, or a direction that is none.
    """
    pushes = _pushes(directions, setting, sampler.model)
    texts = answered(sampler, items.prompts, pushes, setting, folder)
    found = {
        (push.name, push.alpha): judge(items.questions, own, items.checker, items.tools, items.execute)
        for push, own in zip(pushes, texts, strict=True)
    }
    tried = list(ways(found, items.needed, items.says))
    told = points(tried, found[UNSTEERED, 0.0], items.needed, items.clusters, setting.resamples, setting.seed)
    return SteeringCurve(setting.layer, setting.where, setting.scale, len(items.questions), told)


def _pushes(directions: Sequence[Direction], setting: Setting, model: Any) -> list[Push]:
    """No push, then both signs of every factor along every direction and every random one."""
    from toolsavvy.decoding.steering import Push, random_directions
    from toolsavvy.hidden.blocks import blocks, text_config

    depth, width = len(blocks(model)), text_config(model).hidden_size
    if not 0 <= setting.layer <= depth:
        raise UserError(f"no layer {setting.layer}", where="steering.layer", expected=f"0 to {depth}")
    vectors: dict[str, np.ndarray] = {}
    for direction in directions:
        norm = float(np.linalg.norm(direction.vector))
        if direction.vector.shape != (width,) or not 0 < norm < np.inf or direction.name in (UNSTEERED, *vectors):
            raise UserError(
                f"'{direction.name}' of shape {direction.vector.shape} and norm {norm} is no direction",
                where="steering.directions", expected=f"{width} finite numbers, not all 0, under a name of its own",
            )  # fmt: skip
        vectors[direction.name] = (direction.vector * (setting.scale / norm)).astype(np.float32)
    first = next(iter(vectors.values()))
    drawn = random_directions(first, setting.random, seed=setting.seed)
    vectors |= {f"{RANDOM}_{i}": vector for i, vector in enumerate(drawn)}
    factors = sorted([-a for a in setting.alphas] + list(setting.alphas))
    return [Push(UNSTEERED, first, 0.0), *(Push(name, v, a) for name, v in vectors.items() for a in factors)]


def answered(
    sampler: LocalSampler, prompts: Sequence[Prompt], pushes: Sequence[Push], setting: Setting, folder: Path | None
) -> list[list[str]]:
    """Greedy answers [push][prompt]; what the samples' folder holds is not asked again, and every batch is kept.

    Args:
        sampler: the model.
        prompts: with tools offered.
        pushes: what is added.
        setting: layer, positions and limits.
        folder: of the samples, or None.
    """
    from toolsavvy.decoding.samples import Sample
    from toolsavvy.decoding.steering import Written, answers
    from toolsavvy.models.prompts import render

    stores = [None if folder is None else _store(folder, sampler, push, setting) for push in pushes]
    digests = [prompt_digest(prompt) for prompt in prompts]
    samples = [[None if store is None else store.get(digest).get(0) for digest in digests] for store in stores]
    ids = [render(sampler.tokenizer, sampler.text, p, thinking=sampler.thinking).ids for p in prompts]

    def run(own: Sequence[int], part: Sequence[int]) -> None:
        def heard(written: Written) -> None:
            i, j = own[written.prompt], part[written.push]
            text = sampler.tokenizer.decode(
                written.tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
            count = len(written.tokens) + written.finished
            sample = Sample(0, prompts[i].prefill + text, count, written.finished)
            store = stores[j]
            samples[j][i] = sample if store is None else store.put(digests[i], sample)

        answers(
            sampler.model, [ids[i] for i in own], [pushes[j] for j in part], setting.layer, where=setting.where,
            max_tokens=setting.max_tokens, ends=sampler.stops.tolist(), rows=setting.rows, heard=heard,
        )  # fmt: skip

    for part, own in _missing(samples):
        run(own, part)
    return [[sample.text if sample else "" for sample in row] for row in samples]


def _store(folder: Path, sampler: LocalSampler, push: Push, setting: Setting) -> SampleStore:
    """Of the answers under one push; without one it is the sampler's own."""
    key = sampler.key
    if push.alpha:
        vector = sha256(np.ascontiguousarray(push.vector, dtype=np.float32).tobytes()).hexdigest()
        facts = (key, STEERING, setting.layer, setting.where, float(push.alpha), vector)
        key = sha256(repr(facts).encode()).hexdigest()
    return SampleStore(folder, key, 0.0, setting.max_tokens, f"{sampler.name} + {push.alpha:g} {push.name}")


def _missing(samples: Sequence[Sequence[object | None]]) -> list[tuple[tuple[int, ...], list[int]]]:
    """Pushes that are missing, and the prompts that miss just these."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i in range(len(samples[0])):
        lacking = tuple(j for j, row in enumerate(samples) if row[i] is None)
        groups.setdefault(lacking, []).append(i)
    return [(part, own) for part, own in groups.items() if part]
