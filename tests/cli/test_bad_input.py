"""Mistakes in the input, one by one: exit code 2, one message, nothing half-written; oddities that are no mistakes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import ROOT, command, environment, lines, runs, status, toolsavvy

from toolsavvy.__main__ import main
from toolsavvy.config import preflight
from toolsavvy.config.compose import quoted

TOY = ("method=toolgen", "model=toy", "encoder=toy", "retriever=bm25", "trainer.threads=1", "trainer.precision=fp32")
QUICK = (*TOY, "memorization.epochs=1", "method.recipes.plain.epochs=1", "suite.catalog_test.resamples=20")


def tool(id: str = "a", **more: object) -> str:
    return json.dumps({"id": id, "name": f"tool {id}", "description": f"does {id}", **more})


def query(id: str = "q", relevant: object = ("a",), **more: object) -> str:
    return json.dumps({"id": id, "text": f"please do {id}", "relevant": relevant, **more})


@pytest.fixture(autouse=True)
def _argv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])


def catalog(folder: Path, tools: str | bytes, queries: str | bytes) -> str:
    """A catalog of two files, and the override that names it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("tools.jsonl", tools), ("queries.jsonl", queries)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return f"catalog.path={folder}"


def run(folder: Path, *args: str) -> int:
    return main([*args, "logger=none", f"paths.outputs={folder / 'out'}"])


def refused(folder: Path, told: str, words: tuple[str, ...]) -> None:
    """One message, and no run that looks finished."""
    assert told.count("error: ") == 1
    assert told.startswith("error: ")
    assert "Traceback" not in told
    assert len(told.strip().splitlines()) <= 3
    for word in words:
        assert word in told
    assert all(status(r)["status"] == "failed" for r in runs(folder))
    assert list(folder.rglob("results.jsonl")) == []
    assert list(folder.rglob("*.part")) == []


@pytest.mark.parametrize(
    ("tools", "queries", "words"),
    [
        (f'{tool()}\n{{"id": "b", "name"\n', query(), ("tools.jsonl, line 2: broken JSON", "valid JSON", "fix: mend")),
        (f"{tool()}\n", f'{query()}\n\n{{"id"', ("queries.jsonl, line 3: broken JSON", "expected", "fix")),
        (f'{tool()}\n{{"name": "x"}}', query(), ("tools.jsonl, line 2, field 'id'", "missing", "text", "add 'id'")),
        (tool(""), query(), ("tools.jsonl, line 1, field 'id'", "empty", "expected: text", "fill in 'id'")),
        (
            f"{tool()}\n{tool('b')}\n{tool()}", query(),
            ("tools.jsonl, line 3, field 'id'", "'a' occurs twice", "line 1", "unique ids", "its own id"),
        ),
        (
            f"{tool()}\n{tool('b', name='', description=' ')}", query(),
            ("tools.jsonl, line 2, field 'description'", "'b' has no text", "a name or a description", "fix"),
        ),
        (
            f"{tool()}\n{tool('list_buckets')}", query(relevant=["list_bucket"]),
            ("queries.jsonl, line 1, field 'relevant'", "unknown tool 'list_bucket'", "of the 2", "'list_buckets'?"),
        ),
        (tool(), f"{query()}\n{query('r', [])}", ("queries.jsonl, line 2, field 'relevant'", "no gold", "fix")),
        (tool(), query(relevant={"a": 0}), ("queries.jsonl, line 1, field 'relevant'", "no gold tool", "fix")),
        (
            tool().encode() + b'\n{"id": "b", "name": "caf\xe9"}', query(),
            ("tools.jsonl, line 2", "not UTF-8", "expected: UTF-8", "iconv"),
        ),
        ("", query(), ("tools.jsonl", "empty", "at least one record", "fix")),
        (tool(), "", ("queries.jsonl", "empty", "at least one record", "fix")),
    ],
)  # fmt: skip
def test_a_broken_catalog_is_one_message_with_its_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], tools: str | bytes, queries: str, words: tuple[str, ...]
) -> None:
    code = run(tmp_path, "method=evaluate", "catalog=jsonl", catalog(tmp_path / "cat", tools, queries))
    assert code == 2
    told = capfd.readouterr()
    refused(tmp_path, told.err, words)
    assert told.out == ""


