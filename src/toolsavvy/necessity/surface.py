"""What can be seen of a question without a model: the control that probes on hidden states must beat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.necessity.question import Question

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_OPERATORS = ("+", "-", "*", "/", "%", "**")
_SIGN = re.compile(r"\*\*|//|[-+*/%]")
_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_QUESTION_WORDS = ("what", "who", "when", "where", "why", "how", "which", "yes/no")
_YES_NO = frozenset(
    ("is", "are", "was", "were", "am", "do", "does", "did", "can", "could", "will", "would", "should", "shall", "has",
     "have", "had", "may", "might", "must")
)  # fmt: skip
_MARKS = ".,;:!?\"'\u201c\u201d\u2018\u2019()-"


@dataclass(frozen=True)
class Surface:
    """Surface features of questions.

    Args:
        values: float64 [question, feature].
        names: [feature].
        families: float64 [question, family], one column a family; kept apart from the rest.
        family_names: [family], sorted.
    """

    values: np.ndarray
    names: tuple[str, ...]
    families: np.ndarray
    family_names: tuple[str, ...]

    def with_families(self) -> np.ndarray:
        """Features and families side by side, float64 [question, feature + family]."""
        return np.hstack([self.values, self.families])


def surface_features(questions: Sequence[Question]) -> Surface:
    """Features of every question's text and, where all have one, of its expression.

    Arithmetic: operands, each operator, length, digits, largest operand (log10 of 1 + it), parentheses. Texts: length,
    words, kind of question word, punctuation, digits. The paper's probes have no such control.
    """
    arithmetic = bool(questions) and all(q.expression is not None for q in questions)
    rows = [_of_expression(q.expression or "") if arithmetic else _of_text(q.text) for q in questions]
    names = tuple(rows[0]) if rows else ()
    values = np.array([list(row.values()) for row in rows], dtype=np.float64).reshape(len(rows), len(names))
    family_names = tuple(sorted({q.family for q in questions}))
    families = np.array([[q.family == name for name in family_names] for q in questions], dtype=np.float64)
    return Surface(values, names, families.reshape(len(rows), len(family_names)), family_names)


def _of_expression(expression: str) -> dict[str, float]:
    numbers = _NUMBER.findall(expression)
    digits = [sum(c.isdigit() for c in n) for n in numbers]
    signs = ["/" if s == "//" else s for s in _binary(expression)]
    counts = {f"operators {name}": float(signs.count(name)) for name in _OPERATORS}
    return {
        "operands": float(len(numbers)),
        "operators": float(len(signs)),
        "kinds of operators": float(len(set(signs))),
        **counts,
        "negative operands": float(len(_SIGN.findall(expression)) - len(signs)),
        "length": float(len(expression)),
        "digits": float(sum(digits)),
        "digits of the longest operand": float(max(digits, default=0)),
        "largest operand (log10)": float(np.log10(1 + min(max(map(float, numbers), default=0.0), 1e300))),
        "parentheses": float(expression.count("(")),
    }


def _binary(expression: str) -> list[str]:
    """Operators between operands; a sign before its operand is none."""
    compact = "".join(expression.split())
    return [m[0] for m in _SIGN.finditer(compact) if m.start() and compact[m.start() - 1] in "0123456789.)"]


def _of_text(text: str) -> dict[str, float]:
    words = _WORD.findall(text.lower())
    kind = next((w for w in words if w in _QUESTION_WORDS), "")
    if words and words[0] in _YES_NO:
        kind = "yes/no"
    return {
        "length": float(len(text)),
        "words": float(len(words)),
        "letters a word": float(np.mean([len(w) for w in words])) if words else 0.0,
        **{f"asks {name}": float(kind == name) for name in _QUESTION_WORDS},
        **{f"mark {mark}": float(text.count(mark)) for mark in _MARKS},
        "digits": float(sum(c.isdigit() for c in text)),
        "capitals": float(sum(w[:1].isupper() for w in _WORD.findall(text)[1:])),
    }
