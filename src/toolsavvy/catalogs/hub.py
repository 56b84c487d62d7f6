"""Data sets of the Hugging Face hub, as a folder of their files."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from toolsavvy.errors import UserError


def dataset_folder(repo: str, revision: str | None, patterns: Sequence[str], *, key: str) -> Path:
    """Fetch a data set's files into the hub's own cache, once; offline, what is cached is used.

    Args:
        repo: owner/name.
        revision: branch, tag or full commit; None is the newest.
        patterns: which files ("*.parquet").
        key: config key that names the source, for messages.

    Raises:
        UserError: there is no such data set or revision, or the hub cannot be reached and nothing is cached.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    # The bases are the errors of whichever HTTP library this version of the hub's client is built on.
    option = f"{key.split('.')[0]}.path=…"
    faults = cast("tuple[type[Exception], ...]", (OSError, HFValidationError, *HfHubHTTPError.__bases__))
    chosen = {"repo_type": "dataset", "revision": revision, "allow_patterns": list(patterns)}
    try:
        if not _reachable():  # the client would retry for half a minute before it looks into its cache
            with contextlib.suppress(LocalEntryNotFoundError):
                return Path(snapshot_download(repo, local_files_only=True, **chosen))
        return Path(snapshot_download(repo, **chosen))
    except faults as fault:
        said = " ".join(str(fault).split())[:200]
        at = f"revision {revision}" if revision else "its newest revision"
        raise UserError(
            f"the data set {repo} at {at} can't be fetched ({type(fault).__name__}: {said})",
            where=key,
            expected="a data set of the hub that can be reached or is cached; a commit with all its 40 digits",
            fix=f"fetch it where there is a network and copy the hub's cache (HF_HOME), or set {option}",
        ) from fault


def _reachable(seconds: float = 3.0) -> bool:
    """Whether the hub takes a connection; behind a proxy this may say no wrongly, which costs nothing but the cache."""
    from huggingface_hub import constants

    url = urlsplit(constants.ENDPOINT)
    try:
        port = url.port or (80 if url.scheme == "http" else 443)
        with socket.create_connection((url.hostname or "", port), timeout=seconds):
            return True
    except OSError:
        return False
