"""What models are told: one set for all, and the self-assessment read back."""

from __future__ import annotations

import pytest

from toolsavvy.necessity import wordings
from toolsavvy.necessity.question import Question


@pytest.mark.parametrize("kind", ["arithmetic", "truthfulqa", "labelled"])
def test_every_kind_has_an_answer_prompt_and_three_different_action_prompts(kind: str) -> None:
    prompts = wordings.action(kind)
    assert tuple(prompts) == wordings.WORDINGS == ("neutral", "discouraging", "encouraging")
    assert len(set(prompts.values())) == 3
    assert wordings.ANSWER[kind]
    boxed = [r"\boxed{}" in text for text in (wordings.ANSWER[kind], *prompts.values())]
    assert boxed == [kind == "arithmetic"] * 4


def test_the_self_assessment_names_the_tools_whether_wrapped_or_bare() -> None:
    wrapped = {"type": "function", "function": {"name": "search", "description": "finds things"}}
    system, user = wordings.assessment(Question("q", "Who?", "f"), [wrapped, {"name": "bare"}])
    assert (system.role, user.role) == ("system", "user")
    assert all(part in user.content for part in ("Who?", "- search: finds things", "- bare: "))
    assert "(none)" in wordings.assessment(Question("q", "Who?", "f"), [])[1].content


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yes", True),
        ("No.", False),
        ("**Yes**, since no one knows that by heart.", True),
        ("<think>yes</think>no", False),
        ("I would say no", False),
        ("Either yes or no", None),
        ("maybe", None),
        ("", None),
        ("<think>yes", None),
        ("nothing", None),
    ],
)
def test_assessments_are_read(text: str, said: bool | None) -> None:
    assert wordings.assessed(text) is said
