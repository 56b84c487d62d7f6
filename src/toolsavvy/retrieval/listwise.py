"""Language models as rerankers: whole windows ordered in words, or one tool at a time by likelihood."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from toolsavvy.catalog import Query
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Chat, LocalChat, Message, Reply, final_text
from toolsavvy.retrieval.scorers import by_length, right_padded
from toolsavvy.retrieval.templates import check_sizes

log = logging.getLogger("toolsavvy")

SYSTEM = "You order tools by how well they serve a user's request."
ORDER = (
    "Request: {query}\n\nTools:\n{tools}\n\n"
    "Order all {count} tools from the most to the least useful for the request. "
    "Answer with their numbers alone, like this: {example}"
)
JUDGE = (
    "Request: {query}\n\nTool: {document}\n\nIs this tool needed to serve the request? Answer with one word, yes or no."
)
WRITE = "Here is a tool.\n\n{document}\n\nWrite a request of a user that this tool serves."
_BRACKETED = re.compile(r"\[\s*(\d{1,6})\s*\]")
_CHAIN = re.compile(r"\d{1,6}(?:\s*[>,;]\s*\d{1,6})+|^\s*\d{1,6}\s*$")
TOKENS_PER_TOOL = 8
"""Of an answer: `[12] > ` under any vocabulary, with room for a word of introduction."""

LONGEST = 100_000
"""Characters that are read of an answer: servers that don't keep to a limit of tokens can send any number."""


@dataclass(frozen=True)
class Order:
    """An order that was read from an answer.

    Args:
        places: every position of the window once, best first.
        fault: what was wrong with the answer: "" | "nothing" | "repeated" | "out of range" | "missing".
    """

    places: tuple[int, ...]
    fault: str = ""


def read_order(text: str | None, count: int) -> Order:
    """The order of `count` tools that an answer gives, whatever state it is in.

    Numbers in brackets count, else a chain like `2 > 1 > 3`. Numbers out of range and repetitions are dropped, what is
    missing follows in the old order; an answer without any number keeps the old order.

    Args:
        text: the answer, with or without reasoning before it.
        count: tools in the window; answers count from 1.
    """
    text = final_text(text or "")[:LONGEST]
    numbers = [int(n) - 1 for n in _BRACKETED.findall(text)]
    if not numbers and (chain := _CHAIN.search(text)):
        numbers = [int(n) - 1 for n in re.findall(r"\d+", chain[0])]
    valid = [n for n in numbers if 0 <= n < count]
    named = list(dict.fromkeys(valid))
    rest = [n for n in range(count) if n not in set(named)]
    faults = {"nothing": not named, "repeated": len(named) < len(valid), "out of range": len(valid) < len(numbers)}
    fault = next((name for name, holds in faults.items() if holds), "missing" if rest else "")
    return Order((*named, *rest), fault)


def windows(candidates: int, window: int, step: int) -> list[range]:
    """Positions of the windows over a list, from its back to its front; neighbours share window - step of them."""
    starts = [*range(candidates - window, 0, -step), 0]
    return [range(start, min(start + window, candidates)) for start in starts] if candidates > 1 else []


