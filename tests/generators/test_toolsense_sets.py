"""The three generators as wholes: what is in a run's folder, and what becomes of odd catalogs and biased items."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from set_world import query, source, tool

from chat_items import well
from toolsavvy.attacks import CHOICE_ATTACKS
from toolsavvy.benchmark import ChoiceItem, RetrievalItem, YesNoItem, texts_of
from toolsavvy.catalog import Catalog, RetrievalSet, Tool
from toolsavvy.catalogs import toy
from toolsavvy.catalogs.toolsense_items import read_items
from toolsavvy.config.toolsense import Prices, Settings
from toolsavvy.errors import UserError
from toolsavvy.generators.product import Product
from toolsavvy.generators.toolsense.finishing import costs
from toolsavvy.generators.toolsense.generator import Mcq, Qa, Rrb
from toolsavvy.generators.toolsense.kinds import ChoiceMaker, YesNoMaker, with_even_first_places
from toolsavvy.generators.toolsense.making import SPARE, Made
from toolsavvy.generators.toolsense.neighbourhood import neighbourhood
from toolsavvy.generators.toolsense.writing import Written
from toolsavvy.models.chat import Message, Reply, Usage
from toolsavvy.retrieval.bm25 import BM25

KINDS: Mapping[str, Any] = {"rrb": Rrb, "mcq": Mcq, "qa": Qa}
_THINGS: tuple[str, ...] = (
    "invoice",
    "parcel",
    "vineyard",
    "telescope",
    "orchard",
    "ferry",
    "glacier",
    "violin",
    "bakery",
    "lighthouse",
    "quarry",
    "beehive",
)
_ACTIONS = {
    "create": "Creates a {0} from a blueprint and files it in the {1} archive until somebody signs for it.",
    "delete": "Deletes a {0} for good, so that no {1} record of its owner can ever be restored.",
    "list": "Lists every {0} of a region, sorted by the {1} date, in pages of fifty.",
    "move": "Moves a {0} to another warehouse while its {1} seal remains unbroken.",
    "rate": "Rates a {0} between one and ten, judged by an independent {1} panel.",
}


def described(thing: str, action: str) -> Tool:
    """A tool of a service, with parameters that few others have."""
    other = _THINGS[(_THINGS.index(thing) * 5 + list(_ACTIONS).index(action) + 1) % len(_THINGS)]
    names = (f"{action}_{other}_code", f"{thing}_{action}_window", f"{other}_marker")
    schema = {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": [names[0]]}
    text = _ACTIONS[action].format(thing, other)
    return Tool(f"{thing}:{action}", f"{action}_{thing}", text, f"{thing} service", "", schema)


DATA = RetrievalSet(Catalog("things", tuple(described(t, a) for t in _THINGS for a in _ACTIONS)), {})


def made(folder: Path, kind: str, data: Any = DATA, **how: Any) -> tuple[Path, Product, dict[str, Any]]:
    """The folder, the product and what run.json would keep."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    run: Any = SimpleNamespace(
        dir=folder, checkpoints=folder / "checkpoints", is_writer=True, stage=lambda name: nullcontext()
    )
    product = KINDS[kind](data, **({"n": 24} | how)).generate(run)
    return folder, product, dict(product.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_is_read_back_with_its_audit_card_and_sheet(tmp_path: Path, kind: str) -> None:
    folder, product, notes = made(tmp_path, kind)
    read = read_items(kind, folder / f"{kind}.jsonl")
    assert len(read.items) == notes["counts"]["kept"] > 0
    assert len({item.id for item in read.items}) == len(read.items)
    documents = dict(zip((t.id for t in DATA.catalog.tools), DATA.catalog.documents, strict=True))
    assert all(text.shown == documents[key] for key, text in read.tools.items())
    audit = json.loads((folder / "audit.json").read_text())
    assert audit[kind]["n"] == len(read.items)
    assert notes["audit_failed"] == [check["name"] for check in audit["checks"] if check["passed"] is False]
    assert notes["catalog_fingerprint"] == DATA.catalog.fingerprint
    rows = (folder / "sheet.csv").read_text(encoding="utf-8-sig").count("\n") - 1
    assert rows >= len(read.items)
    assert sorted(product.files) == sorted(p.name for p in folder.iterdir() if p.is_file())
    assert any(table.title.startswith(f"{kind}:") for table in product.tables)
    assert f"| n | {len(read.items)} |" in (folder / "data_card.md").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_every_byte(tmp_path: Path, kind: str) -> None:
    def written(name: str, **how: Any) -> bytes:
        return (made(tmp_path / name, kind, **how)[0] / f"{kind}.jsonl").read_bytes()

    assert written("a") == written("b")
    assert written("a") != written("c", seed=1)


def test_neighbours_may_come_from_any_retriever(tmp_path: Path) -> None:
    class Backwards(BM25):
        """The last tools first, whatever is asked."""

        def search(self, queries: Any, k: int) -> Any:
            found = super().search(queries, k)
            last = np.arange(len(DATA.catalog))[::-1][:k]
            return replace(
                found, indices=np.tile(last, (len(queries), 1)), scores=np.tile(-np.arange(k), (len(queries), 1))
            )

    folder, _, _ = made(tmp_path / "words", "rrb", n=6, tiers={"easy": 1.0}, pool=7)
    other, _, _ = made(tmp_path / "last", "rrb", n=6, tiers={"easy": 1.0}, pool=7, near=Backwards())
    last = {t.id for t in DATA.catalog.tools[-8:]}
    for item in read_items("rrb", other / "rrb.jsonl").items:
        assert set(item.pool) - {item.anchor} <= last
    assert any(not set(i.pool) - {i.anchor} <= last for i in read_items("rrb", folder / "rrb.jsonl").items)


def test_tiers_and_pool_are_kept(tmp_path: Path) -> None:
    folder, _, _ = made(tmp_path, "rrb", n=4, tiers={"easy": 0.5, "medium": 0.5}, pool=9)
    items = read_items("rrb", folder / "rrb.jsonl").items
    assert Counter(item.tier for item in items) == {"easy": 2, "medium": 2}
    assert {len(item.pool) for item in items} == {9}


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_a_catalog_gives_is_said(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    _, product, notes = made(tmp_path, kind, n=5000)
    counts = notes["counts"]
    assert 0 < counts["kept"] < counts["asked"] == 5000
    assert f"{kind}: {counts['kept']} items instead of 5000" in caplog.text
    assert ("asked", "5,000") in product.tables[0].rows


@pytest.mark.parametrize("kind", KINDS)
def test_tools_that_are_all_the_same_give_nothing(tmp_path: Path, kind: str) -> None:
    same = [
        tool(f"t{i}", "send_mail", "Sends an electronic letter to a person.", "Post", "", "address") for i in range(9)
    ]
    with pytest.raises(UserError) as caught:
        made(tmp_path, kind, source("same", same))
    assert "catalog same" in caught.value.where
    assert caught.value.expected and caught.value.fix
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize("kind", KINDS)
def test_three_tools_are_too_few_or_enough_and_that_is_said(tmp_path: Path, kind: str) -> None:
    data = replace(DATA, catalog=replace(DATA.catalog, tools=DATA.catalog.tools[:3]))
    try:
        _, _, notes = made(tmp_path, kind, data)
    except UserError as error:
        assert "catalog" in error.where and "tools" in error.expected
    else:
        assert kind == "qa" and notes["counts"]["kept"] < 24


@pytest.mark.parametrize("kind", KINDS)
def test_tools_without_parameters_will_do(tmp_path: Path, kind: str) -> None:
    tools = tuple(replace(t, parameters={}) if i % 2 else t for i, t in enumerate(DATA.catalog.tools))
    bare = replace(DATA.catalog, tools=tools)
    folder, _, _ = made(tmp_path, kind, replace(DATA, catalog=bare), n=8)
    assert read_items(kind, folder / f"{kind}.jsonl").items


def test_the_fingerprint_tells_changed_sources() -> None:
    base = Mcq(DATA).fingerprint()
    assert base == Mcq(RetrievalSet(replace(DATA.catalog), {})).fingerprint()
    asked = replace(DATA, splits={"train": (query("1", "store my parcel", "parcel:move"),)})
    fewer = replace(DATA, catalog=replace(DATA.catalog, tools=DATA.catalog.tools[1:]))
    assert len({base, Mcq(asked).fingerprint(), Mcq(fewer).fingerprint()}) == 3


class Named:
    """A chat that is never asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    def answer(self, conversations: Any, **how: Any) -> list[Reply]:
        raise AssertionError("nobody should be asked")


def test_judges_are_others_unless_that_is_wanted() -> None:
    for judge in (None, Named("one")):
        with pytest.raises(UserError) as caught:
            Mcq(DATA, Named("one"), judge, backend="llm")
        assert caught.value.where == "generator.judge"
        Mcq(DATA, Named("one"), judge, backend="llm", self_judging=True)
    Mcq(DATA, Named("one"), Named("two"), backend="llm")
    with pytest.raises(UserError) as caught:
        Mcq(DATA, backend="llm")
    assert caught.value.where == "generator.llm"


class Able:
    """A chat that writes and judges as it should; it counts tokens as its server would."""

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, 0

    def answer(self, conversations: Any, *, heard: Any = None, **how: Any) -> list[Reply]:
        replies = [self.said(conversation) for conversation in conversations]
        for i, reply in enumerate(replies if heard else ()):
            heard(i, reply)
        return replies

    def said(self, conversation: Sequence[Message]) -> Reply:
        self.asked += 1
        return Reply(well({"messages": [asdict(message) for message in conversation]}).text, "", 100, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_two_models_make_a_set_and_every_word_is_on_file(tmp_path: Path, kind: str) -> None:
    writer, judge = Able("writer"), Able("judge")
    how = {"llm": writer, "judge": judge, "backend": "llm", "n": 8, "cap": 3, "prices": {"input": 1, "output": 2}}
    folder, product, notes = made(tmp_path, kind, toy.load(), **how)
    items = read_items(kind, folder / f"{kind}.jsonl").items
    assert 4 <= len(items) <= 8
    assert notes["usage"]["writer"]["calls"] == writer.asked > 0
    assert notes["usage"]["judge"]["calls"] == judge.asked > 0
    assert notes["usage"]["cost"] == pytest.approx((writer.asked + judge.asked) * (100 + 2 * 10) / 1e6)
    attempts = [json.loads(line) for line in (folder / "generation.jsonl").read_text().splitlines()]
    assert {item.id for item in items} <= {a["item"] for a in attempts if "accepted" in a["fates"]}
    assert "generation.jsonl" in product.files
    assert any("cost 0.00" in table.title for table in product.tables)
    if kind == "qa":
        assert Counter(item.answer for item in items).most_common(1)[0][1] == len(items) / 2
    if kind == "rrb":
        assert {item.tier for item in items} == {"easy", "medium", "hard"}
    asked = writer.asked + judge.asked
    made(tmp_path, kind, toy.load(), **how)  # the store in the run's checkpoints has it all
    assert writer.asked + judge.asked == asked


class Biased(ChoiceMaker):
    """Its right options are the longest ones, but in every fourth item."""

    asked: Sequence[int] = ()

    def from_template(self, n: int, near: Any) -> tuple[Sequence[ChoiceItem], Mapping[str, int]]:
        self.asked = [*self.asked, n]
        return [self.item(i) for i in range(n)], {}

    def item(self, i: int) -> ChoiceItem:
        options = [f"w{i}x{j} " + "long " * (2 if j == i % 4 * (i % 8 > 2) else 1) for j in range(4)]
        return ChoiceItem(str(i), "Which one is this tool's?", options[0], tuple(options[1:]), f"t{i % 50}", "p")


def test_items_that_give_their_answer_away_are_replaced() -> None:
    tools = [tool(f"t{i}", f"do_{i}", "Does it.", f"group {i % 10}") for i in range(50)]
    data = source("many", tools)
    maker = Biased(data, Settings(n=60))
    before = [maker.item(i) for i in range(60)]
    texts = texts_of(data.catalog)
    assert CHOICE_ATTACKS["longest_option"](before, texts).mean() > 0.4
    found = maker.make(None, Path())  # pyright: ignore[reportArgumentType]
    assert len(found.items) == 60
    assert maker.asked[0] == 60 and len(maker.asked) > 1  # more were asked for
    for attack in CHOICE_ATTACKS.values():
        assert abs(attack(found.items, texts).mean() - 0.25) <= 0.05
    assert found.counts["dropped_for_balance"] == found.counts["made"] - 60
    order = [int(item.id) for item in found.items]
    assert order == sorted(order)


def test_yes_and_no_stay_equal_when_questions_go() -> None:
    tools = [tool(f"t{i}", f"do_{i}", "Does it.", f"group {i % 10}") for i in range(40)]

    class Telling(YesNoMaker):
        def from_template(self, n: int, near: Any) -> tuple[Sequence[YesNoItem], Mapping[str, int]]:
            items = []
            for i in range(n):
                answer = i % 2 == 0
                word = ("surely" if answer else "hardly") if i % 6 < 4 else "maybe"
                items.append(YesNoItem(str(i), f"Is this tool {word} right?", answer, f"t{i % 40}", f"p{i // 2 % 2}"))
            return items, {}

    maker = Telling(source("many", tools), Settings(n=60))
    items = maker.make(None, Path()).items  # pyright: ignore[reportArgumentType]
    answers = Counter((item.pattern, item.answer) for item in items)
    assert all(answers[pattern, True] == answers[pattern, False] for pattern in ("p0", "p1"))
    assert len(items) >= 20


def test_the_first_place_of_a_pool_says_nothing() -> None:
    pool = tuple(f"t{i}" for i in range(14))
    golds = {"easy": 1, "medium": 3, "hard": 5}
    items = [
        RetrievalItem(f"{tier} {i}", "q", pool[:size], pool, tier, pool[0])
        for i in range(200)
        for tier, size in golds.items()
    ]
    found = with_even_first_places(items, 3)
    for tier, size in golds.items():
        own = [item for item in found if item.tier == tier]
        hits = sum(item.pool[0] in item.gold for item in own)
        assert abs(hits - 200 * size / 14) < 2
        assert abs(sum(item.pool[0] == item.anchor for item in own) - 200 / 14) < 1.01
        assert len({item.pool[0] for item in own}) == 14
    assert all(sorted(a.pool) == sorted(b.pool) and a.gold == b.gold for a, b in zip(items, found, strict=True))
    assert with_even_first_places(items, 3) == found != with_even_first_places(items, 4)
    whole = replace(items[0], gold=pool[:13] + pool[13:], tier="hard")
    assert sorted(with_even_first_places([whole], 0)[0].pool) == sorted(pool)


class Doubtful(ChoiceMaker):
    """An attack solves every item with an odd number, and no other."""

    def attacks(self, items: Sequence[ChoiceItem]) -> Mapping[str, np.ndarray]:
        return {"parity": np.array([float(item.id[-1] in "13579") for item in items])}


def test_more_items_are_asked_for_without_asking_anything_twice(tmp_path: Path) -> None:
    writer, judge = Able("writer"), Able("judge")
    data = toy.load()
    maker = Doubtful(data, Settings(n=8, backend="llm"), writer, judge)  # pyright: ignore[reportArgumentType]
    found = maker.make(neighbourhood(data.catalog), tmp_path / "answers.jsonl")
    assert found.written is not None
    assert found.counts["made"] == len(found.written.items) > math.ceil(8 * SPARE)  # what was paid for is all there
    assert writer.asked == found.written.writer.calls == len(found.written.attempts)
    assert judge.asked == found.written.judge.calls
    prompts = Counter(attempt.written.messages for attempt in found.written.attempts)
    assert max(prompts.values()) == 1
    assert {item.id for item in found.items} < {item.id for item in found.written.items}


@pytest.mark.parametrize("n", [1, 7])
def test_an_odd_number_of_yes_no_questions_is_one_too(n: int, tmp_path: Path) -> None:
    class Fair(YesNoMaker):
        def attacks(self, items: Sequence[YesNoItem]) -> Mapping[str, np.ndarray]:
            return {"none": np.full(len(items), 0.5)}

    data = toy.load()
    maker = Fair(data, Settings(n=n, backend="llm"), Able("writer"), Able("judge"))  # pyright: ignore[reportArgumentType]
    found = maker.make(neighbourhood(data.catalog), tmp_path / "answers.jsonl")
    assert len(found.items) == n
    assert found.counts["made"] == math.ceil(n * SPARE)  # nobody asked for more
    assert abs(2 * sum(item.answer for item in found.items) - n) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_makes_more_items_than_there_are_tools(tmp_path: Path, kind: str) -> None:
    models = {"llm": Able("writer"), "judge": Able("judge")}
    folder, _, notes = made(tmp_path, kind, toy.load(20), **models, backend="llm", n=10**9)
    assert 0 < len(read_items(kind, folder / f"{kind}.jsonl").items) <= 20
    assert notes["counts"]["asked"] == 10**9


def test_what_models_are_asked_costs_what_they_charge() -> None:
    written = Written[Any](
        (), 2, writer=Usage(prompt_tokens=30, completion_tokens=15), judge=Usage(prompt_tokens=30, completion_tokens=15)
    )
    spent = costs(written, Prices(input=1.0, output=2.0, judge_input=0.0, judge_output=4.0))
    assert spent["cost"] == pytest.approx((30 * 1 + 15 * 2 + 15 * 4) / 1e6)
    assert costs(written, Prices())["cost"] is None


def test_nothing_made_is_nothing_kept() -> None:
    maker = ChoiceMaker(DATA, Settings(n=5))
    nothing: Any = Made[Any](())
    assert maker._balanced(5, lambda n: nothing).items == ()
