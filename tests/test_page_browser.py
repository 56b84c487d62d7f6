"""A report in a headless browser: it fits a phone, turns dark, sorts by click and key, and asks for nothing."""

from __future__ import annotations

import json
import re
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from browser import chromium, shown
from run_folders import made_run, made_sweep
from toolsavvy.methods.overview.gathering import read_runs
from toolsavvy.methods.overview.writing import overview, write

PROBE = """
function order(table, column) {
  return Array.from(table.tBodies[0].rows).map(function (row) { return row.cells[column].textContent; });
}
window.addEventListener('load', function () {
  var seen = {}, tables = Array.from(document.querySelectorAll('table.sort'));
  var table = tables.find(function (t) { return t.tHead.textContent.indexOf('nDCG@5') > 0 && t.rows.length > 4; });
  var heads = Array.from(table.tHead.rows[0].cells);
  var at = heads.findIndex(function (h) { return h.textContent === 'R@1'; });
  var button = heads[at].querySelector('button');
  button.click(); seen.down = order(table, at); seen.first = heads[at].getAttribute('aria-sort');
  button.click(); seen.up = order(table, at); seen.second = heads[at].getAttribute('aria-sort');
  heads[0].querySelector('button').click(); seen.names = order(table, 0);
  seen.other = heads[at].getAttribute('aria-sort');
  button.focus(); seen.focus = document.activeElement === button;
  seen.width = document.documentElement.scrollWidth; seen.window = window.innerWidth;
  var box = table.parentElement; seen.inner = box.scrollWidth; seen.box = box.clientWidth;
  seen.paper = getComputedStyle(document.body).backgroundColor; seen.ink = getComputedStyle(document.body).color;
  seen.label = getComputedStyle(document.querySelector('svg.chart text.head')).fill;
  seen.line = getComputedStyle(document.querySelector('svg.chart .line.c0')).stroke;
  window.parent.document.documentElement.setAttribute('data-seen', JSON.stringify(seen));
});
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report over a small sweep and a failed run with a very long error."""
    folder = tmp_path_factory.mktemp("outputs")
    runs = made_sweep(
        folder / "s", {"tuning": ["lora", "full"], "training.lr": [0.001, 0.01]},
        quality=lambda p: 0.3 + 20 * p["training.lr"] + 0.2 * (p["tuning"] == "full"),
    )  # fmt: skip
    failed = made_run(folder / "f", status="failed", error="E" * 900 + " word " * 50, steps=0)
    write(overview(read_runs(runs, [failed]), folder, [("recall", 1), ("ndcg", 5)], 50), folder)
    return folder / "report.html"


def probed(page: Path, tmp_path: Path, width: int, *flags: str) -> dict[str, Any]:
    """What a script sees that the page itself would not let in; in a frame, for no window is as narrow as a phone."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
    copy = tmp_path / "copy.html"
    inner = text.replace("</body>", f"<script>{PROBE}</script></body>")
    frame = f'<iframe width="{width}" height="800" frameborder="0" srcdoc="{escape(inner)}"></iframe>'
    copy.write_text(f"<!DOCTYPE html><meta name=color-scheme content='light dark'>{frame}", encoding="utf-8")
    found = re.search(r'data-seen="([^"]*)"', shown(copy, tmp_path / "profile", *flags))
    assert found is not None
    return json.loads(unescape(found[1]))


def numbers(texts: list[str]) -> list[float]:
    return [float(text.split()[0]) for text in texts]


def test_on_a_phone_nothing_but_tables_scrolls_and_heads_sort(page: Path, tmp_path: Path) -> None:
    seen = probed(page, tmp_path, 390)
    assert seen["window"] == 390
    assert seen["width"] <= 390
    assert seen["inner"] > seen["box"]  # the table does not fit, and scrolls in its box
    assert numbers(seen["down"]) == sorted(numbers(seen["down"]), reverse=True)
    assert numbers(seen["up"]) == sorted(numbers(seen["up"]))
    assert seen["down"] != seen["up"]
    assert seen["names"] == sorted(seen["names"])
    assert [seen[k] for k in ("first", "second", "other", "focus")] == ["descending", "ascending", "none", True]
    assert seen["paper"] == "rgb(255, 255, 255)"


def test_in_the_dark_paper_ink_and_charts_turn(page: Path, tmp_path: Path) -> None:
    seen = probed(page, tmp_path, 1200, "--window-size=1300,900", "--blink-settings=preferredColorScheme=0")

    def light(colour: str) -> float:
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    assert light(seen["paper"]) < 40
    assert min(map(light, (seen["ink"], seen["label"]))) > 190
    assert light(seen["line"]) > 130
    assert seen["width"] <= 1200


def test_the_page_itself_runs_its_script_and_breaks_no_rule_of_its_own(page: Path, tmp_path: Path) -> None:
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=2000")
    flags += ("--disable-background-networking", "--no-first-run", f"--user-data-dir={tmp_path}", "--dump-dom")
    done = subprocess.run([chromium(), *flags, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr  # no error, and nothing that the policy had to stop
    assert '<th scope="col" aria-sort="none"><button type="button">system' in done.stdout
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!data:|#|\.)", text)
    assert not re.search(r"url\(|@import|https?://", text)
