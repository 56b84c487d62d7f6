from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from commands import lines, record, runs, status, toolsavvy

from chat_server import Answer, chat_server
from toolsavvy.generators.profiles import JUDGE


def answering(body: dict[str, Any], before: int) -> Answer:
    """Good profiles for some tools, nonsense for the others."""
    if body["messages"][0]["content"] == JUDGE:
        return Answer('{"unsupported": [], "faithful": true}')
    shown = body["messages"][1]["content"]
    return Answer(json.dumps({"function": "made by a model"}) if "required parameters: i" in shown else "{{{")


def test_three_kinds_of_documents_in_one_command(tmp_path: Path) -> None:
    with chat_server(answering) as server:
        done = toolsavvy(
            tmp_path, "-m", "method=evaluate", "catalog=toy", "catalog.expand=null,template,llm", "retriever=bm25",
            "logger=none", "llm=server", "llm.model=m", f"llm.base_url={server.url}",
            TOOLSAVVY_CACHE=str(tmp_path / "cache"),
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    none, template, llm = runs(tmp_path)
    assert [status(run)["status"] for run in (none, template, llm)] == ["done"] * 3
    audits = [record(run)["audit"] for run in (none, template, llm)]
    assert "profiles_written" not in audits[0]
    assert audits[1]["profiles_written"] == 24
    assert audits[2]["profiles_written"] + audits[2]["profiles_fell_back"] == 24
    assert audits[2]["profiles_malformed"] == audits[2]["profiles_fell_back"] > 0
    assert audits[2]["profiles_written"] > 0
    assert len({record(run)["catalog_fingerprint"] for run in (none, template, llm)}) == 3
    assert {row["fate"] for row in lines(llm / "profiles.jsonl")} == {"written", "malformed"}
    assert not (none / "profiles.jsonl").exists()
