"""Embeddings of a real server on loopback: order, cache, retries, and answers that are none."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.embedding_server import EmbeddingServer

Reply = tuple[int, Any, dict[str, str], float]
"""Status, body, headers, seconds before it."""


@dataclass
class Seen:
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [text for body in self.bodies for text in body["input"]]


def vector(text: str) -> list[float]:
    return [float(len(text)), float(text.count("a")) + 1.0, 2.0]


def good(body: dict[str, Any], _: int) -> Reply:
    rows = [{"index": i, "embedding": vector(text)} for i, text in enumerate(body["input"])]
    return 200, {"data": rows[::-1]}, {}, 0.0  # servers need not keep the order: `index` tells it


@contextmanager
def serving(behave: Callable[[dict[str, Any], int], Reply] = good) -> Iterator[Seen]:
    seen, lock = Seen(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                seen.bodies.append(body)
                seen.keys.append(self.headers.get("authorization", ""))
                before = len(seen.bodies) - 1
            status, answer, headers, delay = behave(body, before)
            time.sleep(delay)
            payload = json.dumps(answer).encode()
            try:
                self.send_response(status if self.path == "/v1/embeddings" else 404)
                for name, value in {**headers, "content-length": str(len(payload))}.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(payload)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    seen.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()


def encoder(seen: Seen, **settings: Any) -> EmbeddingServer:
    quick = {"base_url": seen.url, "backoff": 0.01, "retries": 2, "timeout": 5.0, "cache": False, "normalize": False}
    return EmbeddingServer("m", **{**quick, **settings})


def test_vectors_come_back_in_order_in_batches() -> None:
    texts = [f"{'a' * (i % 5)} text {i}" for i in range(23)]
    with serving() as seen:
        raw = encoder(seen, batch_size=4).encode([*texts, texts[0]])
        scaled = encoder(seen, normalize=True).encode(texts)
    np.testing.assert_array_equal(raw[:23], np.array([vector(t) for t in texts], dtype=np.float32))
    np.testing.assert_array_equal(raw[23], raw[0])
    np.testing.assert_allclose(scaled, raw[:23] / np.linalg.norm(raw[:23], axis=1, keepdims=True), rtol=1e-6)
    assert max(len(body["input"]) for body in seen.bodies[:-1]) == 4
    assert sorted(seen.texts) == sorted(2 * texts) and seen.bodies[0]["model"] == "m"


def test_it_is_a_dense_retrievers_encoder_with_templates_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret-key")
    catalog = Catalog("c", tuple(Tool(f"t{i}", f"n{i}", "a" * i) for i in range(6)))
    asked = [Query("q", "find", {"t1": 1}, instruction="be exact")]
    with serving() as seen:
        found = Dense(encoder(seen, use_instruction=True, key_env="MY_KEY")).fit(catalog).search(asked, 3)
    assert found.indices.shape == (1, 3)
    assert "Instruct: be exact\nQuery: find" in seen.texts
    assert set(seen.keys) == {"Bearer secret-key"}


def test_what_was_paid_for_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    texts = [f"t{i}" for i in range(6)]

    def fails_late(body: dict[str, Any], before: int) -> Reply:
        return (400, {"error": {"message": "no"}}, {}, 0.0) if "t5" in body["input"] else good(body, before)

    with serving(fails_late) as seen, pytest.raises(UserError):
        encoder(seen, batch_size=2, concurrency=1, cache=True).encode(texts)
    with serving() as again:
        again_encoder = encoder(again, batch_size=2, cache=True)
        # The address is part of the cache's key; the client still talks to the new server.
        again_encoder._connection = dataclasses.replace(again_encoder._connection, base_url=seen.url)
        again_encoder._connection.__dict__["client"] = encoder(again)._connection.client
        vectors = again_encoder.encode(texts)
        assert again.texts == ["t4", "t5"]
        again_encoder.encode(texts)
        assert len(again.bodies) == 1
    np.testing.assert_array_equal(vectors, np.array([vector(t) for t in texts], dtype=np.float32))


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_faults_that_pass_are_tried_again(status: int) -> None:
    def flaky(body: dict[str, Any], before: int) -> Reply:
        return good(body, before) if before else (status, {"error": {"message": "busy"}}, {"retry-after": "0"}, 0.0)

    with serving(flaky) as seen:
        assert encoder(seen).encode(["ab"]).tolist() == [vector("ab")]
    assert len(seen.bodies) == 2


def test_a_slow_answer_is_asked_again() -> None:
    with serving(lambda body, before: (*good(body, before)[:3], 0.0 if before else 1.5)) as seen:
        assert encoder(seen, timeout=0.4).encode(["ab"]).tolist() == [vector("ab")]
    assert len(seen.bodies) == 2


BAD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "NaN": lambda body: {"data": [{"index": 0, "embedding": [float("nan"), 1.0, 2.0]} for _ in body["input"]]},
    "vectors for": lambda body: {"data": []},
    "asked for 3": lambda body: {"data": [{"index": 0, "embedding": [1.0, 2.0]} for _ in body["input"]]},
    "no data[].embedding": lambda body: {"data": [{"index": 0}]},
    "vectors for 1 texts": lambda body: {"data": [{"index": 7, "embedding": [1.0, 2.0, 3.0]}]},
    "1 vectors for 1 texts": lambda body: {"data": [{"index": 0, "embedding": []}]},
    "0 vectors": lambda body: "nonsense",
}


@pytest.mark.parametrize("told", sorted(BAD))
def test_answers_that_are_none_stop_the_run_with_one_message(told: str) -> None:
    with serving(lambda body, _: (200, BAD[told](body), {}, 0.0)) as seen, pytest.raises(UserError) as caught:
        encoder(seen, retries=1, dimensions=3).encode(["ab"])
    assert told in caught.value.what and "2 attempts" in caught.value.what
    assert seen.url in caught.value.where and "finite vector" in caught.value.expected
    assert len(seen.bodies) == 2 and seen.bodies[0]["dimensions"] == 3


def test_vectors_of_two_lengths_are_refused() -> None:
    def changing(body: dict[str, Any], before: int) -> Reply:
        return 200, {"data": [{"index": 0, "embedding": [1.0] * (2 + ("b" in body["input"]))}]}, {}, 0.0

    with serving(changing) as seen, pytest.raises(UserError) as caught:
        encoder(seen, batch_size=1).encode(["a", "b"])
    assert "2, 3" in caught.value.what


def test_keys_models_and_addresses_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret-key")
    for status, key_env, told in ((401, "NO_KEY", "wants a key"), (403, "MY_KEY", "refuses the key in $MY_KEY")):
        answer = (status, {"error": {"message": "bad secret-key"}}, {}, 0.0)
        with serving(lambda *_, answer=answer: answer) as seen, pytest.raises(UserError) as caught:
            encoder(seen, key_env=key_env).encode(["a"])
        assert told in caught.value.what and key_env in caught.value.fix and len(seen.bodies) == 1
        assert "secret-key" not in str(caught.value)
    missing = (404, {"error": {"message": "no such model"}}, {}, 0.0)
    with serving(lambda *_: missing) as seen, pytest.raises(UserError) as caught:
        encoder(seen).encode(["a"])
    assert "encoder.model" in caught.value.fix
    with pytest.raises(UserError) as caught:
        EmbeddingServer("m", base_url="localhost:8000")
    assert caught.value.where == "encoder.base_url"
    with pytest.raises(UserError) as caught:
        EmbeddingServer("m", batch_size=0)
    assert caught.value.where == "encoder.batch_size"


def test_a_server_that_asks_for_too_much_patience_is_left() -> None:
    started = time.monotonic()
    later = (429, {"error": {"message": "later"}}, {"retry-after": "999"}, 0.0)
    with serving(lambda *_: later) as seen, pytest.raises(UserError):
        encoder(seen, max_wait=1.0).encode(["a"])
    assert time.monotonic() - started < 5 and len(seen.bodies) == 1


def test_there_are_no_weights_to_train() -> None:
    with pytest.raises(UserError) as caught:
        _ = EmbeddingServer("m").model
    assert "local weights" in caught.value.expected


def test_empty_long_and_odd_texts_are_sent_as_the_api_takes_them() -> None:
    with serving() as seen:
        assert encoder(seen, max_characters=5).encode(["", "abcdefgh", "lone \ud800"]).shape == (3, 3)
        assert encoder(seen).encode([]).shape == (0, 0)
    assert sorted(seen.texts) == sorted([" ", "abcde", "lone "])
