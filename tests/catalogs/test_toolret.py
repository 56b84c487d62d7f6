from __future__ import annotations

import functools
import http.server
import inspect
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
import yaml
from catalog_files import fault, write_jsonl, write_text
from toolret_files import LAYOUTS, QUERIES, TOOLS, documentation, make, query_row, tool_rows, write_rows

from toolsavvy.catalog import Query, RetrievalSet
from toolsavvy.catalogs import toolret
from toolsavvy.catalogs.audit import render_audit
from toolsavvy.catalogs.hub import dataset_folder
from toolsavvy.catalogs.jsonl import save
from toolsavvy.errors import UserError
from toolsavvy.metrics import GoldMatrix, per_query
from toolsavvy.retrieval.bm25 import BM25

CONF = Path(__file__).parents[2] / "conf" / "catalog" / "toolret.yaml"


def by_id(data: RetrievalSet) -> dict[str, Query]:
    return {query.id: query for query in data.splits["test"]}


def test_the_tasks_are_the_papers() -> None:
    assert {c: len(t) for c, t in toolret.CATEGORIES.items()} == {"web": 19, "code": 7, "customized": 9}
    assert len(toolret.TASKS) == 35


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_set(layout: str, tmp_path: Path) -> None:
    data = toolret.load(make(tmp_path / "a", layout))
    assert len(data.catalog) == 8
    assert set(data.splits) == {"test"} and data.headline == ("test",)
    assert data.catalog.fingerprint == toolret.load(make(tmp_path / "b")).catalog.fingerprint
    assert [q.id for q in data.splits["test"]] == [
        "apibank:q0", "apibank:q1", "mnms:q0", "mnms:q1", "toolink:q0", "toolink:q2", "metatool:q0", "metatool:q3",
    ]  # fmt: skip


def test_queries_keep_task_instruction_and_all_golds(tmp_path: Path) -> None:
    query = by_id(toolret.load(make(tmp_path)))["apibank:q1"]
    assert query.subset == "apibank"
    assert query.relevant == {"apibank_tool_0": 1, "apibank_tool_1": 1}
    assert query.instruction == "Given a `apibank` request, retrieve tools that serve it."
    assert toolret.TASKS[query.subset] == "web"


def test_systems_see_the_documentation_as_it_is(tmp_path: Path) -> None:
    """Line breaks and double blanks too, which other catalogs' documents lose; names are read where there are any."""
    catalog = toolret.load(make(tmp_path)).catalog
    raw = [documentation(value) for rows in TOOLS.values() for _, value in rows]
    assert sorted(catalog.documents) == sorted(raw)
    assert any("\n" in text and "  " in text for text in catalog.documents)
    names = {tool.id: tool.name for tool in catalog.tools}
    assert (names["apibank_tool_0"], names["mnms_tool_0"]) == ("GetWeather", "image_caption")
    assert names["toolace_tool_0"] == "toolace_tool_0" and names["toolink_tool_0"] == "toolink_tool_0"
    assert {tool.category for tool in catalog.tools} == {"web", "code", "customized"}


def test_another_template_can_be_asked_for(tmp_path: Path) -> None:
    catalog = toolret.load(make(tmp_path), document="{name}: {category}").catalog
    assert catalog.documents[catalog.index["mnms_tool_0"]] == "image caption: web"


def test_the_empty_query_is_kept_counted_and_ranked(tmp_path: Path) -> None:
    data = toolret.load(make(tmp_path))
    assert data.audit["source"]["queries_without_text"] == 1
    query = by_id(data)["mnms:q0"]
    ranking = BM25().fit(data.catalog).search([query], 5)
    assert per_query(ranking, GoldMatrix.from_queries(data.catalog, [query]), 5).ndcg.tolist() == [0.0]


