"""What a tool is good for, read from its description or name: an action and its object, in a person's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from toolsavvy.catalog import Tool, split_words
from toolsavvy.generators.toolsense.objects import (
    ARTICLE,
    ASIDE,
    CAMEL,
    CODE,
    HEAD_END,
    LISTING,
    MOST_WORDS,
    TERM,
    article,
    head_of,
    said,
    spoken,
    stems,
    things,
    word_set,
)
from toolsavvy.generators.toolsense.phrasing import action_of, is_base_form

Source = str


_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!U\.S)(?<!etc)[.!?:;](?=\s|$)|\n")
_LABEL = re.compile(r"^(?:\[[^\]]*\]|\([^)]*\)|deprecated\b|note\b|#+|[-*•\u2013])[\s:.,-]*", re.IGNORECASE)
_LEAD = re.compile(
    r"^(?:(?:this|the following|the)\s+(?:\w+\s+)?"
    r"(?:operation|action|api|endpoint|method|tool|function|request|call|command|example|service|plugin|route)s?\s+"
    r"(?:(?:will|can|is|are|may|does|used|be|that|simply|also)\s+)*(?:to\s+|for\s+)?"
    r"|(?:please\s+)?use\s+(?:it|this|the|our)\s*(?:\w+\s+){0,2}?(?:to|for)\s+|used\s+(?:to|for)\s+"
    r"|(?:it\s+)?(?:allows?|enables?|lets?|helps?)\s+(?:for\s+)?(?:you|users?|the user|a user|us)?\s*(?:to\s+)?"
    r"|(?:an?\s+)?(?:\w+\s+)?(?:tool|platform|plugin|service|app|api)\s+(?:that|which|to|for)\s+(?:can\s+)?"
    r"|[A-Z][\w.]*\s+(?=(?:provides|returns|gives|offers|lets|allows|helps|generates|converts|retrieves|finds)\b)"
    r"|you\s+can\s+(?:now\s+)?|(?:the\s+)?ability\s+to\s+|to\s+|for\s+)",
    re.IGNORECASE,
)
_SECOND_VERB = re.compile(r"^(?:,\s*(?:and|or|&)?|(?:and|or|&)(?:/or)?)\s*(\w+)(?=[\s,])\s*", re.IGNORECASE)
_AND = re.compile(r"\s+(?:and|or|&)\s+(\w+)\s", re.IGNORECASE)
_PREPOSITION = re.compile(r"(?:of|for|in|on|with|from|to|that|at|between|by|about|and|or)\b", re.IGNORECASE)
_IDENTIFIER = re.compile(r"\w-\w+-\w|\d{2}|\w\d+\w")
_WHETHER = re.compile(r"^(?:whether|if|that)\s+", re.IGNORECASE)
HOLLOW = word_set(
    "list information info detail data result request resource object item name value tool platform plugin api "
    "service app operation action response content parameter option type user everything anything something"
)
"""Alone, these say nothing of what is wanted."""
_MACHINES = re.compile(
    r"(?:tool|platform|assistant|engine|game|bot|chatbot|app|coach|library|solution|system|software|simulator|checker|"
    r"\w{3,}(?:tor|ner|zer|ter|lder|rver|icer|pper|ader))\b",
    re.IGNORECASE,
)
_IMPERATIVES = word_set(
    "ask stay form go become boost elevate unleash expand interact chat meet enter type sign join let take keep try "
    "guess roll shape turn speak talk learn practice engage experience empower push pull invite master simplify "
    "streamline automate accelerate supercharge unlock navigate brought powered based goodbye hello welcome assist "
    "expands offers offer utilize utilizes when while if where how what why just simply discover making makes"
)
_CLAUSE = re.compile(
    r"^\w+\s+(?:a|an|the|our|my|its|with|beyond|into|to|you|we|us)\b|\b(?:and|or) (?:get|see|use)\b"
    r"|^(?:it|this|that|using|look|with|by|from|here|there|powered|don't|in|on|at|of)\b"
    r"|^[a-z]+[^su]s\s+(?!of|for|in|on|with|from|about|and|or|by|to|at)|\bend point\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Need:
    """What a person who needs a tool wants done.

    Args:
        action: key of the verbs' table.
        thing: what it is done to, as it stands in a sentence.
        source: description, name, or example.
    """

    action: str
    thing: str
    source: Source = "description"

    @property
    def stems(self) -> frozenset[str]:
        """The words that tell the object, without endings."""
        return stems(self.thing)

    @property
    def is_plural(self) -> bool:
        """Whether it is done to several things."""
        last = head_of(self.thing).lower()
        return last.endswith("s") and not last.endswith(("ss", "us", "is")) and last not in ("news", "status")


def needs_of(tool: Tool) -> tuple[Need, ...]:
    """Ways to say what the tool is for, the plainest first; () where neither description nor name tells it."""
    number, named = number_of(tool), action_of(split_words(tool.name).split(" ", 1)[0])
    kept: dict[tuple[str, frozenset[str]], Need] = {}
    described = list(_described(tool))
    if described and named in {need.action for need in described} | {None}:
        described += _named(tool)
    for need in described or _named(tool):
        action = number if number and need.action in ("get", "list") else need.action
        if need.stems - HOLLOW and not (need.source == "title" and kept):
            kept.setdefault((action, need.stems), replace(need, action=action))
    return tuple(kept.values())


def number_of(tool: Tool) -> str | None:
    """Whether a tool that looks things up is for one thing ("get") or several ("list"), as far as its name says it."""
    verb, _, rest = split_words(tool.name).partition(" ")
    if action_of(verb) not in ("get", "list") or not rest:
        return None
    return "list" if action_of(verb) == "list" or Need("get", rest).is_plural else "get"


def actions_of(tool: Tool) -> frozenset[str]:
    """Every action that the tool's name or first sentence speaks of; empty where they speak of none."""
    first = split_words(tool.name).split()[:1]
    verbs = [*first, *(leading_verb(sentence) for sentence in sentences(tool.description, 1))]
    found = frozenset(action for verb in verbs if verb and (action := action_of(verb)))
    number = number_of(tool)
    return frozenset(number if number and action in ("get", "list") else action for action in found)


