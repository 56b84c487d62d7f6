"""Algorithm 1 of TOOLRET: a language model writes instructions, its accepted ones become examples for the next."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from toolsavvy.attacks import tokens
from toolsavvy.catalog import Catalog
from toolsavvy.generators.answers import AnswerLog
from toolsavvy.generators.collecting import Item
from toolsavvy.generators.instructions import Rules, Written, fault, golds, template
from toolsavvy.generators.overlap import Tokens
from toolsavvy.generators.seeds import SEEDS, Example
from toolsavvy.models.chat import Chat, Message, Reply, final_text, parse_json

DOCUMENT_WORDS = 120
"""Words of a gold tool's document that the writer sees."""
_LABEL = re.compile(r"^\W*(?:retrieval )?instruction\W*:\s*", re.IGNORECASE)
_REFUSAL = re.compile(r"^(i['’]?m sorry|sorry|i can(no|['’])t|i am unable|as an ai)\b", re.IGNORECASE)  # noqa: RUF001
_WRITER = """\
You write retrieval instructions for a search engine over software tools. You see a user's request and the tools that \
serve it. Say in one or two sentences what kind of tools has to be found: what they do, what they take or give back. \
Never write a tool's name, do not repeat the request, and do not answer it. Vary how you begin. \
Reply with the instruction alone."""
_JUDGE = """\
You check retrieval instructions for a search engine over software tools. An instruction is good if it describes what \
the given tools do, so that they would be found for the request, and says nothing about them that is not so. \
Reply with yes or no."""


@dataclass(frozen=True)
class Recipe:
    """How instructions are written.

    Args:
        attempts: answers asked for per query until one passes.
        examples: worked examples in every prompt, a third of them from the pool once it has any.
        batch_size: queries that are asked for at once; they see the pool as it was before.
        temperature: of the writer; the judge is greedy.
        max_tokens: of an answer.
        judge: also ask the model whether what it wrote is true of the tools; no clear yes is a no.
        failing: what a query without a valid instruction gets: template | drop | none.
        seed: of the examples drawn.
    """

    attempts: int = 3
    examples: int = 6
    batch_size: int = 8
    temperature: float = 0.7
    max_tokens: int = 160
    judge: bool = False
    failing: str = "template"
    seed: int = 0


