"""TruthfulQA: 817 questions that people answer wrongly, with true and false answers (2109.07958)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolsavvy.catalogs.hub import dataset_folder
from toolsavvy.catalogs.reading import Record, existing, member, read_parquet, read_rows
from toolsavvy.errors import UserError
from toolsavvy.necessity import wordings
from toolsavvy.necessity.question import Question, QuestionSet
from toolsavvy.necessity.questions.subset import subset

WEB_SEARCH: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "web_search",
        "description": "Looks something up on the web and gives back short passages of the pages that fit best.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for, in a few words."}},
            "required": ["query"],
        },
    },
}
"""The tool that is offered."""
CSV_COLUMNS = {
    "category": "Category",
    "question": "Question",
    "best_answer": "Best Answer",
    "correct_answers": "Correct Answers",
    "incorrect_answers": "Incorrect Answers",
}
"""The hub's name of a column -> the CSV's."""
ID = "tca_id"
"""Column with the ids of the released runs of 2605.14038, where a file has it."""
_BETWEEN = re.compile(r";(?=\s|$)")


class TruthfulQA:
    """TruthfulQA with its true and false answers; families are its 38 categories; offers a web search.

    Answers that a row lists as both true and false are left out, unless one is its best answer: then it is true.

    Args:
        path: `TruthfulQA.csv`, a Parquet file as on the hub, or a folder with either; null is the hub.
        hub: owner/name of the hub's data set.
        revision: its commit; null is the newest.
        n: draw so many questions; null is all.
        seed: of that draw.

    Raises:
        UserError: on loading, a file that is missing or malformed, with line and field.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        hub: str = "truthfulqa/truthful_qa",
        revision: str | None = None,
        n: int | None = None,
        seed: int = 0,
    ) -> None:
        self.path, self.hub, self.revision, self.n, self.seed = path, hub, revision, n, seed

    def load(self) -> QuestionSet:
        """Read the questions."""
        file, counts = self._file(), Counter[str]()
        questions: dict[str, Question] = {}
        for index, record in enumerate(_records(file)):
            question = _question(record, index, counts)
            if question.id in questions:
                raise record.wrong(ID, f"{question.id!r} occurs twice", "ids that are unique")
            questions[question.id] = question
        chosen = subset(list(questions.values()), self.n, self.seed)
        return QuestionSet(
            name="truthfulqa",
            questions=chosen,
            tools=(WEB_SEARCH,),
            answer_prompt=wordings.ANSWER["truthfulqa"],
            action_prompts=wordings.action("truthfulqa"),
            checker="similarity",
            audit={**counts, "read": len(questions), "families": dict(Counter(q.family for q in chosen))},
        )

    def _file(self) -> Path:
        """The file with the questions."""
        if self.path is None:
            pattern = "generation/*.parquet"
            folder = dataset_folder(self.hub, self.revision, [pattern], key="questions.hub")
            found = sorted(folder.glob(pattern))
            if not found:
                raise UserError(
                    f"{self.hub} has no {pattern}", where="questions.hub", expected="TruthfulQA's data set",
                    fix="set questions.path=… to TruthfulQA.csv",
                )  # fmt: skip
            return found[0]
        path = existing(self.path, "TruthfulQA.csv", key="questions.path")
        if path.is_dir():
            tables = sorted(path.glob("*.parquet"))
            return tables[0] if tables else member(path, "TruthfulQA.csv", key="questions.path")
        return path


def _records(path: Path) -> Iterator[Record]:
    """The rows, their columns named as on the hub."""
    if path.suffix == ".parquet":
        yield from read_parquet(path)
        return
    for record in read_rows(path, tuple(CSV_COLUMNS.values())):
        yield Record({**record.value, **{ours: record.value[csv] for ours, csv in CSV_COLUMNS.items()}}, record.place)


def _question(record: Record, index: int, counts: Counter[str]) -> Question:
    """One row as a question."""
    best = record.text("best_answer", None).strip()
    correct = [best, *_answers(record, "correct_answers")]
    incorrect = _answers(record, "incorrect_answers")
    both = set(correct) & set(incorrect)
    counts["answers_true_and_false"] += len(both)
    correct = [answer for answer in dict.fromkeys(correct) if answer == best or answer not in both]
    incorrect = [answer for answer in dict.fromkeys(incorrect) if answer not in both]
    if not incorrect:
        raise record.wrong("incorrect_answers", "no false answer is left", "at least one that is not true as well")
    return Question(
        id=record.text(ID).strip() or f"truthfulqa_{index}",
        text=record.text("question", None).strip(),
        family=record.text("category", None).strip(),
        correct=tuple(correct),
        incorrect=tuple(incorrect),
    )


def _answers(record: Record, field: str) -> list[str]:
    """A list of answers: a list, or one text with "; " between them (a ";" inside a link does not part)."""
    value = record.get(field, (str, list))
    parts: Sequence[Any] = _BETWEEN.split(value) if isinstance(value, str) else value
    for part in parts:
        if not isinstance(part, str):
            raise record.wrong(field, f"{part!r} is no text", "a list of texts")
    answers = [part.strip() for part in parts if part.strip()]
    if not answers:
        raise record.wrong(field, "there is no answer", 'answers with "; " between them')
    return answers
