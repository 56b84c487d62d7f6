"""The keys of every method, their types and ranges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from toolsavvy.config.base import MethodConfig
from toolsavvy.config.necessity import NecessityConfig
from toolsavvy.config.parameters import PbtConfig
from toolsavvy.config.ranges import at_least, between, check_optimizer, one_of
from toolsavvy.config.schema import FORMATS, REPORTS
from toolsavvy.errors import UserError

REPORTED = ("recall", "precision", "ndcg", "completeness", "mrr", "map", "internalization")
"""Metrics with a cut-off that a report can pool."""
USABLE = ("catalog", "encoder", "generator", "indexing", "llm", "model", "questions", "reranker", "retriever", "suite")
"""Groups that a method of the user's own can read."""


@dataclass
class RecipeConfig:
    """One way to do stage 2 (query -> token)."""

    learning_rate: float | None = None
    """Peak; decays linearly to 0. None: `tuning.retrieval_rate`."""
    epochs: int = 4
    """Passes over the query rows."""
    warmup: float = 0.03
    """Share of the steps during which the rate rises."""
    weight_decay: float = 0.0
    """Of AdamW."""
    batch_size: int = 16
    """Rows per optimizer step."""
    accumulate: int = 2
    """Forward passes that an optimizer step is made of: more passes of fewer rows take less memory."""
    max_length: int = 96
    """Tokens of the query or replayed document; its end is cut, never the label."""
    keep: str = "best"
    """Weights that are evaluated: best (recall on the validation queries) | last."""
    replay: list[str] = field(default_factory=list)
    """Formats of stage-1 rows mixed in, as `memorization.formats` lists them."""
    repeat: int = 1
    """How often the query rows stand in an epoch, to balance them against what is replayed."""
    targets: str = "rows"
    """rows: one row per gold tool; set: probability mass shared over all golds of a query."""
    negatives: str = "all"
    """Tool tokens that the softmax of a query row runs over: all | taught (those with query rows)."""
    interpolation: float = 0.0
    """Weights after training move this far back towards stage 1 (0 = not at all)."""
    kl: float = 0.0
    """Weight of the KL divergence towards stage 1 on replayed rows."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        where = "method.recipes.<name>"
        for name in self.replay:
            one_of(name, FORMATS, f"{where}.replay")
        one_of(self.targets, ("rows", "set"), f"{where}.targets")
        one_of(self.negatives, ("all", "taught"), f"{where}.negatives")
        between(self.interpolation, 0, 1, f"{where}.interpolation")
        at_least(self.kl, 0, f"{where}.kl")
        at_least(self.repeat, 1, f"{where}.repeat")
        check_optimizer(self, where)


@dataclass
class FusionConfig:
    """One ranking made of several systems' rankings."""

    members: list[str] = field(default_factory=list)
    """Names of systems in the table."""
    rule: str = "rrf"
    """rrf (reciprocal ranks) | minmax | zscore (scores, normalised per query)."""
    weights: dict[str, float] = field(default_factory=dict)
    """Of members. None given: two members' are chosen on the validation queries, else all are 1."""

    def __post_init__(self) -> None:
        """Check the rule, and that something is fused."""
        one_of(self.rule, ("rrf", "minmax", "zscore"), "method.fusions.<name>.rule")
        if len(self.members) < 2:
            raise UserError("needs two members", where="method.fusions.<name>.members", expected="names of systems")


@dataclass
class ToolgenConfig(MethodConfig):
    """Two-stage ToolGen and its rivals."""

    uses: ClassVar[frozenset[str]] = frozenset({"catalog", "model", "encoder", "indexing", "retriever", "suite"})

    rivals: bool = True
    """Also evaluate the retrievers, the fine-tuned encoder and nearest training queries."""
    depth: int = 50
    """Outputs ranked per query, the same for every system and decoding mode."""
    batch_size: int = 32
    """Queries per forward pass of the evaluation."""
    recipes: dict[str, RecipeConfig] = field(default_factory=dict)
    """Name -> recipe of stage 2; each starts from the same stage 1."""
    fusions: dict[str, FusionConfig] = field(default_factory=dict)
    """Name -> systems that are fused into one more row of the table."""
    resume_from: str | None = None
    """model/ of an earlier run to start from, instead of the base model."""

    def __post_init__(self) -> None:
        """Check ranges."""
        at_least(self.depth, 1, "method.depth")
        at_least(self.batch_size, 1, "method.batch_size")


@dataclass
class AnswersConfig:
    """How the run's model answers parameter tasks."""

    schema_tokens: int = 256
    """Of the tool's schema, where that suffices for what is required."""
    context_tokens: int = 384
    """Of earlier calls and their results."""
    max_tokens: int = 192
    """Longest argument object; what is cut off holds no call."""
    constrained: bool = False
    """Held to the tool's JSON schema while it is written."""
    batch_size: int = 64
    """Calls at once."""

    def __post_init__(self) -> None:
        """Check ranges."""
        at_least(self.schema_tokens, 16, "method.answers.schema_tokens")
        at_least(self.context_tokens, 0, "method.answers.context_tokens")
        at_least(self.max_tokens, 1, "method.answers.max_tokens")
        at_least(self.batch_size, 1, "method.answers.batch_size")


