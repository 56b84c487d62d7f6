"""How people put a need into words: verbs, nouns and sentences, in two halves that share none of them.

Requests of the benchmark are made from one half and requests for training from the other, so that a model that learnt
from the latter has met no phrase of the former. All phrases are our own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

Half = Literal["benchmark", "training"]
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_SLOT = re.compile(r"\{\w+\}")

_VERBS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "create": (
        "create make build define provision establish initialize open construct setup introduce",
        ("set up {o}", "get {o} in place"),
        ("spin up {o}", "stand up {o}"),
    ),
    "generate": ("generate produce compose draft write design", ("come up with {o}",), ("churn out {o}",)),
    "add": ("add append insert include", ("bring in {o}", "put in {o}"), ("throw in {o}", "slot in {o}")),
    "delete": (
        "delete remove purge erase drop clear discard",
        ("get rid of {o}", "do away with {o}"),
        ("wipe out {o}", "throw away {o}"),
    ),
    "list": (
        "list enumerate browse",
        ("see {o} at a glance", "look through {o}", "go over {o}"),
        ("pull up {o}", "run down {o}"),
    ),
    "get": (
        "get describe retrieve return offer fetch obtain view show display read access provide give load inspect "
        "present receive report tell lookup",
        ("find out about {o}", "look up {o}", "take a look at {o}"),
        ("dig up {o}", "learn about {o}", "bring up {o}"),
    ),
    "search": ("search find query locate discover explore", ("look for {o}",), ("hunt for {o}", "track down {o}")),
    "update": (
        "update modify change edit adjust alter customize",
        ("make changes to {o}", "have {o} changed"),
        ("tweak {o}", "revise {o}"),
    ),
    "put": ("put set specify configure", ("put {o} the way we want", "decide on {o}"), ("lay down {o}",)),
    "replace": ("replace swap overwrite", ("put something else in place of {o}",), ("switch out {o}",)),
    "start": (
        "start begin initiate run launch execute",
        ("kick off {o}", "get {o} going"),
        ("set {o} in motion", "fire up {o}"),
    ),
    "stop": ("stop terminate end abort halt", ("put a stop to {o}",), ("shut down {o}", "pull the plug on {o}")),
    "cancel": ("cancel withdraw", ("call off {o}",), ("back out of {o}",)),
    "pause": ("pause suspend freeze", ("put {o} on hold",), ("hold off {o}",)),
    "resume": ("resume continue", ("carry on with {o}",), ("pick {o} up again",)),
    "restart": ("restart reboot reload", ("bounce {o}",), ("power cycle {o}",)),
    "attach": (
        "associate attach link connect join bind pair map assign",
        ("tie {o}", "hook {o}"),
        ("couple {o}", "wire {o}"),
    ),
    "detach": (
        "disassociate detach unlink disconnect unassign unbind dissociate",
        ("separate {o}", "unhook {o}"),
        ("decouple {o}", "pry loose {o}"),
    ),
    "enable": ("enable activate", ("switch on {o}",), ("turn on {o}",)),
    "disable": ("disable deactivate", ("switch off {o}",), ("turn off {o}",)),
    "register": ("register enroll subscribe", ("sign up {o}",), ("put {o} on the books",)),
    "deregister": ("deregister unregister unsubscribe", ("take {o} off our books",), ("sign {o} off for good",)),
    "send": (
        "send publish post submit deliver notify forward",
        ("pass along {o}", "hand in {o}"),
        ("ship off {o}", "fire off {o}"),
    ),
    "import": ("import ingest upload", ("carry in {o}",), ("haul in {o}",)),
    "export": ("export download scrape save extract dump", ("take out a copy of {o}",), ("spit out {o}",)),
    "restore": ("restore recover", ("bring back {o}",), ("win back {o}",)),
    "accept": ("accept approve confirm acknowledge", ("say yes to {o}",), ("give the nod to {o}",)),
    "reject": ("reject decline deny", ("say no to {o}", "turn down {o}"), ("knock back {o}",)),
    "reset": ("reset", ("put {o} back to how it was",), ("take {o} back to square one",)),
    "copy": ("copy clone replicate duplicate", ("make a second one of {o}",), ("make a twin of {o}",)),
    "check": (
        "check test validate verify scan evaluate assess determine diagnose",
        ("make sure of {o}", "double-check {o}"),
        ("vet {o}", "take stock of {o}"),
    ),
    "grant": ("grant authorize allow permit", ("give the go-ahead for {o}",), ("open the door to {o}",)),
    "revoke": ("revoke", ("take back {o}",), ("undo the granting of {o}",)),
    "invoke": ("invoke call trigger", ("set off {o}",), ("poke {o}",)),
    "detect": ("detect recognize identify", ("spot {o}",), ("sniff out {o}",)),
    "analyze": ("analyze analyse examine study", ("make sense of {o}",), ("break down {o}",)),
    "summarize": ("summarize summarise", ("boil down {o}",), ("give the gist of {o}",)),
    "calculate": ("calculate compute estimate measure count", ("work out {o}",), ("figure out {o}",)),
    "predict": ("predict forecast", ("see ahead of time {o}",), ("foretell {o}",)),
    "convert": ("convert transform translate", ("go from {o}",), ("morph {o}",)),
    "transform": ("", ("get {o} into another form",), ("recast {o}",)),
    "whether": ("", ("find out {o}",), ("get to know {o}",)),
    "purchase": ("purchase buy order book reserve", ("get hold of {o}",), ("snap up {o}",)),
    "allocate": ("allocate request", ("get our hands on {o}",), ("ask for {o}",)),
    "release": ("release", ("give up {o}",), ("let go of {o}",)),
    "move": ("move transfer migrate shift", ("carry over {o}",), ("relocate {o}",)),
    "merge": ("merge combine", ("bring together {o}",), ("roll into one {o}",)),
    "split": ("split divide", ("break into pieces {o}",), ("carve up {o}",)),
    "rotate": ("rotate renew refresh", ("get a fresh version of {o}",), ("freshen up {o}",)),
    "monitor": ("monitor track watch trace", ("keep an eye on {o}",), ("keep tabs on {o}",)),
    "schedule": ("schedule plan", ("find a time slot for {o}",), ("pencil in {o}",)),
    "record": ("record log store", ("make a note of {o}",), ("jot down {o}",)),
    "perform": ("perform conduct carry complete finish", ("get {o} done",), ("see through {o}",)),
    "manage": ("manage handle organize maintain control", ("take care of {o}",), ("look after {o}",)),
    "apply": ("apply enforce", ("put to use {o}",), ("bring to bear {o}",)),
    "upgrade": (
        "upgrade improve enhance optimize extend boost",
        ("move up to something better for {o}",),
        ("beef up {o}",),
    ),
    "lock": ("lock protect secure encrypt", ("keep others away from {o}",), ("shield {o}",)),
    "share": ("share", ("let others have {o}",), ("pass around {o}",)),
    "compare": ("compare contrast", ("see the differences between {o}",), ("hold side by side {o}",)),
    "recommend": ("recommend suggest", ("get some ideas for {o}",), ("get a tip on {o}",)),
    "play": ("play", ("have some fun with {o}",), ("enjoy {o}",)),
    "archive": ("archive", ("put {o} into the vault",), ("stow away {o}",)),
    "promote": ("promote advertise", ("make more of {o}",), ("push up {o}",)),
    "place": ("place", ("go ahead with {o}",), ("get {o} placed",)),
    "tag": ("tag label annotate", ("put labels on {o}",), ("stick markers on {o}",)),
    "untag": ("untag", ("peel the labels off {o}",), ("strip the markers from {o}",)),
    "use": ("", ("make use of {o}",), ("put {o} to work",)),
    "simulate": ("simulate", ("act out {o}",), ("mimic {o}",)),
}
"""Action -> verbs of names and descriptions; what the benchmark says; what training says."""

_NOUNS: dict[str, tuple[str, str]] = {
    "configuration": ("settings", "setup"),
    "attribute": ("property", "trait"),
    "tag": ("label", "marker"),
    "permission": ("access right", "clearance"),
    "status": ("current state", "standing"),
    "metric": ("measurement", "meter reading"),
    "metadata": ("background data", "descriptive data"),
    "ami": ("machine image", "server image"),
    "instance": ("machine", "compute box"),
    "ec2 instance": ("virtual machine", "virtual server"),
    "instance type": ("machine size", "server flavor"),
    "vpc": ("private network", "virtual network"),
    "subnet": ("network segment", "address block"),
    "network acl": ("subnet firewall", "subnet packet filter"),
    "security group": ("instance firewall", "instance packet filter"),
    "load balancer": ("traffic balancer", "traffic spreader"),
    "ebs volume": ("block disk", "mounted drive"),
    "volume": ("disk", "storage drive"),
    "hosted zone": ("dns zone", "zone of domain records"),
    "health check": ("liveness probe", "heartbeat probe"),
    "launch template": ("server blueprint", "server recipe"),
    "launch configuration": ("startup settings", "boot options"),
    "template": ("blueprint", "boilerplate"),
    "auto scaling group": ("self-sizing server fleet", "self-adjusting server pool"),
    "target group": ("backend pool", "backend set"),
    "route table": ("routing plan", "routing map"),
    "customer gateway": ("on-premises router", "office-side box"),
    "gateway": ("router", "traffic gate"),
    "network interface": ("network card", "network adapter"),
    "virtual interface": ("logical port", "logical circuit"),
    "elastic ip address": ("fixed public IP", "static public IP"),
    "peering connection": ("peer link", "peer line"),
    "connection": ("hookup", "line in"),
    "listener": ("port watcher", "port handler"),
    "accelerator": ("traffic booster", "speed-up layer"),
    "endpoint": ("connection point", "url to reach"),
    "reservation": ("booking", "advance hold"),
    "snapshot": ("point-in-time copy", "frozen copy"),
    "screenshot": ("screen capture", "screen grab"),
    "bucket": ("storage container", "storage bin"),
    "policy": ("rulebook", "set of ground rules"),
    "version": ("release", "edition"),
    "association": ("pairing", "linkage"),
    "device": ("appliance", "gadget"),
    "application": ("program", "software product"),
    "api key": ("access token", "caller key"),
    "repository": ("repo", "code store"),
    "certificate": ("cert", "digital seal"),
    "server": ("host machine", "backend computer"),
    "notification": ("alert", "heads-up"),
    "deployment": ("rollout", "shipment to production"),
    "report": ("write-up", "printout"),
    "dataset": ("data collection", "body of data"),
    "document": ("paper", "piece of paperwork"),
    "recommendation": ("suggestion", "piece of advice"),
    "pipeline": ("processing chain", "conveyor line"),
    "database": ("data store", "db system"),
    "log": ("activity trail", "activity journal"),
    "provider": ("vendor", "supplier"),
    "bot": ("chat assistant", "chat robot"),
    "queue": ("waiting line", "backlog line"),
    "member": ("participant", "belonging party"),
    "credential": ("login", "sign-in secret"),
    "summary": ("overview", "digest"),
    "package": ("bundle", "software parcel"),
    "schema": ("data layout", "field structure"),
    "storage": ("disk space", "room for data"),
    "record": ("entry", "data row"),
    "location": ("place", "locale"),
    "finding": ("discovered problem", "reported issue"),
    "limit": ("ceiling", "upper bound"),
    "quota": ("ceiling", "upper bound"),
    "backup": ("safety copy", "spare copy"),
    "usage": ("consumption", "use figures"),
    "schedule": ("timetable", "time plan"),
    "campaign": ("outreach effort", "marketing push"),
    "license": ("usage permit", "software permit"),
    "picture": ("photo", "visual"),
    "photo": ("picture", "visual"),
    "movie": ("film", "feature flick"),
    "price": ("cost", "price tag"),
    "company": ("business", "firm"),
    "restaurant": ("eatery", "diner"),
    "hotel": ("inn", "lodging"),
    "song": ("piece of music", "tune"),
    "article": ("write-up", "news piece"),
    "email": ("e-mail", "mail message"),
    "website": ("site", "web presence"),
    "employee": ("staff member", "worker bee"),
    "customer": ("client", "shopper"),
    "recipe": ("dish", "cooking guide"),
    "video": ("clip", "footage"),
    "stock": ("equity", "company share"),
    "country": ("nation", "land of origin"),
    "weather": ("outdoor conditions", "sky conditions"),
    "city": ("town", "municipality"),
    "player": ("athlete", "competitor"),
    "cryptocurrency": ("crypto coin", "digital coin"),
    "vehicle": ("automobile", "set of wheels"),
    "airport": ("airfield", "flight hub"),
    "forecast": ("outlook", "look ahead"),
    "team": ("squad", "sports side"),
    "statistic": ("stat", "tallied number"),
    "joke": ("gag", "funny line"),
    "keyword": ("search term", "search word"),
    "username": ("account handle", "nickname"),
    "comment": ("remark", "written reply"),
    "news": ("headlines", "current affairs"),
    "animal": ("creature", "critter"),
    "law": ("legislation", "statute"),
    "score": ("tally", "points total"),
    "student": ("pupil", "learner"),
    "medication": ("medicine", "prescribed drug"),
    "disease": ("illness", "sickness"),
    "flight": ("plane trip", "air journey"),
}
"""Term -> what the benchmark calls it; what training calls it. Plurals follow from `plural`."""
_MASS = frozenset(
    (
        "settings", "setup", "metadata", "background data", "descriptive data", "status", "disk space", "storage",
        "room for data", "consumption", "use figures", "usage", "weather", "outdoor conditions", "sky conditions",
        "headlines", "current affairs", "news", "legislation", "footage", "startup settings", "boot options",
    )
)  # fmt: skip
"""Nouns without a plural of their own."""

_EASY: Mapping[Half, tuple[str, ...]] = {
    "benchmark": (
        "I need to {do}.",
        "We have to {do}.",
        "How do I {do}?",
        "Is there a way to {do}?",
        "I'm trying to {do}.",
        "Someone asked me to {do}.",
        "What would it take to {do}?",
        "I was told to {do} today.",
    ),
    "training": (
        "Please {do}.",
        "Can you {do}?",
        "I'd like to {do}.",
        "Let's {do}.",
        "Our team wants to {do}.",
        "It's time to {do}.",
        "My task is to {do}.",
        "Help us {do}, thanks.",
    ),
}
_PAIR = (
    "I need to {a} and {b}.",
    "How do I {a} and then {b}?",
    "We have to {a}, and after that {b}.",
    "I'm trying to {a} and to {b}.",
    "Is there a way to {a} and also {b}?",
)
_TRIPLE = (
    "I need to {a}, {b} and {c}.",
    "How do I {a}, then {b} and finally {c}?",
    "We have to {a}, {b}, and after that {c}.",
)
_GOALS: Mapping[str, tuple[str, ...]] = {
    "read": (
        "I'm getting ready for a review of {theme}.",
        "The auditors have questions on {theme}.",
        "I'm writing a report on {theme}.",
    ),
    "new": ("We're building something new with {theme}.", "We're preparing a launch that depends on {theme}."),
    "end": ("We're cleaning up what is left of {theme}.", "We're winding down an old project with {theme}."),
    "mixed": (
        "We're reworking how we deal with {theme}.",
        "A colleague left and I now own {theme}.",
        "We have a migration ahead that touches {theme}.",
    ),
}
_STEPS = (
    "First I need to {a}. After that I have to {b}.",
    "For this I have to {a}, and I also need to {b}.",
    "To begin with, how do I {a}? Once that's done I need to {b}.",
)
_THEMES = ("the way things are run here", "this project", "the product")


@dataclass(frozen=True)
class Frames:
    """One half of the phrase bank.

    Args:
        half: "benchmark" or "training".
        verbs: action -> phrases with the slot {o}.
        nouns: lower-case term -> what it is called instead.
        easy: sentences with the slot {do}.
        pair: sentences with the slots {a} {b}; () in training, which asks for one tool at a time.
        triple: sentences with the slots {a} {b} {c}.
        goals: kind of project -> sentences with the slot {theme}.
        steps: sentences with the slots {a} {b}, each for several needs.
        themes: what a goal speaks of where the needs share no noun.
    """

    half: Half
    verbs: Mapping[str, tuple[str, ...]]
    nouns: Mapping[str, str]
    easy: tuple[str, ...]
    pair: tuple[str, ...] = ()
    triple: tuple[str, ...] = ()
    goals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    themes: tuple[str, ...] = ()

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """Every verb phrase, noun and sentence of this half, slots included."""
        verbs = [phrase for phrases in self.verbs.values() for phrase in phrases]
        goals = [goal for some in self.goals.values() for goal in some]
        return (*verbs, *self.nouns.values(), *self.easy, *self.pair, *self.triple, *goals, *self.steps)

    @cached_property
    def _by_word(self) -> Mapping[str, tuple[re.Pattern[str], ...]]:
        """First word of a phrase -> patterns of the phrases that start with it, over `plain` text."""
        found: dict[str, list[re.Pattern[str]]] = {}
        for phrase in self.phrases:
            finder = _finder(phrase)
            found.setdefault(finder.split()[0], []).append(re.compile(finder))
        return {word: tuple(patterns) for word, patterns in found.items()}

    @cached_property
    def terms(self) -> re.Pattern[str]:
        """Finds any noun that has another name, the longest first."""
        longest_first = sorted(self.nouns, key=lambda term: (-len(term), term))
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)

    def occurs(self, text: str) -> bool:
        """Whether a text holds any phrase of this half, whatever fills the slots."""
        words = plain(text)
        return any(pattern.search(words) for word in words.split() for pattern in self._by_word.get(word, ()))


def frames(half: Half) -> Frames:
    """One half of the phrase bank; no phrase is in both."""
    if half == "training":
        return _TRAINING
    return _BENCHMARK


@lru_cache(maxsize=1 << 16)
def action_of(verb: str) -> str | None:
    """The action that a verb names in any of its forms ("lists", "copied", "getting"); None for other words."""
    word = verb.lower()
    return next((_LEMMAS[form] for form in _forms(word) if form in _LEMMAS), None)


def is_base_form(verb: str) -> bool:
    """Whether a word is a verb of the table as it stands, without an ending."""
    return verb.lower() in _LEMMAS


def plural(noun: str) -> str:
    """An English plural by its ending; of "place to stay", the place's."""
    head, link, tail = noun.partition(next((word for word in (" to ", " of ", " in", " under ") if word in noun), "\0"))
    if link:
        return f"{plural(head)}{link}{tail}"
    if noun in _MASS:
        return noun
    if noun.endswith(("ss", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("s"):
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def plain(text: str) -> str:
    """Lower-case words with one space around each: what phrases are looked up in."""
    return f" {' '.join(_WORD.findall(text.lower().replace('-', ' ')))} "


def _finder(phrase: str) -> str:
    """The fixed parts of a phrase, in order, as a regular expression over `plain` text."""
    parts = [plain(part).strip() for part in _SLOT.split(phrase)]
    return ".*".join(f" {part} " for part in parts if part).replace(" .* ", " (?:.* )?")


def _forms(word: str) -> list[str]:
    """A word and what it may be an inflection of."""
    forms = [word]
    for ending, others in (
        ("ies", ("y",)),
        ("es", ("", "e")),
        ("s", ("",)),
        ("ied", ("y",)),
        ("ed", ("", "e")),
        ("ing", ("", "e")),
    ):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            stem = word[: -len(ending)]
            forms += [stem + other for other in others]
            if ending in ("ed", "ing") and stem[-1:] == stem[-2:-1]:  # getting, planned
                forms.append(stem[:-1])
    return forms


_LEMMAS = {lemma: action for action, (lemmas, _, _) in _VERBS.items() for lemma in lemmas.split()}
_ALL_NOUNS = _NOUNS | {
    plural(term): (plural(ours), plural(theirs)) for term, (ours, theirs) in _NOUNS.items() if term not in _MASS
}
_BENCHMARK = Frames(
    "benchmark",
    {action: ours for action, (_, ours, _) in _VERBS.items()},
    {term: ours for term, (ours, _) in _ALL_NOUNS.items()},
    _EASY["benchmark"],
    _PAIR,
    _TRIPLE,
    _GOALS,
    _STEPS,
    _THEMES,
)
_TRAINING = Frames(
    "training",
    {action: theirs for action, (_, _, theirs) in _VERBS.items()},
    {term: theirs for term, (_, theirs) in _ALL_NOUNS.items()},
    _EASY["training"],
)
