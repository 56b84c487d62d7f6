"""A headless Chromium for tests of pages: what it shows, whether anything ran, and what it asked the network for."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

NO_BROWSER = "no Chromium browser is installed"


def chromium() -> str:
    """The browser's path; tests that need one are skipped where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip(NO_BROWSER)
    return found


def shown(page: Path, profile: Path, *flags: str) -> str:
    """The document as it is once scripts, if any, have run.

    Args:
        page: HTML file.
        profile: a folder for the browser's own files.
        flags: more of its flags, such as `--screenshot=FILE`.
    """
    fixed = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
    fixed += ("--disable-dev-shm-usage", f"--user-data-dir={profile}", "--virtual-time-budget=3000", *flags)
    done = subprocess.run(
        [chromium(), *fixed, "--dump-dom", page.resolve().as_uri()], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def listener() -> Iterator[tuple[str, list[str]]]:
    """Address of a server that answers everything, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        do_POST = do_HEAD = do_OPTIONS = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
