"""Trainers that a machine or a method cannot have are refused before anything starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from toolsavvy.config import trainers
from toolsavvy.config.compose import compose, typed
from toolsavvy.errors import UserError

CPUS = ("trainer.accelerator=cpu", "trainer.devices=2", "trainer.precision=fp32")
REFUSED = [
    (("method=toolgen", "trainer=fsdp", *CPUS, "tuning=lora"), "adapters are not trained in shards", "tuning=full"),
    (("method=contrastive", "trainer=fsdp", *CPUS, "tuning=full"), "encoders are not trained in shards", "trainer=ddp"),
    (("method=toolgen", "trainer=deepspeed", *CPUS), "DeepSpeed is not installed", "toolsavvy\\[deepspeed\\]"),
    (("method=toolgen", "trainer=ddp", "trainer.accelerator=cpu"), "how many processes", "trainer.devices=2"),
    (("method=pbt", "trainer=ddp", *CPUS), "method=pbt trains on one device", "trainer=cpu"),
    (("method=necessity", "trainer.devices=2"), "method=necessity trains on one device", "trainer=cpu"),
]


def check(*overrides: str) -> None:
    trainers.check_trainer(typed(compose(overrides).config))


@pytest.mark.parametrize(("overrides", "what", "fix"), REFUSED)
def test_what_cannot_be_trained_so_is_refused(overrides: tuple[str, ...], what: str, fix: str) -> None:
    with pytest.raises(UserError, match=what) as caught:
        check(*overrides)
    assert caught.value.where.startswith("trainer.")
    with pytest.raises(UserError, match=fix):
        raise caught.value


@pytest.mark.parametrize(
    "overrides",
    [
        ("method=toolgen", "trainer=ddp", *CPUS), ("method=toolgen", "trainer=fsdp", *CPUS, "tuning=full"),
        ("method=contrastive", "trainer=ddp", *CPUS), ("method=evaluate", "trainer=ddp", *CPUS),
        ("method=pbt",), ("method=report", "trainer=ddp"),
    ],
)  # fmt: skip
def test_what_can_be_is_not(overrides: tuple[str, ...]) -> None:
    check(*overrides)


def test_a_strategy_is_spelled_right() -> None:
    with pytest.raises(UserError, match="did you mean 'fsdp'"):
        typed(compose(["method=toolgen", "trainer=ddp", "trainer.strategy=fsdpp"]).config)
    with pytest.raises(UserError, match="zero_stage"):
        typed(compose(["method=toolgen", "trainer=deepspeed", "trainer.zero_stage=3"]).config)


@pytest.mark.parametrize(
    ("devices", "precision", "what"),
    [(3, "fp32", "3 GPUs are asked for, torch sees 2"), (2, "bf16", "does not multiply in bfloat16"), (-1, "fp32", "")],
)
def test_as_many_gpus_as_there_are(monkeypatch: pytest.MonkeyPatch, devices: int, precision: str, what: str) -> None:
    """A machine with two old GPUs, as torch would tell of it."""
    import torch

    told: Any = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 2,
        is_bf16_supported=lambda: False,
        get_device_name=str,
    )
    monkeypatch.setattr(torch, "cuda", told)
    asked = ("method=toolgen", "trainer=ddp", f"trainer.devices={devices}", f"trainer.precision={precision}")
    if not what:
        check(*asked)
        return
    with pytest.raises(UserError, match=what):
        check(*asked)
