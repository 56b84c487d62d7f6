"""Answers of servers, kept between runs: an append-only file that several processes may write and any may cut off."""

from __future__ import annotations

import errno
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from toolsavvy.checksums import CHECK, is_intact, sealed
from toolsavvy.errors import UserError


@dataclass(frozen=True)
class Stored:
    """One answer.

    Args:
        text: what the server said.
        prompt_tokens: of the request, as the server counted them.
        completion_tokens: of the answer.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


def request_key(request: Mapping[str, Any], repeat: int = 0) -> str:
    """sha256 over a request (model, messages, parameters) and the number of the repetition that it is."""
    text = json.dumps([request, repeat], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class ResponseStore:
    """Key -> answer in one JSONL file a model.

    A line is written at once and flushed; what a killed process left unfinished is dropped when it is read, and the
    next writer starts a new line after it. What other processes add is seen by `refresh`.

    Args:
        path: of the file; its folder exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock, self._offset = threading.Lock(), 0
        self._is_sealed = False  # earlier versions wrote no checksums
        self._answers: dict[str, Stored] = {}

    def refresh(self) -> None:
        """Read what was added since the last time."""
        with self._lock:
            if not self.path.is_file():
                return
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
            whole = data.rfind(b"\n") + 1  # an unfinished line may still be being written
            for line in data[:whole].splitlines():
                self._take(line)
            self._offset += whole

    def get(self, key: str) -> Stored | None:
        """The answer to a request, None where it was never given."""
        return self._answers.get(key)

    def put(self, key: str, answer: Stored) -> None:
        """Keep an answer; safe for threads and processes.

        Raises:
            UserError: the disk is full or read-only.
        """
        line = json.dumps(sealed({"key": key, **asdict(answer)}), ensure_ascii=True).encode() + b"\n"
        try:
            with self._lock, FileLock(f"{self.path}.lock"), self.path.open("ab+") as file:
                if end := file.seek(0, 2):
                    file.seek(end - 1)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                file.write(line)
        except OSError as error:
            what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)
            fix = "free some space, or set TOOLSAVVY_CACHE to another disk"
            raise UserError(f"an answer could not be kept ({what})", where=str(self.path), fix=fix) from error
        self._answers[key] = answer

    def _take(self, line: bytes) -> None:
        """One line; what is no whole record is dropped."""
        try:
            record = json.loads(line)
            key, text = record["key"], record["text"]
            answer = Stored(text, int(record.get("prompt_tokens", 0)), int(record.get("completion_tokens", 0)))
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        if isinstance(key, str) and isinstance(text, str) and is_intact(record, is_required=self._is_sealed):
            self._answers[key] = answer
            self._is_sealed |= CHECK in record
