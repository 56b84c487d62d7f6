"""Human-written examples of the AWS CLI: titles and descriptions as queries, with the command's name masked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolsavvy.catalog import Tool, split_words

CLI_NAMES = {"s3": "s3api", "codedeploy": "deploy", "config": "configservice"}
"""Services that the command line calls by another name than their model's folder."""

_FILE = re.compile(r"(?:^|/)examples/([^/]+)/(?:(.+)/)?([^/]+)\.rst$")
_BOLD = re.compile(r"\s*\*\*(.+?)\*\*\s*$")
_NUMBERED_OUTSIDE = re.compile(r"\s*\*\*(Example \d+:?)\*\*:?\s*(.+)$")
_UNDERLINE = re.compile(r"([=\-~^\"'])\1{3,}\s*$")
_COUNTED = re.compile(r"^(?:(?:example|exemple|step)\s*#?\d*\s*(?:[:.]|-(?=\s))|\d+\.)\s*", re.IGNORECASE)
_NO_TITLE = re.compile(r"(?:(?:example|exemple)\s*\d*|title)$", re.IGNORECASE)
_COMMAND = re.compile(r"^\s*(?:\$\s*)?aws\s+(?:--\S+\s+\S+\s+)*([a-z0-9-]+)\s+([a-z0-9-]+)", re.MULTILINE)
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}")
_NAMED_LINK = re.compile(r"`([^`]+)`_{1,2}(?!\w)")
_LITERAL = re.compile(r"``\s*(.+?)\s*``")
_ROLE = re.compile(r":[a-z]+:`([^`]+)`")
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}(?=\S)(.+?)(?<=\S)\*{1,2}(?![\w*])")
_LABELS = re.compile(
    r"^\W*(?:command|output|input|note|important|warning|tip|request|response|examples?|syntax"
    r"|(?:linux|windows|unix|macos|mac|os x)(?:,? (?:and|or) (?:linux|unix|macos|mac|os x))?)\W*$",
    re.IGNORECASE,
)
_PLATFORM = re.compile(r"\s*(?:\((?:Linux|Windows)[^)]*\)\.?|(?<=\.) (?:Linux|Windows)(?: and macOS)?[.:]?)$")
_POINTERS = re.compile(r"^(?:for (?:more|additional|further) information|see also|\.\. )", re.IGNORECASE)
_NOUNS = r"(?:example|examples|command|commands|operation|operations|subcommand|action|API|call|calls)"
_TOKEN = re.compile(r"(?<![\w-])([A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*)(?![\w-])(?:(\.(?:json|ya?ml|txt)\b)|(?!\.\w))")
_NAME = r"['\"]?(?:\baws\s+(?:[a-z0-9-]+\s+)?)?\x02[^\x03]*\x03['\"]?"
_MARKED = re.compile(_NAME)
_QUALIFIED = re.compile(r"['\"]?\baws\s+(?:[a-z0-9-]+\s+)?\x02[^\x03]*\x03['\"]?")
_BEFORE_NOUN = re.compile(rf"{_NAME}\s+(?={_NOUNS}\b)", re.IGNORECASE)
_AFTER_ARTICLE = re.compile(rf"\b(following|the|this|these|an?)\s+{_NAME}", re.IGNORECASE)
_VERB_BEFORE_NOUN = re.compile(rf"\b(following|the|this)\s+{_NAME}\s+(?={_NOUNS}\b)", re.IGNORECASE)


@dataclass(frozen=True)
class Example:
    """One worked example of an operation.

    Args:
        id: "service/command#n", n counted within its file.
        tool: id of the operation.
        title: what it is for, in a line.
        description: what it does.
        masked_title: the title without the command's name (see `mask`).
        masked_description: the description without it.
    """

    id: str
    tool: str
    title: str
    description: str
    masked_title: str
    masked_description: str


def key(name: str) -> str:
    """The same for `create-vpc` and `CreateVpc`, without botocore's table of exceptions."""
    return name.replace("-", "").replace("_", "").lower()


def parse_file(
    member: str, text: str, operations: Mapping[str, Mapping[str, Tool]]
) -> tuple[list[Example], Counter[str]]:
    """Read one example file.

    Args:
        member: its path in the wheel.
        text: its reStructuredText.
        operations: CLI service name -> `key` of the operation -> tool.

    Returns:
        Its examples, and how many of its sections were skipped, by reason.
    """
    match = _FILE.search(member)
    if match is None:
        return [], Counter(["help text"])
    service, inner, command = match.groups()
    if inner or command.startswith("_"):
        return [], Counter(["waiter" if inner == "wait" else "help text"])
    named = operations.get(service, {}).get(key(command))
    examples: list[Example] = []
    skipped: Counter[str] = Counter()
    for number, (title, body) in enumerate(sections(text), start=1):
        tool = _shown(body, named, operations)
        description = _description(body)
        if tool is None:
            skipped["not an operation of the API"] += 1
        elif not title or not description:
            skipped["no description" if title else "no title"] += 1
        else:
            masked = (mask(text, service, command, tool.name) for text in (title, description))
            examples.append(Example(f"{service}/{command}#{number}", tool.id, title, description, *masked))
    return examples, skipped


