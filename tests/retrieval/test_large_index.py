"""Indexes of many tools: mapped files that processes share, recall on a sample, no exact copy that nobody asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval.dense import Dense, build_index
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.index_file import Origin, save
from toolsavvy.retrieval.ranking import rank_scores, tie_ranks

ORIGIN = Origin("c", "t", "e", "s", "i")


class Drawn(Encoder):
    """Vectors by the number that a text ends in; equal numbers have equal vectors."""

    table = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)

    max_tokens, shape = None, (False, False, True)  # no model is loaded

    def fingerprint(self):
        return "drawn"

    def encode_documents(self, documents):
        return self.table[[int(document.split()[-1]) for document in documents]]

    def encode_queries(self, queries):
        return self.table[[int(query.text) for query in queries]] + 0.1


def catalog(tools: int, documents: int) -> Catalog:
    """Tools that share documents where there are fewer of these."""
    rows = [Tool(f"t{i:03}", "", f"does {i % documents}") for i in np.random.default_rng(1).permutation(tools)]
    return Catalog("many", tuple(rows), "{description}")


QUERIES = [Query(str(i), str(i), {}) for i in range(12)]


@pytest.mark.parametrize(("tools", "documents"), [(60, 60), (200, 40), (50, 1)])
@pytest.mark.parametrize("k", [1, 7, 45, 500])
def test_flat_ranks_as_sorting_every_tool_does(tools: int, documents: int, k: int) -> None:
    made = catalog(tools, documents)
    dense = Dense(Drawn()).fit(made)
    found = dense.search(QUERIES, k)
    encoder = Drawn()
    scores = encoder.encode_queries(QUERIES) @ encoder.encode_documents(list(dict.fromkeys(made.documents))).T
    column = {document: i for i, document in enumerate(dict.fromkeys(made.documents))}
    wide = scores[:, [column[document] for document in made.documents]]
    expected = rank_scores(wide, tie_ranks([tool.id for tool in made.tools]), k)
    assert np.array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("index", ["Flat", "IVF4,Flat", "HNSW8", "IVF4,PQ4x4"])
def test_mapped_and_in_memory_rank_alike(index: str, tmp_path: Path) -> None:
    made, folder = catalog(60, 60), str(tmp_path / "i")
    plain = Dense(Drawn(), index, recall_queries=0).fit(made).search(QUERIES, 9)
    for memory_map in (True, True, False):
        dense = Dense(Drawn(), index, index_path=folder, memory_map=memory_map).fit(made)
        ranking = dense.search(QUERIES, 9)
        assert np.array_equal(plain.indices, ranking.indices) and np.array_equal(plain.scores, ranking.scores)


HOLD = """
import re, sys
from pathlib import Path
import numpy as np
from toolsavvy.retrieval.index_file import Origin, load
index = load(Path(sys.argv[1]), Origin("c", "t", "e", "s", "i"), ("index",), memory_map=sys.argv[2] == "True")["index"]
index.search(np.ones((1, 64), dtype=np.float32), 3)
maps = Path("/proc/self/smaps").read_text().split("index.faiss")[1:]
count = lambda name: sum(int(re.search(rf"^{name}: +(\\d+)", part, re.M)[1]) for part in maps)
print(count("Rss"), count("Private_Dirty"), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="tells shared pages by Linux's /proc")
def test_two_processes_share_the_pages_of_one_file(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(40_000, 64)).astype(np.float32)  # 10 MB
    save(tmp_path / "i", ORIGIN, {"index": build_index(vectors, "Flat")})
    held = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path / "i"), memory_map],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for memory_map in ("True", "True", "False")
    ]
    told = [process.stdout.readline().split() for process in held if process.stdout]
    for process in held:
        process.communicate()
    size = (tmp_path / "i" / "index.faiss").stat().st_size // 1024
    for resident, dirty in told[:2]:
        assert int(resident) >= size * 0.9, "searched through, so all of it was read"
        assert int(dirty) == 0, "nothing is a copy of this process alone"
    assert int(told[2][0]) == 0, "in memory: the file is not mapped at all"


def test_recall_of_a_sample_stops_there_and_none_builds_no_flat(tmp_path: Path) -> None:
    made = catalog(60, 60)
    whole, some, none = (Dense(Drawn(), "IVF8,Flat", {"nprobe": 1}, recall_queries=n).fit(made) for n in (None, 5, 0))
    for dense in (whole, some, none):
        for part in (QUERIES[:4], QUERIES[4:]):
            dense.search(part, 20)
    first = Dense(Drawn(), "IVF8,Flat", {"nprobe": 1}).fit(made)
    first.search(QUERIES[:5], 20)
    assert some.facts() == first.facts() != whole.facts()
    assert none.facts() == {} and none._flat is None
    Dense(Drawn(), "IVF8,Flat", recall_queries=0, index_path=str(tmp_path / "i")).fit(made)
    assert not (tmp_path / "i" / "flat.faiss").exists()
    with pytest.raises(UserError, match="-1 is out of range"):
        Dense(Drawn(), recall_queries=-1)
