"""How several devices train one model: copies of it (ddp), shards of it (fsdp), shards of the optimizer (deepspeed)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
from pytorch_lightning.strategies import DDPStrategy, ModelParallelStrategy
from torch import nn
from torch.distributed.tensor import DTensor

from toolsavvy.config.trainers import require_deepspeed
from toolsavvy.hidden.blocks import blocks
from toolsavvy.training.launching import Launcher

PATIENCE = timedelta(days=7)
"""How long a process waits for another: the first one evaluates in between, and a lost one is found in other ways."""


class _Launched:
    """Further ranks are started and looked after by our own launcher."""

    cluster_environment: Any
    num_processes: int
    num_nodes: int
    _launcher: Any

    def _configure_launcher(self) -> None:
        if not self.cluster_environment.creates_processes_externally:
            self._launcher = Launcher(self.cluster_environment, self.num_processes, self.num_nodes)


class DDP(_Launched, DDPStrategy):
    """A copy of the model on every device."""


class FSDP(_Launched, ModelParallelStrategy):
    """A shard of every weight, gradient and optimizer state on every device (torch's `fully_shard`).

    Args:
        devices: how many.
        bf16: multiply in bfloat16.
    """

    def __init__(self, devices: int, bf16: bool) -> None:
        super().__init__(devices, 1, save_distributed_checkpoint=False, timeout=PATIENCE)
        self.bf16 = bf16


def strategy_of(name: str, devices: int, *, bf16: bool = False, stage: int = 2, offload: bool = False) -> Any:
    """Lightning's strategy of a name in the config.

    Args:
        name: auto | ddp | fsdp | deepspeed.
        devices: how many; -1 is all.
        bf16: shards multiply in bfloat16.
        stage: of DeepSpeed's ZeRO, 1 or 2.
        offload: DeepSpeed keeps the optimizer's state in the memory of the CPU.

    Raises:
        UserError: DeepSpeed is not installed.
    """
    if name == "fsdp":
        return FSDP(devices if devices > 0 else torch.cuda.device_count(), bf16)
    if name == "deepspeed":
        require_deepspeed()
        return _deepspeed(stage, offload)
    return DDP(timeout=PATIENCE) if name == "ddp" or devices != 1 else "auto"


def _deepspeed(stage: int, offload: bool) -> Any:
    """ZeRO of stage 1 or 2: the weights stay whole, so that single rows of them can be read and trained."""
    from pytorch_lightning.strategies import DeepSpeedStrategy

    class DeepSpeed(_Launched, DeepSpeedStrategy):
        """Shards of optimizer states (and gradients)."""

    return DeepSpeed(stage=stage, offload_optimizer=offload, timeout=PATIENCE)


def sharded(module: nn.Module, model: Any, mesh: Any, *, bf16: bool) -> Any:
    """A copy of a module's structure whose weights are shards of the module's; the module itself is left as it is.

    Args:
        module: holds a causal LM; every rank has it whole, in the memory of the CPU.
        model: the causal LM in it, whose blocks are put together one at a time.
        mesh: of the devices.
        bf16: multiply in bfloat16; weights, gradients' sums and the optimizer stay in float32.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    # Weights are replaced by shapes before anything is copied: memory never holds a second model.
    memo: dict[int, Any] = {id(p): nn.Parameter(torch.empty_like(p, device="meta")) for p in module.parameters()}
    inner, empty = {id(b) for b in blocks(model)}, copy.deepcopy(module, memo)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if bf16 else MixedPrecisionPolicy()
    pairs = list(zip(module.modules(), empty.modules(), strict=True))
    for part in [copied for own, copied in pairs if id(own) in inner]:
        fully_shard(part, mesh=mesh, mp_policy=policy)
    fully_shard(empty, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    _fill(empty, dict(module.named_parameters(remove_duplicate=False)), mesh)
    return empty


def _fill(empty: nn.Module, whole: Mapping[str, nn.Parameter], mesh: Any) -> None:
    """Cut this rank's shard out of every weight; what was tied stays tied."""
    from torch.distributed.tensor import distribute_tensor

    made: dict[int, nn.Parameter] = {}
    for name, shape in list(empty.named_parameters(remove_duplicate=False)):
        if id(shape) not in made:
            given, placed = whole[name].detach().to(mesh.device_type), shape
            assert isinstance(placed, DTensor)
            made[id(shape)] = nn.Parameter(distribute_tensor(given, mesh, placed.placements), whole[name].requires_grad)
        owner, _, last = name.rpartition(".")
        setattr(empty.get_submodule(owner), last, made[id(shape)])
    for buffer in empty.buffers():
        buffer.data = buffer.data.to(mesh.device_type)


@torch.no_grad()
def gather(shards: nn.Module, module: nn.Module) -> None:
    """Write the weights of a sharded copy back into the module; every rank must take part."""
    whole = dict(module.named_parameters())
    for name, shard in shards.named_parameters():
        whole[name].copy_(shard.full_tensor() if isinstance(shard, DTensor) else shard)
