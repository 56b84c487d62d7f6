"""What a person reads when something was their mistake."""

from __future__ import annotations

from toolsavvy.errors import UserError


def test_texts_from_files_do_not_command_the_terminal() -> None:
    error = UserError(
        "tool 'a\x1b[2J\x00' is odd", where="a.jsonl\r, line 1", expected="plain\ttext é\u2028", fix="x\x9b"
    )
    assert str(error).split("\n") == [
        "a.jsonl\\r, line 1: tool 'a\\x1b[2J\\x00' is odd",
        "  expected: plain\ttext é\u2028",
        "  fix: x\\x9b",
    ]
