"""Requests put together from needs: one need, two or three at once, or one that several tools meet, or a project."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from toolsavvy.attacks import tokens
from toolsavvy.benchmark import GOLDS
from toolsavvy.catalog import Catalog, Tool, split_words
from toolsavvy.catalogs.aws_splits import names_tool
from toolsavvy.generators.overlap import nearest
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood
from toolsavvy.generators.toolsense.objects import head_of, stem, with_articles
from toolsavvy.generators.toolsense.phrasing import Frames, plural
from toolsavvy.generators.toolsense.requests import HOLLOW, Need
from toolsavvy.generators.toolsense.rivals import Rivals
from toolsavvy.generators.toolsense.stems import spells
from toolsavvy.retrieval.bm25 import tokenize

WORDS: Mapping[str, int] = {"easy": 20, "medium": 25, "hard": 75}
"""Tier -> most words of a request."""
NEAR_DUPLICATE = 0.8
"""ROUGE-L F1 from which two requests are the same."""
_TRIES = 10
"""Wordings of the same needs before they are given up."""
_COMMON = 400
"""Tools that hold a word which no longer tells what belongs together."""
_NEAR = 40
"""Neighbours of an anchor, over whole documents, that may be asked for with it."""
_LOOKED_AT = 200
"""Tools that are asked whether they have a need of their own, best first."""
_PARTNERS = 10
"""Tools that a request may combine with its anchor, the nearest first."""
_SHORT = 4
"""Words of an object that may stand inside a phrase."""
SWAP = 0.85
"""How often a noun is called something else."""
_READS = frozenset(("get", "list", "search", "check", "calculate", "detect", "analyze", "compare"))
_NEW = frozenset(("create", "add", "register", "import", "generate", "start", "allocate"))
_END = frozenset(("delete", "stop", "cancel", "deregister", "detach", "release", "disable"))
_PARTICLE = re.compile(r"(?!go over)(.+) (in|up|out|off|on|back|away|together|along|down|over) \{o\}$")
_NO_ONE = re.compile(r"\ban? ((?:[\w-]+ ){0,4}(?:settings|headlines|meals|figures|conditions))\b")
_THIN = HOLLOW | {"group", "format", "attribute", "property", "setting", "configuration", "version", "status", "state"}
"""Nouns that no project is about."""
_OPPOSITES = frozenset(
    (frozenset(("create", "delete")), frozenset(("attach", "detach")), frozenset(("enable", "disable")),
     frozenset(("start", "stop")), frozenset(("register", "deregister")), frozenset(("accept", "reject")),
     frozenset(("grant", "revoke")), frozenset(("tag", "untag")), frozenset(("add", "delete")),
     frozenset(("allocate", "release")), frozenset(("pause", "resume")), frozenset(("import", "delete")))
)  # fmt: skip


@dataclass(frozen=True)
class Draft:
    """A request and what it asks for.

    Args:
        query: its text.
        golds: positions of the tools, the anchor first.
        pattern: how it was made.
    """

    query: str
    golds: tuple[int, ...]
    pattern: str


def gives_away(text: str, tool: Tool) -> bool:
    """Whether a text holds every word of a tool's name, also spelled in one ("NsLookup"), or its service's name."""
    words = set(tokenize(split_words(tool.name)))
    return names_tool(text, tool) or words <= set(tokenize(text)) or spells(text, tool.group)


def clause(need: Need, phrases: Frames, rng: random.Random, pronoun: str = "") -> str:
    """What is wanted, as it follows "I need to": a verb's paraphrase and the object or the pronoun for it."""
    options = phrases.verbs[need.action]
    if len(need.thing.split()) > _SHORT and not pronoun:  # nobody waits that long for the end of a phrase
        options = tuple(option for option in options if option.endswith("{o}")) or options
    phrase = rng.choice(options)
    if pronoun and (verb := _PARTICLE.match(phrase)):  # "hand it in", but "go over it"
        return f"{verb[1]} {pronoun} {verb[2]}"
    return phrase.format(o=pronoun or need.thing)