class LLMReranker:
    """Rerank with a language model.

    `listwise` lets it order a window of tools in words and moves the window from the back of the list to its front
    (sliding windows as in RankGPT, Sun et al. 2023; own prompt and parser). Answers that name too few, too many or no
    tools cost nothing but their information; `facts` counts them. Windows of one query follow one another, those of
    different queries are asked at once.

    The other two need a local model and read logits instead of words, which also works for models too small to follow
    the instruction: `yes_no` is the log-odds of yes against no after being asked whether the tool is needed; `query` is
    the mean log-probability of the query's tokens after the tool's document (query likelihood, Sachan et al. 2022).

    Args:
        llm: who answers.
        scoring: listwise | yes_no | query.
        window: tools that are ordered at once (listwise); as RankGPT.
        step: how far the window moves; less than the window, so that a good tool can rise all the way.
        use_instruction: put the queries' instructions before them.
        max_characters: of a document; the rest is cut.
        batch_size: pairs per forward pass (yes_no, query).
        precision: fp32 | bf16 | auto, of the forward passes on a CPU (yes_no, query).

    Raises:
        UserError: a number out of range, or likelihoods of a model on a server.
    """

    def __init__(
        self,
        llm: Chat,
        scoring: Literal["listwise", "yes_no", "query"] = "listwise",
        window: int = 20,
        step: int = 10,
        use_instruction: bool = False,
        max_characters: int = 400,
        batch_size: int = 16,
        precision: str = "auto",
    ) -> None:
        if window < 2:
            raise UserError(f"{window} is out of range", where="reranker.window", expected=">= 2")
        if not 1 <= step <= window:
            expected = f"1 to {window} (the window)"
            raise UserError(f"{step} is out of range", where="reranker.step", expected=expected)
        check_sizes("reranker", batch_size)
        if max_characters < 1:
            raise UserError(f"{max_characters} is out of range", where="reranker.max_characters", expected=">= 1")
        if scoring != "listwise" and not isinstance(llm, LocalChat):
            raise UserError(
                f"{llm.name} gives no logits", where="reranker.scoring", expected=f"llm=local for scoring={scoring}",
                fix="set scoring=listwise, or llm=local",
            )  # fmt: skip
        self.llm, self.scoring, self.use_instruction = llm, scoring, use_instruction
        self.window, self.step = (window, step) if scoring == "listwise" else (None, None)
        self.max_characters, self.batch_size, self.precision = max_characters, batch_size, precision
        self.counts = {"answers": 0, "malformed": 0, "failed": 0} if scoring == "listwise" else {"pairs": 0}

    def rerank(self, queries: Sequence[Query], documents: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """As `Reranker.rerank`; of a listwise order, the score is the number of documents from the bottom."""
        texts = [self._query_text(query) for query in queries]
        # What reads alike is shown once: an order among equal documents would be luck, and they must tie.
        distinct = [list(dict.fromkeys(candidates)) for candidates in documents]
        cut = [[" ".join(d[: self.max_characters].split()) for d in candidates] for candidates in distinct]
        scores = self._listwise(texts, cut) if self.scoring == "listwise" else self._likelihoods(texts, cut)
        points = [dict(zip(own, values.tolist(), strict=True)) for own, values in zip(distinct, scores, strict=True)]
        return [np.array([of[d] for d in own], dtype=np.float64) for of, own in zip(points, documents, strict=True)]

    def facts(self) -> Mapping[str, float]:
        """Answers (windows), how many were malformed, how many never came; or pairs that were scored."""
        return {name: float(count) for name, count in self.counts.items()}

    def _query_text(self, query: Query) -> str:
        return f"{query.instruction}\n{query.text}" if self.use_instruction and query.instruction else query.text

    # --- listwise ---------------------------------------------------------------------------------------------------

    def _listwise(self, queries: list[str], documents: list[list[str]]) -> list[np.ndarray]:
        orders = [list(range(len(candidates))) for candidates in documents]
        assert self.window is not None and self.step is not None
        plans = [windows(len(order), self.window, self.step) for order in orders]
        error = ""
        for turn in range(max(map(len, plans), default=0)):
            rows = [row for row, plan in enumerate(plans) if turn < len(plan)]
            chosen = [[documents[row][orders[row][i]] for i in plans[row][turn]] for row in rows]
            prompts = [self.messages(queries[row], texts) for row, texts in zip(rows, chosen, strict=True)]
            budget = TOKENS_PER_TOOL * max(map(len, chosen)) + 16
            for row, reply in zip(rows, self.llm.answer(prompts, max_tokens=budget), strict=True):
                place = plans[row][turn]
                before = [orders[row][i] for i in place]
                orders[row][place.start : place.stop] = [before[i] for i in self._read(reply, len(before)).places]
                error = error or reply.error
            self._refuse_silence(error)
        if queries:
            log.info("%s ordered %s", self.llm.name, ", ".join(f"{n} {name}" for name, n in self.counts.items()))
        return [_from_bottom(order) for order in orders]

    def _refuse_silence(self, error: str) -> None:
        """Some answers may be missing; without any, the first stage's order would stand under the model's name.

        Raises:
            UserError: no answer has come so far.
        """
        if self.counts["failed"] and not self.counts["answers"]:
            raise UserError(
                f"{self.llm.name} gave no answer to any of {self.counts['failed']} prompts (the first: {error})",
                where="reranker.llm", expected="a model that answers",
                fix="check the server, llm.timeout and llm.retries; answers that arrived are kept",
            )  # fmt: skip

    def messages(self, query: str, documents: Sequence[str]) -> list[Message]:
        """The conversation that asks for an order."""
        tools = "\n".join(f"[{i}] {text}" for i, text in enumerate(documents, 1))
        example = " > ".join(f"[{i}]" for i in range(min(3, len(documents)), 0, -1))
        text = ORDER.format(query=query, tools=tools, count=len(documents), example=example)
        return [Message("system", SYSTEM), Message("user", text)]

    def _read(self, reply: Reply, count: int) -> Order:
        """Read one answer and count what is wrong with it."""
        order = read_order(reply.text, count)
        self.counts["answers"] += reply.text is not None
        self.counts["failed"] += reply.text is None
        self.counts["malformed"] += reply.text is not None and bool(order.fault)
        return order

    # --- by likelihood ----------------------------------------------------------------------------------------------

    def _likelihoods(self, queries: list[str], documents: list[list[str]]) -> list[np.ndarray]:
        pairs = list(dict.fromkeys((q, d) for q, ds in zip(queries, documents, strict=True) for d in ds))
        values = dict(zip(pairs, self._score(pairs).tolist(), strict=True))
        self.counts["pairs"] += len(pairs)
        return [
            np.array([values[q, d] for d in ds], dtype=np.float64) for q, ds in zip(queries, documents, strict=True)
        ]

    def _score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Score (query, document) pairs: float64 [pair]."""
        assert isinstance(self.llm, LocalChat)
        import torch

        scores = np.zeros(len(pairs))
        prompts = [self._prompt(*pair) for pair in pairs]
        model, tokenizer = self.llm.loaded.model, self.llm.loaded.tokenizer
        with torch.inference_mode(), self._numbers():
            for rows in by_length([ids for ids, _ in prompts], self.batch_size):
                ids, mask = right_padded([prompts[i][0] for i in rows], tokenizer.pad_token_id or 0, model.device)
                labels = [prompts[i][1] for i in rows]
                read = self._log_odds if self.scoring == "yes_no" else _mean_log_probability
                scores[rows] = read(model, ids, mask, labels).double().cpu().numpy()
        return scores

    def _prompt(self, query: str, document: str) -> tuple[list[int], int]:
        """Token ids, and how many at the end are the label whose likelihood counts (0: the next token does)."""
        assert isinstance(self.llm, LocalChat)
        if self.scoring == "yes_no":
            return self._fitting(JUDGE.format(query=query, document=document)), 0
        label = self.llm.loaded.text.encode(query)[: self.llm.limit // 2] or self.llm.loaded.text.encode(" ")
        return [*self._fitting(WRITE.format(document=document), len(label)), *label], len(label)

    def _fitting(self, text: str, room: int = 0) -> list[int]:
        """Ids of a conversation of one turn.

        Raises:
            UserError: it is longer than the model reads.
        """
        assert isinstance(self.llm, LocalChat)
        ids = self.llm.prompt([Message("user", text)])
        if len(ids) + room > self.llm.limit:
            raise UserError(
                f"a prompt has {len(ids) + room} tokens, {self.llm.name} reads {self.llm.limit}", where="reranker",
                expected="shorter documents", fix=f"set max_characters below {self.max_characters}",
            )  # fmt: skip
        return ids

    def _numbers(self) -> Any:
        """Where bf16 is fast on this CPU, matrix products are computed in it."""
        import torch

        from toolsavvy.models.loading import resolve_precision

        assert isinstance(self.llm, LocalChat)
        on_cpu = self.llm.loaded.model.device.type == "cpu"
        bf16 = on_cpu and resolve_precision(self.precision) == "bf16"
        return torch.autocast("cpu", dtype=torch.bfloat16) if bf16 else nullcontext()

    def _log_odds(self, model: Any, ids: Any, mask: Any, labels: Sequence[int]) -> Any:
        """Of the next token, log P(yes) - log P(no), each in two spellings: [pair].

        Raises:
            UserError: both words start with one token, so that no pair could differ from another.
        """
        import torch

        from toolsavvy.models.forward import logits, states

        assert isinstance(self.llm, LocalChat)
        loaded = self.llm.loaded
        words = [[loaded.text.encode(word)[0] for word in spellings] for spellings in _ANSWERS]
        if set(words[0]) & set(words[1]):
            raise UserError(
                f"yes and no start with the same token of {self.llm.name}", where="reranker.scoring",
                expected="a vocabulary that tells them apart", fix="set scoring=query or scoring=listwise",
            )  # fmt: skip
        rows = torch.arange(len(ids), device=ids.device)
        scores = logits(model, states(model, ids, mask)[rows, mask.sum(1) - 1])
        yes, no = (scores[:, entry].logsumexp(1) for entry in words)
        return yes - no


_ANSWERS = (("Yes", "yes"), ("No", "no"))


def _from_bottom(order: Sequence[int]) -> np.ndarray:
    """Scores of candidates whose order is given: the last one gets 1, float64 [candidate]."""
    scores = np.zeros(len(order))
    scores[list(order)] = np.arange(len(order), 0, -1)
    return scores


def _mean_log_probability(model: Any, ids: Any, mask: Any, labels: Sequence[int]) -> Any:
    """Mean log-probability of the last `labels` tokens of every row: [pair]."""
    import torch

    from toolsavvy.models.forward import logits, states

    hidden, starts = states(model, ids, mask), (mask.sum(1) - 1).tolist()
    rows = torch.tensor([row for row, count in enumerate(labels) for _ in range(count)], device=ids.device)
    places = [end - count + i for end, count in zip(starts, labels, strict=True) for i in range(count)]
    before = torch.tensor(places, device=ids.device)
    scores = logits(model, hidden[rows, before]).log_softmax(1)
    values = scores.gather(1, ids[rows, before + 1, None])[:, 0]
    return torch.stack([part.mean() for part in values.split(list(labels))])