def test_qrels_that_name_an_unknown_tool(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "beir"
    (source / "qrels").mkdir(parents=True)
    (source / "corpus.jsonl").write_text('{"_id": "t1", "title": "one", "text": "the first"}\n')
    (source / "queries.jsonl").write_text('{"_id": "q1", "text": "do one"}\n{"_id": "q2", "text": "do two"}\n')
    (source / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tt1\t1\nq2\tt9\t1\n")
    options = ("method=evaluate", "catalog=toollens", "catalog.layout=plain", f"catalog.path={source}")
    assert run(tmp_path, *options) == 2
    refused(tmp_path, capfd.readouterr().err, ("test.tsv, line 3", "t9", "expected", "fix"))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("catalog=jsonl",), ("catalog.path: not set", "file or folder", "add catalog.path=")),
        (("catalog=toolbench",), ("catalog.path: not set",)),
        (("catalog=mcp", "catalog.path=nowhere.json"), ("catalog.path: 'nowhere.json' does not exist", "fix")),
        (("catalog=jsnol",), ("'catalog' has no option 'jsnol'", "did you mean 'jsonl'?")),
        (("catalog=toy", "catalog.tolls=3"), ("unknown key 'catalog.tolls'", "did you mean 'tools'?")),
        (("catalog=toy", "sede=3"), ("unknown key 'sede'", "did you mean 'seed'?")),
        (("catalog=toy", "retriever=bm52"), ("'retriever' has no option 'bm52'", "did you mean 'bm25'?")),
        (
            ("catalog=toy", "method=toolgen", "+method.fusions.two.members=[bm25,knn]"),
            ("command line", "a whole fusion", "fix: '+method.fusions={NAME"),
        ),
        (("catalog=toy", "method.dept=3"), ("unknown key 'method.dept'", "did you mean 'depth'?")),
        (("catalog=toy", "suite.catalog_test.k=[1]"), ("unknown key 'suite.catalog_test.k'", "did you mean 'ks'?")),
        (("catalog=toy", "paths.outputs=/proc/self/fdinfo"), ("outputs: cannot write", "set paths.outputs=FOLDER")),
    ],
)  # fmt: skip
def test_what_can_be_seen_beforehand_makes_no_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    elsewhere = () if any(a.startswith("paths.") for a in args) else (f"paths.outputs={tmp_path / 'out'}",)
    assert main(["method=evaluate", *args, "logger=none", *elsewhere]) == 2
    refused(tmp_path, capfd.readouterr().err, words)
    assert list(tmp_path.iterdir()) == []


TOY_EVALUATION = ("method=evaluate", "catalog=toy", "retriever=bm25", "logger=none")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        # values of the wrong kind, for what has a schema and for what has only a signature
        (("seed=abc",), ("command line, seed=abc", "expected: a value of type integer")),
        (("resume=maybe",), ("command line, resume=maybe", "expected: true or false")),
        (("logger.tags=a",), ("command line, logger.tags=a", "expected: a list", "fix: 'logger.tags=[A,B]'")),
        (("paths.outputs=null",), ("paths.outputs=null", "expected: a value, not null")),
        (("seed=${nope}",), ("command line, seed=${nope}", "'nope' not found", "expected: a key")),
        (("retriever.bm25.k1=abc",), ("command line, retriever.bm25.k1=abc", "expected: a number")),
        (("suite.catalog_test.ks=5",), ("ks=5", "a list of whole numbers", "fix: 'suite.catalog_test.ks=[5]'")),
        (("suite.catalog_test.ks=[a]",), ("ks=[a]", "expected: a list of whole numbers")),
        (("catalog.tools=true",), ("command line, catalog.tools=true", "expected: a whole number")),
        (("catalog.name=5",), ("command line, catalog.name=5", "expected: text", "quote it")),
        (("method=toolgen", "tuning.targets=5"), ("tuning.targets", "expected: all-linear, or a list", "fix")),
        # numbers out of range
        (("method=toolgen", "memorization.learning_rate=nan"), ("memorization.learning_rate: nan", "expected: > 0")),
        (("method=toolgen", "method.recipes.plain.replay=[docs]"), ("method.recipes.plain.replay: 'docs'", "document")),
        # nothing chosen, or taken away
        (("retriever=[]",), ("retriever: nothing is chosen", "bm25", "fix: add retriever=OPTION")),
        (("suite=[]",), ("suite: nothing is chosen", "catalog_test", "fix: add suite=OPTION")),
        (("retriever=",), ("command line, retriever=", "expected: one of bm25")),
        (("catalog=null",), ("command line, catalog=null", "expected: one of api_bank, aws")),
        (("retriever=null",), ("command line, retriever=null", "expected: one of bm25", "'retriever=[]' for none")),
        (("~seed",), ("command line, ~seed", "'seed' cannot be taken away", "fix")),
        (("~paths.outputs",), ("'paths.outputs' cannot be taken away", "fix")),
        # folders that are none
        (("paths.outputs=",), ("paths.outputs: is empty", "expected: a folder", "set paths.outputs=FOLDER")),
        (("paths.outputs={tmp}/file/sub",), ("paths.outputs: ", "file is a file", "a writable folder")),
        (("paths.cache=/proc/self/fdinfo/x",), ("paths.cache: cannot write", "set paths.cache=FOLDER")),
        (("hydra.run.dir=/proc/self/fdinfo/x",), ("hydra.run.dir: cannot write", "set hydra.run.dir=FOLDER")),
        (("-m", "hydra.sweep.dir=/proc/self/fdinfo/x"), ("/fdinfo/x", "a folder that can be made", "fix")),
        # flags
        (("--bogus",), ("command line: unrecognized arguments: --bogus", "expected: key=value", "toolsavvy --help")),
        (("--config-name=other",), ("command line, --config-name", "not for use here", "--config-dir FOLDER")),
        (("--config-path=conf",), ("command line, --config-path", "not for use here", "--config-dir FOLDER")),
        # what the shell or the grammar takes apart
        (("paths.outputs=out/ü",), ("cannot read 'paths.outputs=out/ü'", "\"paths.outputs='out/ü'\"")),
        (("paths.outputs=a=b,c",), ("expected", "fix")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0], str) and "=" in value[0] else None,
)  # fmt: skip
def test_an_odd_override_is_one_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    mine = [a.replace("{tmp}", str(tmp_path)) for a in args]
    taken = {a.lstrip("~").partition("=")[0] for a in mine}
    base = [a for a in TOY_EVALUATION if a.partition("=")[0] not in taken]
    elsewhere = [] if "paths.outputs" in taken else [f"paths.outputs={tmp_path / 'out'}"]
    assert main([*base, *mine, *elsewhere]) == 2
    refused(tmp_path, capfd.readouterr().err, words)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_path_that_nothing_foresaw_is_one_message(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["method=report", f"runs=[{'x' * 5000}]", "logger=none", f"paths.outputs={tmp_path / 'out'}"]) == 2
    refused(tmp_path, capfd.readouterr().err, ("too long", "correct the path"))


