"""A bar on the terminal for what takes long; nothing where nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from toolsavvy.errors import plain
from toolsavvy.report import errors_console


@contextmanager
def bar(title: str, total: int, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Show how much is done, on standard error and only if that is a terminal.

    Args:
        title: before the bar.
        total: steps.
        console: another place.

    Yields:
        A function that is told how many more steps are done.
    """
    place = console or errors_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, *times, console=place, transient=True, disable=not place.is_terminal) as progress:
        task = progress.add_task(escape(plain(title)), total=total)
        yield lambda steps: progress.advance(task, steps)
