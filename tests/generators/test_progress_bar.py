from __future__ import annotations

import io

from rich.console import Console

from toolsavvy.generators.toolsense.progress import bar


def shown(*, is_terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100)
    with bar("qa: tester", 8, console) as advance:
        advance(3)
        advance(2)
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_a_terminal_sees_how_much_is_done() -> None:
    text = shown(is_terminal=True)
    assert "qa: tester" in text
    assert "5/8" in text


def test_a_file_or_pipe_sees_nothing() -> None:
    assert shown(is_terminal=False) == ""
