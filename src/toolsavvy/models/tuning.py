"""LoRA or full tuning of a tool model; snapshots, interpolation, saving, merging and reloading."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from toolsavvy.errors import UserError
from toolsavvy.models.loading import UNREADABLE, atomic_folder, load_fault, quiet_transformers
from toolsavvy.models.serving import save_served
from toolsavvy.models.text import Frame, TextEncoder
from toolsavvy.models.virtual import ToolModel

TOOLS_FILE = "tools.json"


@dataclass(frozen=True)
class Tuning:
    """How weights are adapted.

    Args:
        kind: "lora" (adapters plus the new tokens' rows) or "full".
        rank: LoRA r.
        alpha: numerator of the LoRA scaling alpha / r.
        dropout: LoRA dropout.
        targets: module names, or "all-linear".
        first_block: adapters sit on this block and those above it (0 is the lowest).
    """

    kind: str = "lora"
    rank: int = 16
    alpha: float = 32
    dropout: float = 0.0
    targets: str | tuple[str, ...] = "all-linear"
    first_block: int = 0


def adapt(tools: ToolModel, tuning: Tuning, seed: int = 0) -> ToolModel:
    """Wrap the model for training, in place.

    With LoRA the new rows of *both* embeddings train beside the adapters: a plain list of token indices would leave
    the output rows of untied models at their start.
    """
    tools.model = adapted(tools.model, tuning, seed, list(tools.new_ids))
    return tools


def adapted(model: Any, tuning: Tuning, seed: int = 0, new_ids: Sequence[int] = ()) -> Any:
    """A causal model ready for training: with adapters, and the rows of new tokens beside them, or as a whole."""
    if tuning.kind == "full":
        return model.requires_grad_(True)
    from peft import LoraConfig, get_peft_model

    targets: str | list[str] = tuning.targets if isinstance(tuning.targets, str) else list(tuning.targets)
    if tuning.first_block and targets == "all-linear":  # peft takes layers only with names
        targets = _linear_names(model)
    alpha: Any = tuning.alpha  # peft says int and divides it by r
    depth = _depth(model)
    if tuning.first_block >= depth:
        raise UserError(
            f"block {tuning.first_block} of {depth}", where="tuning.first_block", expected=f"0 to {depth - 1}"
        )
    upper = list(range(tuning.first_block, depth)) if tuning.first_block else None
    rows = {name: list(new_ids) for name in _embedding_names(model)} if new_ids else None
    config = LoraConfig(
        r=tuning.rank, lora_alpha=alpha, lora_dropout=tuning.dropout, target_modules=targets,
        trainable_token_indices=rows, task_type="CAUSAL_LM", layers_to_transform=upper,
    )  # fmt: skip
    with quiet_transformers(), torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(model, config)


def _depth(model: Any) -> int:
    """Number of decoder blocks."""
    config = model.config
    config = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    return int(config.num_hidden_layers)


def _linear_names(model: Any) -> list[str]:
    """Last names of the linear layers, but for the one over the vocabulary."""
    head = model.get_output_embeddings()
    names = [n for n, m in model.named_modules() if isinstance(m, nn.Linear) and m is not head]
    return sorted({name.rsplit(".", 1)[-1] for name in names})


def _embedding_names(model: Any) -> list[str]:
    wanted = {id(model.get_input_embeddings()), id(model.get_output_embeddings())}
    return [name.rsplit(".", 1)[-1] for name, module in model.named_modules() if id(module) in wanted]


def plain(model: nn.Module) -> Any:
    """The causal LM under PEFT's wrapper (adapters stay in place and active)."""
    base = getattr(model, "get_base_model", None)
    return model if base is None else base()


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """Copy every trainable tensor."""
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


@torch.no_grad()
def restore(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Write a snapshot back."""
    parameters = dict(model.named_parameters())
    for name, value in state.items():
        parameters[name].copy_(value)


def interpolate(start: Mapping[str, Tensor], end: Mapping[str, Tensor], weight: float) -> dict[str, Tensor]:
    """Weights between two snapshots: `weight` 0 gives `start`, 1 gives `end` (WiSE-FT, on adapters and rows)."""
    return {name: torch.lerp(start[name], end[name], weight) for name in end}


def merged(model: nn.Module) -> Any:
    """A plain transformers model with adapters and rows folded in; the original is left as it was."""
    if not hasattr(model, "merge_and_unload"):
        return model
    copied: Any = copy.deepcopy(model)
    return copied.merge_and_unload()


def save(tools: ToolModel, folder: Path, *, adapter_only: bool = False) -> None:
    """Write a reloadable model: merged safetensors, tokenizer and tool codes; with LoRA the adapter beside it.

    Raises:
        UserError: the folder cannot be written; nothing half-written is left.
    """
    model: Any = tools.model
    with quiet_transformers(), atomic_folder(folder) as temporary:
        if hasattr(model, "peft_config"):
            # The new rows are stored as rows; the whole embedding matrix beside them would be a thousand times larger.
            model.save_pretrained(temporary / "adapter", save_embedding_layers=False)
        if adapter_only:
            tools.tokenizer.save_pretrained(temporary)
        else:
            save_served(merged(model), tools.tokenizer, tools.frame, temporary)
        record = {
            "scheme": tools.scheme, "fingerprint": tools.fingerprint, "tool_ids": tools.tool_ids, "codes": tools.codes,
            "new_ids": tools.new_ids, "prefix": tools.frame.prefix, "suffix": tools.frame.suffix,
            "end": tools.frame.end,
        }  # fmt: skip
        (temporary / TOOLS_FILE).write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")


def load(folder: Path, *, fingerprint: str | None = None) -> ToolModel:
    """Reload a saved tool model with plain transformers.

    Args:
        folder: written by `save`.
        fingerprint: of the catalog it is to be used with; None to skip the check.

    Raises:
        UserError: the folder is no tool model, is damaged, or was trained on another catalog.
    """
    record = _record(folder)
    if fingerprint is not None and record["fingerprint"] != fingerprint:
        raise UserError(
            "this model was trained on another catalog", where=str(folder),
            expected=f"catalog fingerprint {fingerprint[:12]}, the model has {record['fingerprint'][:12]}",
            fix="use the same catalog settings (operations, seed, document) as the run that trained it",
        )  # fmt: skip
    try:
        with quiet_transformers():
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, *UNREADABLE) as error:
        raise _damaged(folder, error) from error
    text = TextEncoder(tokenizer)
    frame = Frame(tuple(record["prefix"]), tuple(record["suffix"]), tuple(record["end"]))
    codes = tuple(tuple(code) for code in record["codes"])
    return ToolModel(
        model, tokenizer, text, frame, codes, tuple(record["tool_ids"]), tuple(record["new_ids"]),
        record["fingerprint"], record["scheme"],
    )  # fmt: skip


def _record(folder: Path) -> dict[str, Any]:
    """What `save` wrote about the tools."""
    path = folder / TOOLS_FILE
    if not path.is_file():
        raise UserError(
            f"{folder} holds no trained tool model", where="method.resume_from", expected=f"a folder with {TOOLS_FILE}",
            fix="give the model/ folder of a finished toolgen run",
        )  # fmt: skip
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        missing = {"scheme", "fingerprint", "tool_ids", "codes", "new_ids", "prefix", "suffix", "end"} - set(record)
    except (ValueError, TypeError) as error:
        raise _damaged(path, error) from error
    if missing:
        raise _damaged(path, KeyError(", ".join(sorted(missing))))
    return record


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(
        f"the saved tool model is damaged ({type(error).__name__}: {load_fault(error)})",
        where=str(path), expected="the files that a finished run wrote to model/",
        fix="copy the folder again, or train again",
    )  # fmt: skip
