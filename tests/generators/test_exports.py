from __future__ import annotations

import csv
import json
from pathlib import Path
from urllib.parse import quote

import polars
import pytest
import yaml
from set_world import query, source, tool

from toolsavvy.catalog import Catalog, Query, RetrievalSet
from toolsavvy.catalogs import beir, jsonl, toolret
from toolsavvy.errors import UserError
from toolsavvy.generators.exports import export
from toolsavvy.retrieval.trec import read_qrels

TOOLS = [
    tool("metatool/get mail", "get_mail", 'Reads "mail"\tof a box.', "Mail & co", "office", "box", "since"),
    tool("metatool/2", "", "Has no name."),
    tool("toolalpaca/ü\n3", "odd.name", "Über 北京.", "", "x"),
    tool("toolalpaca/4", "four", ""),
]
DATA: RetrievalSet = source(
    "set",
    TOOLS,
    {
        "train": [
            query("metatool/a b", "read\nmy mail", "metatool/get mail", subset="metatool", instruction="Find it.")
        ],
        "validation": [query("metatool/v", "v", "metatool/2", subset="metatool")],
        "test": [
            Query("toolalpaca/1", "two\tthings", {"toolalpaca/ü\n3": 2, "metatool/2": 1}, "Über.", "toolalpaca"),
            Query("metatool/2", "“quoted”", {"toolalpaca/4": 1}, None, "metatool", negatives=("metatool/2",)),
        ],
    },
)


def test_our_own_format_reads_back_whole(tmp_path: Path) -> None:
    export(DATA, tmp_path / "d", ["jsonl"])
    back = jsonl.load(tmp_path / "d" / "jsonl", name="set")
    assert back.catalog == DATA.catalog
    assert dict(back.splits) == dict(DATA.splits)


def test_our_beir_loader_reads_the_same_set(tmp_path: Path) -> None:
    export(DATA, tmp_path / "d", ["beir"])
    back = beir.load(tmp_path / "d" / "beir")
    assert [t.id for t in back.catalog.tools] == [t.id for t in TOOLS]
    assert back.catalog.documents == DATA.catalog.documents
    assert back.catalog.documents[0].startswith("get mail. Mail & co. Reads")
    assert [t.name for t in back.catalog.tools] == ["get_mail", "", "odd.name", ""]
    for split, rows in DATA.splits.items():
        assert [(q.id, q.text, q.relevant) for q in back.splits[split]] == [(q.id, q.text, q.relevant) for q in rows]
    metadata = json.loads((tmp_path / "d" / "beir" / "queries.jsonl").read_text().split("\n")[0])["metadata"]
    assert metadata == {"instruction": "Find it.", "subset": "metatool"}


