"""Questions asked N times: only samples that are missing are drawn, and none after the label is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolsavvy.decoding.samples import Sample, Sampler
from toolsavvy.errors import UserError
from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.store import SampleStore, prompt_digest

Decided = Callable[[int, Sequence[Sample]], bool]
"""Position of a question and its samples so far, in any order -> whether no further one can change its label."""


@dataclass(frozen=True)
class Asked:
    """Samples of every question, and what they came to.

    Args:
        samples: [question][sample], by index.
        drawn: samples drawn now.
        reused: samples that were in the store.
        unneeded: samples that were not drawn as the label was decided.
        tokens_drawn: written now.
        tokens_reused: written before.
        tokens_unneeded: estimate of what `unneeded` would have taken, by the mean length of the question's samples.
    """

    samples: tuple[tuple[Sample, ...], ...]
    drawn: int = 0
    reused: int = 0
    unneeded: int = 0
    tokens_drawn: int = 0
    tokens_reused: int = 0
    tokens_unneeded: int = 0


@dataclass(frozen=True)
class EarlyStop:
    """When the labels of a question are decided: exactly, not approximately.

    A question is unnecessary for the tool iff at least `min_correct` of its n samples are right. That is settled as
    soon as so many are right, or so many are wrong that the rest cannot make up for it.

    Args:
        n: samples a question would get.
        thresholds: every `min_correct` whose label is wanted.
    """

    n: int
    thresholds: tuple[int, ...]

    def __post_init__(self) -> None:
        """A threshold that no count can miss or reach is none."""
        if self.n < 1 or not self.thresholds or not all(1 <= t <= self.n for t in self.thresholds):
            what = f"min_correct={', '.join(map(str, self.thresholds))} of n={self.n}"
            raise UserError(
                what, where="method.sampling.min_correct",
                expected="1 <= min_correct <= n", fix="choose a threshold that n samples can reach and miss",
            )  # fmt: skip

    def label(self, correct: int, wrong: int, threshold: int) -> bool | None:
        """Whether `threshold` of n samples are right; None while that is open."""
        if correct >= threshold:
            return True
        return False if wrong > self.n - threshold else None

    def is_decided(self, correct: int, wrong: int) -> bool:
        """Whether no further sample can change any of the labels."""
        return all(self.label(correct, wrong, t) is not None for t in self.thresholds)

    def watch(self, is_correct: Callable[[int, Sample], bool]) -> Decided:
        """The callback for `ask`; every sample is checked once.

        Args:
            is_correct: (position of the question, sample) -> whether its answer is right.
        """
        known: dict[tuple[int, int], bool] = {}

        def decided(question: int, samples: Sequence[Sample]) -> bool:
            for sample in samples:
                if (key := (question, sample.index)) not in known:
                    known[key] = is_correct(question, sample)
            correct = sum(known[question, sample.index] for sample in samples)
            return self.is_decided(correct, len(samples) - correct)

        return decided


def decide(n: int, *min_correct: int) -> EarlyStop:
    """The rule that stops a question once its label is decided, for one threshold or several at once."""
    return EarlyStop(n, min_correct)


def ask(
    sampler: Sampler,
    store: SampleStore,
    prompts: Sequence[Prompt],
    n: int,
    *,
    temperature: float,
    max_tokens: int,
    decided: Decided | None = None,
) -> list[list[Sample]]:
    """Samples 0 … n - 1 of every prompt, or as many of them as `decided` wants; see `ask_counted`."""
    found = ask_counted(sampler, store, prompts, n, temperature=temperature, max_tokens=max_tokens, decided=decided)
    return [list(samples) for samples in found.samples]


def ask_counted(
    sampler: Sampler,
    store: SampleStore,
    prompts: Sequence[Prompt],
    n: int,
    *,
    temperature: float,
    max_tokens: int,
    decided: Decided | None = None,
) -> Asked:
    """Samples of every prompt, those that the store lacks drawn and kept the moment they are there.

    Args:
        sampler: draws them.
        store: of the same sampler, temperature and limit.
        prompts: equal ones are asked once and share their samples.
        n: samples a prompt.
        temperature: 0 is greedy, and n=1 then.
        max_tokens: longest answer.
        decided: stops a question early; asked again after every sample.

    Raises:
        UserError: n or temperature make no sense, or the sampler cannot go on; what is finished stays in the store.
        ValueError: the store is of another sampler or setting.
    """
    _check(n, temperature)
    if (store.key, store.temperature, store.max_tokens) != (sampler.key, float(temperature), max_tokens):
        raise ValueError("the store is of another sampler, temperature or max_tokens")
    store.refresh()
    places: dict[str, list[int]] = {}
    for i, prompt in enumerate(prompts):
        places.setdefault(prompt_digest(prompt), []).append(i)
    digests = list(places)
    have = [{i: s for i, s in store.get(digest).items() if i < n} for digest in digests]
    reused = [sample for samples in have for sample in samples.values()]

    def is_decided(which: int) -> bool:
        samples = list(have[which].values())
        return decided is not None and all(decided(i, samples) for i in places[digests[which]])

    def heard(which: int, sample: Sample) -> bool:
        have[which][sample.index] = store.put(digests[which], sample)
        return is_decided(which)

    left = [w for w in range(len(digests)) if len(have[w]) < n and not (have[w] and is_decided(w))]
    sampler.draw(
        [prompts[places[digests[w]][0]] for w in left],
        [[i for i in range(n) if i not in have[w]] for w in left],
        temperature=temperature,
        max_tokens=max_tokens,
        heard=lambda place, sample: heard(left[place], sample),
    )
    by_prompt = [tuple(samples[i] for i in sorted(samples)) for samples in have]
    which = {i: w for w, digest in enumerate(digests) for i in places[digest]}
    return _counted([by_prompt[which[i]] for i in range(len(prompts))], by_prompt, reused, n)


def _counted(
    samples: Sequence[tuple[Sample, ...]],
    by_prompt: Sequence[tuple[Sample, ...]],
    reused: Sequence[Sample],
    n: int,
) -> Asked:
    """What the samples came to; prompts that were asked once count once."""
    tokens = [sum(s.tokens for s in own) for own in by_prompt]
    before = sum(s.tokens for s in reused)
    saved = sum((n - len(own)) * t / len(own) for own, t in zip(by_prompt, tokens, strict=True) if own)
    return Asked(
        samples=tuple(samples),
        drawn=sum(map(len, by_prompt)) - len(reused),
        reused=len(reused),
        unneeded=sum(n - len(own) for own in by_prompt),
        tokens_drawn=sum(tokens) - before,
        tokens_reused=before,
        tokens_unneeded=round(saved),
    )


def _check(n: int, temperature: float) -> None:
    """Refuse what gives no samples, or the same one n times.

    Raises:
        UserError: n below 1, or n above 1 at temperature 0.
    """
    if n < 1:
        raise UserError(f"n={n} samples", where="method.sampling.n", expected=">= 1", fix="method.sampling.n=10")
    if temperature == 0 and n > 1:
        raise UserError(
            f"{n} samples at temperature 0 are {n} times the same", where="method.sampling.temperature",
            expected="above 0, or n=1", fix="method.sampling.temperature=0.7 or method.sampling.n=1",
        )  # fmt: skip
