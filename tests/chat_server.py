"""A real OpenAI-compatible server on loopback that does as it is told, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the server sends: a completion of `text`, or raw bytes with a status; `half` breaks off in the middle."""

    text: str | None = "fine"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    delay: float = 0.0
    hang_up: bool = False
    half: bool = False

    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.status != 200:
            return json.dumps({"error": {"message": self.text}}).encode()
        message = {"role": "assistant", "content": self.text}
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()


@dataclass
class ChatServer:
    """The server's address, and every request it got: (seconds, body, headers)."""

    url: str
    requests: list[tuple[float, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    most_at_once: int = 0

    @property
    def asked(self) -> list[str]:
        """Content of the last turn of every request."""
        return [body["messages"][-1]["content"] for _, body, _ in self.requests]


@contextmanager
def chat_server(behave: Callable[[dict[str, Any], int], Answer]) -> Iterator[ChatServer]:
    """Serve until the block ends; `behave` gets a request's body and how often it was asked before."""
    lock, state = threading.Lock(), ChatServer("")
    seen: dict[str, int] = {}
    busy = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            nonlocal busy
            data = self.rfile.read(int(self.headers["content-length"]))
            body = json.loads(data)
            with lock:
                busy += 1
                state.most_at_once = max(state.most_at_once, busy)
                state.requests.append((time.monotonic(), body, {k.lower(): v for k, v in self.headers.items()}))
                key = json.dumps(body["messages"])
                before = seen.get(key, 0)
                seen[key] = before + 1
            answer = behave(body, before)
            time.sleep(answer.delay)
            with lock:
                busy -= 1
            if answer.hang_up:
                self.close_connection = True
                self.connection.close()
                return
            payload = answer.body() if self.path == "/v1/chat/completions" else b"{}"
            try:
                self.send_response(answer.status if self.path == "/v1/chat/completions" else 404)
                for name, value in ({"content-type": "application/json"} | answer.headers).items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload[: len(payload) // 2] if answer.half else payload)
                if answer.half:
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_WR)
                    self.close_connection = True
            except OSError:  # the client has gone away
                self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