def sentences(text: str, most: int = 2) -> list[str]:
    """The first sentences or lines of a description, without labels and marks."""
    found: list[str] = []
    for part in _SENTENCE.split(text[:600]):
        cleaned = _LABEL.sub("", " ".join(part.split())).strip(" ,-*")
        if cleaned:
            found.append(cleaned)
        if len(found) == most:
            break
    return found


def leading_verb(sentence: str) -> str:
    """The word that should be the verb of a documentation's sentence."""
    return _lead(sentence).split(" ", 1)[0].strip(",")


def _lead(sentence: str) -> str:
    """A sentence from its verb on."""
    rest = sentence
    for _ in range(3):
        cut = _LEAD.sub("", rest, count=1)
        cut = re.sub(r"^\w+ly\s+", "", cut)
        if cut == rest:
            break
        rest = cut
    return rest or sentence


def need_of_sentence(sentence: str, source: Source = "description") -> Iterator[Need]:
    """Needs that one sentence tells, shorter objects first."""
    verb, _, rest = _lead(sentence).partition(" ")
    action = action_of(verb.strip(","))
    if action is None or not rest:
        return
    rest = ("," if verb.endswith(",") else "") + " " + rest
    while match := _SECOND_VERB.match(rest.strip()):
        other = action_of(match[1])
        if other is None:
            break
        if action == "create" and other in ("update", "put", "replace"):
            action = "put"
        rest = rest.strip()[match.end() :]
    rest = re.sub(r"^(?:users?\s+with|(?:you|us|me)(?:\s+with)?)\s+", "", rest.strip(" ,"))
    if action == "check" and (asked := _WHETHER.match(rest)):
        rest = " ".join(ASIDE.sub("", rest[asked.end() :]).split())
        if 2 < len(rest.split()) <= MOST_WORDS and not CODE.search(rest):
            yield Need("whether", f"whether {said(rest)}", source)
        return
    if action == "search":
        rest = re.sub(r"^(?:(?:for|through|across|in|among|me)\s+)+", "", rest)
    for thing in things(_one_clause(rest)):
        if source == "example" and _IDENTIFIER.search(thing):
            continue
        yield Need(*_settled(action, thing, rest), source)


