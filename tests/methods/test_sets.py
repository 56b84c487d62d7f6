from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chat_server import Answer, chat_server
from toolsavvy.config.compose import build, compose
from toolsavvy.config.preflight import check_config
from toolsavvy.config.schema import Config
from toolsavvy.generators.profiles import JUDGE
from toolsavvy.methods import plans
from toolsavvy.methods.sets import load_set


def config(*overrides: str, method: str = "evaluate") -> Config:
    return check_config(compose([f"method={method}", "catalog=toy", "catalog.tools=5", *overrides]))


def answering(body: dict[str, Any], before: int) -> Answer:
    is_judge = body["messages"][0]["content"] == JUDGE
    return Answer(json.dumps({"unsupported": [], "faithful": True} if is_judge else {"function": "by a model"}))


def test_without_expand_the_set_is_the_loaders(tmp_path: Path) -> None:
    cfg = config()
    plain = build({k: v for k, v in cfg.catalog.items() if k != "expand"})
    data = load_set(cfg, folder=tmp_path)
    assert data.catalog.fingerprint == plain.catalog.fingerprint
    assert data.audit == plain.audit
    assert not list(tmp_path.iterdir())


def test_template_profiles_extend_every_document(tmp_path: Path) -> None:
    plain, data = load_set(config()), load_set(config("catalog.expand=template"), folder=tmp_path)
    for old, new in zip(plain.catalog.documents, data.catalog.documents, strict=True):
        assert new.startswith(f"{old} Function: ")
    assert data.catalog.fingerprint != plain.catalog.fingerprint
    assert data.audit["profiles_written"] == 5
    assert data.audit["profiles_with_training_queries"] == 0
    rows = [json.loads(line) for line in (tmp_path / "profiles.jsonl").read_text().splitlines()]
    assert [row["tool"] for row in rows] == [t.id for t in data.catalog.tools]
    assert [row["profile"] for row in rows] == [t.profile for t in data.catalog.tools]
    assert {row["fate"] for row in rows} == {"template"}


@pytest.mark.parametrize("method", ["evaluate", "contrastive"])
def test_training_queries_are_quoted_where_it_is_asked_for_alone(method: str) -> None:
    bare = load_set(config("catalog.expand=template", method=method))
    assert not any("Example:" in document for document in bare.catalog.documents)
    data = load_set(config("catalog.expand={how:template,examples:3}", method=method))
    quoting = {t.id for t, d in zip(data.catalog.tools, data.catalog.documents, strict=True) if "Example:" in d}
    assert quoting == {t for q in data.train for t in q.relevant}
    assert data.audit["profiles_with_training_queries"] == len(quoting) > 0


def test_the_language_model_of_the_group_llm_writes_and_judges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    with chat_server(answering) as server:
        cfg = config("catalog.expand=llm", "llm=server", "llm.model=both", f"llm.base_url={server.url}")
        data = load_set(cfg)
        assert load_set(cfg).catalog.fingerprint == data.catalog.fingerprint
    assert len(server.requests) == 10
    assert {body["model"] for _, body, _ in server.requests} == {"both"}
    assert all(d.endswith("Function: by a model.") for d in data.catalog.documents)
    assert (data.audit["profiles_written"], data.audit["profiles_fell_back"]) == (5, 0)


def test_a_judge_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    with chat_server(answering) as server:
        judge = f"{{_target_:toolsavvy.models.server.ServerChat,model:strict,base_url:'{server.url}'}}"
        expand = f"catalog.expand={{how:llm,judge:{judge}}}"
        load_set(config(expand, "llm=server", "llm.model=writer", f"llm.base_url={server.url}"))
    for _, body, _ in server.requests:
        assert body["model"] == ("strict" if body["messages"][0]["content"] == JUDGE else "writer")


def test_a_plan_asks_no_language_model() -> None:
    nobody = ("llm=server", "llm.base_url=http://127.0.0.1:9/v1")
    plain, grown = (plans.toolgen(config(f"catalog.expand={e}", *nobody, method="toolgen")) for e in ("null", "llm"))
    assert grown.training_tokens > plain.training_tokens > 0


def test_loading_a_set_needs_no_torch() -> None:
    code = (
        "import sys; from toolsavvy.config.compose import compose, typed; from toolsavvy.methods.sets import load_set;"
        "load_set(typed(compose(['method=evaluate', 'catalog=toy', 'catalog.expand=template']).config));"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
