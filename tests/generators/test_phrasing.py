from __future__ import annotations

import pytest

from toolsavvy.generators.toolsense.phrasing import Frames, action_of, frames, is_base_form, plural

HALVES = {"benchmark": frames("benchmark"), "training": frames("training")}
SLOTS = {"o": "zz", "do": "zz", "a": "zz", "b": "zz", "c": "zz", "theme": "zz"}


@pytest.mark.parametrize(("half", "other"), [("benchmark", "training"), ("training", "benchmark")])
def test_no_phrase_is_in_both_halves(half: str, other: str) -> None:
    foreign = [phrase for phrase in HALVES[half].phrases if HALVES[other].occurs(phrase.format(**SLOTS))]
    assert not foreign


@pytest.mark.parametrize("half", HALVES)
def test_every_phrase_of_a_half_is_found_whatever_fills_it(half: str) -> None:
    for phrase in HALVES[half].phrases:
        assert HALVES[half].occurs(f"well, {phrase.format(**dict.fromkeys(SLOTS, 'a Big-Thing of 3'))} ok"), phrase


def test_phrases_are_found_as_whole_words() -> None:
    ours = frames("training")
    assert ours.occurs("PLEASE wipe out the disk")
    assert ours.occurs("throw the old one away") is False, "the fixed parts must stand together"
    assert not ours.occurs("a pleased customer")
    assert not ours.occurs("")


@pytest.mark.parametrize("half", HALVES)
def test_both_halves_speak_of_the_same_actions_and_nouns(half: str) -> None:
    ours: Frames = HALVES[half]
    assert ours.verbs.keys() == frames("training").verbs.keys()
    assert ours.nouns.keys() == frames("training").nouns.keys()
    assert all(phrases and all(p.count("{o}") == 1 for p in phrases) for phrases in ours.verbs.values())
    assert all("{do}" in phrase for phrase in ours.easy)


def test_only_the_benchmark_asks_for_several_tools() -> None:
    assert frames("benchmark").pair and frames("benchmark").goals
    assert not (frames("training").pair or frames("training").triple or frames("training").goals)


@pytest.mark.parametrize(
    ("word", "same"),
    [("deletes", "delete"), ("Getting", "get"), ("copied", "copy"), ("applies", "apply"), ("planned", "plan")],
)
def test_inflected_verbs_name_the_same_action(word: str, same: str) -> None:
    assert action_of(word) == action_of(same) is not None
    assert is_base_form(same) and not is_base_form(word)


def test_other_words_name_no_action() -> None:
    assert [action_of(word) for word in ("weather", "this", "", "thes")] == [None] * 4


@pytest.mark.parametrize(
    ("noun", "many"),
    [
        ("policy", "policies"),
        ("gateway", "gateways"),
        ("address", "addresses"),
        ("settings", "settings"),
        ("piece of advice", "pieces of advice"),
        ("line in", "lines in"),
        ("weather", "weather"),
    ],
)
def test_plurals(noun: str, many: str) -> None:
    assert plural(noun) == many
