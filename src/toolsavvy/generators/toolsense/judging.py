"""A judge's verdicts on drafts; whatever is no clear yes to everything is a no."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from toolsavvy.catalogs.audit import visible
from toolsavvy.errors import UserError
from toolsavvy.generators.answers import printable
from toolsavvy.generators.toolsense.parsing import Fault
from toolsavvy.models.chat import Chat, Message, Reply, sole_json

log = logging.getLogger("toolsavvy")

WHY = 200
"""Characters of a judge's reason that the writer is told."""


def ask_judge(judge: Chat, prompts: Sequence[Sequence[Message]], max_tokens: int) -> list[Reply]:
    """Greedy answers, one a prompt; a judge that breaks down has not answered.

    Raises:
        UserError: nothing can be answered at all.
        OSError: the answers cannot be kept.
    """
    try:
        replies = judge.answer(prompts, max_tokens=max_tokens) if prompts else []
    except (UserError, OSError):
        raise
    except Exception as error:
        log.warning("the judge broke down, so that nothing of this round is accepted (%s)", error, exc_info=True)
        replies = []
    if len(replies) != len(prompts):  # whose they are is unknown
        return [Reply(None, "the judge broke down")] * len(prompts)
    return replies


def verdicts(reply: Reply, checks: Iterable[str], answers: Sequence[Any]) -> list[Fault | None]:
    """For every draft None if it is accepted, else why not.

    Source: ToolSense 2606.12451 asks a judge as well; there an error accepts everything, and verdicts that are missing
    are not missed. Here no answer, broken JSON, too few or too many verdicts, a check that is missing or anything but
    `true`, and an answer that is not the draft's own refuse it.

    Args:
        reply: the judge's.
        checks: names of what must be true.
        answers: for each draft, the answer that the judge must have found by itself; None: it is not asked for one.
    """
    if reply.text is None:
        return [Fault("judge_no_answer", "The checker gave no answer.")] * len(answers)
    value = sole_json(reply.text)
    found = value.get("verdicts") if value else None
    if not isinstance(found, list):
        return [Fault("judge_malformed", "The checker gave no verdict.")] * len(answers)
    if len(found) != len(answers):
        return [Fault("judge_wrong_count", "The checker gave no verdict on each draft.")] * len(answers)
    return [_verdict(entry, tuple(checks), answer) for entry, answer in zip(found, answers, strict=True)]


def _verdict(entry: Any, checks: Sequence[str], answer: Any) -> Fault | None:
    """One draft's."""
    if not isinstance(entry, dict) or any(check not in entry for check in checks):
        return Fault("judge_missing_check", "The checker gave no verdict on every point.")
    why = entry.get("why")
    told = f": {visible(printable(' '.join(why.split())))[:WHY]}" if isinstance(why, str) and why.strip() else "."
    for check in checks:
        if entry[check] is not True:
            return Fault(f"judge_{check}", f'A checker said no to "{check}"{told}')
    if answer is not None and _plain(entry.get("answer")) != _plain(answer):
        return Fault("judge_other_answer", f"By the document, a checker found another answer{told}")
    return None


def _plain(answer: Any) -> Any:
    """Answers are compared without regard to capitals; a number is a number, and true is none."""
    return answer.strip().lower() if isinstance(answer, str) else (type(answer), answer)
