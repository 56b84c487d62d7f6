"""One account of AWS in memory: calls go in by name, results come out as JSON; the same seed gives the same ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import Any

REGION = "us-east-1"
_CLIENTS = {"ec2": "ec2", "elbv2": "elbv2", "route53": "route53"}


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
    """A fresh account, alive inside `with`; two worlds of one process must not be open at once.

    Args:
        seed: of the ids and everything else that the cloud makes up.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._stack = ExitStack()
        self._clients: dict[str, Any] = {}

    def __enter__(self) -> World:
        """Open the account."""
        from moto import mock_aws
        from moto.moto_api._internal import mock_random

        self._stack.enter_context(mock_aws())
        mock_random.seed(self.seed)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Forget the account."""
        self._clients.clear()
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
        """
        from botocore.exceptions import BotoCoreError, ClientError

        service, _, name = operation.partition(":")
        try:
            output = getattr(self._client(service), _snake(name))(**arguments)
        except ClientError as error:
            detail = error.response["Error"]
            raise CallError(detail["Code"], detail["Message"]) from error
        except (BotoCoreError, NotImplementedError) as error:
            raise CallError(type(error).__name__, str(error)) from error
        return as_json({k: v for k, v in output.items() if k != "ResponseMetadata"})

    def _client(self, service: str) -> Any:
        import boto3

        if service not in self._clients:
            self._clients[service] = boto3.client(
                _CLIENTS[service], region_name=REGION, aws_access_key_id="none", aws_secret_access_key="none"
            )
        return self._clients[service]


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
