"""`generator=mcq generator.backend=llm` as a command: a run killed while models write, and servers of no use."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from commands import killed, lines, record, runs, status, toolsavvy

from chat_items import is_judge, said, well
from chat_server import Answer, chat_server
from toolsavvy.__main__ import main

SMALL = ("method=generate", "generator=mcq", "catalog=toy", "encoder=toy", "logger=none", "generator.n=4")


def asking(url: str) -> tuple[str, ...]:
    """Two models on one server."""
    return (
        "generator.backend=llm", "llm=server", f"llm.base_url={url}", "llm.model=writer", "llm.concurrency=1",
        "llm.retries=0", "+llm@generator.judge=server", f"generator.judge.base_url={url}",
        "generator.judge.model=judge", "generator.judge.concurrency=1", "generator.judge.retries=0",
        "generator.prices={input: 10, output: 20, judge_input: 1}",
    )  # fmt: skip


def test_a_killed_run_repeats_no_finished_call_and_ends_with_the_same_set(tmp_path: Path) -> None:
    reached, resume = threading.Event(), threading.Event()
    asked = 0

    def behave(body: dict[str, Any], before: int) -> Answer:
        nonlocal asked
        asked += 1
        if asked == 8 and not resume.is_set():
            reached.set()
            resume.wait(600)
        bad = not is_judge(body) and "export" in said(body) and "Attempt" not in said(body)
        return Answer("no idea") if bad else well(body)

    with chat_server(behave) as server:
        args = (*SMALL, *asking(server.url))
        resume.set()
        whole = toolsavvy(tmp_path / "whole", *args, **{"TOOLSAVVY_CACHE": str(tmp_path / "other")})
        assert whole.returncode == 0, whole.stderr
        assert "\r" not in whole.stderr, "no bar where nobody looks"
        needed, asked = asked, 0
        resume.clear()
        cache = {"TOOLSAVVY_CACHE": str(tmp_path / "cache")}
        cut = killed(tmp_path / "cut", *args, reached=reached, **cache)
        resume.set()
        assert not (cut / "mcq.jsonl").exists()
        finished = [json.dumps(body["messages"]) for _, body, _ in server.requests[needed:]][:7]
        done = toolsavvy(tmp_path / "cut", *args, "resume=true", **cache)
        assert done.returncode == 0, done.stderr
        again = [json.dumps(body["messages"]) for _, body, _ in server.requests[needed + 8 :]]
    assert runs(tmp_path / "cut") == [cut]
    assert not set(finished) & set(again)
    assert len(finished) + len(again) == needed
    (undisturbed,) = runs(tmp_path / "whole")
    for name in ("mcq.jsonl", "audit.json", "sheet.csv"):
        assert (cut / name).read_bytes() == (undisturbed / name).read_bytes(), name
    assert len(lines(cut / "mcq.jsonl")) == 4

    usage, other = record(cut)["usage"], record(undisturbed)["usage"]
    calls = {side: other[side]["calls"] for side in ("writer", "judge")}
    assert sum(calls.values()) == needed
    assert other["cost"] == pytest.approx((calls["writer"] * (70 + 60) + calls["judge"] * (7 + 60)) / 1e6)
    assert sum(usage[side]["calls"] + usage[side]["cached"] for side in calls) == needed
    kept = lines(undisturbed / "generation.jsonl")
    prompts = {json.dumps(a[side]["messages"]) for a in kept for side in ("written", "judged") if a[side]}
    assert len(prompts) == needed
    assert any(attempt["fates"] == ["malformed"] for attempt in kept)


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (Answer("who are you", status=401), ("the server wants a key (401)", "OPENAI_API_KEY")),
        (Answer(raw=b"<html>", headers={"content-type": "text/html"}), ("answered none of the first", "generator.llm")),
        (Answer("I would rather not."), ("nothing that writer wrote", "malformed", "generator.backend=template")),
    ],
)
def test_a_server_of_no_use_is_told_and_leaves_no_set(
    answer: Answer, parts: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with chat_server(lambda body, before: answer) as server:
        assert main([*SMALL, *asking(server.url), f"paths.outputs={tmp_path / 'out'}"]) == 2
    told = capsys.readouterr().err
    for part in (*parts, "fix:"):
        assert part in told
    assert "Traceback" not in told
    (run,) = runs(tmp_path / "out")
    assert status(run)["status"] == "failed"
    assert not list(run.glob("mcq*"))