def _shown(body: str, named: Tool | None, operations: Mapping[str, Mapping[str, Tool]]) -> Tool | None:
    """The operation that a section shows: the file's own, unless all its commands are others.

    Some files are misnamed, lie in the wrong folder, or have a section on how to check the result.
    """
    found = [operations.get(m[1], {}).get(key(m[2])) for m in _COMMAND.finditer(body)]
    called = [tool for tool in found if tool is not None]
    return named if not called or named in called else called[0]


def sections(text: str) -> Iterable[tuple[str, str]]:
    """(title, body) of each example; bold lines and underlined lines are titles, text without one has title ''."""
    title, body = "", list[str]()
    lines = text.expandtabs(4).replace("\r", "").split("\n")
    skip = False
    for i, line in enumerate(lines):
        if skip:
            skip = False
            continue
        found = _heading(lines, i)
        if found is None:
            body.append(line)
            continue
        if title or any(b.strip() for b in body):
            yield title, "\n".join(body)
        title, body = clean_title(found), []
        skip = _BOLD.match(line) is None and _NUMBERED_OUTSIDE.match(line) is None
    if title or any(b.strip() for b in body):
        yield title, "\n".join(body)


def _heading(lines: list[str], i: int) -> str | None:
    """The title on line i, None if it is none."""
    line = lines[i]
    if match := _BOLD.match(line):
        inside = match[1].strip()
        # "**Note:**" opens a remark, and "**a** and **b**" is a sentence.
        return None if "**" in inside or _LABELS.match(inside) else inside
    if match := _NUMBERED_OUTSIDE.match(line):
        return match[2]
    underlined = i + 1 < len(lines) and _UNDERLINE.match(lines[i + 1]) and not line.startswith(" ")
    return line.strip() if underlined and line.strip() and not _UNDERLINE.match(line) else None


def clean_title(title: str) -> str:
    """A title without its running number and markup."""
    title = _COUNTED.sub("", inline(title)).strip()
    return "" if _NO_TITLE.match(title) else title


def inline(text: str) -> str:
    """Text without reStructuredText markup, on one line."""
    text = " ".join(text.split())
    text = _ROLE.sub(r"\1", text)
    text = _LITERAL.sub(r"\1", text)
    text = _NAMED_LINK.sub(r"\1", _LINK.sub(r"\1", text))
    return _EMPHASIS.sub(r"\1", text).replace("\\ ", "").replace("`", "").strip()


def _description(body: str) -> str:
    """The paragraphs before the first literal block, so that no command and no output is in it."""
    kept: list[str] = []
    for paragraph in re.split(r"\n\s*\n", body):
        lines = [line for line in paragraph.split("\n") if line.strip()]
        if not lines:
            continue
        if all(line.startswith("  ") for line in lines) or _COMMAND.match(paragraph):
            if kept:
                break
            continue
        prose, literal = _until_literal(lines)
        sentence = inline(re.sub(r"\s*::\s*$", "", prose))
        if sentence and not _LABELS.match(sentence) and not _POINTERS.match(sentence):
            kept.append(sentence if sentence[-1] in ".!?:;" else sentence + ".")
        if literal:
            break
    return _PLATFORM.sub("", " ".join(kept))


def _until_literal(lines: list[str]) -> tuple[str, bool]:
    """The lines up to one that opens a literal block, and whether there was one."""
    kept: list[str] = []
    for line in lines:
        if _COMMAND.match(line):
            return "\n".join(kept), True
        kept.append(line)
        if line.rstrip().endswith("::"):
            return "\n".join(kept), True
    return "\n".join(kept), False


def mask(text: str, service: str, command: str, operation: str) -> str:
    """Take the command's name out of a text, with the grammar kept.

    Args:
        text: one line, without markup.
        service: name of the service on the command line ("ec2").
        command: name of the example's file ("create-vpc").
        operation: name in the API ("CreateVpc").

    Returns:
        "The following create-vpc example creates" -> "The following example creates"; "Use create-vpc to" -> "Use
        this command to". One-word names ("publish") are verbs too, so they go only where they stand for the command.
    """
    names = {key(command), key(operation)}
    names |= {name + "s" for name in names}  # a plural, written by mistake, is the same giveaway

    def mark(match: re.Match[str]) -> str:
        if key(match[1]) not in names:
            return match[0]
        return f"input{match[2]}" if match[2] else f"\x02{match[1]}\x03"

    marked = re.sub(rf"\b{re.escape(service)} (?=\x02)", "", _TOKEN.sub(mark, text))
    if marked == text:
        return text
    words = split_words(operation).split()
    if len(words) == 1 or words[0] == "re":  # "re-encrypt" is an English verb as well
        marked = _VERB_BEFORE_NOUN.sub(r"\1 ", _QUALIFIED.sub("this command", marked))
        return _mended(marked.replace("\x02", "").replace("\x03", ""))
    marked = _AFTER_ARTICLE.sub(r"\1 command", _BEFORE_NOUN.sub("", marked))
    return _mended(_MARKED.sub("this command", marked))


def _mended(text: str) -> str:
    """Mend what masking leaves after an article and at the start of a sentence."""
    text = re.sub(r"\b([Aa])n (?=(?:commands?|calls?|subcommand)\b)", r"\1 ", text)
    text = re.sub(r"\b([Aa]) (?=(?:example|operation|action|API)\b)", r"\1n ", text)
    return re.sub(r"(^|[.!?] )(this command|example|command|operation)\b", lambda m: m[1] + m[2].capitalize(), text)
