from __future__ import annotations

import csv
import json
import tarfile

import pytest
from catalog_files import fault, shared, write_json, write_text

from toolsavvy.catalogs import toolbench

NAMES = [("Shop", "Get Order"), ("Shop", "Drop Order"), ("Мир", "a&&b"), ("Web", "Find")]
IDS = ["Shop&&Get Order", "Shop&&Drop Order", "Мир&&a&&b", "Web&&Find"]


def chat(user, answer, **loss):
    turns = [{"role": "user", "content": user, "loss": False}, {"role": "assistant", "content": answer, "loss": True}]
    return {"conversations": turns, **loss}


def document(tool, api, about="About it", text="Does it"):
    return f"Tool Name: {tool} Tool Description: {about}. Api Name: {api} Api Description: {text}."


def tool_file(path, tool, apis, about="About it"):
    rows = [{"name": a, "description": f"does {a}", "required_parameters": [], "optional_parameters": []} for a in apis]
    write_json(path, {"tool_name": tool, "tool_description": about, "api_list": rows})


def tsv(path, rows, header=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, delimiter="\t", lineterminator="\n").writerows([*([header] if header else []), *rows])


def content(tool, api):
    apis = {"required_parameters": [{"name": "q", "type": "STRING", "description": "", "default": ""}]}
    return json.dumps({"category_name": "C", "tool_name": tool, "api_name": api, "api_description": "says\tso", **apis})


def whole(root):
    """Every part of the layout of ToolGen-Datasets, four tools."""
    rows = [chat(document(t, a), f"<<{t}&&{a}>>") for t, a in NAMES]
    rows[3] = chat("Tool Name: Web Tool Description: None. Api Name: Find Api Description: None.", "<<Web&&Find>>")
    write_json(root / "toolgen_atomic_memorization.json", [*rows, rows[0], chat("end", "<<Finish>>")])
    pairs = [("find it", IDS[3]), ("Find  it", IDS[0]), ("drop it", IDS[1])]
    write_json(root / "toolgen_atomic_retrieval_G123.json", [chat(text, f"<<{i}>>") for text, i in pairs])
    tool_file(root / "data/toolenv/tools/Commerce/shop.json", "Shop", ["Get Order", "Drop Order", "Only In File"])
    for stage, names in (("G1", NAMES[:2]), ("G2", NAMES[1:3])):
        base = root / "data/retrieval" / stage
        tsv(base / "corpus.tsv", [(i, content(t, a)) for i, (t, a) in enumerate(names)], ("docid", "document_content"))
        tsv(base / f"test_{stage}_instruction.query.txt", [(5, 'say "five"'), (6, "both")])
        tsv(base / f"qrels.test_{stage}_instruction.tsv", [(5, 0, 0, 1), (6, 0, 0, 1), (6, 0, 1, 1)])
    return root


def test_the_whole_layout(tmp_path):
    data = toolbench.load(whole(tmp_path))
    assert [t.id for t in data.catalog.tools] == IDS
    first, _, third, fourth = data.catalog.tools
    assert (first.name, first.group, first.category) == ("Get Order", "Shop", "Commerce")
    assert first.description == "does Get Order\nAbout it"
    assert (third.name, third.group, third.description) == ("a&&b", "Мир", "Does it.\nAbout it.")
    assert fourth.description == ""
    train = {q.text: q.relevant for q in data.train}
    assert train == {"find it": {IDS[3]: 1, IDS[0]: 1}, "drop it": {IDS[1]: 1}}
    g1, g2 = data.splits["test_G1_instruction"], data.splits["test_G2_instruction"]
    assert [(q.id, q.text, q.subset) for q in g1] == [
        ("G1:5", 'say "five"', "G1_instruction"),
        ("G1:6", "both", "G1_instruction"),
    ]
    assert [set(q.relevant) for q in g2] == [{IDS[1]}, {IDS[1], IDS[2]}]
    assert data.headline == ("test_G1_instruction", "test_G2_instruction")
    assert data.audit["source"]["tool_files_without_memorization"] == 1
    assert data.audit["source"]["repeated_memorization_rows"] == 1


def test_in_domain_candidates_are_the_stages_own_corpora(tmp_path):
    data = toolbench.load(whole(tmp_path), stages=["G1"], candidates="stages")
    assert [t.id for t in data.catalog.tools] == IDS[:2]
    assert data.catalog.tools[0].parameters["properties"] == {"q": {"type": "string"}}
    assert set(data.splits) == {"train", "test_G1_instruction"}
    assert data.audit["source"]["retrieval_rows_outside_the_stages"] == 1


def test_an_archive_is_unpacked_into_the_cache_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    root = whole(tmp_path / "root")
    with tarfile.open(root / "data.tar.gz", "w:gz") as tar:
        tar.add(root / "data", "data")
    expected = toolbench.load(root)
    (root / "data").rename(tmp_path / "gone")
    for _ in range(2):
        data = toolbench.load(root)
        assert data.catalog.tools == expected.catalog.tools
        assert dict(data.splits) == dict(expected.splits)
    assert not (root / "data").exists()
    assert len(list((tmp_path / "cache" / "assets").iterdir())) == 1