def test_columns_of_other_forms_are_taken_too(tmp_path: Path) -> None:
    """Labels as a list, no relevance, no instruction, documents as objects or under `doc`, another category's word."""
    gold = [{"id": "t1"}, {"id": "t2", "relevance": 0}, {"id": "t1", "relevance": 2}]
    row = {"id": "a", "query": "x", "labels": gold, "instruction": "", "category": "code"}
    write_jsonl(tmp_path / "queries" / "T_Eval_step.jsonl", [row])
    write_jsonl(
        tmp_path / "tools" / "web.jsonl", [{"id": "t1", "documentation": {"name": "é"}}, {"id": "t2", "doc": "z"}]
    )
    data = toolret.load(tmp_path)
    assert data.splits["test"] == (Query("t-eval-step:a", "x", {"t1": 2}, subset="t-eval-step"),)
    assert data.catalog.documents == ('{"name": "é"}', "z")
    source = data.audit["source"]
    assert (source["repeated_labels"], source["queries_whose_category_column_differs"]) == (1, 1)


def test_a_tool_in_two_categories_is_one_tool(tmp_path: Path) -> None:
    tools = {**TOOLS, "code": [*TOOLS["code"], TOOLS["web"][0]]}
    data = toolret.load(make(tmp_path, tools=tools))
    assert len(data.catalog) == 8 and data.audit["source"]["repeated_tools"] == 1


def test_a_tool_with_two_documents_is_refused_with_both_places(tmp_path: Path) -> None:
    make(tmp_path, tools={**TOOLS, "code": [*TOOLS["code"], ("apibank_tool_0", "another text")]})
    error = fault(
        lambda: toolret.load(tmp_path), what="'apibank_tool_0' occurs twice", where="code.jsonl, line 3, field 'id'",
        expected="unique ids", fix="catalog.corpus=category",
    )  # fmt: skip
    assert "web.jsonl, line 1" in error.what


def test_tasks_categories_and_corpora_can_be_chosen(tmp_path: Path) -> None:
    make(tmp_path)
    assert [q.subset for q in toolret.load(tmp_path, tasks=["mnms"]).splits["test"]] == ["mnms", "mnms"]
    code = toolret.load(tmp_path, category="code")
    assert {q.subset for q in code.splits["test"]} == {"toolink"} and len(code.catalog) == 8
    alone = toolret.load(tmp_path, category="code", corpus="category")
    assert {tool.category for tool in alone.catalog.tools} == {"code"}
    assert len(toolret.load(tmp_path, tasks=["metatool"], corpus="category").catalog) == 2
    assert any("1 of 35 tasks, tools of code" in line for line in render_audit(alone.audit))


@pytest.mark.parametrize(
    ("options", "what", "where", "expected", "fix"),
    [
        ({"category": "webb"}, "'webb'", "catalog.category", "web, code or customized", "did you mean 'web'?"),
        ({"tasks": ["api-bank"]}, "'api-bank'", "catalog.tasks", "35 tasks", "did you mean 'apibank'?"),
        ({"tasks": []}, "no task", "catalog.tasks", "a list", "name one"),
        ({"tasks": ["gta"]}, "no queries of gta", "catalog.tasks", "some of apibank", "choose"),
        ({"tasks": ["mnms"], "category": "code"}, "web, not code", "catalog.tasks", "toolink", "catalog.category=web"),
        ({"corpus": "pool"}, "'pool'", "catalog.corpus", "pooled or category", "did you mean 'pooled'?"),
        ({"corpus": "category"}, "3 categories", "catalog.corpus", "one category", "-m catalog.category=code,"),
    ],
)  # fmt: skip
def test_wrong_options(tmp_path: Path, options: dict, what: str, where: str, expected: str, fix: str) -> None:
    make(tmp_path)
    fault(lambda: toolret.load(tmp_path, **options), what=what, where=where, expected=expected, fix=fix)


