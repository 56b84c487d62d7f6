"""What tests of several areas share: a toy world that is built in a second, and an offline W&B run read back."""

from __future__ import annotations

import json
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolsavvy.catalog import RetrievalSet
    from toolsavvy.models.tuning import Tuning
    from toolsavvy.models.virtual import ToolModel

_BLOCK = 32 * 1024
_HEADER = 7
_FULL, _LAST = 1, 4


@dataclass
class WandbRun:
    """What one offline run would tell the server."""

    id: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    name: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    axes: set[tuple[str, str]] = field(default_factory=set)
    exit_code: int | None = None


def wandb_records(path: Path) -> list[bytes]:
    """The payloads of a `.wandb` file: a 7-byte file header, then LevelDB's log format (32 KiB blocks)."""
    data = path.read_bytes()
    assert data[:4] == b":W&B", path
    found, part, at = [], b"", _HEADER
    while at + _HEADER <= len(data):
        if (left := _BLOCK - at % _BLOCK) < _HEADER:  # padding at a block's end
            at += left
            continue
        _crc, length, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        part += data[at + _HEADER : at + _HEADER + length]
        at += _HEADER + length
        if kind in (_FULL, _LAST):
            found.append(part)
            part = b""
    return found


def _items(items: Any) -> dict[str, Any]:
    """Key (or nested key, joined with '.') -> value."""
    return {(i.key or ".".join(i.nested_key)): json.loads(i.value_json) for i in items}


def read_wandb(folder: Path) -> WandbRun:
    """Read the only offline run below a run folder."""
    from wandb.proto import wandb_internal_pb2 as pb

    (path,) = folder.glob("wandb/**/*.wandb")
    run = WandbRun()
    for payload in wandb_records(path):
        record = pb.Record()
        record.ParseFromString(payload)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            r = record.run
            run.id, run.project, run.group, run.job_type = r.run_id, r.project, r.run_group, r.job_type
            run.name, run.tags = r.display_name, list(r.tags)
            run.config |= _items(r.config.update)
        elif kind == "config":
            run.config |= _items(record.config.update)
        elif kind == "history":
            run.history.append(_items(record.history.item))
        elif kind == "summary":
            run.summary |= _items(record.summary.update)
        elif kind == "metric" and record.metric.step_metric:
            run.axes.add((record.metric.name or record.metric.glob_name, record.metric.step_metric))
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    return run


def finished_wandb(folder: Path, seconds: float = 30) -> WandbRun:
    """The same, once W&B's own process, which outlives the run by a moment, has closed the file."""
    (path,) = folder.glob("wandb/**/*.wandb")
    end, before = time.monotonic() + seconds, -1
    while time.monotonic() < end:
        size = path.stat().st_size
        if size == before and (found := read_wandb(folder)).exit_code is not None:
            return found
        before = size
        time.sleep(0.25)
    raise AssertionError(f"no end in {path}")


TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""A chat template with a default system prompt, whose first token is the BOS."""


def toy_tokenizer(texts: list[str], vocabulary: int = 420, *, template: str | None = None) -> Any:
    """A byte-level BPE that knows the words of these texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token=special[0], eos_token=special[1], pad_token=special[1], chat_template=template
    )


def toy_lm(tokenizer: Any, *, tied: bool = True, seed: int = 0, padded: int = 0) -> Any:
    """A random 2-layer Llama of width 64; `padded` more rows than tokens, as some models have."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + padded, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, initializer_range=0.1,
        tie_word_embeddings=tied, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def toy_set(tools: int = 8, seed: int = 0, **settings: Any) -> RetrievalSet:
    """A toy catalog with queries, all tools taught unless asked otherwise."""
    from toolsavvy.catalogs.toy import load

    return load(tools, seed, **({"taught_share": 1.0} | settings))


def toy_tools(
    data: RetrievalSet,
    scheme: str = "atomic",
    *,
    tied: bool = True,
    init: str = "name",
    seed: int = 0,
    tuning: Tuning | None = None,
) -> ToolModel:
    """A language model that holds the set's tools by untrained codes, ready to train when `tuning` is given."""
    from toolsavvy.indexing import codes
    from toolsavvy.models.text import chat_frame
    from toolsavvy.models.tuning import adapt
    from toolsavvy.models.virtual import add_virtual_tokens

    texts = [*data.catalog.documents, *(q.text for queries in data.splits.values() for q in queries)]
    tokenizer = toy_tokenizer(texts)
    model = toy_lm(tokenizer, tied=tied, seed=seed)
    book = codes(data.catalog, scheme, branches=3, queries=data.train)
    tools = add_virtual_tokens(model, tokenizer, data.catalog, book, chat_frame(tokenizer), init=init, seed=seed)
    return tools if tuning is None else adapt(tools, tuning, seed)


def train_toy(tools: ToolModel, rows: Any, *, epochs: int, rate: float, batch: int = 8, **settings: Any) -> Any:
    """Train on rows for some epochs and give back the Lightning module."""
    from toolsavvy.training.fitting import Hardware, fit
    from toolsavvy.training.sft import CausalSFT, RowData

    data = RowData(rows, batch, tools.eos_id, 0)
    module = CausalSFT(tools, learning_rate=rate, steps=epochs * len(data.sampler), **settings)
    fit(module, data, epochs=epochs, seed=0, hardware=Hardware(precision="fp32", threads=1))
    return module