@pytest.mark.parametrize("kind", ["path", "link", "device"])
def test_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    evil = write_text(tmp_path / "evil", "x")
    (tmp_path / "root").mkdir()
    with tarfile.open(tmp_path / "root" / "data.tar.gz", "w:gz") as tar:
        if kind == "path":
            tar.add(evil, "../../../evil2")
        else:
            member = tarfile.TarInfo("data/evil2")
            member.type, member.linkname = (tarfile.SYMTYPE, str(evil)) if kind == "link" else (tarfile.FIFOTYPE, "")
            tar.addfile(member)
    fault(lambda: toolbench.load(tmp_path / "root"), what="can't be unpacked", where="data.tar.gz", fix="again")
    assert not list(tmp_path.rglob("evil2"))


def test_test_query_ids_part_test_from_train(tmp_path):
    api = json.loads(content("Shop", "Get Order"))
    rows = [
        {"api_list": [api], "query": f"q{i}", "query_id": i, "relevant APIs": [["Shop", "Get Order"]]}
        for i in (1, 2, 3)
    ]
    write_json(tmp_path / "instruction/G1_query.json", rows)
    assert set(toolbench.load(tmp_path).splits) == {"test"}
    write_json(tmp_path / "test_query_ids/G1_instruction_test_query_ids.json", [2])
    data = toolbench.load(tmp_path)
    assert {s: [q.id for q in qs] for s, qs in data.splits.items()} == {
        "train": ["G1_query:1", "G1_query:3"],
        "test": ["G1_query:2"],
    }


def test_bad_rows(tmp_path):
    root = whole(tmp_path)
    base = root / "data/retrieval/G1"
    tsv(base / "qrels.test_G1_instruction.tsv", [(5, 0, 0, 1), (6, 0, 99, 1)])
    name = "qrels.test_G1_instruction.tsv, line 2, field 'docid'"
    fault(lambda: toolbench.load(root), what="unknown document '99'", where=name, expected="G1/corpus.tsv")
    tsv(base / "qrels.test_G1_instruction.tsv", [(5, 0, 0, 1)])
    name = "test_G1_instruction.query.txt, line 2, field 'qid'"
    fault(lambda: toolbench.load(root), what="no gold tool", where=name, expected="at least one")
    (base / "qrels.test_G1_instruction.tsv").unlink()
    fault(lambda: toolbench.load(root), what="qrels.test_G1_instruction.tsv", where="catalog.path")


@pytest.mark.parametrize(
    ("row", "what", "expected"),
    [
        (chat("x", "Shop&&Get Order"), "no virtual token", "<<tool&&api>>"),
        (chat("x", "<<No&&Such>>"), "unknown tool 'No&&Such'", "one of the 4 tools"),
        (chat("", "<<Shop&&Get Order>>"), "no user turn", "a user and an assistant turn"),
        ({"conversation": []}, "missing", "a list"),
    ],
)
def test_bad_conversations(tmp_path, row, what, expected):
    root = whole(tmp_path)
    write_json(root / "toolgen_atomic_retrieval_G123.json", [chat("a", f"<<{IDS[0]}>>"), row])
    where = "retrieval_G123.json, record 2, field 'conversations'"
    fault(lambda: toolbench.load(root), what=what, where=where, expected=expected)


def test_bad_options_and_an_empty_folder(tmp_path):
    fault(lambda: toolbench.load(tmp_path, stages=["G4"]), what="G4", where="catalog.stages", expected="G1")
    fault(lambda: toolbench.load(tmp_path, candidates="al"), what="al", where="catalog.candidates", expected="all")
    fault(lambda: toolbench.load(tmp_path), what="no queries", where="catalog.path", expected="ToolGen-Datasets")


def test_the_hub_is_asked_for_the_named_revision(tmp_path, monkeypatch):
    import huggingface_hub

    asked = []

    def download(repo, **options):
        asked.append((repo, options))
        return str(whole(tmp_path / "hub"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    data = toolbench.load(hub="reasonwang/ToolGen-Datasets", revision="abc")
    assert asked == [("reasonwang/ToolGen-Datasets", {"repo_type": "dataset", "revision": "abc"})]
    assert len(data.catalog) == 4

    def fail(*_args, **_options):
        raise OSError("no route to the hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    fault(
        lambda: toolbench.load(hub="x/y"), what="no route", where="catalog.hub=x/y", expected="hub", fix="catalog.path"
    )


def test_real_examples():
    data = toolbench.load(shared("toolbench_example"))
    queries = data.splits["test"]
    assert len(queries) == 10
    assert len({q.id for q in queries}) == 10
    assert {q.subset for q in queries} == {"G1_query", "G2_query", "G3_query"}
    one = toolbench.load(shared("toolbench_example"), stages=["G1"])
    assert len(one.splits["test"]) == 5
