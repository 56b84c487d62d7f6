"""What a person reads when something was their mistake."""

from __future__ import annotations

from toolsavvy.errors import UserError, plain


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
