"""`method=generate` as a command: sets on disk, sources by name, mistakes, and a run that is killed while it writes."""

from __future__ import annotations

import json
import re
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
from commands import killed, lines, record, runs, toolsavvy

from chat_server import Answer, chat_server
from toolsavvy.__main__ import main
from toolsavvy.errors import UserError
from toolsavvy.methods.generate import plain_sources

SMALL = ("method=generate", "catalog=toy", "encoder=toy", "generator.per_source=30", "logger=none")
OTHER = ("+catalog@generator.sources.other=toy", "generator.sources.other.seed=1", "generator.sources.other.tools=10")


def test_a_set_of_two_sources_with_its_records(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *SMALL, *OTHER, "generator.split=tool")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    queries = lines(run / "dataset" / "jsonl" / "queries.jsonl")
    assert {q["subset"] for q in queries} == {"toy", "other"}
    assert all(q["instruction"] for q in queries)
    statistics, audit = (json.loads((run / f"{name}.json").read_text()) for name in ("statistics", "audit"))
    assert sum(statistics["queries"].values()) == len(queries)
    assert statistics["counts"]["sampled"]["from_other"] <= 30
    assert {(s["test"], s["shared_tools"]) for s in audit["leakage"]["splits"]} == {("test", 0)}
    assert sorted(p.name for p in (run / "dataset").iterdir()) == ["beir", "jsonl", "mteb", "toolret", "trec"]
    assert sorted(p.name for p in (run / "figures").iterdir()) == ["golds.png", "lengths.png", "overlap.png"]
    noted = record(run)
    assert len(noted["catalog_fingerprint"]) == 64
    assert {"load sources", "collect and merge", "sample", "instruct", "describe and audit", "write"} <= set(
        noted["stages"]
    )
    for word in ("how it was made", "query gold rouge l", "leakage audit", str(len(queries)), str(run)):
        assert word in done.stdout, word

    path = f"catalog.path={run / 'dataset' / 'jsonl'}"
    args = (
        "method=evaluate",
        "catalog=jsonl",
        path,
        "retriever=bm25",
        "logger=none",
        "suite.catalog_test.resamples=20",
    )
    scored = toolsavvy(tmp_path / "scored", *args)
    assert scored.returncode == 0, scored.stderr
    results = lines(runs(tmp_path / "scored")[0] / "results.jsonl")
    assert {r["n"] for r in results if r["slice"] == "test"} == {statistics["queries"]["test"]}


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (("catalog=metatool",), ("catalog.path: not set", "conf/catalog/metatool.yaml")),
        (("catalog=toy", "+catalog@generator.sources.x=jsonl"), ("generator.sources.x.path: not set", "jsonl.yaml")),
        (
            ("catalog=toy", "+catalog@generator.sources.x=jsonl", "generator.sources.x.path=nowhere"),
            ("generator.sources.x.path: 'nowhere' does not exist",),
        ),
        (("catalog=toy", "generator.per_sorce=3"), ("generator.per_sorce", "did you mean 'per_source'?")),
        (("catalog=toy", "generator.merge=fuzzy"), ("generator.merge", "off, exact, jaccard, embedding")),
        (("catalog=toy", "generator=toolre"), ("generator", "toolret")),
        (("catalog=toy", "generator=null"), ("generator", "toolret")),
        (
            ("catalog=toy", "llm=server", "llm.base_url=http://127.0.0.1:9/v1", "generator.backend=llm"),
            ("127.0.0.1:9", "takes no connection"),
        ),
    ],
)
def test_mistakes_are_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    words = ["method=generate", "encoder=toy", "logger=none", f"paths.outputs={tmp_path}", *args]
    assert main(words) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told
    assert not list(tmp_path.iterdir())


def test_a_mistake_that_only_the_sources_show(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *SMALL, "generator.splits=[test_sen]")
    assert done.returncode == 2, done.stderr
    for part in ("generator.splits", "some of test_seen, test_unseen, train, validation", "did you mean 'test_seen'?"):
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert not (runs(tmp_path)[0] / "dataset").exists()


def test_sources_are_taken_without_written_profiles() -> None:
    node = {"catalog": {"_target_": "toolsavvy.catalogs.toy.load", "expand": None}, "sources": [{"expand": 1}]}
    assert plain_sources(node, "g") == {
        "catalog": {"_target_": "toolsavvy.catalogs.toy.load"},
        "sources": [{"expand": 1}],
    }
    node["catalog"]["expand"] = "template"  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(UserError) as caught:
        plain_sources(node, "g")
    assert (caught.value.where, caught.value.expected) == ("g.catalog.expand", "null")
    assert caught.value.fix


def test_a_template_needs_no_language_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "llm=server", "llm.base_url=http://127.0.0.1:9/v1", "dry_run=true"]) == 0
    told = capsys.readouterr().out
    assert "generator: ToolRet" in told
    assert "read catalog" in told


def test_a_killed_run_repeats_no_answered_prompt_and_ends_with_the_same_set(tmp_path: Path) -> None:
    reached, resume = threading.Event(), threading.Event()

    def behave(body: dict[str, Any], before: int) -> Answer:
        prompt = body["messages"][-1]["content"]
        request = re.findall(r"Request: (.*)", prompt)[-1]
        nonlocal asked
        asked += 1
        if asked == 20 and not resume.is_set():
            reached.set()
            resume.wait(600)
        words = re.findall(r"\w+", request.lower())
        bad = zlib.crc32(prompt.encode()) % 4 == 0  # another attempt is another prompt
        return Answer("no" if bad else " ".join(f"{word}{i}" for i, word in enumerate([*words, *words, "things"])))

    asked = 0
    with chat_server(behave) as server:
        args = (
            *SMALL, "llm=server", f"llm.base_url={server.url}", "llm.model=tester", "llm.concurrency=1",
            "generator.backend=llm", "llm.retries=0", "generator.batch_size=4", "generator.min_words=3",
        )  # fmt: skip
        cache = {"TOOLSAVVY_CACHE": str(tmp_path / "cache")}
        resume.set()
        whole = toolsavvy(tmp_path / "whole", *args, **{"TOOLSAVVY_CACHE": str(tmp_path / "other")})
        assert whole.returncode == 0, whole.stderr
        needed, asked = asked, 0
        resume.clear()
        cut = killed(tmp_path / "cut", *args, reached=reached, **cache)
        resume.set()
        assert not (cut / "dataset").exists()
        prompts = [json.dumps(body["messages"]) for _, body, _ in server.requests[needed:]][:19]
        done = toolsavvy(tmp_path / "cut", *args, "resume=true", **cache)
        assert done.returncode == 0, done.stderr
        again = [json.dumps(body["messages"]) for _, body, _ in server.requests[needed + 20 :]]
    assert runs(tmp_path / "cut") == [cut]
    assert not set(prompts) & set(again)
    assert len(prompts) + len(again) == needed
    (undisturbed,) = runs(tmp_path / "whole")
    for file in ("dataset/jsonl/queries.jsonl", "dataset/jsonl/tools.jsonl", "audit.json", "merged.jsonl"):
        assert (cut / file).read_bytes() == (undisturbed / file).read_bytes()
    assert not [p for p in cut.rglob(".*") if p.suffix in (".part", ".tmp")]
