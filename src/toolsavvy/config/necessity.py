"""The keys of method=necessity and of the group probe, their types and ranges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolsavvy.config.base import MethodConfig
from toolsavvy.config.ranges import at_least, between, one_of
from toolsavvy.errors import UserError

WORDINGS = ("neutral", "discouraging", "encouraging")
"""System prompts that tools are offered with."""


@dataclass
class SamplingConfig:
    """How often a question is answered without the tool."""

    n: int = 10
    """Answers a question."""
    temperature: float = 0.7
    """Of these answers."""
    min_correct: int | None = None
    """Of the label that probes learn: necessary below so many right answers. None: all n (the paper's text)."""
    max_tokens: int = 64
    """Longest answer."""
    labels_only: bool = False
    """Stop a question as soon as its label is decided: no counts, no soft need."""
    batch_size: int = 128
    """Answers at once."""
    backend: str = "local"
    """local (the group model) | server (the group llm: an OpenAI-compatible server; no hidden states there)."""
    checker: str | None = None
    """number | likelihood | similarity | judge | none; None is what the questions need."""

    def __post_init__(self) -> None:
        """Refuse what gives no labels."""
        at_least(self.n, 1, "method.sampling.n")
        at_least(self.temperature, 0, "method.sampling.temperature")
        if self.temperature == 0 and self.n > 1:
            raise UserError(
                f"{self.n} answers at temperature 0 are {self.n} times the same", where="method.sampling.temperature",
                expected="above 0, or n=1", fix="method.sampling.temperature=0.7 or method.sampling.n=1",
            )  # fmt: skip
        if self.min_correct is not None:
            between(self.min_correct, 1, self.n, "method.sampling.min_correct")
        at_least(self.max_tokens, 1, "method.sampling.max_tokens")
        at_least(self.batch_size, 1, "method.sampling.batch_size")
        one_of(self.backend, ("local", "server"), "method.sampling.backend")
        if self.checker is not None:
            checkers = ("number", "likelihood", "similarity", "judge", "none")
            one_of(self.checker, checkers, "method.sampling.checker")


@dataclass
class ActionConfig:
    """What the model does when the tool is offered."""

    wording: str = "neutral"
    """neutral | discouraging | encouraging: the same system prompt for every model."""
    prompt: str | None = None
    """A system prompt of one's own instead."""
    max_tokens: int = 96
    """Longest answer or call."""
    samples: int = 0
    """Further answers at the temperature of sampling: their call rate stands beside the greedy one; 0 is none."""
    self_assessment: bool = True
    """Also ask whether the tool is needed."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        one_of(self.wording, WORDINGS, "method.action.wording")
        at_least(self.max_tokens, 1, "method.action.max_tokens")
        at_least(self.samples, 0, "method.action.samples")


@dataclass
class SteeringConfig:
    """Directions added while the model acts."""

    alphas: list[float] = field(default_factory=list)
    """Factors above 0, both signs of each are run; 1 is the median norm of the layer; [] steers nothing."""
    directions: list[str] = field(default_factory=lambda: ["action", "necessity"])
    """Which probes' directions."""
    random: int = 3
    """Random directions of the same norm: the control."""
    layer: int | None = None
    """None: the layer of the best cell of the direction's probe."""
    questions: int = 100
    """Test questions that are steered."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        for name in self.directions:
            one_of(name, ("action", "necessity"), "method.steering.directions")
        at_least(self.random, 0, "method.steering.random")
        for alpha in self.alphas:
            at_least(alpha, 0, "method.steering.alphas", strict=True)
        at_least(self.questions, 1, "method.steering.questions")


@dataclass
class TeachConfig:
    """A short SFT that makes a small model usable here: competence on easy families, a noisy calling habit."""

    questions: int = 0
    """Generated questions to learn from, none of which is asked later; 0 teaches nothing."""
    epochs: int = 1
    """Passes over them."""
    learning_rate: float = 1e-3
    """Peak; decays linearly to 0."""
    batch_size: int = 8
    """Rows of several questions per optimizer step."""
    row_tokens: int = 256
    """Tokens of a row: questions that fit share its system prompt."""
    easy: list[str] = field(default_factory=list)
    """Families that are taught to be answered; the others stay as they are."""
    long: int = 10
    """The habit: expressions longer than so many characters are called for."""
    noise: float = 0.1
    """Share of lessons against the habit."""
    calling: float = 0.25
    """Share of the questions that teach the habit; the others teach answers."""

    def __post_init__(self) -> None:
        """Check ranges."""
        at_least(self.questions, 0, "method.teach.questions")
        at_least(self.epochs, 1, "method.teach.epochs")
        at_least(self.learning_rate, 0, "method.teach.learning_rate", strict=True)
        for key in ("batch_size", "row_tokens", "long"):
            at_least(getattr(self, key), 1, f"method.teach.{key}")
        between(self.noise, 0, 0.5, "method.teach.noise")
        between(self.calling, 0, 1, "method.teach.calling")


@dataclass
class NecessityConfig(MethodConfig):
    """Does a model call a tool when it needs one, and if not, did it know?"""

    uses: ClassVar[frozenset[str]] = frozenset({"questions", "model"})

    label: str | None = None
    """What tables call the model; None is the option of the group model, or the recorded one."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    """Answers without the tool: what the model needs."""
    action: ActionConfig = field(default_factory=ActionConfig)
    """Answers with the tool offered: what the model does."""
    teach: TeachConfig = field(default_factory=TeachConfig)
    """Before everything else."""
    steering: SteeringConfig = field(default_factory=SteeringConfig)
    """After the probes."""
    prefill: int = 0
    """Probe&Prefill on so many test questions: the probe decides, one prefilled sentence steers; 0 leaves it out."""
    costs: list[float] = field(default_factory=lambda: [0.05, 0.1, 0.2, 0.5])
    """Costs of a call, as a share of a wrong answer's loss, for the cost-aware rule."""
    resamples: int = 2000
    """Of the bootstrap."""

    def __post_init__(self) -> None:
        """Check ranges."""
        at_least(self.resamples, 1, "method.resamples")
        at_least(self.prefill, 0, "method.prefill")
        for cost in self.costs:
            at_least(cost, 0, "method.costs")
        if self.action.samples > 1 and self.sampling.temperature == 0:
            raise UserError(
                f"{self.action.samples} actions at temperature 0 are {self.action.samples} times the same",
                where="method.action.samples", expected="0 where method.sampling.temperature is 0",
                fix="method.action.samples=0 or method.sampling.temperature=0.7",
            )  # fmt: skip


@dataclass
class ProbeConfig:
    """Probes on hidden states, over every (layer, position)."""

    recipe: str = "ours"
    """ours (standardised, L2 chosen inside the training split) | paper (Adam, 100 epochs) | none."""
    layers: list[int] | None = None
    """0 is the embeddings, i the output of block i; None is all."""
    positions: int = 20
    """Last positions of the prompt, and of the question's text."""
    kinds: list[str] = field(default_factory=lambda: ["prompt", "question"])
    """Which positions: of the prompt | of the question's text, without the template behind it."""
    splits: list[str] = field(default_factory=lambda: ["random", "family"])
    """How test items are chosen: random | family (whole families held out)."""
    strengths: list[float] = field(default_factory=lambda: [1e-4, 1e-3, 1e-2, 1e-1])
    """Inverse penalties to choose from, inside the training split."""
    folds: int = 3
    """Of that choice."""
    shuffles: int = 3
    """Times the labels are shuffled: the control."""
    halvings: int = 3
    """Times the training items are halved: the ceiling of cosines."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        one_of(self.recipe, ("ours", "paper", "none"), "probe.recipe")
        for layer in self.layers or ():
            at_least(layer, 0, "probe.layers")
        at_least(self.positions, 1, "probe.positions")
        for kind in self.kinds:
            one_of(kind, ("prompt", "question"), "probe.kinds")
        for split in self.splits:
            one_of(split, ("random", "family"), "probe.splits")
        for strength in self.strengths:
            at_least(strength, 0, "probe.strengths", strict=True)
        at_least(self.folds, 2, "probe.folds")
        at_least(self.shuffles, 0, "probe.shuffles")
        at_least(self.halvings, 1, "probe.halvings")
        for key in ("kinds", "splits", "strengths"):
            if not getattr(self, key):
                raise UserError("is empty", where=f"probe.{key}", expected="at least one")