@pytest.mark.parametrize(
    ("changes", "what", "where", "expected"),
    [
        ({"labels": "[{'id': 't'}]"}, "broken JSON at column 3", "row 1, field 'labels'", "valid JSON"),
        ({"labels": '{"id": "t"}'}, "an object", "row 1, field 'labels'", "{id, relevance}"),
        ({"labels": "[]"}, "the list is empty", "row 1, field 'labels'", "at least one"),
        ({"labels": '["t"]'}, "text ('t')", "row 1, field 'labels', entry 1", "an object"),
        ({"labels": '[{"relevance": 1}]'}, "missing", "field 'labels', entry 1, field 'id'", "text"),
        ({"labels": '[{"id": "mnms_tool_0", "relevance": 0.5}]'}, "0.5", "field 'relevance'", "whole number"),
        ({"labels": '[{"id": "mnms_tool_0", "relevance": NaN}]'}, "nan", "field 'relevance'", "whole number"),
        ({"labels": '[{"id": "mnms_tool_0", "relevance": 1e999}]'}, "inf", "field 'relevance'", "whole number"),
        ({"labels": '[{"id": "mnms_tool_0", "relevance": 0}]'}, "no gold", "row 1, field 'labels'", "at least one"),
        ({"labels": 3}, "a number (3)", "row 1, field 'labels'", "text or a list"),
        ({"id": ""}, "empty", "row 1, field 'id'", "text"),
    ],
)  # fmt: skip
def test_bad_query_rows_are_named_by_file_row_and_field(
    tmp_path: Path, changes: dict, what: str, where: str, expected: str
) -> None:
    make(tmp_path, "shards", {"apibank": [query_row("q", "x", {"mnms_tool_0": 1}, **changes)]})
    error = fault(lambda: toolret.load(tmp_path), what=what, where=where, expected=expected)
    assert "apibank-00000-of-00001.parquet" in error.where


def test_a_missing_column_is_no_empty_text(tmp_path: Path) -> None:
    make(tmp_path)
    write_jsonl(tmp_path / "queries" / "gta.jsonl", [{"id": "a", "querry": "x", "labels": "[]"}])
    where = "gta.jsonl, line 1, field 'query'"
    fault(lambda: toolret.load(tmp_path), what="missing", where=where, fix="did you mean 'querry'?")


def test_bad_files_are_named(tmp_path: Path) -> None:
    make(tmp_path / "a")
    write_text(tmp_path / "a" / "tools" / "web-2.parquet", "not parquet")
    fault(
        lambda: toolret.load(tmp_path / "a"),
        what="no known category",
        where="web-2.parquet",
        expected="tools/<category>",
    )
    (tmp_path / "a" / "tools" / "web-2.parquet").rename(tmp_path / "a" / "tools" / "web-00001-of-00002.parquet")
    fault(
        lambda: toolret.load(tmp_path / "a"), what="no readable Parquet", where="web-00001-of-00002", expected="Parquet"
    )
    write_jsonl(tmp_path / "b" / "queries" / "apibnk.jsonl", [])
    fault(
        lambda: toolret.load(tmp_path / "b"), what="no known task", where="apibnk.jsonl", fix="did you mean 'apibank'?"
    )
    write_jsonl(tmp_path / "c" / "apibank.jsonl", [])
    fault(
        lambda: toolret.load(tmp_path / "c"), what="holds no queries", where="catalog.path", expected="queries/<task>"
    )
    fault(lambda: toolret.load(tmp_path / "d"), what="no such file", where="catalog.path", expected="ToolRet")


def test_query_ids_repeat_across_tasks_but_not_within_one(tmp_path: Path) -> None:
    make(tmp_path, queries={"apibank": [QUERIES["apibank"][0]] * 2})
    error = fault(lambda: toolret.load(tmp_path), what="'q0' occurs twice in apibank", where="line 2, field 'id'")
    assert "line 1" in error.what


LOST = {**QUERIES, "gta": [("q9", "the weather", {"apibank_tool_0": 1, "gone_1": 1}), ("q8", "x", {"gone_1": 2})]}


