"""What a generator will ask is looked for before it starts: catalogs, neighbours, a writer and its judge."""

from __future__ import annotations

import pytest

from toolsavvy.config.compose import compose, typed
from toolsavvy.config.planning import make_plan
from toolsavvy.config.preflight import preflight
from toolsavvy.errors import UserError

BASE = ("method=generate", "catalog=toy", "logger=none")
KINDS = ("rrb", "mcq", "qa")
TOY = ("model=toy", "generator.backend=llm")
OTHER = ("+llm@generator.judge=local", "+model@generator.judge.model=smollm2_135m")


def refused(*overrides: str) -> UserError:
    with pytest.raises(UserError) as caught:
        preflight(compose([*BASE, *overrides]))
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_judges_their_own_work_unasked(kind: str) -> None:
    error = refused(f"generator={kind}", *TOY)
    assert (error.where, error.expected) == ("generator.judge", "another language model than the writer")
    assert "+llm@generator.judge=server" in error.fix
    assert "generator.self_judging=true" in error.fix
    error = refused(f"generator={kind}", *TOY, "generator.judge=${llm}")
    assert "would judge its own work" in error.what


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("further", [OTHER, ("generator.self_judging=true",)], ids=["other", "self"])
def test_another_model_or_a_wish_will_do(kind: str, further: tuple[str, ...]) -> None:
    config = preflight(compose([*BASE, f"generator={kind}", *TOY, *further]))
    (note,) = [note for note in make_plan(config).notes if note.startswith("writer")]
    assert ("its own work" in note) == (further is not OTHER)
    assert "toy language model" in note


def test_a_template_needs_neither_writer_nor_judge() -> None:
    down = ("llm=server", "llm.base_url=http://127.0.0.1:9/v1", "generator.judge=${llm}")
    preflight(compose([*BASE, "generator=mcq", *down]))
    error = refused("generator=mcq", *down, "generator.backend=llm", "generator.self_judging=true")
    assert "127.0.0.1:9" in error.where


@pytest.mark.parametrize(
    ("override", "where", "what"),
    [
        ("generator.near=bm25", "generator.near", "'bm25' is no retriever"),
        ("generator.judge=server", "generator.judge", "'server' is no language model"),
    ],
)
def test_parts_are_given_by_their_arguments(override: str, where: str, what: str) -> None:
    error = refused("generator=mcq", *TOY, override)
    assert (error.where, error.what) == (where, what)
    assert f"+{'llm' if 'judge' in where else 'retriever'}@{where}=OPTION" in error.fix


@pytest.mark.parametrize(
    ("kind", "override"),
    [
        ("mcq", "generator.n=0"),
        ("qa", "generator.cap=0"),
        ("rrb", "generator.pool=3"),
        ("rrb", "generator.tiers.easy=0.9"),
        ("mcq", "generator.drafts=0"),
        ("qa", "generator.novelty=2"),
        ("mcq", "generator.prices.input=-1"),
    ],
)
def test_values_are_refused_before_a_catalog_is_loaded(kind: str, override: str) -> None:
    error = refused(f"generator={kind}", override)
    assert override.partition("=")[0].startswith(error.where)
    assert error.expected


def test_the_model_that_finds_neighbours_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = ("generator=rrb", "encoder=bge_large", "encoder.id=nobody/has-this-one")
    preflight(compose([*BASE, *asked]))
    error = refused(*asked, "retriever=dense", "generator.near=${retriever.dense}")
    assert "'nobody/has-this-one' is not cached" in error.what


def test_the_plan_names_numbers_and_neighbours() -> None:
    words = ["generator=mcq", "generator.n=7", "retriever=bm25", "generator.near=${retriever.bm25}"]
    plan = make_plan(typed(compose([*BASE, *words]).config))
    assert plan.stages == ("generator: Mcq", "read catalog")
    assert plan.notes == ("instructions and texts: template", "items: 7", "neighbours: BM25")