def swapped(thing: str, phrases: Frames, rng: random.Random) -> str:
    """An object with most of its nouns called something else; proper names and neighbours of a synonym stay."""
    parts: list[str] = []
    end = changed = 0  # where the text before is done, and where the last synonym stood
    for match in phrases.terms.finditer(thing):
        word = match[0]
        is_name = word[0].isupper() and not word.isupper() and " " not in word and match.start() > 0
        is_beside = parts and changed + 1 == match.start()
        if is_name or is_beside or rng.random() >= SWAP:
            continue
        parts += [thing[end : match.start()], phrases.nouns[word.lower()]]
        end = changed = match.end()
    said = "".join((*parts, thing[end:]))
    return with_articles(_NO_ONE.sub(r"the \1", said)) if parts else thing


class Composer:
    """Writes requests about the tools of a catalog and remembers them, so that none is written twice.

    Args:
        catalog: the tools.
        rivals: their needs, and who else meets them.
        phrases: half of the phrase bank to write with.
        avoided: half that no request may hold a phrase of.
        human: tool -> requests that people wrote for it: none may be repeated.
        near: whose documents are near.
        examples: tool -> needs told by people's examples.
        together: tool -> tools that people's requests ask for in one breath with it.
        service: of every tool, None where the catalog names none.
        seed: of all choices; each depends on the tool alone, not on those before it.
    """

    def __init__(
        self,
        catalog: Catalog,
        rivals: Rivals,
        phrases: Frames,
        avoided: Frames,
        *,
        human: Mapping[int, Sequence[str]] | None = None,
        near: Neighbourhood | None = None,
        examples: Mapping[int, Sequence[Need]] | None = None,
        together: Mapping[int, Sequence[int]] | None = None,
        service: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        """Nothing is written yet."""
        self.catalog, self.rivals, self.phrases, self.avoided, self.seed = catalog, rivals, phrases, avoided, seed
        self.examples, self.together, self.service = examples or {}, together or {}, service
        self.near = near
        self.counts: Counter[str] = Counter()
        self._human = {tool: [tokens(text) for text in texts] for tool, texts in (human or {}).items()}
        self._known: list[list[str]] = []
        self._bags: set[frozenset[str]] = set()
        self._clear: dict[int, tuple[Need, ...]] = {}

    def write(self, tier: str, anchor: int) -> Draft | None:
        """A request of one tier for one tool; None where there is no honest one (`counts` says why)."""
        rng = random.Random(f"{self.seed}/{tier}/{self.catalog.tools[anchor].id}")
        drafts = {"easy": self._easy, "medium": self._medium, "hard": self._hard}[tier]
        reasons: Counter[str] = Counter()
        for draft in drafts(anchor, rng):
            reason = self._fault(draft, tier)
            if not reason:
                words = tokens(draft.query)
                self._known.append(words)
                self._bags.add(frozenset(words))
                return draft
            reasons[reason] += 1
        worst = max(reasons, key=lambda reason: (reasons[reason], reason)) if reasons else self._silence(tier, anchor)
        self.counts[f"{tier}: {worst}"] += 1
        return None

    def clear(self, tool: int) -> tuple[Need, ...]:
        """The tool's needs that no other tool of the catalog meets, the plainest first."""
        if tool not in self._clear:
            needs = (*self.rivals.needs[tool], *self.examples.get(tool, ()))
            self._clear[tool] = tuple(need for need in needs if not self.rivals.of(tool, need))
        return self._clear[tool]

    def _silence(self, tier: str, anchor: int) -> str:
        """Why nothing could even be tried."""
        if not self.rivals.needs[anchor]:
            return "what the tool is for can't be told from its texts"
        if not self.clear(anchor):
            return "another tool does the same"
        return "too few tools go together with it" if tier != "easy" else "another tool does the same"

    def _fault(self, draft: Draft, tier: str) -> str:
        """What is wrong with a request; "" if nothing."""
        words = tokens(draft.query)
        if len(draft.query.split()) > WORDS[tier]:
            return "too long"
        if any(gives_away(draft.query, self.catalog.tools[gold]) for gold in draft.golds):
            return "a gold tool's name would leak"
        if self.avoided.occurs(draft.query):
            return "phrases of the other half"
        asked = [text for gold in draft.golds for text in self._human.get(gold, ())]
        if nearest(words, asked, NEAR_DUPLICATE)[0] >= 0:
            return "near-duplicate of a request of people"
        if frozenset(words) in self._bags or nearest(words, self._known, NEAR_DUPLICATE)[0] >= 0:
            return "near-duplicate of another request"
        return ""

    def _easy(self, anchor: int, rng: random.Random) -> Iterator[Draft]:
        """One need that one tool meets; people's own examples first for some tools, since they say it otherwise."""
        needs = list(self.clear(anchor))
        if rng.random() < 0.5:
            needs.sort(key=lambda need: need.source != "example")
        for need in needs:
            for _ in range(_TRIES):
                text = rng.choice(self.phrases.easy).format(do=self._clause(anchor, need, rng))
                yield Draft(text, (anchor,), f"single/{need.source}")

    def _medium(self, anchor: int, rng: random.Random) -> Iterator[Draft]:
        """A need that two or three tools meet, or two or three needs in one breath."""
        both = [self._ambiguous, self._combined]
        if rng.random() < 0.4:
            both.reverse()
        for drafts in both:
            yield from drafts(anchor, rng)

    def _ambiguous(self, anchor: int, rng: random.Random) -> Iterator[Draft]:
        """One need that exactly two or three tools meet, each by its own words."""
        low, high = GOLDS["medium"]
        for need in self.rivals.needs[anchor]:
            others = self.rivals.of(anchor, need)
            if low <= 1 + len(others) <= (high or 0) and all(self.rivals.meets(other, need) for other in others):
                for _ in range(_TRIES):
                    text = rng.choice(self.phrases.easy).format(do=self._clause(anchor, need, rng))
                    yield Draft(text, (anchor, *sorted(others)), "ambiguous")

    def _combined(self, anchor: int, rng: random.Random) -> Iterator[Draft]:
        """Two or three needs; an object that is named again becomes a pronoun."""
        for size in (2, 3) if rng.random() < 0.6 else (3, 2):
            for _ in range(_TRIES):
                chosen = self._chosen(anchor, size, rng)
                if chosen is None:
                    break
                rng.shuffle(chosen)
                texts = self._clauses(chosen, rng)
                frame = rng.choice(self.phrases.pair if size == 2 else self.phrases.triple)
                text = frame.format(**dict(zip("abc", texts, strict=False)))
                yield Draft(text, _golds(anchor, chosen), "pair" if size == 2 else "triple")

    def _hard(self, anchor: int, rng: random.Random) -> Iterator[Draft]:
        """A project: its goal in one sentence, then four to six needs."""
        for size in (rng.choice((4, 5, 6)), 5, 4):
            for _ in range(_TRIES):
                chosen = self._chosen(anchor, size, rng)
                if chosen is None:
                    break
                chosen.sort(key=lambda pair: pair[1].action not in _READS)  # first one looks, then one acts
                needs = [need for _, need in chosen]
                texts, half = self._clauses(chosen, rng), (size + 1) // 2
                goal = rng.choice(self.phrases.goals[_kind(needs)]).format(theme=self._theme(needs, rng))
                steps = rng.choice(self.phrases.steps).format(a=_joined(texts[:half]), b=_joined(texts[half:]))
                yield Draft(f"{goal} {steps}", _golds(anchor, chosen), f"project/{_kind(needs)}")

    def _chosen(self, anchor: int, size: int, rng: random.Random) -> list[tuple[int, Need]] | None:
        """The anchor and `size - 1` tools that are used together with it, each with a need that it alone meets."""
        if not self.clear(anchor):
            return None
        need = self.clear(anchor)[0]
        partners = self._partners(anchor, need)
        # A window of the nearest ones: another draw, another combination.
        window = partners[: max(size - 1, _PARTNERS)]
        chosen = [(anchor, need)]
        for partner in rng.sample(window, len(window)):
            other = self.clear(partner)[0]
            if len(chosen) < size and not any(_clash(other, had) for _, had in chosen):
                chosen.append((partner, other))
        return chosen if len(chosen) == size else None

    def _partners(self, anchor: int, need: Need) -> list[int]:
        """Tools to combine with, best first: people did so; else the same service, near documents, telling words."""
        scores = self.rivals.sharing(need, _COMMON)
        near = self.near.of(anchor, _NEAR) if self.near is not None else []
        for rank, tool in enumerate(near):
            scores[tool] = scores.get(tool, 0.0) + 2.0 * (1 - rank / _NEAR)
        scores.pop(anchor, None)
        if self.service is not None:
            own = self.service[anchor]
            scores = {tool: score + 3.0 * (self.service[tool] == own) for tool, score in scores.items()}
        scores |= {tool: 10.0 + scores.get(tool, 0) for tool in self.together.get(anchor, ())}
        order = sorted(scores, key=lambda tool: (-scores[tool], self.catalog.tools[tool].id))[:_LOOKED_AT]
        found: list[int] = []
        for tool in order:
            if self.clear(tool) and len(self.clear(tool)[0].thing.split()) <= 9:
                found.append(tool)
            if len(found) == _PARTNERS:
                break
        return found

    def _clause(self, tool: int, need: Need, rng: random.Random, pronoun: str = "") -> str:
        """What is wanted, its nouns called something else unless that would be another tool's."""
        said = replace(need, thing=swapped(need.thing, self.phrases, rng))
        if self.rivals.of(tool, said) - self.rivals.of(tool, need):
            said = need
        return clause(said, self.phrases, rng, pronoun)

    def _clauses(self, chosen: Sequence[tuple[int, Need]], rng: random.Random) -> list[str]:
        """A clause for each need; the object of the one before is "it" or "them"."""
        texts: list[str] = []
        before: Need | None = None
        for tool, need in chosen:
            is_same = before is not None and need.stems == before.stems and need.is_plural == before.is_plural
            texts.append(self._clause(tool, need, rng, ("them" if need.is_plural else "it") if is_same else ""))
            before = need
        return texts

    def _theme(self, needs: Sequence[Need], rng: random.Random) -> str:
        """A noun that at least half of the needs share, else something general."""
        counts = Counter(word for need in needs for word in sorted(need.stems))
        heads = {stem(head_of(need.thing).lower()): need for need in needs if head_of(need.thing)}
        shared = [w for w in counts if 2 * counts[w] >= len(needs) and w in heads and w not in _THIN and w.isalpha()]
        if not shared:
            return rng.choice(self.phrases.themes)
        noun = max(shared, key=lambda w: (counts[w], w))
        said = next(head_of(need.thing) for need in needs if stem(head_of(need.thing).lower()) == noun)
        is_one = re.search(rf"\b(?:a|an|the)\s+(?:\S+\s+)*{re.escape(said)}\b", heads[noun].thing) is not None
        return f"our {plural(said) if is_one and not heads[noun].is_plural else said}"


def _golds(anchor: int, chosen: Sequence[tuple[int, Need]]) -> tuple[int, ...]:
    """The anchor first."""
    return (anchor, *(tool for tool, _ in chosen if tool != anchor))


def _clash(one: Need, other: Need) -> bool:
    """Whether nobody would ask for both at once: opposite actions on the same thing, or all but the same need."""
    if frozenset((one.action, other.action)) in _OPPOSITES and one.stems & other.stems:
        return True
    return one.action == other.action and (one.stems <= other.stems or other.stems <= one.stems)


def _kind(needs: Sequence[Need]) -> str:
    """What sort of project needs all this."""
    actions = [need.action for need in needs]
    if all(action in _READS for action in actions):
        return "read"
    if 2 * sum(action in _NEW for action in actions) > len(actions) and not any(action in _END for action in actions):
        return "new"
    return "end" if 2 * sum(action in _END for action in actions) > len(actions) else "mixed"


def _joined(texts: Sequence[str]) -> str:
    """a, b and c."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
