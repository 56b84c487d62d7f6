from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace

import pytest
from catalog_files import shared
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool, render, split_words
from toolsavvy.catalogs import jsonl, sealtools
from toolsavvy.catalogs.audit import audited
from toolsavvy.catalogs.expansion import FIELD_WORDS, Profile, Source, expanded, sources, template
from world import toy_set

FRAME = set(re.findall(r"\w+", "function when to use limitations tags example of get needs optional one"))
FILM = Tool(
    "film", "getFilmData", "Film details. Slow at night.", "Screen Base", "Arts/Film",
    {
        "type": "object",
        "properties": {
            "filmTitle": {"type": "string", "description": "its title, as printed."},
            "format": {"type": "string", "enum": ["dvd", "reel"]},
        },
        "required": ["filmTitle"],
    },
    {"type": "object", "properties": {"year": {"type": "integer", "description": "of the first show"}}},
)  # fmt: skip


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", split_words(text))) | set(re.findall(r"\w+", text.lower()))


def test_a_template_profile_holds_every_part_of_the_record():
    profile = template(Source(FILM, ("who made it", "when was it shot")))
    assert profile.function == "get film data of Screen Base: Film details."
    assert profile.when_to_use == "to get year (integer, of the first show)"
    needs, optional = "film title (string, its title, as printed)", "format (string) one of dvd, reel"
    assert profile.limitations == f"needs {needs}. optional {optional}"
    assert profile.tags == ("arts", "film", "screen base", "get", "data")
    assert profile.example == "who made it; when was it shot"
    for part in (profile.function.rstrip("."), profile.when_to_use, profile.limitations, *profile.tags):
        assert part in profile.text
    assert "\n" not in profile.text


def test_what_a_record_lacks_leaves_no_empty_part():
    assert template(Source(Tool("a", "ping"))).text == "Function: ping. Tags: ping."
    assert Profile().text == ""


def test_fields_are_bounded_in_any_script():
    long = Profile("工" * 5000, "word " * 5000)
    assert long.text == f"Function: {'工' * 1000}. When to use: {'word ' * 59}word."


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": ["a"]},
        {"properties": {"a": None, "b": 3, "c": {"type": ["string"], "description": 5, "enum": "x"}}},
        {"properties": {"a": {}}, "required": "a"},
        {"required": ["zzz"]},
    ],
)
def test_malformed_schemas_count_as_not_given(schema):
    text = template(Source(Tool("a", "ping", parameters=schema, returns=schema))).text
    assert "zzz" not in text
    assert "None" not in text


TEXT = st.text("abcXYZ _-.,:;(){}é\n", max_size=40)
SCHEMA = st.dictionaries(st.text("abAB_", min_size=1, max_size=8), st.fixed_dictionaries({"description": TEXT}))


@settings(deadline=None, max_examples=60)
@given(TEXT, TEXT, TEXT, SCHEMA, st.lists(TEXT, max_size=3))
def test_a_template_profile_has_no_word_of_its_own(name, description, group, properties, requests):
    tool = Tool("x", name, description, group, parameters={"properties": properties})
    said = words(" ".join([name, description, group, *properties, *requests, str(properties)]))
    said |= words(group.lower())  # as tags spell it
    said |= words(" ".join(str(node["description"]) for node in properties.values()))
    assert words(template(Source(tool, tuple(requests))).text) <= said | FRAME


def test_real_template_profiles_are_faithful_and_bounded():
    data = sealtools.load(shared("sealtools"))
    known = sources(data, 3)
    assert not any(source.requests for source in known)  # no train.jsonl there: nothing else may be quoted
    for source in known[::37]:
        tool = source.tool
        said = words(json.dumps([dict(tool.parameters), dict(tool.returns)], ensure_ascii=False))
        said |= words(f"{tool.name} {tool.description} {tool.group} {tool.category}")
        profile = template(source)
        assert words(profile.text) <= said | FRAME
        assert profile == template(source)
        assert len(profile.text.split()) <= 5 * (FIELD_WORDS + 3)


def marked_set() -> RetrievalSet:
    """Every query of a split says which split it is of; one train query has the text of a test query."""
    splits = {
        split: tuple(Query(f"{split}{i}", f"{split} marks {i}", {"a": 1} if i else {"a": 1, "b": 1}) for i in range(4))
        for split in ("train", "validation", "test", "test_other")
    }
    splits["train"] += (Query("t9", "TEST marks 1", {"b": 1}), Query("t8", "train\nmarks  3", {"a": 1}))
    return audited(RetrievalSet(Catalog("c", (Tool("a", "one"), Tool("b", "two"))), splits, ("test",)))


def test_training_queries_alone_are_quoted():
    a, b = sources(marked_set(), 10)
    # Single-gold queries first, a repeated text once, and none that is asked in a test.
    assert a.requests == ("train marks 1", "train marks 2", "train marks 3", "train marks 0")
    assert b.requests == ("train marks 0",)
    assert sources(marked_set(), 1)[0].requests == ("train marks 1",)
    assert sources(marked_set(), 0)[0].requests == ()
    data = marked_set()
    grown = expanded(data, [template(s) for s in sources(data, 10)], {})
    assert not re.search("test|validation", " ".join(grown.catalog.documents), re.IGNORECASE)


def test_the_document_ends_with_the_profile_unless_its_template_says_where():
    data = toy_set(3)
    profiles = [Profile(f"marked{i}") for i in range(3)]
    grown = expanded(data, profiles, {"profiles_written": 3})
    for old, new, profile in zip(data.catalog.documents, grown.catalog.documents, profiles, strict=True):
        assert new == f"{old} {profile.text}"
    assert grown.splits == data.splits
    assert grown.audit["profiles_written"] == 3
    assert grown.audit["queries"] == data.audit["queries"]
    noted = replace(data, audit={**data.audit, "only_a_part_of_ToolRet": "1 of 35 tasks"})
    assert expanded(noted, profiles, {}).audit["only_a_part_of_ToolRet"] == "1 of 35 tasks"
    chosen = replace(data, catalog=replace(data.catalog, document="About: {profile} Name: {name}"))
    assert expanded(chosen, profiles, {}).catalog.documents[0].startswith("About: Function: marked0. Name:")


def test_twins_that_profiles_tell_apart_are_no_longer_counted():
    data = audited(RetrievalSet(Catalog("c", (Tool("a", "x"), Tool("b", "x"))), {}))
    assert data.audit["duplicate_documents"] == 2
    assert expanded(data, [Profile("one"), Profile("two")], {}).audit["duplicate_documents"] == 0


def test_nothing_changes_for_tools_without_a_profile():
    catalog = toy_set(5).catalog
    digest = hashlib.sha256(catalog.document.encode())
    for tool in catalog.tools:  # the formula from before there were profiles
        record = {k: v for k, v in tool.__dict__.items() if k != "profile"}
        digest.update(json.dumps(record, sort_keys=True, ensure_ascii=False, default=dict).encode())
    assert catalog.fingerprint == digest.hexdigest()
    tool = catalog.tools[0]
    assert render(tool, catalog.document + " {profile}") == render(tool, catalog.document)
    told = replace(catalog, tools=(replace(tool, profile="more"), *catalog.tools[1:]))
    assert told.fingerprint != catalog.fingerprint


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_profiles_are_saved_and_read_back(tmp_path, kind):
    data = toy_set(3)
    grown = expanded(data, [template(s) for s in sources(data, 2)], {})
    jsonl.save(grown, tmp_path, kind=kind)
    assert jsonl.load(tmp_path, document=grown.catalog.document).catalog.documents == grown.catalog.documents
