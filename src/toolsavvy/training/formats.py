"""The formats in which stage 1 shows a tool: to its token from what it is, and from its token to what it is.

`single` is ToolGen's own (document -> token), `multi` our reading of ToolSense's five formats. The others serve our
recipe. Their wordings are none of the benchmarks' (`generators.toolsense`), so that no benchmark's question is trained.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from toolsavvy.catalog import Catalog, Tool, parameter_names, split_words

if TYPE_CHECKING:
    from toolsavvy.models.virtual import ToolModel

LETTERS = ("A", "B", "C", "D")
SENTENCES_WITHIN = 10_000
ANSWER_TOKENS = 40
"""Of what a format answers with in words."""
ALSO = " Besides, "
"""Between needs that are asked for at once."""
TOGETHER = 1
"""Requests for several tools that are made around each."""
FACTS = 3
"""Sentences of a description that are told, after the first one too."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_THIRD_PERSON = re.compile(r"^(\w+?)(sses|shes|ches|xes|ies|es|s)$")


@dataclass(frozen=True)
class Row:
    """One supervised example.

    Args:
        prompt: ids up to the answer.
        target: ids of the answer, ending with the end token.
        golds: alternatives for the first target id that share its probability mass (set-valued targets); () if none.
        kind: "query" or the format's name.
        tool: catalog index of the (first) gold tool.
        weight: of the row in its batch's mean.
    """

    prompt: tuple[int, ...]
    target: tuple[int, ...]
    golds: tuple[int, ...] = ()
    kind: str = "query"
    tool: int = 0
    weight: float = 1.0

    @property
    def length(self) -> int:
        """Tokens that pass through the model."""
        return len(self.prompt) + len(self.target) - 1


@dataclass(frozen=True)
class Material:
    """What rows are made of.

    Args:
        tools: model with codes.
        catalog: the tools.
        limit: budget of a document's tokens.
        neighbours: int [tool, n], near tools; random ones when None.
        needs: (tool, request in a person's words) for "need" and "together".
        rng: for orders and drawn neighbours.
    """

    tools: ToolModel
    catalog: Catalog
    limit: int
    neighbours: np.ndarray | None = None
    needs: Sequence[tuple[int, str]] = ()
    rng: random.Random = field(default_factory=random.Random)

    def to_token(self, texts: Sequence[str], indices: Sequence[int], kind: str) -> Iterator[Row]:
        """Text -> the tool's code."""
        for ids, i in zip(self.tools.text.encode_batch(texts, self.limit), indices, strict=True):
            yield Row(tuple(self.tools.frame.wrap(ids)), answer(self.tools, i), (), kind, i)

    def from_token(self, question: str, texts: Sequence[str], indices: Sequence[int], kind: str) -> Iterator[Row]:
        """The tool's code and a question -> text."""
        asked, most = self.tools.text.encode(question), min(self.limit, ANSWER_TOKENS)
        for ids, i in zip(self.tools.text.encode_batch(texts, most), indices, strict=True):
            prompt = self.tools.frame.wrap([*self.tools.codes[i], *asked])
            yield Row(tuple(prompt), (*ids, *self.tools.frame.end), (), kind, i)

    def near(self, tool: int) -> list[int]:
        """Other tools: the near ones where neighbours are known."""
        known = [] if self.neighbours is None else dict.fromkeys(self.neighbours[tool].tolist())
        return [j for j in known if j != tool] or [j for j in range(len(self.catalog)) if j != tool]

    def rivals(self, tool: int) -> list[int]:
        """Up to three of them, drawn."""
        pool = self.near(tool)
        return self.rng.sample(pool, k=min(3, len(pool)))


def answer(tools: ToolModel, tool: int) -> tuple[int, ...]:
    """A tool's code and the end."""
    return (*tools.codes[tool], *tools.frame.end)


def set_rows(tools: ToolModel, prompt: Sequence[int], golds: Sequence[int], kind: str) -> list[Row]:
    """A prompt whose tools share its probability mass.

    Codes of several tokens cannot share one position: theirs are one row per gold, weighted 1 / golds.
    """
    whole = tuple(prompt)
    if not tools.atomic:
        return [Row(whole, answer(tools, g), (), kind, g, 1 / len(golds)) for g in golds]
    first = tuple(tools.codes[g][0] for g in golds)
    return [Row(whole, answer(tools, golds[0]), first if len(first) > 1 else (), kind, golds[0])]


