"""What something is done to, read from documentation and said as a person says it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolsavvy.catalog import split_words
from toolsavvy.generators.toolsense.phrasing import action_of

MOST_WORDS = 12
"""Of an object: longer ones are documentation, not speech."""


def word_set(text: str) -> frozenset[str]:
    """A set of words written as a line."""
    return frozenset(text.split())


ASIDE = re.compile(r"\s*\([^()]*\)|\s*\[[^\]]*\]|[`\"“”]|\*\*")
_FAR = re.compile(
    r"(?:,|\s+-|\s+\u2013|\s+\b(?:which|so that|in order|when|if|where|while|because|as well as|including"
    r"|such as|after|"
    r"before|until|without|unless|right away|or all|or an? list|along with|together with|"
    r"though|whether|however|and then|and optionally|"
    r"to help|to (?:see|view|use|allow|enable|prevent|include)|that (?:you|is|are|was|were|can|match|matches|has|have|"
    r"contains?|meets?)|(?:and|or) \w+s (?:the|a|an|it|its|their|them)|(?:that )?you)\b).*$",
    re.IGNORECASE | re.DOTALL,
)
_NEAR = re.compile(
    r"\s+\b(?:that|using|by|based on|under|across|within|(?:associated|specified|identified|available|created|owned|"
    r"managed|defined|linked) (?:by|with|in|for|to|from|as)|currently|via|per|during|as|over|passing|according)\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_VAGUE = re.compile(
    r"^(?:(?:all|any|some|more|detailed|complete|full|current|basic|general|additional|summary|usage|the|a|an)\s+)*"
    r"(?:(?:sorts?|kinds?) of\s+)?(?:information|details?|info|metadata|description|properties|data)"
    r"\s+(?:about|on|of|for|regarding|describing)\s+"
    r"|^access to\s+",
    re.IGNORECASE,
)
LISTING = re.compile(
    r"^(?:(?:the|a|an|your|full|complete|paginated)\s+)*(?:list|array|collection|set"
    r"|page)(?:ing)?\s+(?:of|containing)\s+"
    r"|^(?:all|every|each)\s+(?:of\s+)?|^one or more(?:\s+of)?\s+|^multiple\s+",
    re.IGNORECASE,
)
_POINTING = re.compile(
    r"\b(?:specified|given|provided|requested|supplied|indicated|designated|desired|corresponding|particular|existing|"
    r"specific|certain|individual|single|new|respective)\s+",
    re.IGNORECASE,
)
_BRAND = re.compile(r"\b(?:Amazon Web Services|Amazon|AWS)(?:'s)?\s+(?=\S)")
_SPEAKER = (
    (re.compile(r"\byour\b", re.IGNORECASE), "our"),
    (re.compile(r"\byou\b", re.IGNORECASE), "we"),
    (re.compile(r"\bone or more(?: of)?\b", re.IGNORECASE), "some of"),
    (re.compile(r"\bsome of (?!the\b|our\b|its\b)", re.IGNORECASE), "some "),
    (re.compile(r"\bthe the\b", re.IGNORECASE), "the"),
)
ARTICLE = re.compile(r"\b(an?)\s+(\w+)", re.IGNORECASE)
CODE = re.compile(r"[{}<>=_|\\/#$@~^]|\w\(|https?:|\.\w|&&|[^\x00-\x7f]|\b[a-z]+[A-Z]\w*")
CAMEL = re.compile(r"\b[A-Z][a-z]+[A-Z]\w*")
_FOREIGN = re.compile(r"\b(?:de|la|el|los|las|por|para|uma?|os|das?|dos|di|il|der|die|und|les|des|le|du|et)\b")
_SPOKEN_ACRONYMS = frozenset(
    ("NAT", "LAG", "LAN", "SAN", "NAS", "RAM", "ROM", "MAC", "SIM", "REST", "FAQ", "RAID", "MIDI")
)
_BARE_START = re.compile(
    r"^(?:to|of|with|from|into|in|on|by|at|as|and|or|if|is|are|be|whether|how|that|when|not|only|up|out)\b",
    re.IGNORECASE,
)
_DANGLING = re.compile(
    r"(?:\s+(?:the|a|an|of|for|to|in|on|with|from|by|and|or|at|as|is|are|that|this|these|into|our|its|all|any|some))+$",
    re.IGNORECASE,
)
_STOP = word_set(
    "a an the of for to in on with from by and or at as is are that this these those our my we its it all any some one "
    "into about their them you your be can which each other than more most new current associated related based "
    "such not no specified given"
)
HEAD_END = re.compile(
    r"\s+(?:\w{3,}ed (?:by|with|in|for|to|from|as|on)|of|for|in|on|with|from|to|that|at|under|between|by|about|within|"
    r"across|per|as)\s+"
)
TERM = re.compile(r"[A-Za-z0-9][\w'-]*")


def head_of(thing: str) -> str:
    """The last word before the first preposition: the noun that everything else is about."""
    words = HEAD_END.split(thing)[0].split()
    return words[-1] if words else ""


def stems(text: str) -> frozenset[str]:
    """Content words without plural endings; names of code are split."""
    words = (word for term in TERM.findall(text) for word in split_words(term).split())
    return frozenset(stem(word) for word in words if word not in _STOP)


def stem(word: str) -> str:
    """A word without a plural ending; nothing else is cut, since endings of names carry meaning."""
    word = word.removesuffix("'s").strip("'")
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def things(text: str) -> Iterator[str]:
    """An object of a verb as a person says it: cut short, then in full; nothing where it is code or too long."""
    text = ASIDE.sub("", text)
    far = _FAR.sub("", text)
    for cut in (_NEAR.sub("", far), far):
        thing = spoken(cut)
        is_adjective = text[len(cut) : len(cut) + 1] == "," and len(stems(thing)) < 2 and not thing.endswith("s")
        if thing and not is_adjective and len(thing.split()) <= MOST_WORDS:
            yield thing


def spoken(text: str) -> str:
    """A noun phrase without documentation's pointing words; "" where it isn't one."""
    thing = _BRAND.sub("", " ".join(text.split()).strip(" ,.'"))
    while (cut := LISTING.sub("", _VAGUE.sub("", thing))) != thing:
        thing = cut
    thing = re.sub(r"^for\s+", "", _POINTING.sub("", thing))
    thing = said(thing)
    thing = _DANGLING.sub("", ARTICLE.sub(article, thing)).strip(" ,.'-")
    is_call = any(action_of(split_words(word).split()[0]) for word in CAMEL.findall(thing))
    if not thing or is_call or CODE.search(thing) or _FOREIGN.search(thing) or _BARE_START.match(thing):
        return ""
    return _lowered(thing)


def said(text: str) -> str:
    """From the speaker's side: what is yours in the documentation is ours, and nothing is pointed at."""
    for pattern, said in _SPEAKER:
        text = pattern.sub(said, text)
    return with_articles(_BRAND.sub("", _POINTING.sub("", text)))


def with_articles(text: str) -> str:
    """Every a and an as the next word wants it."""
    return ARTICLE.sub(article, text)


def article(match: re.Match[str]) -> str:
    """A or an, by the word that now follows it."""
    word = match[2]
    if word.isupper() and len(word) > 1 and word not in _SPOKEN_ACRONYMS:
        vowel = word[0] in "AEFHILMNORSX"
    else:
        vowel = word[0].lower() in "aeiou" and not re.match(r"(?:uni|use|usa|eu|one|ut)", word.lower())
    return f"{'an' if vowel else 'a'} {word}"


def _lowered(thing: str) -> str:
    """Without the capitals of a title or of a sentence's start; acronyms and names within a sentence keep theirs."""
    words = thing.split()
    is_title = sum(word[:1].isupper() for word in words) > len(words) / 2
    return " ".join(
        word.lower() if (is_title or i == 0) and word[:1].isupper() and word[1:].islower() else word
        for i, word in enumerate(words)
    ).replace(" i ", " I ")
