"""Stores of samples: append-only, shared by processes, and never another model's."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from toolsavvy.decoding.samples import Sample
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Message
from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.store import SampleStore, prompt_digest

TOOL = {"type": "function", "function": {"name": "calculator"}}


def sample(index: int, text: str = "42") -> Sample:
    return Sample(index, text, tokens=3, finished=index % 2 == 0)


def store(folder: Path, key: str = "model a", temperature: float = 0.7, max_tokens: int = 64) -> SampleStore:
    return SampleStore(folder, key, temperature, max_tokens, model="the model")


def test_samples_come_back_and_another_setting_has_its_own(tmp_path: Path) -> None:
    texts = ["42", "line\nbreak\u2028and \u00e9\U0001f600", "", '{"a": "<tool_call>"}']
    first = store(tmp_path)
    for i, text in enumerate(texts):
        first.put("one", sample(i, text))
    first.put("two", sample(7))
    again = store(tmp_path)
    assert again.get("one") == {i: sample(i, text) for i, text in enumerate(texts)}
    assert again.get("two") == {7: sample(7)}
    assert again.get("three") == {}
    for other in (store(tmp_path, key="b"), store(tmp_path, temperature=0.3), store(tmp_path, max_tokens=32)):
        assert other.get("one") == {}
    header = json.loads(again.path.read_text().splitlines()[0])
    assert (header["model"], header["key"], header["temperature"]) == ("the model", "model a", 0.7)


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_torn_last_line_is_dropped_and_the_next_writer_goes_on_after_it(tmp_path: Path, cut: int) -> None:
    whole = store(tmp_path)
    for i in range(3):
        whole.put("one", sample(i))
    data = whole.path.read_bytes()
    whole.path.write_bytes(data[:-cut])
    torn = store(tmp_path)
    assert sorted(torn.get("one")) == [0, 1]
    torn.put("one", sample(2))
    assert torn.path.read_bytes() == data


def test_a_file_torn_in_its_header_is_an_empty_one(tmp_path: Path) -> None:
    first = store(tmp_path)
    first.put("one", sample(0))
    data = first.path.read_bytes()
    first.path.write_bytes(data[:20])
    again = store(tmp_path)
    assert again.get("one") == {}
    again.put("one", sample(0))
    assert again.path.read_bytes() == data


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (b"{broken", "broken JSON"),
        (b"[1, 2]", "a list"),
        (b'{"prompt": "one", "index": true, "text": "", "tokens": 1, "finished": true}', "true/false"),
        (b'{"prompt": "one", "index": 1, "tokens": 1, "finished": 0}', "a number"),
        (b"\xff\xfe", "utf-8"),
        (b"", "damaged"),
    ],
)
def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path, damage: bytes, told: str) -> None:
    whole = store(tmp_path)
    for i in range(4):
        whole.put("one", sample(i))
    lines = whole.path.read_bytes().split(b"\n")
    lines[2] = damage
    whole.path.write_bytes(b"\n".join(lines))
    with pytest.raises(UserError) as caught:
        store(tmp_path)
    assert f"{whole.path.name}, line 3" in caught.value.where
    assert told in str(caught.value)
    assert "prompt, index, text" in caught.value.expected
    assert "remove that line" in caught.value.fix


def test_a_store_that_another_model_wrote_is_refused(tmp_path: Path) -> None:
    theirs, ours = store(tmp_path, key="model b"), store(tmp_path)
    theirs.put("one", sample(0))
    theirs.path.rename(ours.path)
    with pytest.raises(UserError) as caught:
        store(tmp_path)
    assert "another model" in caught.value.what
    assert "line 1" in caught.value.where
    assert "model a" in caught.value.expected
    assert caught.value.fix
    with pytest.raises(UserError, match="another model"):
        ours.put("one", sample(0))


def test_what_another_process_adds_is_seen_and_the_first_holds(tmp_path: Path) -> None:
    ours, theirs = store(tmp_path), store(tmp_path)
    assert theirs.put("one", sample(0, "theirs")).text == "theirs"
    assert ours.put("one", sample(0, "ours")).text == "theirs"
    theirs.put("one", sample(1))
    ours.refresh()
    assert sorted(ours.get("one")) == [0, 1]
    assert len(ours.path.read_bytes().splitlines()) == 3


def _write(folder: Path, start: int) -> None:
    own = store(folder)
    for i in range(start, start + 60):
        own.put(f"prompt {i % 7}", sample(i, "x" * i * 20))


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(tmp_path, start)) for start in (0, 30, 60)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = store(tmp_path)
    held = {i: s for p in range(7) for i, s in found.get(f"prompt {p}").items()}
    assert held == {i: sample(i, "x" * i * 20) for i in range(120)}
    assert len(found.path.read_bytes().splitlines()) == 121


def test_a_disk_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = store(tmp_path)

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ours, "_append", full)
    with pytest.raises(UserError, match="the disk is full") as caught:
        ours.put("one", sample(0))
    assert "TOOLSAVVY_CACHE" in caught.value.fix
    assert ours.get("one") == {}


def test_digests_tell_prompts_apart() -> None:
    user = Message("user", "2+2?")
    prompts = [
        Prompt((user,)),
        Prompt((Message("system", "be brief"), user)),
        Prompt((user,), (TOOL,)),
        Prompt((user,), (dict(reversed(TOOL.items())),)),  # templates write it in this order
        Prompt((user,), prefill="The"),
        Prompt((Message("user", "2+3?"),)),
    ]
    assert len({prompt_digest(p) for p in prompts}) == len(prompts)
    assert prompt_digest(Prompt((Message("user", "2+2?"),))) == prompt_digest(prompts[0])
