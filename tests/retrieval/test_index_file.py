"""Saved indexes: read back as they were, refused when built from something else, never trusted when damaged."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval import index_file
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Reporting

TOOLS = tuple(Tool(f"t{i:02}", f"makeThing{i}", f"{chr(97 + i % 7) * 4} does {i}") for i in range(40))
CATALOG = Catalog("c", TOOLS)
QUERIES = [Query(f"q{i}", f"please {chr(97 + i) * 4}", {f"t{i:02}": 1}) for i in range(20)]


class Counting(Encoder):
    """Counts the documents that it embeds."""

    embedded = 0

    def encode_documents(self, documents: Sequence[str]) -> np.ndarray:
        self.embedded += len(documents)
        return super().encode_documents(documents)


@pytest.fixture(scope="module")
def toy() -> Encoder:
    return Encoder()


def dense(encoder: Encoder, folder: Path, index: str = "Flat", **settings: object) -> Dense:
    return Dense(encoder, index=index, index_path=str(folder), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("index", ["Flat", "HNSW8", "IVF4,Flat", "PCA8,Flat", "IVF4,SQ8"])
def test_an_index_read_back_ranks_exactly_as_the_one_that_was_built(index: str, toy: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "index"
    built = dense(toy, folder, index).fit(CATALOG)
    first = built.search(QUERIES, 7)
    encoder = Counting.from_model(toy.model)
    read = dense(encoder, folder, index).fit(CATALOG)
    again = read.search(QUERIES, 7)
    assert isinstance(encoder, Counting) and encoder.embedded == 0
    assert np.array_equal(first.indices, again.indices) and np.array_equal(first.scores, again.scores)
    assert isinstance(read, Reporting) and read.facts() == built.facts()
    names = {"manifest.json", "index.faiss"} | ({"flat.faiss"} if index != "Flat" else set())
    assert {path.name for path in folder.iterdir()} == names
    assert [path.name for path in folder.parent.iterdir()] == ["index"]  # nothing half-written lies beside it


def test_what_an_approximate_index_misses_is_told_over_all_searches(toy: Encoder) -> None:
    lossy = Dense(toy, index="IVF4,Flat", parameters={"nprobe": 1}).fit(CATALOG)
    assert lossy.facts() == {}
    first = lossy.search(QUERIES[:5], 20)
    second = lossy.search(QUERIES[5:], 20)
    exact = Dense(toy).fit(CATALOG).search(QUERIES, 20)
    found = np.concatenate([first.indices, second.indices])
    share = [len(set(a) & set(b)) / 20 for a, b in zip(exact.indices.tolist(), found.tolist(), strict=True)]
    assert lossy.facts() == {"recall_of_flat@20": pytest.approx(np.mean(share))}
    assert 0 < np.mean(share) < 1
    lossy.search(QUERIES, 3)
    assert set(lossy.facts()) == {"recall_of_flat@3", "recall_of_flat@20"}, "depths are told apart"
    assert lossy.facts()["recall_of_flat@20"] == pytest.approx(np.mean(share))
    assert Dense(toy).fit(CATALOG).facts() == {}


def test_search_parameters_hold_for_a_saved_index_too(toy: Encoder, tmp_path: Path) -> None:
    dense(toy, tmp_path / "i", "IVF4,Flat", parameters={"nprobe": 4}).fit(CATALOG)
    narrow = dense(toy, tmp_path / "i", "IVF4,Flat", parameters={"nprobe": 1}).fit(CATALOG)
    narrow.search(QUERIES, 20)
    wide = dense(toy, tmp_path / "i", "IVF4,Flat", parameters={"nprobe": 4}).fit(CATALOG)
    wide.search(QUERIES, 20)
    assert wide.flat_recall == 1
    assert narrow.flat_recall is not None and narrow.flat_recall < 1
    with pytest.raises(UserError) as caught:
        dense(toy, tmp_path / "i", "IVF4,Flat", parameters={"nprobes": 4}).fit(CATALOG)
    assert caught.value.where == "retriever.dense.parameters.nprobes" and caught.value.fix


OTHERS: dict[str, tuple[Callable[[Encoder], Encoder], Catalog, str]] = {
    "catalog and document texts": (lambda e: e, Catalog("c", (*TOOLS[:-1], Tool("t39", "other"))), "Flat"),
    "document texts": (lambda e: Encoder.from_model(e.model, document_template="tool: {document}"), CATALOG, "Flat"),
    "encoder": (lambda e: Encoder(seed=1), CATALOG, "Flat"),
    "encoder settings": (lambda e: Encoder.from_model(e.model, max_length=8), CATALOG, "Flat"),
    "index (Flat)": (lambda e: e, CATALOG, "HNSW8"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_an_index_of_something_else_is_refused_by_name(what: str, toy: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    dense(toy, folder).fit(CATALOG)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other, catalog, factory = OTHERS[what]
    with pytest.raises(UserError) as caught:
        dense(other(toy), folder, factory).fit(catalog)
    error = caught.value
    assert error.what == f"the index was built from another {what}"
    assert error.where == f"retriever.dense.index_path={folder}, manifest.json"
    assert "found" in error.expected and "index_path" in error.fix
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_both_fingerprints_are_shown(toy: Encoder, tmp_path: Path) -> None:
    dense(toy, tmp_path / "i").fit(CATALOG)
    other = dataclasses.replace(CATALOG, document="{description}")
    with pytest.raises(UserError, match="catalog and document texts") as caught:
        dense(toy, tmp_path / "i").fit(other)
    assert other.fingerprint[:12] in caught.value.expected and CATALOG.fingerprint[:12] in caught.value.expected


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def noise(path: Path) -> None:
    path.write_bytes(b"\xff" * 999)


DAMAGES: tuple[Callable[[Path], object], ...] = (cut, flip, noise, Path.unlink, lambda path: path.write_bytes(b""))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["index.faiss", "flat.faiss"])
def test_a_damaged_index_is_a_clear_error(
    name: str, damage: Callable[[Path], object], toy: Encoder, tmp_path: Path
) -> None:
    dense(toy, tmp_path / "i", "HNSW8").fit(CATALOG)
    damage(tmp_path / "i" / name)
    with pytest.raises(UserError) as caught:
        dense(toy, tmp_path / "i", "HNSW8").fit(CATALOG)
    assert name in caught.value.what and str(tmp_path / "i") in caught.value.where
    assert "remove the folder" in caught.value.fix


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"format": 1}', '{"format": 2, "files": {}}', '{"format": 1, "files": []}']
)
def test_a_damaged_manifest_is_a_clear_error(text: str, toy: Encoder, tmp_path: Path) -> None:
    dense(toy, tmp_path / "i").fit(CATALOG)
    (tmp_path / "i" / "manifest.json").write_text(text)
    with pytest.raises(UserError, match=r"manifest\.json is damaged or of another version") as caught:
        dense(toy, tmp_path / "i").fit(CATALOG)
    assert "format 1" in caught.value.expected and "remove the folder" in caught.value.fix


def test_a_manifest_of_another_format_is_refused(toy: Encoder, tmp_path: Path) -> None:
    dense(toy, tmp_path / "i").fit(CATALOG)
    path = tmp_path / "i" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 7}))
    with pytest.raises(UserError, match="format 7"):
        dense(toy, tmp_path / "i").fit(CATALOG)


def test_a_users_own_file_or_folder_is_never_written_over(toy: Encoder, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("precious")
    for place in (tmp_path / "thesis.txt", tmp_path / "home"):
        with pytest.raises(UserError) as caught:
            dense(toy, place).fit(CATALOG)
        assert str(place) in caught.value.where and "another folder" in caught.value.fix
    assert (tmp_path / "thesis.txt").read_text() == (tmp_path / "home" / "thesis.txt").read_text() == "precious"


def test_an_empty_folder_is_filled(toy: Encoder, tmp_path: Path) -> None:
    (tmp_path / "i").mkdir()
    dense(toy, tmp_path / "i").fit(CATALOG)
    assert (tmp_path / "i" / "index.faiss").is_file()


def test_a_place_that_cannot_be_written_is_told(toy: Encoder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't be written") as caught:
        dense(toy, tmp_path / "file" / "index").fit(CATALOG)
    assert "writable" in caught.value.expected


def test_nothing_is_left_when_writing_fails(toy: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: Path, index: object) -> str:
        path.write_bytes(b"half")
        raise RuntimeError("killed")

    monkeypatch.setattr(index_file, "_write", failing)
    with pytest.raises(RuntimeError, match="killed"):
        dense(toy, tmp_path / "i").fit(CATALOG)
    assert not list(tmp_path.iterdir())


def test_of_two_processes_that_write_at_once_the_first_stays(
    toy: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, write = tmp_path / "i", index_file._write

    def racing(path: Path, index: object) -> str:
        if not folder.exists():
            monkeypatch.setattr(index_file, "_write", write)
            dense(toy, folder).fit(CATALOG)
        return write(path, index)

    monkeypatch.setattr(index_file, "_write", racing)
    slow = dense(toy, folder).fit(CATALOG)
    assert [path.name for path in tmp_path.iterdir()] == ["i"]
    read = dense(toy, folder).fit(CATALOG)
    assert np.array_equal(slow.search(QUERIES, 5).indices, read.search(QUERIES, 5).indices)