@dataclass
class EvaluateConfig(MethodConfig):
    """Any systems on any suites."""

    uses: ClassVar[frozenset[str]] = frozenset({"catalog", "retriever", "suite"})

    depth: int = 50
    """Tools ranked per query, the same for every system."""
    instructions: list[str] = field(default_factory=list)
    """How queries are asked: without, with or both; [] is as each system's own use_instruction says."""
    probe_model: bool = True
    """Where suites ask questions (mcq, qa): also ask the run's model, as it is, without, by name and by document."""
    answers: AnswersConfig = field(default_factory=AnswersConfig)
    """With suite=parameters and no file of predictions: how the run's model, as it is, answers."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        at_least(self.depth, 1, "method.depth")
        _check_instructions(self.instructions)


@dataclass
class GenerateConfig(MethodConfig):
    """Makes a set by the chosen generator, which names the groups that it reads."""

    uses: ClassVar[frozenset[str]] = frozenset({"generator"})


@dataclass
class ReportConfig(MethodConfig):
    """Tells what finished runs say together; reads the folders that `runs` names, and no group."""

    kind: str = "page"
    """page (everything about any runs) | seeds (pooled, compared) | dissociation (what models know beside what they
    retrieve) | necessity (runs of it) | pass_rate (of suite=downstream, beside retrieval) | pbt (runs of it)."""
    metrics: list[str] = field(default_factory=list)
    """`name@k` each, in the order of the columns; of page and seeds."""
    slices: list[str] = field(default_factory=list)
    """Test splits and `split/subset`; [] is all of them."""
    ratios: list[Any] = field(default_factory=list)
    """Pairs [system, rival] that are compared by difference and ratio."""
    resamples: int = 2000
    """Of the bootstrap, over seeds and clusters of queries."""

    def __post_init__(self) -> None:
        """Check names, pairs and ranges."""
        one_of(self.kind, REPORTS, "method.kind")
        for metric in self.metrics:
            name, _, k = metric.partition("@")
            one_of(name, REPORTED, "method.metrics")
            if not k.isdecimal() or not int(k):
                raise UserError(f"{metric!r} has no cut-off", where="method.metrics", expected=f"{name}@5")
        for pair in self.ratios:
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
                expected = "pairs of systems: [[toolgen_replay,toolgen_stage1]]"
                raise UserError(f"{pair!r} is no pair", where="method.ratios", expected=expected)
        for name in ("slices", "ratios"):
            if self.kind == "page" and getattr(self, name):
                what = "the page shows all systems and slices, and takes no choice of them"
                fix = "add method.kind=seeds, or pass_rate"
                raise UserError(what, where=f"method.{name}", expected="another method.kind", fix=fix)
        at_least(self.resamples, 1, "method.resamples")


@dataclass
class DoctorConfig(MethodConfig):
    """Looks at the machine; reads no group."""

    self_test: bool = True
    """Also try small runs on made-up data, some 20 seconds."""


@dataclass
class CustomConfig(MethodConfig):
    """A user's own method: `run(cfg, run)` in a module of theirs, its option in a folder that --config-dir names."""

    uses: list[str] = field(default_factory=list)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Groups that it reads: their paths and models are looked for before it starts."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Whatever it needs to be told: `cfg.method.settings["depth"]`. The file names all keys, with their defaults."""

    def __post_init__(self) -> None:
        """Check the groups, and make of them what every method has."""
        for group in self.uses:
            one_of(group, USABLE, "method.uses")
        self.uses = frozenset(self.uses)  # type: ignore[assignment]