def _document(m: Material) -> Iterator[Row]:
    return m.to_token(m.catalog.documents, range(len(m.catalog)), "document")


def _reverse(m: Material) -> Iterator[Row]:
    return m.from_token(" What does this tool do?", _purposes(m.catalog), range(len(m.catalog)), "reverse")


def _phrase(m: Material) -> Iterator[Row]:
    tools = m.catalog.tools
    texts = [f"{split_words(t.name)} ({t.group})" if t.group else split_words(t.name) for t in tools]
    return m.to_token(texts, range(len(tools)), "phrase")


def _parameters(m: Material) -> Iterator[Row]:
    keep = [(i, names) for i, t in enumerate(m.catalog.tools) if (names := parameter_names(t.parameters))]
    texts = [f"Which tool takes {', '.join(split_words(n) for n in names[:12])}?" for _, names in keep]
    return m.to_token(texts, [i for i, _ in keep], "parameters")


def _choice(m: Material) -> Iterator[Row]:
    if len(m.catalog) < 2:
        return
    question = m.tools.text.encode(" Which of these does it?")
    purposes = _purposes(m.catalog)
    for i, ids in enumerate(m.tools.text.encode_batch(purposes, m.limit)):
        options = _dealt(m, i, purposes)
        prompt = m.tools.frame.wrap([*ids, *question, *(t for o in options for t in m.tools.codes[o])])
        yield Row(tuple(prompt), answer(m.tools, i), (), "choice", i)


def _request(m: Material) -> Iterator[Row]:
    for make in (_title_like, _description_like, _sentence_like):
        yield from m.to_token([make(tool) for tool in m.catalog.tools], range(len(m.catalog)), "request")


def _need(m: Material) -> Iterator[Row]:
    return m.to_token([text for _, text in m.needs], [tool for tool, _ in m.needs], "need")


def _together(m: Material) -> Iterator[Row]:
    """Several needs in one request: that of a tool and of up to three near ones."""
    texts: dict[int, list[str]] = {}
    for tool, text in m.needs:
        texts.setdefault(tool, []).append(text)
    for i in sorted(texts):
        near = [j for j in m.near(i) if j in texts]
        for _ in range(TOGETHER if near else 0):
            others = m.rng.sample(near, k=m.rng.randint(1, min(3, len(near))))
            golds = m.rng.sample([i, *others], k=len(others) + 1)
            ids = m.tools.text.encode(ALSO.join(m.rng.choice(texts[g]) for g in golds), m.limit * 2)
            yield from set_rows(m.tools, m.tools.frame.wrap(ids), golds, "together")


def _facts(m: Material) -> Iterator[Row]:
    told = [(i, s) for i, t in enumerate(m.catalog.tools) for s in sentences(t.description, FACTS + 1)[1:]]
    return m.from_token(" Say something more about this tool.", [s for _, s in told], [i for i, _ in told], "facts")


def _inputs(m: Material) -> Iterator[Row]:
    return _fields(m, " List what you hand to this tool.", [t.parameters for t in m.catalog.tools], "inputs")


def _results(m: Material) -> Iterator[Row]:
    return _fields(m, " List what you get back from this tool.", [t.returns for t in m.catalog.tools], "results")


def _fields(m: Material, question: str, schemas: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Row]:
    """From the token to the names of a schema's fields, where it has some."""
    keep = [(i, names) for i, schema in enumerate(schemas) if (names := parameter_names(schema))]
    texts = [", ".join(split_words(n) for n in names[:12]) for _, names in keep]
    return m.from_token(question, texts, [i for i, _ in keep], kind)