def _one_clause(text: str) -> str:
    """Without a second clause ("questions and calculate ...", "a share and grants access"); joined nouns stay."""
    for match in _AND.finditer(text):
        is_verb = match[1].endswith("s") and is_base_form(match[1][:-1]) and not _PREPOSITION.match(text, match.end())
        if is_base_form(match[1]) or is_verb:
            return text[: match.start()]
    return text


def _settled(action: str, thing: str, rest: str) -> tuple[str, str]:
    """The action once its object is known: looking at several things is listing them, at one thing is getting it."""
    if action in ("get", "list", "search"):
        several = bool(LISTING.match(rest.strip())) or Need(action, thing).is_plural
        action = "list" if several and action == "list" else "get" if action == "list" else action
        if several and action == "get":
            action = "list"
    if action == "convert" and not re.search(r"\b(?:to|into)\b", thing):
        action = "transform"
    if action == "attach":
        thing = re.sub(r"\bwith\b", "to", thing, count=1)
    return action, thing


def _described(tool: Tool) -> Iterator[Need]:
    """From the first sentence; from the second where it speaks of the name's action, or the first tells nothing."""
    text = tool.description
    if tool.group and not tool.group.islower():  # the provider's own name is no part of a need
        owner = re.escape(tool.group.strip())
        text = re.sub(rf"\s+(?:for|from|in|on|of|by|with|via|using|at)\s+(?:the\s+)?{owner}(?:\s+API)?\b", "", text)
    for product in CAMEL.findall(tool.category):
        text = re.sub(rf"\b{product}\s+(?=[A-Za-z])", "", text)
    found, named = sentences(text), action_of(split_words(tool.name).split(" ", 1)[0])
    first = [need for sentence in found[:1] for need in need_of_sentence(sentence)]
    yield from first
    for need in (need for sentence in found[1:] for need in need_of_sentence(sentence)):
        if need.action == named or (named is None and not first):
            yield need
    if found and named is None:
        yield from _titled(found[0])


def _titled(sentence: str) -> Iterator[Need]:
    """From a sentence that is a noun phrase: a machine is for use, anything else is looked up."""
    if action_of(leading_verb(sentence)) is not None or len(sentence.split()) < 2 or _CLAUSE.search(sentence):
        return
    if leading_verb(sentence).lower() in _IMPERATIVES:
        return
    for thing in things(_lead(sentence)):
        if re.search(
            r"\b(?:is|are|was|were|will|can|has|have|provides|offers|I|we|they|test|api|endpoint)\b",
            thing,
            re.IGNORECASE,
        ):
            continue
        head = HEAD_END.split(thing)[0]
        action = "use" if _MACHINES.search(head) else "list" if Need("get", thing).is_plural else "get"
        has_article = head.split()[0] in ("a", "an", "the", "our")
        yield Need(action, thing if has_article or action != "use" else spoken(f"a {thing}"), "title")


def _named(tool: Tool) -> Iterator[Need]:
    """From a name that starts with a verb; acronyms are spelled as in the description."""
    verb, _, rest = split_words(tool.name).partition(" ")
    action = action_of(verb)
    if action is None or re.search(r"[^\w ]", rest):
        return
    spelled = {word.lower(): word for word in TERM.findall(tool.description[:600]) if not word[1:].islower()}
    thing = spoken(" ".join(spelled.get(word, word) for word in rest.split()))
    thing = re.sub(r"^(?:an?|the)\s+", "", thing)
    if not thing or len(thing.split()) > MOST_WORDS or re.search(r"\b[b-z]\b", thing):
        return
    is_several = Need(action, thing).is_plural
    if not is_several:
        thing = ARTICLE.sub(article, f"a {thing}", count=1) if action not in ("get", "list") else f"the {thing}"
    elif action in ("get", "list"):
        thing = f"the {thing}"
    yield Need(*_settled(action, thing, rest), "name")


def fallback_need(tool: Tool) -> tuple[Need, ...]:
    """For a tool whose texts tell no action: something for its name, description or group; () without any words."""
    for text in (split_words(tool.name), tool.description, tool.group):
        words = " ".join(re.findall(r"[A-Za-z0-9]+", text)[:MOST_WORDS])
        if words:
            return (Need("use", f"something for {spoken(words) or words}", "fallback"),)
    return ()
