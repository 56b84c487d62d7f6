"""The keys of method=pbt: tasks, prompts, training, generation, signals, reranking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolsavvy.config.base import MethodConfig
from toolsavvy.config.ranges import at_least, between, check_optimizer, one_of
from toolsavvy.errors import UserError

SIGNALS = ("probe", "logprob", "consistency", "p_true", "control")
"""What may say whether a value is right; control is the length, position, depth and type of the value alone."""
FILTERS = ("none", *SIGNALS, "oracle")
"""Which calls are learnt from: all, those that a signal keeps, or those that are right (the ceiling)."""
STRATEGIES = ("candidate", "field", "field_set")
"""Of PGR."""


@dataclass
class DivisionConfig:
    """Which tasks are for what."""

    by: str = "given"
    """given (the source's own division; by record where it has none) | tool (no test tool is learnt from) | record."""
    labelled: int = 150
    """Tasks with references: what the seed model and the probe learn from."""
    unlabelled: int = 150
    """Tasks whose references are hidden: what the model labels itself."""
    validation: int = 80
    """Tasks that thresholds are chosen on."""
    test: int = 300
    """Tasks that everything is reported on; 0 is all."""
    seed: int = 0
    """Of the division; kept apart from the training seed."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        one_of(self.by, ("given", "tool", "record"), "method.division.by")
        at_least(self.labelled, 4, "method.division.labelled")
        for key in ("unlabelled", "validation", "test"):
            at_least(getattr(self, key), 0, f"method.division.{key}")


@dataclass
class PromptConfig:
    """What a model sees of a task."""

    schema_tokens: int = 256
    """Of the tool's schema, where that suffices for what is required."""
    context_tokens: int = 384
    """Of earlier calls and their results."""
    shots: int = 3
    """Worked examples of the few-shot baseline; 0 leaves it out."""

    def __post_init__(self) -> None:
        """Check ranges."""
        at_least(self.schema_tokens, 16, "method.prompt.schema_tokens")
        at_least(self.context_tokens, 0, "method.prompt.context_tokens")
        at_least(self.shots, 0, "method.prompt.shots")


@dataclass
class SftConfig:
    """Supervised fine-tuning, the same for the seed model and every arm; each starts from the base model."""

    learning_rate: float = 1e-3
    """Peak; decays linearly to 0."""
    epochs: int = 3
    """Passes over the rows."""
    batch_size: int = 4
    """Rows per forward pass."""
    accumulate: int = 1
    """Forward passes per optimizer step."""
    warmup: float = 0.05
    """Share of the steps during which the rate rises."""
    weight_decay: float = 0.0
    """Of AdamW."""
    max_length: int = 1024
    """Longer rows are left out and counted."""

    def __post_init__(self) -> None:
        """Check ranges."""
        check_optimizer(self, "method.sft")


@dataclass
class GenerationConfig:
    """Calls that the model writes."""

    samples: int = 5
    """Beside the greedy call: for self-consistency and PGR."""
    temperature: float = 0.7
    """Of the samples."""
    max_tokens: int = 192
    """Longest argument object."""
    constrained: bool = False
    """Held to the tool's JSON schema while it is written."""
    batch_size: int = 64
    """Calls at once."""
    precision: str = "auto"
    """Of the models that write and are read: auto (bf16 where the hardware multiplies it natively) | fp32 | bf16."""

    def __post_init__(self) -> None:
        """Check ranges."""
        at_least(self.samples, 0, "method.generation.samples")
        at_least(self.temperature, 0, "method.generation.temperature", strict=True)
        at_least(self.max_tokens, 1, "method.generation.max_tokens")
        at_least(self.batch_size, 1, "method.generation.batch_size")
        one_of(self.precision, ("auto", "fp32", "bf16"), "method.generation.precision")


@dataclass
class ValueProbeConfig:
    """The probe on the state just before each value."""

    layer: int | None = None
    """Which layer; None is round(2L/3)."""
    curve: bool = False
    """Also fit a probe on every layer."""
    samples: int | None = None
    """Drawn answers of each labelled task, beside the greedy one: rows to learn from. None: generation.samples."""
    folds: int = 2
    """Cross-fitting: each part of the labelled tasks is answered by a model that was trained on the others."""
    shuffles: int = 3
    """Times the labels are shuffled: the control."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.layer is not None:
            at_least(self.layer, 0, "method.probe.layer")
        if self.samples is not None:
            at_least(self.samples, 0, "method.probe.samples")
        at_least(self.folds, 2, "method.probe.folds")
        at_least(self.shuffles, 0, "method.probe.shuffles")


@dataclass
class FilterConfig:
    """Which of its own calls the model learns from."""

    arms: list[str] = field(default_factory=lambda: list(FILTERS))
    """none | probe | logprob | consistency | p_true | control | oracle; one retrained model each."""
    equal: bool = True
    """Also at equal counts: every arm keeps as many calls as the probe does, its best ones."""
    thresholds: list[float] = field(default_factory=lambda: [0.8, 0.9, 0.95])
    """Of the probe; chosen on validation by F0.5. Other signals choose among quantiles of their own scores."""
    rounds: int = 1
    """Generate, filter, retrain: so many times."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        for name in self.arms:
            one_of(name, FILTERS, "method.filter.arms")
        for threshold in self.thresholds:
            between(threshold, 0, 1, "method.filter.thresholds")
        if not self.thresholds:
            raise UserError("is empty", where="method.filter.thresholds", expected="at least one")
        at_least(self.rounds, 1, "method.filter.rounds")


@dataclass
class RerankConfig:
    """PGR: one greedy call and samples, put together by the probe."""

    of: list[str] = field(default_factory=lambda: ["seed", "probe"])
    """Models whose calls are reranked: seed, or arms; [] leaves it out."""
    strategies: list[str] = field(default_factory=lambda: list(STRATEGIES))
    """To choose from, by 5-fold cross-validation on the labelled tasks."""

    def __post_init__(self) -> None:
        """Check words."""
        for name in self.of:
            one_of(name, ("seed", *FILTERS), "method.rerank.of")
        for name in self.strategies:
            one_of(name, STRATEGIES, "method.rerank.strategies")


@dataclass
class PbtConfig(MethodConfig):
    """Can a probe on hidden states pick the right argument values?"""

    uses: ClassVar[frozenset[str]] = frozenset({"catalog", "model"})

    division: DivisionConfig = field(default_factory=DivisionConfig)
    """Which tasks are for what."""
    prompt: PromptConfig = field(default_factory=PromptConfig)
    """What a model sees of a task."""
    sft: SftConfig = field(default_factory=SftConfig)
    """How models are trained."""
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    """How calls are written."""
    probe: ValueProbeConfig = field(default_factory=ValueProbeConfig)
    """Hidden states."""
    filter: FilterConfig = field(default_factory=FilterConfig)
    """Self-training and its baselines."""
    rerank: RerankConfig = field(default_factory=RerankConfig)
    """PGR."""
    baselines: bool = True
    """Also the base model, zero-shot and with examples."""
    resamples: int = 2000
    """Of the bootstrap."""

    def __post_init__(self) -> None:
        """Check ranges."""
        at_least(self.resamples, 1, "method.resamples")
        if not self.division.unlabelled and self.filter.arms:
            raise UserError(
                "there is nothing to label", where="method.division.unlabelled",
                expected=">= 1 with method.filter.arms",
                fix="method.filter.arms=[] trains the seed model alone",
            )  # fmt: skip
        if not self.division.validation and (chosen := [a for a in self.filter.arms if a in SIGNALS]):
            raise UserError(
                f"no threshold of {', '.join(chosen)} can be chosen", where="method.division.validation",
                expected=">= 1 with these arms", fix="method.division.validation=80",
            )  # fmt: skip
        if "consistency" in self.filter.arms and self.generation.samples < 2:
            raise UserError(
                f"{self.generation.samples} samples agree on nothing", where="method.generation.samples",
                expected=">= 2 with the arm consistency", fix="method.generation.samples=5, or leave the arm out",
            )  # fmt: skip
        for name in self.rerank.of:
            if name != "seed" and name not in self.filter.arms:
                raise UserError(
                    f"{name!r} is retrained by no arm", where="method.rerank.of", expected="seed, or one of the arms",
                    fix=f"method.filter.arms=[..., {name}], or leave it out of method.rerank.of",
                )  # fmt: skip