@pytest.mark.parametrize("name", ["two words", "fïle ünd", "it's", "a=b,c[d]{e}", "back\\"])
def test_folders_may_have_any_name(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    assert main([*TOY_EVALUATION, "suite.catalog_test.resamples=5", f"paths.outputs={quoted(str(place))}"]) == 0
    assert [status(r)["status"] for r in runs(place)] == ["done"]


def test_outputs_may_be_a_link_whose_target_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert main([*TOY_EVALUATION, "suite.catalog_test.resamples=5", f"paths.outputs={tmp_path / 'link'}"]) == 0
    assert [status(r)["status"] for r in runs(tmp_path / "gone")] == ["done"]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("results.jsonl", ("results.jsonl, line 1: broken JSON", "one JSON object a line", "delete that line")),
        ("checkpoints/catalog.sha256", ("catalog.sha256: is damaged", "64 hex digits", "without resume=true")),
    ],
)
def test_damaged_records_are_not_built_upon(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], file: str, words: tuple[str, ...]
) -> None:
    args = (*TOY_EVALUATION, "suite.catalog_test.resamples=5", f"paths.outputs={tmp_path}")
    assert main(args) == 0
    (folder,) = runs(tmp_path)
    (folder / "status.json").write_text(json.dumps({**status(folder), "status": "failed"}))
    (folder / file).write_bytes(b"\xff no record\n")
    capfd.readouterr()
    assert main([*args, "resume=true"]) == 2
    told = capfd.readouterr().err
    assert told.count("error: ") == 1
    assert "Traceback" not in told
    for word in words:
        assert word in told


def test_bom_and_crlf_are_accepted(tmp_path: Path) -> None:
    tools = b"\xef\xbb\xbf" + f"{tool()}\r\n{tool('b')}\r\n".encode()
    queries = b"\xef\xbb\xbf" + f"{query()}\r\n{query('r', ['b'])}\r\n".encode()
    assert run(tmp_path, "method=evaluate", "catalog=jsonl", catalog(tmp_path / "cat", tools, queries)) == 0
    (done,) = runs(tmp_path)
    found = lines(done / "predictions" / "catalog_test.bm25.jsonl")
    assert [p["text"] for p in found] == ["please do q", "please do r"]


def odd_catalog(folder: Path) -> str:
    """Tools whose texts look like markup of models and of this package, or hold what tokenizers stumble over."""
    texts = [
        "ends <|im_end|> here",
        "is <<tool b>> and <<b>>",
        "<s>[INST] <|im_start|>assistant",
        "🛠️🔧🪛 👩‍🔧" * 20,
        "\u202e\u0000x",
    ]
    tools = [tool(str(i), description=text) for i, text in enumerate(texts)]
    rows = [
        query(f"{split} {i}", [str(i)], text=f"{text} <|im_end|> <<{i}>>", split=split)
        for split in ("train", "validation", "test")
        for i, text in enumerate(texts)
    ]
    return catalog(folder, "\n".join(tools), "\n".join(rows))


