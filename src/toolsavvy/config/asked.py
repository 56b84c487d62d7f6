"""What method=necessity will need besides its own keys: files, a model, a server, an encoder, a judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolsavvy.config.necessity import NecessityConfig
from toolsavvy.config.sources import check_paths
from toolsavvy.errors import UserError

CHECKERS = {"arithmetic": "number", "truthfulqa": "similarity", "labelled": "none", "recorded": "none"}
"""Module of the questions -> the checker that they ask for where the run names none."""
READERS = {
    "arithmetic": ("number", "none"),
    "truthfulqa": ("similarity", "likelihood", "judge", "none"),
    "labelled": ("none",),
}
"""Module of the questions -> the checkers that find in them what they compare answers with."""


def groups_asked(questions: Any, method: NecessityConfig) -> frozenset[str]:
    """The groups that will really be read, all paths of the questions checked.

    Raises:
        UserError: a path that is not there, or choices that contradict each other.
    """
    if not isinstance(questions, Mapping) or "_target_" not in questions:
        expected, fix = "an option of the group questions", "add questions=arithmetic"
        raise UserError("has no source", where="questions", expected=expected, fix=fix)
    check_paths(questions, "questions")
    kind = str(questions["_target_"]).split(".")[-2]
    if kind == "recorded":
        return frozenset({"questions"})
    if method.teach.questions and kind != "arithmetic":
        raise UserError(
            "lessons are arithmetic", where="method.teach.questions", expected=f"0 with questions={kind}",
            fix="method.teach.questions=0, or questions=arithmetic",
        )  # fmt: skip
    server = method.sampling.backend == "server"
    if server and method.teach.questions:
        raise UserError(
            "a model on a server can't be taught", where="method.teach.questions", expected="0 with a server",
            fix="method.teach.questions=0, or method.sampling.backend=local",
        )  # fmt: skip
    checker = method.sampling.checker or CHECKERS.get(kind)
    _check_checker(kind, checker, method)
    also = {"similarity": {"encoder"}, "judge": {"llm"}}.get(str(checker), set[str]())
    return frozenset({"questions", "llm" if server else "model", *also})


def _check_checker(kind: str, checker: str | None, method: NecessityConfig) -> None:
    """A checker must fit the questions and the back end before thousands of answers are sampled for it."""
    allowed = READERS.get(kind, (checker,))
    if method.sampling.backend == "server":
        allowed = tuple(name for name in allowed if name != "likelihood")
    if checker not in allowed:
        on = " on a server" if checker == "likelihood" else ""
        raise UserError(
            f"{checker} can't check answers to {kind}{on}", where="method.sampling.checker",
            expected=" | ".join(map(str, allowed)), fix=f"method.sampling.checker={allowed[0] if allowed else 'null'}",
        )  # fmt: skip
    if checker == "likelihood" and method.sampling.min_correct not in (None, 1):
        raise UserError(
            "likelihoods give one verdict a question", where="method.sampling.min_correct", expected="null",
            fix="method.sampling.min_correct=null",
        )  # fmt: skip