@dataclass
class MiningConfig:
    """Where hard negatives come from."""

    retriever: Any = None
    """Arguments of any retriever; None is the encoder as it was before training."""
    window: list[int] = field(default_factory=lambda: [1, 60])
    """First and last rank of the candidates, from 1."""
    relative: float | None = 0.95
    """Drop candidates that score above this share of the gold's score: likely golds that nobody marked."""
    margin: float | None = None
    """Drop candidates that score above the gold's score less this."""
    duplicates: float | None = None
    """Tools whose documents' cosine reaches this are no negatives for one another; None: the same document alone."""
    given: bool = False
    """Use the negatives that came with the rows (TOOLRET-train) instead of mining."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if len(self.window) != 2 or not 1 <= self.window[0] <= self.window[1]:
            fix = "method.mining.window=[1,60]"
            raise UserError(
                f"{self.window} is no window", where="method.mining.window", expected="1 <= first <= last rank", fix=fix
            )
        if self.margin is not None:
            at_least(self.margin, 0, "method.mining.margin")
        for key in ("relative", "duplicates"):
            if getattr(self, key) is not None:
                between(getattr(self, key), 0, 1, f"method.mining.{key}")
        if self.retriever is not None and not (isinstance(self.retriever, dict) and "_target_" in self.retriever):
            where, expected = "method.mining.retriever", "null, or arguments with a _target_"
            fix = "take those of a chosen one: retriever=bm25 'method.mining.retriever=${retriever.bm25}'"
            raise UserError(f"{self.retriever!r} is no retriever", where=where, expected=expected, fix=fix)


@dataclass
class ContrastiveRecipeConfig:
    """One way to make an encoder tool-savvy."""

    learning_rate: float | None = None
    """Peak; decays linearly to 0. None: 5e-5 for tuning=full (the paper's), 5e-4 for tuning=lora."""
    epochs: int = 3
    """Passes over the (query, tool) pairs."""
    warmup: float = 0.1
    """Share of the steps during which the rate rises."""
    weight_decay: float = 0.01
    """Of AdamW."""
    batch_size: int = 64
    """Pairs a batch, over all processes."""
    temperature: float = 0.05
    """Cosines are divided by it."""
    symmetric: bool = False
    """Also find the query, given the tool."""
    negatives: int = 3
    """Hard negatives that each pair draws anew in every epoch; 0 leaves those of the batch."""
    instructions: str = "without"
    """How training queries are asked: without | with | mixed (by turns)."""
    max_length: int = 128
    """Tokens per text while training."""
    chunk: int | None = None
    """Texts of similar length embedded together; None is 16 on a CPU, else 128."""
    cached: bool = False
    """Keep no graph over chunks: the memory of one chunk for any batch size, for one more forward pass."""
    keep: str = "best"
    """Weights that are evaluated: best (recall@1 on the validation queries) | last."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        where = "method.recipes.<name>"
        one_of(self.instructions, ("without", "with", "mixed"), f"{where}.instructions")
        one_of(self.keep, ("best", "last"), f"{where}.keep")
        if self.learning_rate is not None:
            at_least(self.learning_rate, 0, f"{where}.learning_rate", strict=True)
        at_least(self.temperature, 0, f"{where}.temperature", strict=True)
        between(self.warmup, 0, 1, f"{where}.warmup")
        at_least(self.weight_decay, 0, f"{where}.weight_decay")
        for key, low in (("epochs", 1), ("batch_size", 1), ("negatives", 0), ("max_length", 8)):
            at_least(getattr(self, key), low, f"{where}.{key}")
        if self.chunk is not None:
            at_least(self.chunk, 1, f"{where}.chunk")


@dataclass
class ContrastiveConfig(MethodConfig):
    """A tool-savvy encoder, before and after."""

    uses: ClassVar[frozenset[str]] = frozenset({"catalog", "encoder", "retriever", "suite"})

    rivals: bool = True
    """Also evaluate the retrievers."""
    depth: int = 50
    """Tools ranked per query, the same for every system."""
    instructions: list[str] = field(default_factory=list)
    """How test queries are asked: without, with or both; [] is as each system's own use_instruction says."""
    validation_tools: int = 2000
    """Tools ranked at the end of each epoch: the validation queries' golds and their nearest rivals; 0 is all."""
    recipes: dict[str, ContrastiveRecipeConfig] = field(default_factory=dict)
    """Name -> recipe; each starts from the same encoder."""
    mining: MiningConfig = field(default_factory=MiningConfig)
    """Hard negatives, the same for every recipe."""
    fusions: dict[str, FusionConfig] = field(default_factory=dict)
    """Name -> systems that are fused into one more row of the table."""

    def __post_init__(self) -> None:
        """Check ranges."""
        at_least(self.depth, 1, "method.depth")
        at_least(self.validation_tools, 0, "method.validation_tools")
        _check_instructions(self.instructions)
        if not self.recipes:
            raise UserError(
                "is empty",
                where="method.recipes",
                expected="at least one recipe",
                fix="+method.recipes={mine:{epochs:3}}",
            )
        for name in self.recipes:  # it names a folder, and a system of the table
            if not str(name).replace("-", "").replace("_", "").isalnum():
                expected = "letters, digits, _ and -"
                raise UserError(f"{name!r} is no name of a recipe", where="method.recipes", expected=expected)


def _check_instructions(words: list[str]) -> None:
    """How queries are asked."""
    for word in words:
        one_of(word, ("without", "with"), "method.instructions")


METHODS: dict[str, type[MethodConfig]] = {
    "toolgen": ToolgenConfig,
    "contrastive": ContrastiveConfig,
    "evaluate": EvaluateConfig,
    "generate": GenerateConfig,
    "necessity": NecessityConfig,
    "pbt": PbtConfig,
    "report": ReportConfig,
    "doctor": DoctorConfig,
    "custom": CustomConfig,
}
"""Option of the group `method` -> its schema; a new method of ours adds one line here and one file in conf/method,
one of the user's own has the schema `custom`."""
