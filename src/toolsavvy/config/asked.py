"""What method=necessity will need besides its own keys: files, a model, a server, an encoder, a judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolsavvy.config.necessity import NecessityConfig
from toolsavvy.config.sources import check_paths
from toolsavvy.errors import UserError

CHECKERS = {"arithmetic": "number", "truthfulqa": "similarity", "labelled": "none", "recorded": "none"}
"""Module of the questions -> the checker that they ask for where the run names none."""


def groups_asked(questions: Any, method: NecessityConfig) -> frozenset[str]:
    """The groups that will really be read, all paths of the questions checked.

    Raises:
        UserError: a path that is not there, or choices that contradict each other.
    """
    if not isinstance(questions, Mapping) or "_target_" not in questions:
        raise UserError("has no source", where="questions", expected="an option of the group questions")
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
    also = {"similarity": {"encoder"}, "judge": {"llm"}}.get(str(checker), set[str]())
    return frozenset({"questions", "llm" if server else "model", *also})
