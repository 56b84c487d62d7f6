"""What a person reads when something was their mistake."""

from __future__ import annotations

import ast
from pathlib import Path

from toolsavvy.errors import UserError, plain
from toolsavvy.jobs import failure_text

SOURCE = Path(__file__).resolve().parents[1] / "src" / "toolsavvy"


def test_texts_from_files_do_not_command_the_terminal() -> None:
    error = UserError(
        "tool 'a\x1b[2J\x00' is odd", where="a.jsonl\r, line 1", expected="plain\ttext é\u2028", fix="x\x9b"
    )
    assert str(error).split("\n") == [
        "a.jsonl\\r, line 1: tool 'a\\x1b[2J\\x00' is odd",
        "  expected: plain\ttext é\u2028",
        "  fix: x\\x9b",
    ]


def test_nothing_that_commands_a_terminal_or_turns_its_text_around_is_left() -> None:
    text = "".join(chr(i) for i in range(0x300)) + "\u061c\u200e\u202a\u202e\u2066\u2069\ud800\udfff"
    shown = plain(text)
    shown.encode("utf-8")
    assert all(c.isprintable() or c in "\t\n\xa0\xad" for c in shown)
    assert "\\x1b" in shown
    assert "\\u202e" in shown
    assert plain("[red]é 中 👩\u200d🔧\tx\n") == "[red]é 中 👩\u200d🔧\tx\n"


def test_the_last_line_says_what_to_do() -> None:
    ways = {
        "command line, seed=x": "correct seed=x on the command line",
        "conf/suite/rrb.yaml, key 'suite.rrb.n'": "set suite.rrb.n=VALUE as expected above, or correct",
        "catalog.cap": "set catalog.cap=VALUE",
        "encoder.path=/models/e5": "set encoder.path=VALUE",
        "method.recipes.<name>.epochs": "set method.recipes.NAME.epochs=VALUE",
        "tools.jsonl, line 3, field 'id'": "correct tools.jsonl, line 3, field 'id', or name another file",
        "catalog aws": "change catalog aws as expected above",
        "": "change that as expected above",
    }
    for where, way in ways.items():
        assert str(UserError("is odd", where=where, expected="3")).splitlines()[-1].startswith(f"  fix: {way}"), where
    assert str(UserError("is odd")).splitlines()[-1] == "  fix: see toolsavvy --help"
    assert str(UserError("is odd", where="seed", fix="mend it")).splitlines()[-1] == "  fix: mend it"


def raised() -> list[tuple[str, ast.Call]]:
    """Every `UserError(...)` of the sources, with its place."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "UserError":
                found.append((f"{path.relative_to(SOURCE)}:{node.lineno}", node))
    return found


def test_every_message_says_what_was_expected_or_what_to_do() -> None:
    """A message that has neither would end with no more than a hint at --help."""
    assert len(raised()) > 300
    silent = [place for place, call in raised() if not {"expected", "fix"} & {k.arg for k in call.keywords}]
    assert silent == []


def test_a_message_without_a_fix_names_the_place_that_its_last_line_is_made_of() -> None:
    without = [(place, {k.arg for k in call.keywords}) for place, call in raised()]
    assert [place for place, given in without if not {"where", "fix"} & given] == []


def test_a_crash_ends_with_where_the_traceback_is_and_how_to_go_on(tmp_path: Path) -> None:
    *_, last = failure_text(ValueError("no\x1b[2J"), tmp_path).rstrip("\n").split("\n")
    assert last.startswith("  fix: ")
    assert str(tmp_path / "run.log") in last
    assert "resume=true" in last
