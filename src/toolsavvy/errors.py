"""Errors that are the user's to mend: the entry point prints them as one message and exits with code 2."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What commands a terminal (escapes, carriage returns), turns text around, or has no bytes: all but tab and newline."""
_TYPED = re.compile(r"command line, (?P<typed>.+)", re.S)
_IN_FILE = re.compile(r"(?P<file>.+?\.\w+), key '(?P<key>[^']+)'")
_KEY = re.compile(r"(?:key ')?(?P<key>[a-z_]+(?:[.][\w<>-]+)+|[a-z_]+(?==))'?(?:=.*)?", re.S)
_PLACE = re.compile(r"(?P<file>[^,]*[./\\][^,]*)(?P<rest>,.*)?", re.S)


def plain(text: str) -> str:
    r"""A text that a terminal or a log can show: nothing in it is a command, what would be is spelled out (`\x1b`)."""
    return _UNSHOWN.sub(lambda found: repr(found[0])[1:-1], text)


class UserError(Exception):
    """Say what is wrong, where, what was expected and what to do, in that order.

    Args:
        what: the fault in one sentence.
        where: file, line or record, and field ("tools.jsonl, line 3, field 'id'"), or a config key.
        expected: what would have been right.
        fix: what the user can do now.
    """

    def __init__(self, what: str, *, where: str = "", expected: str = "", fix: str = "") -> None:
        """Keep the parts apart so that tests and logs can read them."""
        self.what, self.where, self.expected, self.fix = what, where, expected, fix
        super().__init__(self.render())

    def render(self) -> str:
        """One line a part, the last of which says what to do; no text from a file commands the terminal."""
        head = f"{self.where}: {self.what}" if self.where else self.what
        parts = [head]
        if self.expected:
            parts.append(f"  expected: {self.expected}")
        parts.append(f"  fix: {self.fix or self.way_out()}")
        return plain("\n".join(parts))

    def way_out(self) -> str:
        """What can be done where nobody has said it: it follows from the place of the fault."""
        if found := _TYPED.fullmatch(self.where):
            return f"correct {found['typed']} on the command line, as expected above"
        if found := _IN_FILE.fullmatch(self.where):
            return f"set {found['key']}=VALUE as expected above, or correct it in {found['file']}"
        if found := _KEY.fullmatch(self.where):
            return f"set {found['key'].replace('<name>', 'NAME')}=VALUE as expected above"
        if found := _PLACE.fullmatch(self.where):
            return f"correct {found['file']}{found['rest'] or ''}, or name another file"
        change = f"change {self.where or 'that'} as expected above"
        return f"{change}; what there is: toolsavvy --help" if self.expected else "see toolsavvy --help"


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Suggest the nearest option, or list them all; '' when there are none."""
    names = sorted(options)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"one of: {', '.join(names)}" if names else ""
