"""`generator=rrb|mcq|qa` as commands: bytes that only the seed decides, mistakes, and models that write and judge."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, command, environment, lines, record, runs, status, toolsavvy

from chat_server import Answer, chat_server
from toolsavvy.__main__ import main
from toolsavvy.catalogs.toolsense_items import read_items

BASE = ("method=generate", "catalog=toy", "logger=none")
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "islet", "jetty", "knoll", "larch")


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (("generator=mcq", "generator.n=0"), ("generator.n: 0 is out of range", "from 1")),
        (("generator=qa", "generator.backend=lmm"), ("generator.backend", "template, llm")),
        (("generator=qa", "generator.prices.input=-1"), ("generator.prices.input", "a number from 0")),
        (("generator=rrb", "generator.tiers={easy: 0.5, medium: 0.1, hard: 0.1}"), ("add up to 0.7",)),
        (("generator=rrb", "generator.pool=3"), ("generator.pool: 3 is out of range",)),
        (("generator=rrb", "generator.pol=14"), ("generator.pol", "did you mean 'pool'?")),
        (("generator=mcq", "generator.pool=14"), ("generator.pool",)),
        (("generator=rrb", "catalog.tools=3"), ("3 tools are too few for hard", "5 tools for hard", "generator.tiers")),
        (("generator=mcq", "model=toy", "generator.backend=llm"), ("generator.judge: nobody checks", "self_judging")),
    ],
)
def test_mistakes_are_told_with_their_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert main([*BASE, *args, f"paths.outputs={tmp_path}"]) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told, told
    assert "Traceback" not in told
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize("kind", ["rrb", "mcq", "qa"])
def test_two_processes_write_the_same_bytes(tmp_path: Path, kind: str) -> None:
    found = []
    for seed in ("1", "2"):
        args = (*BASE, f"generator={kind}", "generator.n=12")
        done = toolsavvy(tmp_path / seed, *args, **{"PYTHONHASHSEED": seed})
        assert done.returncode == 0, done.stderr
        found.append(runs(tmp_path / seed)[0])
    for name in (f"{kind}.jsonl", "audit.json", "sheet.csv", "sheet_key.csv"):
        assert (found[0] / name).read_bytes() == (found[1] / name).read_bytes(), name
    assert read_items(kind, found[0] / f"{kind}.jsonl").items


def writes(body: dict[str, Any], right: set[str]) -> str:
    """A writer of questions whose right options only its judge knows: no word gives them away."""
    prompt = body["messages"][-1]["content"]
    document = re.search(r"Document of this tool:\n(.*)", prompt)
    assert document is not None
    number = zlib.crc32(prompt.encode())
    items = []
    for draft in range(2):
        rows = [
            [WORDS[zlib.crc32(f"{number} {draft} {i} {j}".encode()) % len(WORDS)] for j in range(4)] for i in "abcd"
        ]
        options = [f"{' '.join(row)} {number % 9973 * 10 + i}" for i, row in enumerate(rows, draft * 4)]
        right.add(options[0])
        question = f"In which way is this tool number {number + draft} {' '.join(rows[0][::-1])}?"
        evidence = " ".join(document[1].split()[:4])
        items.append({"question": question, "correct": options[0], "wrong": options[1:], "evidence": evidence})
    return json.dumps({"items": items})


def judges(body: dict[str, Any], right: set[str]) -> str:
    """Yes to everything, with the right option's number."""
    verdicts = []
    for draft in body["messages"][-1]["content"].split("Draft ")[1:]:
        answer = next(int(n) for n, text in re.findall(r"^\((\d)\) (.*)$", draft, re.MULTILINE) if text in right)
        checks = ("specific", "supported", "others_false", "fair")
        verdicts.append({"answer": answer, "why": "", **dict.fromkeys(checks, True)})
    return json.dumps({"verdicts": verdicts})


def test_a_killed_run_of_two_models_repeats_no_call_and_ends_with_the_same_set(tmp_path: Path) -> None:
    reached, resume, right = threading.Event(), threading.Event(), set[str]()
    asked = 0

    def behave(body: dict[str, Any], before: int) -> Answer:
        nonlocal asked
        asked += 1
        if asked == 16 and not resume.is_set():
            reached.set()
            resume.wait(600)
        if body["model"] == "judge":
            return Answer(judges(body, right))
        bad = zlib.crc32(body["messages"][-1]["content"].encode()) % 5 == 0
        return Answer("I'd rather not." if bad else writes(body, right))

    with chat_server(behave) as server:
        args = (
            *BASE, "generator=mcq", "generator.n=10", "generator.backend=llm", "llm=server", "llm.model=writer",
            f"llm.base_url={server.url}", "llm.concurrency=1", "llm.retries=0", "+llm@generator.judge=server",
            "generator.judge.model=judge", f"generator.judge.base_url={server.url}", "generator.judge.retries=0",
            "generator.judge.concurrency=1", "generator.prices={input: 1.0, output: 2.0}",
        )  # fmt: skip
        resume.set()
        whole = toolsavvy(tmp_path / "whole", *args, TOOLSAVVY_CACHE=str(tmp_path / "a"))
        assert whole.returncode == 0, whole.stderr
        needed, asked = asked, 0
        resume.clear()
        process = subprocess.Popen(
            command(tmp_path / "cut", *args, "llm.cache=false"), cwd=ROOT, stderr=subprocess.DEVNULL,
            env=environment(TOOLSAVVY_CACHE=str(tmp_path / "b")), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        assert reached.wait(300)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        resume.set()
        (cut,) = runs(tmp_path / "cut")
        assert status(cut)["status"] == "running"
        assert not (cut / "mcq.jsonl").exists()
        first = [json.dumps(body) for _, body, _ in server.requests[needed:]][:15]
        done = toolsavvy(tmp_path / "cut", *args, "llm.cache=false", "resume=true", TOOLSAVVY_CACHE=str(tmp_path / "b"))
        assert done.returncode == 0, done.stderr
        again = [json.dumps(body) for _, body, _ in server.requests[needed + 16 :]]
    assert not set(first) & set(again)
    assert len(first) + len(again) == needed
    (undisturbed,) = runs(tmp_path / "whole")
    for name in ("mcq.jsonl", "audit.json", "sheet.csv"):
        assert (cut / name).read_bytes() == (undisturbed / name).read_bytes()
    usage = record(cut)["usage"]
    assert usage["writer"]["calls"] + usage["judge"]["calls"] == needed
    tokens = sum(usage[side]["prompt_tokens"] + 2 * usage[side]["completion_tokens"] for side in ("writer", "judge"))
    assert usage["cost"] == pytest.approx(tokens / 1e6)
    attempts = lines(cut / "generation.jsonl")
    texts = [a["written"]["text"] for a in attempts]
    assert texts.count("I'd rather not.") == record(cut)["counts"]["refused_malformed"]
    assert any("accepted" in a["fates"] and a["judged"]["text"] for a in attempts)
    assert {i.id for i in read_items("mcq", cut / "mcq.jsonl").items} <= {a["item"] for a in attempts}
    assert not [p for p in cut.rglob(".*") if p.suffix in (".part", ".tmp")]
    assert "\x1b" not in done.stderr  # no bar where nobody looks
