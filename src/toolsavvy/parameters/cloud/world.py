"""One account of AWS in memory: calls go in by name, results come out as JSON; the same seed gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import random
import re
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cache, partial
from importlib import import_module
from types import TracebackType
from typing import Any
from unittest import mock

from toolsavvy.errors import UserError

REGION = "us-east-1"
ACCOUNT = "123456789012"
SERVICES = ("ec2", "elbv2", "route53")
IMAGES = frozenset({
    "ami-12c6146b", "ami-c2ff2dbb", "ami-b7e93bce", "ami-785db401", "ami-1e749f67", "ami-35e92e4c", "ami-bb9a6bc2",
    "ami-760aaa0f", "ami-04681a1dbd79675a5", "ami-0e9271c829888680e", "ami-0b301ce3ce347599c",
})  # fmt: skip
"""Machine images that there are: some of moto's of each system."""
_START = datetime(2026, 1, 5, 9, 0)
"""When every story begins; each call takes a second."""
_open: list[World] = []


class CallError(Exception):
    """The cloud refused a call.

    Args:
        code: its error code.
        message: its words.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class World:
    """A fresh account, alive inside `with`; it has no default VPC, and a few images.

    Moto keeps its accounts in globals, so two worlds of one process must not be open at once. Ids come from the seed,
    times from a clock that starts at the same moment and ticks once a call, tokens from the seed again.

    Args:
        seed: of the ids and everything else that the cloud makes up.

    Attributes:
        history: every call that was sent, refused ones included.

    Raises:
        RuntimeError: (on entering) another world, or another mock of AWS, is open.
        UserError: (on entering) the extra `cloud` is not installed.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.history: list[tuple[str, Mapping[str, Any]]] = []
        self._tokens = random.Random(seed)
        self._stack = ExitStack()

    def __enter__(self) -> World:
        """Open the account."""
        require_cloud()
        if _open:
            raise RuntimeError(f"the world of seed {_open[0].seed} is still open: its account would be shared")
        _make_repeatable()
        from moto.core.base_backend import BackendDict
        from moto.core.models import botocore_stubber
        from moto.ec2.models import amis
        from moto.moto_api._internal import mock_random

        if botocore_stubber.enabled:
            raise RuntimeError("another mock of AWS is active in this process: its account would be shared")
        # What moto's own mock_aws also does, patching `requests` and 1,300 images, takes longer than a story.
        self._stack.callback(_forget)
        _open.append(self)
        self._stack.enter_context(mock.patch.dict(os.environ, {"MOTO_AMIS_PATH": ""}))  # no images but AMIS
        self._stack.enter_context(mock.patch.object(amis, "AMIS", [a for a in amis.AMIS if a["ami_id"] in IMAGES]))
        BackendDict.reset()
        botocore_stubber.enabled = True
        self.history, self._tokens = [], random.Random(self.seed)
        mock_random.seed(self.seed)  # of the images' parts, too
        _drop_default_network(backend("ec2"))
        mock_random.seed(self.seed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the account."""
        self._stack.close()

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one call.

        Args:
            operation: "ec2:CreateVpc".
            arguments: as botocore takes them.

        Returns:
            The result as JSON, without metadata of the response.

        Raises:
            CallError: the cloud, or botocore's validation, refuses it, or moto does not know the operation.
            RuntimeError: the world is not open.
        """
        if _open != [self]:
            raise RuntimeError("a world takes calls inside `with` only")
        from botocore.exceptions import ClientError

        service, _, name = operation.partition(":")
        method = getattr(client(service), _snake(name), None) if service in SERVICES else None
        if method is None:
            raise CallError("UnknownOperation", f"there is no operation {operation}")
        self.history.append((operation, arguments))
        try:
            output = method(**arguments)
        except ClientError as error:
            detail = error.response["Error"]
            raise CallError(detail["Code"], detail["Message"]) from error
        except Exception as error:  # botocore's validation, or moto itself stumbles over what AWS would refuse
            raise CallError(type(error).__name__, str(error)) from error
        return as_json({k: v for k, v in output.items() if k != "ResponseMetadata"})

    def token(self) -> str:
        """What botocore fills in where a call is to be sent only once."""
        return str(uuid.UUID(int=self._tokens.getrandbits(128), version=4))


def require_cloud() -> None:
    """Refuse to go on without the extra.

    Raises:
        UserError: it is not installed.
    """
    try:
        import boto3  # noqa: F401
        import moto  # noqa: F401
    except ImportError as error:
        raise UserError(
            "calls are carried out by moto, which is not installed", where="catalog=parambench_aws",
            expected="the extra `cloud`", fix="pip install 'toolsavvy[cloud]'",
        ) from error  # fmt: skip


def backend(service: str) -> Any:
    """Where moto keeps what a service has."""
    from moto import backends

    of: Any = backends.get_backend
    return of(service)[ACCOUNT]["aws" if service == "route53" else REGION]


@cache
def client(service: str) -> Any:
    """One client of a service for all worlds: making one takes longer than a story."""
    import moto  # noqa: F401  its stubber must be there before the client is
    from boto3.session import Session
    from botocore.config import Config

    made = Session().client(
        service, region_name=REGION, aws_access_key_id="none", aws_secret_access_key="none",
        config=Config(retries={"max_attempts": 0}),
    )  # fmt: skip
    made.meta.events.register_first("before-parameter-build", _fill_tokens)
    return made


def _fill_tokens(params: dict[str, Any], model: Any, **_: Any) -> None:
    """Before botocore does so at random."""
    for name in model.idempotent_members:
        params.setdefault(name, _open[0].token())


@cache
def _make_repeatable() -> None:
    """Mend what would differ from process to process, inside worlds alone: moto's clock, one kind of id, key pairs.

    Moto's modules read the time by one function; a listener's default rule is named after its address in memory; key
    pairs are real ones, drawn from the system, which no set of tasks should hold anyway.
    """
    for service in SERVICES:
        import_module(f"moto.{service}.urls")
    from moto.core import utils
    from moto.ec2.models import key_pairs
    from moto.elbv2.models import FakeRule

    real, make = utils.utcnow, FakeRule.__init__

    def now() -> datetime:
        return _START + timedelta(seconds=len(_open[0].history)) if _open else real()

    def name_rule(self: Any, listener_arn: str, *args: Any, **kwargs: Any) -> None:
        make(self, listener_arn, *args, **kwargs)
        if _open:
            self.arn = f"{self.arn.rpartition('/')[0]}/{hashlib.sha256(listener_arn.encode()).hexdigest()[:16]}"

    FakeRule.__init__ = name_rule
    for kind in ("random_rsa_key_pair", "random_ed25519_key_pair"):
        setattr(key_pairs, kind, partial(_key_pair, getattr(key_pairs, kind)))
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.") and getattr(module, "utcnow", None) is real:
            module.utcnow = now  # type: ignore[attr-defined]


def _key_pair(real: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A fingerprint and no key."""
    if not _open:
        return real()
    digits = _open[0].token().replace("-", "")
    fingerprint = ":".join(digits[i : i + 2] for i in range(0, len(digits), 2))
    return {"fingerprint": fingerprint, "material": b"(private key)", "material_public": b"(public key)"}


def _forget() -> None:
    """Leave nothing of an account behind, and nothing of moto's switched on."""
    from moto.core.base_backend import BackendDict
    from moto.core.model_instances import reset_model_data
    from moto.core.models import botocore_stubber

    botocore_stubber.enabled = False
    made: list[Any] = vars(BackendDict)["_instances"]
    for backends in made:
        backends.clear()
    made.clear()
    reset_model_data()
    _open.clear()


def _drop_default_network(ec2: Any) -> None:
    """A story has the networks that it makes, and no others in what Describe calls say."""
    for kind in ("vpcs", "subnets", "groups", "route_tables", "network_acls"):
        getattr(ec2, kind).clear()
    ec2.default_vpc = None


def _snake(name: str) -> str:
    from botocore import xform_name

    return str(xform_name(name))


def as_json(value: Any) -> Any:
    """A result as JSON values: times as ISO text, bytes dropped."""
    if isinstance(value, Mapping):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(v) for v in value]
    if isinstance(value, datetime):
        return re.sub(r"\.\d+", "", value.isoformat())
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
