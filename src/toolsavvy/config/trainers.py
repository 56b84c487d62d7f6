"""What must be true of the trainer group before a run starts: devices, their numbers, and who can share a training."""

from __future__ import annotations

import importlib.util

from toolsavvy.config.methods import ContrastiveConfig, EvaluateConfig, ToolgenConfig
from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError

TRAINS_ON_SEVERAL = (ToolgenConfig, ContrastiveConfig, EvaluateConfig)
"""Methods whose trainings several devices share; the others' short ones stand between generations of one process."""


def check_trainer(config: Config) -> None:
    """Refuse what the machine or the method cannot do; torch is imported only where a GPU is asked for.

    Raises:
        UserError: no such device, a strategy that does not fit what is trained, or a package that is missing.
    """
    if not config.method.uses:
        return
    _check_method(config)
    _check_strategy(config)
    if config.trainer.accelerator == "gpu":
        _check_gpus(config)


def _check_method(config: Config) -> None:
    trainer, kind = config.trainer, type(config.method).__name__.removesuffix("Config").lower()
    if trainer.accelerator == "cpu" and trainer.devices == -1:
        raise UserError(
            "how many processes are 'all' of a CPU?", where="trainer.devices", expected="a number on a CPU",
            fix="trainer.devices=2",
        )  # fmt: skip
    if trainer.devices != 1 and not isinstance(config.method, TRAINS_ON_SEVERAL):
        raise UserError(
            f"method={kind} trains on one device: its trainings stand between generations that one process makes",
            where="trainer.devices", expected="1 with this method", fix="trainer=gpu, or trainer=cpu",
        )  # fmt: skip


def _check_strategy(config: Config) -> None:
    """Shards need a causal model that trains as a whole, DeepSpeed its package and GPUs."""
    strategy = config.trainer.strategy
    if strategy == "fsdp" and not isinstance(config.method, ToolgenConfig):
        raise UserError(
            "encoders are not trained in shards", where="trainer.strategy=fsdp",
            expected="method=toolgen, which trains a causal language model", fix="trainer=ddp",
        )  # fmt: skip
    if strategy == "fsdp" and config.tuning.kind != "full":
        raise UserError(
            "adapters are not trained in shards: they are small, and their base model fits where it is evaluated",
            where="trainer.strategy=fsdp", expected="tuning=full", fix="trainer=ddp, or tuning=full",
        )  # fmt: skip
    if strategy == "deepspeed":
        require_deepspeed()
        if config.trainer.accelerator == "cpu":
            raise UserError("DeepSpeed needs GPUs", where="trainer.accelerator", expected="gpu", fix="trainer=cpu")
        if isinstance(config.method, ContrastiveConfig):
            raise UserError(
                "gradients of contrastive training are known before DeepSpeed could make them",
                where="trainer.strategy=deepspeed", expected="auto or ddp with method=contrastive", fix="trainer=ddp",
            )  # fmt: skip


def require_deepspeed() -> None:
    """DeepSpeed is an extra.

    Raises:
        UserError: it is not installed.
    """
    if importlib.util.find_spec("deepspeed") is None:
        raise UserError(
            "DeepSpeed is not installed", where="trainer.strategy", expected="auto, ddp or fsdp without it",
            fix="pip install 'toolsavvy[deepspeed]', or trainer=ddp",
        )  # fmt: skip


def _check_gpus(config: Config) -> None:
    """As many GPUs as asked for, and numbers that they have."""
    import torch

    there, wanted = torch.cuda.device_count() if torch.cuda.is_available() else 0, config.trainer.devices
    if not there:
        raise UserError(
            "no GPU is visible to torch", where="trainer.accelerator", expected="cpu", fix="add trainer=cpu"
        )
    if wanted > there:
        raise UserError(
            f"{wanted} GPUs are asked for, torch sees {there}", where="trainer.devices",
            expected=f"1 to {there}, or -1 for all", fix=f"trainer.devices={there}",
        )  # fmt: skip
    if config.trainer.precision == "bf16" and not torch.cuda.is_bf16_supported():
        raise UserError(
            f"{torch.cuda.get_device_name()} does not multiply in bfloat16", where="trainer.precision",
            expected="fp32, or auto", fix="trainer.precision=fp32",
        )  # fmt: skip