def huge_catalog(folder: Path) -> str:
    """A description of 5 MB among ordinary ones."""
    tools = [tool("a", description="word " * 1_000_000), *(tool(i) for i in "bcde")]
    rows = [query(f"{split} {i}", [i], split=split) for split in ("train", "test") for i in "abcde"]
    return catalog(folder, "\n".join(tools), "\n".join(rows))


def single_catalog(folder: Path) -> str:
    """One tool."""
    return catalog(folder, tool(), "\n".join(query(split, text="does a", split=split) for split in ("train", "test")))


@pytest.mark.parametrize("make", [odd_catalog, huge_catalog, single_catalog])
def test_odd_catalogs_train_and_are_ranked(tmp_path: Path, make: Callable[[Path], str]) -> None:
    path = make(tmp_path / "cat")
    assert run(tmp_path, *QUICK, "catalog=jsonl", path, "suite.catalog_test.ks=[1,10]", "method.depth=10") == 0
    (done,) = runs(tmp_path)
    assert status(done)["status"] == "done"
    size = len((tmp_path / "cat" / "tools.jsonl").read_text().splitlines())
    results = lines(done / "results.jsonl")
    assert {r["k"] for r in results} == {1}
    assert {r["system"] for r in results} >= {"bm25", "toolgen_stage1-constrained", "toolgen_plain-free"}
    for answer in lines(done / "predictions" / "catalog_test.toolgen_plain-constrained.jsonl"):
        assert len(set(answer["tools"])) == size
    if make is single_catalog:
        recall = [r["value"] for r in results if r["metric"] == "recall" and r["system"].endswith("constrained")]
        assert set(recall) == {1.0}


def test_one_tool_is_evaluated_at_any_depth(tmp_path: Path) -> None:
    path = single_catalog(tmp_path / "cat")
    args = ("method=evaluate", "catalog=jsonl", path, "retriever=[bm25,dense,fusion]", "encoder=toy", "method.depth=10")
    assert run(tmp_path, *args, "suite.catalog_test.ks=[10]") == 0
    (done,) = runs(tmp_path)
    assert {(r["metric"], r["k"], r["value"]) for r in lines(done / "results.jsonl") if r["slice"] == "test"} == {
        (metric, 1, 1.0) for metric in ("recall", "precision", "ndcg", "completeness", "mrr", "map")
    }


def test_no_network_and_a_cold_cache_is_one_message(tmp_path: Path) -> None:
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}
    done = toolsavvy(
        tmp_path / "out", "method=evaluate", "catalog=aws_network", "logger=none",
        TOOLSAVVY_CACHE=str(tmp_path / "cache"), **offline,
    )  # fmt: skip
    assert done.returncode == 2
    refused(tmp_path, done.stderr, ("awscli==", "not in the cache", "sha256", "fix: connect to the network once"))


def test_a_file_that_cannot_grow_ends_the_run_with_one_message(tmp_path: Path) -> None:
    """The limit of a file's size stands in for a full disk: weights no longer fit, small records do."""
    done = subprocess.run(
        command(tmp_path / "out", *QUICK, "catalog=toy", "logger=none"), capture_output=True, text=True, cwd=ROOT,
        env=environment(PYTHONDONTWRITEBYTECODE="1"), timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    told = done.stderr[done.stderr.index("error: ") :]
    (failed,) = runs(tmp_path)
    refused(tmp_path, told, (f"{failed}: a file may not grow", "fix: free some space"))
    assert status(failed)["error"]
    assert [p.name for p in (failed / "checkpoints").iterdir() if p.suffix not in (".npz", ".sha256")] == []
    assert not (failed / "model").exists() or list((failed / "model").iterdir()) == []


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 300 kB; a folder whose files may not grow where mounting is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setattr(preflight, "MINIMUM_DISK", 0)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)], capture_output=True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if mounted.returncode:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield disk
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    if not mounted.returncode:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_fills_up_while_results_are_written(full_disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    args = ("method=evaluate", "catalog=toy", "catalog.tools=192", "retriever=bm25", "suite.catalog_test.resamples=20")
    assert main([*args, "logger=none", f"paths.outputs={full_disk}"]) == 2
    told = capfd.readouterr().err
    assert told.count("error: ") == 1
    assert "Traceback" not in told
    assert "Logging error" not in told
    assert "fix: free some space" in told
    (failed,) = runs(full_disk)
    assert status(failed)["status"] != "done"
    for file in full_disk.rglob("*.jsonl"):
        lines(file)


def test_a_disk_without_room_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "MINIMUM_DISK", 10**18)
    assert run(tmp_path, "method=evaluate", "catalog=toy") == 2
    refused(tmp_path, capfd.readouterr().err, ("paths.outputs", "MB are free", "expected: at least"))
    assert list(tmp_path.iterdir()) == []