def test_golds_that_the_corpus_lacks_are_named_and_counted(tmp_path: Path) -> None:
    make(tmp_path, queries=LOST)
    error = fault(
        lambda: toolret.load(tmp_path), what="gold tools of 2 queries", where="gta.jsonl, line 1, field 'labels'",
        expected="8 tools", fix="allow_missing_gold=true",
    )  # fmt: skip
    assert "gta:q9 → gone_1; gta:q8 → gone_1" in error.what


def test_golds_of_another_category_are_missing_from_a_categorys_corpus(tmp_path: Path) -> None:
    make(tmp_path, queries={"gta": [("q", "x", {"apibank_tool_0": 1})]})
    fault(lambda: toolret.load(tmp_path, corpus="category"), what="gta:q → apibank_tool_0", where="labels")


def test_allowed_missing_golds_count_as_missed(tmp_path: Path) -> None:
    """Denominators keep them, as trec_eval's do: the best possible ranking of a half lost query recalls a half."""
    data = toolret.load(make(tmp_path, queries=LOST), allow_missing_gold=True)
    queries = [by_id(data)["gta:q9"], by_id(data)["gta:q8"]]
    assert (queries[0].relevant, queries[0].absent) == ({"apibank_tool_0": 1}, {"gone_1": 1})
    assert (queries[1].relevant, queries[1].absent) == ({}, {"gone_1": 2})
    source = data.audit["source"]
    assert (source["queries_with_missing_golds"], source["missing_golds"]) == (2, 2)
    ranking = BM25().fit(data.catalog).search(queries, 8)
    scored = per_query(ranking, GoldMatrix.from_queries(data.catalog, queries), 5)
    assert scored.recall.tolist() == [0.5, 0.0] and scored.completeness.tolist() == [0.0, 0.0]
    assert scored.ndcg[0] == pytest.approx(1 / (1 + 1 / 1.584962500721156)) and scored.ndcg[1] == 0


def whole(folder: Path, queries: int, tools: int, qrels: int) -> Path:
    """A made-up benchmark of all 35 tasks with these counts."""
    names = list(toolret.TASKS)
    golds = [1 + (i < qrels - queries) for i in range(queries)]
    documents = [{"name": f"tool_{i}", "description": f"does number {i}"} for i in range(tools)]
    split = {"web": range(0, tools, 3), "code": range(1, tools, 3), "customized": range(2, tools, 3)}
    for task_at, task in enumerate(names):
        rows = [
            query_row(f"q{i}", f"do number {i}", {f"t{(i + j) % tools}": 1 for j in range(golds[i])}, task)
            for i in range(task_at, queries, len(names))
        ]
        write_rows(folder / task / "queries-00000-of-00001.parquet", rows)
    for category, rows in split.items():
        pairs = [(f"t{i}", documents[i]) for i in rows]
        write_rows(folder / category / "tools-00000-of-00001.parquet", tool_rows(pairs))
    return folder


def test_the_whole_is_compared_with_mtebs_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = toolret.load(whole(tmp_path, 40, 30, 50)).audit
    (warning,) = [line for line in render_audit(audit) if "WARNING" in line]
    assert "40 queries instead of 7,961 (-7,921)" in warning
    assert "30 tools instead of 44,453" in warning and "50 qrels instead of 14,106" in warning
    assert "counts differ from MTEB's" in caplog.text
    assert audit["source"]["expected_queries"] == 7961


def test_a_whole_of_the_right_size_says_so_and_loads_in_seconds(tmp_path: Path) -> None:
    whole(tmp_path, 7961, 44453, 14106)
    start = time.process_time()
    audit = toolret.load(tmp_path).audit
    assert time.process_time() - start < 15
    lines = render_audit(audit)
    assert not [line for line in lines if "WARNING" in line or "only a part" in line]
    assert "the whole of ToolRet: 7,961 queries, 44,453 tools, 14,106 qrels: as MTEB counts them" in lines


