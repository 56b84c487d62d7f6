"""Samples kept between runs: an append-only file that a larger N, another threshold or a restart only adds to."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock

from toolsavvy.catalogs.reading import Record, as_record, parse
from toolsavvy.checksums import CHECK, is_intact, sealed
from toolsavvy.decoding.samples import Sample
from toolsavvy.errors import UserError
from toolsavvy.models.prompts import Prompt

FORMAT = 1
_EXPECTED = "an object with prompt, index, text, tokens and finished"


def prompt_digest(prompt: Prompt) -> str:
    """sha256 over all that a prompt is: turns, tools (in the order in which templates write them) and prefill."""
    turns = [[turn.role, turn.content] for turn in prompt.messages]
    text = json.dumps([turns, prompt.tools, prompt.prefill], default=dict)
    return sha256(text.encode()).hexdigest()


class SampleStore:
    """(prompt, index) -> sample in one JSONL file a model, temperature and limit; its first line says which.

    A sample is one line, written at once, so that a kill loses what was not yet told. A last line that was cut off is
    dropped, and removed by the next writer. Processes may share a store: writers take turns, and of two equal samples
    the first in the file holds.

    Args:
        folder: of the files; made when missing.
        key: of the sampler: weights, precision, rendering, seed.
        temperature: of the samples.
        max_tokens: longest answer.
        model: the model's name, for people who open the file.

    Raises:
        UserError: the file was written by another model, or one of its lines is damaged.
    """

    def __init__(self, folder: Path, key: str, temperature: float, max_tokens: int, model: str = "") -> None:
        self.key, self.temperature, self.max_tokens = key, float(temperature), max_tokens
        self._facts = {"format": FORMAT, "key": key, "temperature": self.temperature, "max_tokens": max_tokens}
        self._header = sealed({"model": model, **self._facts})
        digest = sha256(json.dumps(self._facts, sort_keys=True).encode()).hexdigest()
        self.path = Path(folder) / f"{digest[:32]}.jsonl"
        self._lock, self._offset, self._lines = threading.Lock(), 0, 0
        self._is_sealed = False  # earlier versions wrote no checksums
        self._samples: dict[str, dict[int, Sample]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read what was added since the last time, by this process or another."""
        with self._lock:
            self._read()

    def get(self, digest: str) -> dict[int, Sample]:
        """Index -> sample of a prompt, by its `prompt_digest`."""
        return dict(self._samples.get(digest, {}))

    def put(self, digest: str, sample: Sample) -> Sample:
        """Keep a sample, unless another process has kept it meanwhile; the one that is kept comes back.

        Raises:
            UserError: the disk is full or read-only, or the file is another model's.
        """
        line = _line(sealed({"prompt": digest, **asdict(sample)}))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, FileLock(f"{self.path}.lock"):
                self._read()
                if sample.index not in self._samples.setdefault(digest, {}):
                    self._append(line)
                    self._samples[digest][sample.index] = sample
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            what = f"a sample could not be kept ({'the disk is full' if full else error})"
            fix = "free some space, or set TOOLSAVVY_CACHE to another disk; finished samples are kept"
            raise UserError(what, where=str(self.path), fix=fix) from error
        return self._samples[digest][sample.index]

    def _append(self, line: bytes) -> None:
        """Add a line at the end of the last whole one; the caller holds the lock and has read the file."""
        with self.path.open("ab") as file:
            if file.tell() != self._offset:  # only a killed writer leaves half a line
                file.truncate(self._offset)
            if not self._offset:
                line, self._lines = _line(self._header) + line, 1
            file.write(line)
        self._offset, self._lines = self._offset + len(line), self._lines + 1

    def _read(self) -> None:
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data.rfind(b"\n") + 1  # an unfinished line may still be being written
        for line in data[:whole].split(b"\n")[:-1]:
            self._take(line, f"{self.path}, line {self._lines + 1}")
            self._lines += 1
        self._offset += whole

    def _take(self, line: bytes, place: str) -> None:
        """One whole line."""
        try:
            text = line.decode()
        except UnicodeDecodeError as fault:
            raise _damaged(place, str(fault)) from fault
        try:
            record = as_record(parse(text, place), place)
        except UserError as fault:
            raise _damaged(place, fault.what) from fault
        if self._lines == 0:
            self._check(record)
            self._is_sealed = CHECK in record.value
            return
        try:
            sample = Sample(
                record.get("index", int), record.text("text"), record.get("tokens", int), record.get("finished", bool)
            )
            digest = record.get("prompt", str)
        except UserError as fault:
            raise _damaged(fault.where, fault.what) from fault
        if not is_intact(record.value, is_required=self._is_sealed):
            raise _damaged(place, "its checksum is another, or gone")
        self._is_sealed |= CHECK in record.value
        self._samples.setdefault(digest, {}).setdefault(sample.index, sample)

    def _check(self, record: Record) -> None:
        """The first line is this model's.

        Raises:
            UserError: it is another's, or no header.
        """
        differs = [name for name, value in self._facts.items() if record.value.get(name) != value]
        if differs:
            raise UserError(
                f"the samples are of another model or setting ({', '.join(differs)})", where=record.place,
                expected=", ".join(f"{name}={self._facts[name]!r}" for name in differs),
                fix="move the file away, or set TOOLSAVVY_CACHE to another folder",
            )  # fmt: skip


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode() + b"\n"


def _damaged(place: str, what: str) -> UserError:
    fix = "remove that line: its sample is drawn again"
    return UserError(f"the line is damaged ({what})", where=place, expected=_EXPECTED, fix=fix)