def _quiz(m: Material) -> Iterator[Row]:
    """A lettered choice among purposes of near tools, answered by the letter."""
    if len(m.catalog) < len(LETTERS):
        return
    purposes = _purposes(m.catalog)
    for i in range(len(m.catalog)):
        options = _dealt(m, i, purposes)
        lines = "".join(f"\n{letter}. {purposes[o]}" for letter, o in zip(LETTERS, options, strict=False))
        asked = m.tools.text.encode(f" Pick the line that fits.{lines}", m.limit * 2)
        prompt = m.tools.frame.wrap([*m.tools.codes[i], *asked])
        letter = m.tools.text.encode(LETTERS[options.index(i)])
        yield Row(tuple(prompt), (*letter, *m.tools.frame.end), (), "quiz", i)


def _verdict(m: Material) -> Iterator[Row]:
    """Is a purpose this tool's? Its own: yes; that of a near tool, which says something else: no."""
    purposes = _purposes(m.catalog)
    for i in range(len(m.catalog)):
        others = [j for j in m.rivals(i) if purposes[j] != purposes[i]][:1]
        for j, said in ((i, "Yes"), *((j, "No") for j in others)):
            asked = m.tools.text.encode(f" True of this tool? {purposes[j]}", m.limit)
            prompt = m.tools.frame.wrap([*m.tools.codes[i], *asked])
            yield Row(tuple(prompt), (*m.tools.text.encode(said), *m.tools.frame.end), (), "verdict", i)


def _dealt(m: Material, tool: int, purposes: Sequence[str]) -> list[int]:
    """A tool and rivals in random order; one that does the very same would be right too, and is left out."""
    shown = [tool, *(j for j in m.rivals(tool) if purposes[j] != purposes[tool])]
    return m.rng.sample(shown, k=len(shown))


def _purposes(catalog: Catalog) -> list[str]:
    """What each tool does: the first sentence of its description, or its name."""
    return [first_sentences(t.description) or split_words(t.name) for t in catalog.tools]


def _title_like(tool: Tool) -> str:
    return f"To {split_words(tool.name)}"


def _description_like(tool: Tool) -> str:
    """The first sentence, as an example would open: it names the action and no command."""
    return f"The following example {_lower_first(first_sentences(tool.description) or split_words(tool.name))}"


def _sentence_like(tool: Tool) -> str:
    """The first sentence in the imperative ("Creates a VPC." becomes "Create a VPC.")."""
    sentence = first_sentences(tool.description) or split_words(tool.name)
    verb, _, rest = sentence.partition(" ")
    return f"{_imperative(verb)} {rest}".strip()


def _imperative(verb: str) -> str:
    match = _THIRD_PERSON.match(verb)
    if not match or len(verb) < 4:
        return verb
    stem, ending = match.groups()
    return stem + {"ies": "y", "sses": "ss", "shes": "sh", "ches": "ch", "xes": "x", "es": "e", "s": ""}[ending]


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def sentences(text: str, n: int) -> list[str]:
    """Up to n sentences of a description, each on one line; only its first `SENTENCES_WITHIN` characters are read."""
    return [s for s in _SENTENCE.split(" ".join(text[:SENTENCES_WITHIN].split()))[:n] if s]


def first_sentences(text: str, n: int = 1) -> str:
    """The first n sentences of a description, on one line."""
    return " ".join(sentences(text, n))


FORMATS: dict[str, Callable[[Material], Iterator[Row]]] = {
    "document": _document,
    "reverse": _reverse,
    "phrase": _phrase,
    "parameters": _parameters,
    "choice": _choice,
    "request": _request,
    "need": _need,
    "together": _together,
    "facts": _facts,
    "inputs": _inputs,
    "results": _results,
    "quiz": _quiz,
    "verdict": _verdict,
}
"""Name -> what makes its rows."""
SINGLE = ("document",)
MULTI = ("document", "reverse", "phrase", "parameters", "choice")
NEAR = ("choice", "quiz", "verdict", "together")
"""Formats that show near tools."""
TO_TOKEN = ("query", "document", "phrase", "parameters", "choice", "request", "need", "together")
"""Kinds whose answer starts with a tool's token."""


def named(formats: str | Sequence[str]) -> tuple[str, ...]:
    """The formats that `memorization.formats` stands for: single, multi, or a list of them."""
    if isinstance(formats, str):
        return {"single": SINGLE, "multi": MULTI}[formats]
    return tuple(formats)
