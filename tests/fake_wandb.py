"""A fake W&B server on loopback: it answers just enough GraphQL, keeps what it was sent, and can be dead or slow."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "f" * 40
"""A key of the right length that opens nothing."""
ENTITY = "fake-team"


@dataclass
class FakeWandb:
    """What the server was sent.

    Args:
        url: for WANDB_BASE_URL.
        operations: (name, variables) of every GraphQL request, in order.
        views: saved workspaces by name.
        requests: method and path of every request.
        silent: seconds that every answer takes.
    """

    url: str = ""
    operations: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    silent: float = 0.0

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The data of a GraphQL answer."""
        name = (re.search(r"\b(?:query|mutation)\s+(\w+)", query) or [query, "?"])[1]
        self.operations.append((name, variables))
        if "upsertView" in query:
            return self._save(variables)
        if "allViews" in query:
            view = self.views.get(variables["viewName"])
            return {"project": {"allViews": {"edges": [{"node": view}] if view else []}}}
        viewer = {"id": "VXNlcjox", "entity": ENTITY, "username": "fake", "email": "fake@example.org", "name": "Fake"}
        viewer |= {"flags": "{}", "teams": {"edges": []}, "apiKeys": {"edges": []}, "admin": False}
        return {"viewer": viewer}

    def _save(self, variables: dict[str, Any]) -> dict[str, Any]:
        known = next((v for v in self.views.values() if v["id"] == variables.get("id")), None)
        view = {"id": known["id"] if known else f"view-{len(self.views)}", "name": variables["name"]}
        kept = view | {"displayName": variables["displayName"], "spec": variables["spec"]}
        self.views[variables["name"]] = kept
        return {"upsertView": {"view": view, "inserted": known is None}}


@contextmanager
def fake_wandb(silent: float = 0.0) -> Iterator[FakeWandb]:
    """Serve until the block ends."""
    fake = FakeWandb(silent=silent)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fake.requests.append(f"{self.command} {self.path}")
            fake.bodies.append(body)
            time.sleep(fake.silent)
            data: dict[str, Any] = {}
            if self.path == "/graphql":
                sent = json.loads(body)
                data = {"data": fake.answer(sent["query"], sent.get("variables") or {})}
            answer = json.dumps(data).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