def test_a_part_is_called_a_part(tmp_path: Path) -> None:
    lines = render_audit(toolret.load(make(tmp_path)).audit)
    assert (
        "only a part of ToolRet: 4 of 35 tasks, tools of code, customized, web: numbers are not the benchmark's"
        in lines
    )


def test_the_option_holds_every_argument_with_its_default() -> None:
    values = yaml.safe_load(CONF.read_text(encoding="utf-8"))
    assert values.pop("_target_") == "toolsavvy.catalogs.toolret.load"
    assert values.pop("expand") is None
    assert values == {k: p.default for k, p in inspect.signature(toolret.load).parameters.items()}


def test_absent_golds_are_not_written_as_tools(tmp_path: Path) -> None:
    """A saved set loads again: what the catalog lacks is no gold of a file whose golds are checked."""
    data = toolret.load(make(tmp_path / "a"))
    save(data, tmp_path / "b")
    rows = [json.loads(line) for line in (tmp_path / "b" / "queries.jsonl").read_text().splitlines()]
    assert rows[1]["relevant"] == {"apibank_tool_0": 1, "apibank_tool_1": 1}


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as a snapshot needs: what a data set holds, and its files."""

    def __init__(self, folder: Path, *args) -> None:
        self.folder = folder
        super().__init__(*args)

    def log_message(self, *args) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urllib.parse.unquote(self.path.split("?")[0])
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "datasets"]:
            repo, form, sha = parts[3:6]
            files = [p for p in sorted((self.folder / repo).rglob("*")) if p.is_file()]
            names = {p.relative_to(self.folder / repo).as_posix(): p.stat().st_size for p in files}
            if sha not in (toolret.QUERIES_REVISION, toolret.TOOLS_REVISION):
                self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
                return
            info = {"id": f"mangopy/{repo}", "sha": sha, "siblings": [{"rfilename": name} for name in names]}
            tree = [{"type": "file", "path": name, "size": size, "oid": "0" * 40} for name, size in names.items()]
            body = json.dumps(tree if form == "tree" else info).encode()
            self.answer(200, body, {"Content-Type": "application/json"})
            return
        data = (self.folder / parts[2]).joinpath(*parts[5:]).read_bytes()
        self.answer(200, data, {"ETag": f'"{len(data)}-{parts[-2]}"', "X-Repo-Commit": parts[4]})

    def answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


CODE = """
import sys
from toolsavvy.catalogs import toolret
from toolsavvy.errors import UserError
try:
    data = toolret.load(**eval(sys.argv[1]))
except UserError as error:
    sys.exit(str(error))
print(len(data.catalog), len(data.splits["test"]))
"""


def test_the_hub_is_read_at_the_pinned_revisions_and_from_its_cache_when_offline(tmp_path: Path) -> None:
    make(tmp_path / "hub", "hub")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Hub, tmp_path / "hub")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
        env = {**base, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        env["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_address[1]}"

        def load(options: str = "{}", **more: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-c", CODE, options]
            return subprocess.run(command, capture_output=True, text=True, env={**env, **more}, timeout=120)

        first = load()
        assert first.stdout.split() == ["8", "8"], first.stderr
        wrong = load("{'tools_revision': 'e06c38c7'}")
        server.shutdown()
    assert load().stdout.split() == ["8", "8"]
    assert load(HF_HUB_OFFLINE="1").stdout.split() == ["8", "8"]
    assert "catalog.hub: the data set mangopy/ToolRet-Tools at revision e06c38c7 can't be fetched" in wrong.stderr
    assert "all its 40 digits" in wrong.stderr
    cold = load(HF_HOME=str(tmp_path / "cold"), HF_HUB_OFFLINE="1")
    assert cold.returncode == 1 and "ToolRet-Queries" in cold.stderr and "catalog.path=" in cold.stderr


def test_a_data_set_without_a_pinned_revision_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="mine/absent at its newest revision can't be fetched") as caught:
        dataset_folder("mine/absent", None, ["*.parquet"], key="catalog.hub")
    assert "None" not in caught.value.what