def test_beirs_own_way_of_reading_qrels_works(tmp_path: Path) -> None:
    export(DATA, tmp_path / "d", ["beir"])
    with (tmp_path / "d" / "beir" / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        next(reader)
        rows = [(row[0], row[1], int(row[2])) for row in reader]
    assert rows == [
        ("toolalpaca/1", "toolalpaca/ü\n3", 2), ("toolalpaca/1", "metatool/2", 1), ("metatool/2", "toolalpaca/4", 1),
    ]  # fmt: skip


def test_mteb_finds_every_config_and_split_in_the_card(tmp_path: Path) -> None:
    export(DATA, tmp_path / "d", ["mteb"])
    folder = tmp_path / "d" / "mteb"
    card = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---")[1])
    found = {
        config["config_name"]: {
            file["split"]: polars.read_parquet(folder / file["path"]) for file in config["data_files"]
        }
        for config in card["configs"]
    }
    assert set(found) == {"corpus", "queries", "qrels", "instruction"}
    assert set(found["queries"]) == set(found["qrels"]) == set(found["instruction"]) == set(DATA.splits)
    corpus = found["corpus"]["corpus"]
    assert corpus.columns == ["_id", "title", "text"]
    assert corpus["_id"].to_list() == [t.id for t in TOOLS]
    for split, rows in DATA.splits.items():
        assert found["queries"][split].rows() == [(q.id, q.text) for q in rows]
        assert found["instruction"][split].rows() == [(q.id, q.instruction or "") for q in rows]
        judged = [(q.id, t, g) for q in rows for t, g in q.relevant.items()]
        assert found["qrels"][split].columns == ["query-id", "corpus-id", "score"]
        assert found["qrels"][split].rows() == judged


def test_trec_files_are_lines_of_encoded_ids(tmp_path: Path) -> None:
    export(DATA, tmp_path / "d", ["trec"])
    folder = tmp_path / "d" / "trec"
    for split, rows in DATA.splits.items():
        assert read_qrels(folder / f"{split}.qrels") == {q.id: dict(q.relevant) for q in rows}
        topics = [line.split("\t") for line in (folder / f"{split}.topics.tsv").read_text().splitlines()]
        assert topics == [[quote(q.id, safe=""), " ".join(q.text.split())] for q in rows]
        told = [line.split("\t") for line in (folder / f"{split}.instructions.tsv").read_text().splitlines()]
        assert [text for _, text in told] == [q.instruction or "" for q in rows]


def test_our_toolret_loader_reads_the_test_queries_and_all_tools(tmp_path: Path) -> None:
    export(DATA, tmp_path / "d", ["toolret"])
    folder = tmp_path / "d" / "toolret"
    back = toolret.load(folder)
    wanted = {f"{q.subset}:{q.id}": (q.text, dict(q.relevant), q.instruction, q.subset) for q in DATA.splits["test"]}
    assert {q.id: (q.text, dict(q.relevant), q.instruction, q.subset) for q in back.splits["test"]} == wanted
    assert [t.id for t in back.catalog.tools] == [t.id for t in TOOLS]
    assert json.loads(back.catalog.tools[0].description)["parameters"] == TOOLS[0].parameters
    labels = json.loads(polars.read_parquet(folder / "queries" / "metatool.parquet")["labels"][0])
    assert [set(label) for label in labels] == [{"id", "doc", "relevance"}]
    (train,) = [json.loads(line) for line in (folder / "train" / "train.jsonl").read_text().splitlines()]
    assert (train["query"], train["prompt"], train["neg"]) == ("read\nmy mail", "Find it.", [])
    assert train["pos"] == [back.catalog.tools[0].description]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "d"
    export(DATA, folder, ["trec", "jsonl"])
    (folder / "old").touch()
    (tmp_path / ".d.part").mkdir()
    (tmp_path / ".d.part" / "rest").touch()

    def broken(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr("toolsavvy.generators.exports.write_beir", broken)
    with pytest.raises(OSError, match="no"):
        export(DATA, folder, ["jsonl", "beir"])
    assert sorted(p.name for p in folder.iterdir()) == ["jsonl", "old", "trec"]
    assert [p.name for p in tmp_path.iterdir()] == ["d"], "no draft is left"
    monkeypatch.undo()
    export(DATA, folder, ["beir"])
    assert [p.name for p in tmp_path.iterdir()] == ["d"]
    assert [p.name for p in folder.iterdir()] == ["beir"]


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        export(DATA, tmp_path / "d", ["bier"])
    assert (caught.value.where, caught.value.expected) == ("generator.exports", "jsonl, beir, mteb, trec, toolret")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name", ["../outside", "a/b", "..", "a\nb", "a\0b", "a\\b"])
def test_names_that_would_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    one = Query("q", "please", {"t": 1}, subset=name)
    catalog = Catalog("c", (tool("t", "t"),))
    for splits in ({name: (Query("q", "please", {"t": 1}),)}, {"test": (one,)}):
        with pytest.raises(UserError, match="can't be the name of a file"):
            export(RetrievalSet(catalog, splits), tmp_path / "set")
    assert list(tmp_path.iterdir()) == []