class Writer:
    """Write target-aware instructions for queries, in order.

    Source: TOOLRET, Algorithm 1. Ours, where the paper's text leaves it open: a third of the examples comes from the
    pool (the others are seeds), duplicates are told by ROUGE-L against everything accepted so far, and a query whose
    answers all fail gets what `failing` says.

    Args:
        chat: the language model.
        catalog: all tools.
        recipe: how.
        rules: what passes.
        path: file of the answers.
    """

    def __init__(self, chat: Chat, catalog: Catalog, recipe: Recipe, rules: Rules, path: Path) -> None:
        self.log, self.catalog, self.recipe, self.rules = AnswerLog(chat, path), catalog, recipe, rules
        self.counts: Counter[str] = Counter()
        self._pool: list[Example] = []
        self._accepted: list[Tokens] = [tokens(example.instruction) for example in SEEDS]

    def write(self, items: Sequence[Item]) -> Written:
        """Instructions for all queries; `counts` says how many passed at which attempt and what failed."""
        out: list[Item] = []
        for start in range(0, len(items), self.recipe.batch_size):
            batch = items[start : start + self.recipe.batch_size]
            found = self._batch(batch)
            self._pool += [self._example(item, found[item.query.id]) for item in batch if item.query.id in found]
            for item in batch:
                text = found.get(item.query.id)
                if text is None:
                    self.counts["failed_queries"] += 1
                    if self.recipe.failing == "drop":
                        continue
                    text = template(item, self.catalog, self.recipe.seed) if self.recipe.failing == "template" else None
                out.append(replace(item, query=replace(item.query, instruction=text)))
        self.counts["answers_asked"] = self.log.asked
        return Written(tuple(out), self.counts)

    def _batch(self, batch: Sequence[Item]) -> dict[str, str]:
        """Query id -> accepted instruction, after as many attempts as it takes or the recipe allows."""
        found: dict[str, str] = {}
        for attempt in range(self.recipe.attempts):
            pending = [item for item in batch if item.query.id not in found]
            if not pending:
                break
            prompts = [self._prompt(item, attempt) for item in pending]
            recipe = self.recipe
            replies = self.log.answer(prompts, max_tokens=recipe.max_tokens, temperature=recipe.temperature)
            passed = self._passing(pending, replies)
            for item, text in self._judged(passed):
                found[item.query.id] = text
                self.counts[f"accepted_at_attempt_{attempt + 1}"] += 1
        return found

    def _passing(self, items: Sequence[Item], replies: Sequence[Reply]) -> list[tuple[Item, str]]:
        """The answers that keep the rules; each is known to those after it."""
        passed = []
        for item, reply in zip(items, replies, strict=True):
            text = parsed(reply.text) if reply.text is not None else None
            why = "no_answer" if reply.text is None else "malformed" if text is None else ""
            why = why or fault(text or "", item, self.catalog, self._accepted, self.rules)
            if why:
                self.counts[f"refused_{why}"] += 1
            elif text:
                self._accepted.append(tokens(text))
                passed.append((item, text))
        return passed

    def _judged(self, passed: list[tuple[Item, str]]) -> list[tuple[Item, str]]:
        """Those that the judge clearly approves of, if there is one; what it refuses is no longer known."""
        if not self.recipe.judge or not passed:
            return passed
        prompts = [
            [Message("system", _JUDGE), Message("user", f"{self._case(item)}\nInstruction: {text}\nGood?")]
            for item, text in passed
        ]
        replies = self.log.answer(prompts, max_tokens=self.recipe.max_tokens)
        good = [pair for pair, reply in zip(passed, replies, strict=True) if _approves(reply.text)]
        refused = [tokens(text) for item, text in passed if (item, text) not in good]
        self.counts["refused_judged"] += len(refused)
        for words in refused:
            self._accepted.remove(words)
        return good

    def _prompt(self, item: Item, attempt: int) -> list[Message]:
        """Rules, examples, and the query with its gold tools in view."""
        shown = "\n\n".join(_shown(example) for example in self._drawn(item, attempt))
        return [Message("system", _WRITER), Message("user", f"{shown}\n\n{self._case(item)}\nInstruction:")]

    def _drawn(self, item: Item, attempt: int) -> list[Example]:
        """Examples from the seeds and the pool, by seed, query and attempt, so that a resumed run draws the same."""
        text = f"{self.recipe.seed} {attempt} {item.query.id}".encode("utf-8", "surrogatepass")
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:8], "big"))
        own = min(len(self._pool), self.recipe.examples // 3)
        seeds = rng.permutation(len(SEEDS))[: self.recipe.examples - own]
        pool = rng.permutation(len(self._pool))[:own]
        return [*(SEEDS[i] for i in seeds), *(self._pool[i] for i in pool)]

    def _case(self, item: Item) -> str:
        """Request and tools."""
        return f"Request: {' '.join(item.query.text.split())}\nTools: {self._tools(item)}"

    def _tools(self, item: Item) -> str:
        """The gold tools' documents, each cut to its start."""
        documents = (self.catalog.documents[self.catalog.index[tool.id]] for tool in golds(item, self.catalog))
        return " | ".join(" ".join(document.split()[:DOCUMENT_WORDS]) for document in documents)

    def _example(self, item: Item, instruction: str) -> Example:
        """A query that was written for, as an example for others."""
        return Example(" ".join(item.query.text.split()), self._tools(item), instruction)


def parsed(answer: str) -> str | None:
    """The instruction in an answer: plain text, after a label, in quotes, a fence or a JSON object; None if unclear.

    Several paragraphs, refusals and answers without a word are unclear; a first line that only announces is skipped.
    """
    answer = final_text(answer)
    value = parse_json(answer)
    if value is not None:
        given = value.get("instruction")
        return given.strip() or None if isinstance(given, str) else None
    if answer.startswith(("{", "[")):
        return None
    lines = [line.strip() for line in answer.replace("```text", "").replace("```", "").split("\n") if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        lines = lines[1:]
    if len(lines) != 1:
        return None
    text = _LABEL.sub("", lines[0]).strip(" \"'“”*`")
    return text if tokens(text) and not _REFUSAL.match(text) else None


def _approves(answer: str | None) -> bool:
    """Only a clear yes is one."""
    return answer is not None and tokens(final_text(answer))[:1] == ["yes"]


def _shown(example: Example) -> str:
    """An example as the writer sees it."""
    return f"Request: {example.query}\nTools: {example.tools}\nInstruction: {example.instruction}"
