"""Item 14: 32 requests under way against one, on a loopback server that takes 50 ms for every answer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from record import Record, Row, median, timed

from toolsavvy.models.chat import Message
from toolsavvy.models.server import ServerChat

LATENCY, AT_ONCE, REQUESTS, ROUNDS = 0.05, 32, 640, 3
TARGET = 15.0


def run() -> Record:
    server = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        ask(url, AT_ONCE, 64)  # to warm up
        one = [ask(url, 1, 40) for _ in range(ROUNDS)]
        many = [ask(url, AT_ONCE, REQUESTS) for _ in range(ROUNDS)]
    finally:
        server.kill()
        server.wait()
    same = all(told[:40] == one[0][1] for _, told in (*one, *many))
    row = Row(
        f"{AT_ONCE} under way, a request", median([s for s, _ in many]), median([s for s, _ in one]), TARGET,
        {"latency_seconds": LATENCY, "requests": REQUESTS},
    )  # fmt: skip
    return Record(
        "14_server", f"{AT_ONCE} requests under way are at least {TARGET:g} times as fast as one, at 50 ms an answer",
        "same answers in the same order", same, [row], "The server is another process of the same machine.",
    )  # fmt: skip


def ask(url: str, concurrency: int, count: int) -> tuple[float, list[str | None]]:
    """Seconds a request, and the answers."""
    chat = ServerChat("m", url, concurrency=concurrency, cache=False)
    conversations = [[Message("user", str(i))] for i in range(count)]
    seconds, replies = timed(lambda: chat.answer(conversations, max_tokens=5))
    return seconds / count, [reply.text for reply in replies]


class Slow(BaseHTTPRequestHandler):
    """Answers what it was asked, after a while."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(LATENCY)
        message = {"role": "assistant", "content": f"re: {body['messages'][-1]['content']}"}
        payload = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    print(server.server_address[1], flush=True)
    server.serve_forever()
