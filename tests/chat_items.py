"""A language model that writes and judges benchmark items as it should, for the tools of `catalog=toy`.

Every toy document says "also called ALIAS", which questions are about; requests are made of words that occur nowhere.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from chat_server import Answer

ALIAS = re.compile(r"also called ([\w ]+?)\.")


def is_judge(body: dict[str, Any]) -> bool:
    return body["messages"][0]["content"].startswith("You check")


def kind_of(body: dict[str, Any]) -> str:
    system = body["messages"][0]["content"]
    return "mcq" if "multiple-choice" in system else "qa" if "yes/no" in system else "rrb"


def said(body: dict[str, Any]) -> str:
    return body["messages"][-1]["content"]


def tools_in(text: str) -> list[str]:
    return re.findall(r"^\[\d+\] (.*)$", text, re.M)


def target(body: dict[str, Any]) -> str:
    """Document of the tool that a prompt is about (of a request's judge: ''), whoever is asked."""
    text = said(body)
    if found := re.search(r"^Target: tool (\d+)$", text, re.M):
        return tools_in(text)[int(found[1]) - 1]
    found = re.search(r"^Document of this tool:\n(.*)$", text, re.M)
    return found[1] if found else ""


def words(text: str, count: int = 6) -> str:
    """Words of its own for every text."""
    return " ".join(f"w{zlib.crc32(f'{i} {text}'.encode()):x}" for i in range(count))


def alias(document: str) -> str:
    return ALIAS.findall(document)[0]


def items(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What a good writer says, as many as are wanted."""
    text, document, kind = said(body), target(body), kind_of(body)
    count = int(re.findall(r"^Write (\d+)", text, re.M)[-1])
    out = []
    for i in range(count):
        own = words(f"{i} {document} {kind}")
        evidence = f"also called {alias(document)}"
        if kind == "rrb":
            tier = re.findall(r"^Tier: (\w+)$", text, re.M)[0]
            number = int(re.findall(r"^Target: tool (\d+)$", text, re.M)[0])
            others = [n for n in range(1, len(tools_in(text)) + 1) if n != number]
            more = others[: {"easy": 0, "medium": 1 + i % 2, "hard": 3}[tier]]
            out.append({"request": f"Please get us {own}", "tools": [*more, number]})
        elif kind == "mcq":
            wrong = [f"some {words(f'{k} {own}', 1)}" for k in range(3)]
            out.append({"question": f"For {own}, what does this tool take?", "correct": f"some {alias(document)}"})
            out[-1] |= {"wrong": wrong, "evidence": evidence}
        else:
            answer = re.findall(r"^Answer: (\w+)$", text, re.M)[0]
            asked = alias(document) if answer == "Yes" else "gizmo"
            question = f"For {own}, does this tool take some {asked}?"
            out.append({"question": question, "answer": answer, "evidence": evidence})
    return out


def verdicts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What a good judge says of good drafts."""
    checks = re.findall(r'^- "(\w+)":', body["messages"][0]["content"], re.M)
    text, document, kind = said(body), target(body), kind_of(body)
    out = []
    for draft in re.split(r"^Draft \d+$", text, flags=re.M)[1:]:
        verdict: dict[str, Any] = dict.fromkeys(checks, True)
        if kind == "mcq":
            right = [int(n) for n, option in re.findall(r"^\((\d)\) (.*)$", draft, re.M) if alias(document) in option]
            verdict["answer"] = right[0] if len(right) == 1 else None
        elif kind == "qa":
            verdict["answer"] = "Yes" if f"some {alias(document)}?" in draft else "No"
        out.append(verdict)
    return out


def well(body: dict[str, Any], before: int = 0) -> Answer:
    """A good answer to whatever is asked."""
    if is_judge(body):
        return Answer(json.dumps({"verdicts": verdicts(body)}))
    return Answer(f"```json\n{json.dumps({'items': items(body)})}\n```")
