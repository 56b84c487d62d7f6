from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from toolsavvy import report
from toolsavvy.report import WIDTH, console, pair_table, plain_markdown, result_table
from toolsavvy.suites.table import Comparison, Result


def result(system: str, metric: str, k: int, value: float | None, **more: Any) -> Result:
    bounds = {"low": None if value is None else value - 0.05, "high": None if value is None else value + 0.05}
    return Result(
        **({"suite": "s", "slice": "test", "n": 40} | bounds | more), system=system, metric=metric, k=k, value=value
    )


RESULTS = (
    result("bm25", "recall", 1, 0.5),
    result("gen-constrained", "recall", 1, 0.8),
    result("gen-free", "recall", 1, 0.4),
    result("gen", "internalization", 1, 0.51),
    result("bm25", "recall", 5, 0.7),
    result("gen-constrained", "recall", 5, 0.7, low=None, high=None),
    result("gen-free", "recall", 5, 0.0),
)


def printed(results: Any = RESULTS, slices: Any = ("test",), width: int = WIDTH, **settings: Any) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, emoji=False, highlight=False).print(result_table(results, slices, **settings))
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


def row(lines: list[str], system: str) -> str:
    (line,) = [line for line in lines if line.strip().startswith(f"{system} ") or line.strip() == system]
    return line


def test_a_row_for_every_system_and_mode_under_each_slice() -> None:
    lines = printed([*RESULTS, result("bm25", "recall", 1, 0.1, slice="other", n=7)], ("test", "other", "absent"))
    starts = [line.split()[0] for line in lines]
    assert starts == ["system", "test", "bm25", "gen-constrained", "gen-free", "other", "bm25"]
    assert "(40 queries)" in lines[1]
    assert "(7 queries)" in lines[5]
    assert lines[0].split() == ["system", "R@1", "R@5", "IS@1"]


def test_further_processes_of_a_distributed_run_say_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in ("0", "1"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        console().print(f"rank {rank}")
    assert capsys.readouterr().out == "rank 0\n"


def test_numbers_are_percent_with_their_interval_under_their_column() -> None:
    lines = printed()
    assert "50.0 45–55" in row(lines, "bm25")  # noqa: RUF001 - a range
    head, free = lines[0], row(lines, "gen-free")
    end_of = {name: head.index(name) + len(name) for name in ("R@1", "R@5", "IS@1")}
    assert free[: end_of["R@1"]].endswith("40.0 35–45")  # noqa: RUF001
    assert free[: end_of["IS@1"]].endswith("51.0 46–56")  # noqa: RUF001
    assert row(lines, "gen-constrained").endswith(" 70.0")  # no interval where there is none


def test_internalization_stands_in_the_free_row_alone() -> None:
    lines = printed()
    assert [("51.0" in line) for line in lines] == [line.strip().startswith("gen-free") for line in lines]


def test_undefined_internalization_reads_as_zero_of_zero() -> None:
    lines = printed([*RESULTS[:3], result("gen", "internalization", 1, None)])
    assert row(lines, "gen-free").endswith("0/0")
    assert "0/0" not in row(lines, "gen-constrained")


def test_a_system_without_a_metric_leaves_the_cell_empty() -> None:
    lines = printed([*RESULTS, result("knn", "recall", 1, 0.3)])
    assert row(lines, "knn").split() == ["knn", "30.0", "25–35"]  # noqa: RUF001


def test_the_best_of_a_column_is_bold_in_every_slice() -> None:
    results = [*RESULTS, result("bm25", "recall", 1, 0.1, slice="other")]
    (cells,) = [list(c.cells) for c in result_table(results, ("test", "other")).columns if c.header == "R@1"]
    assert ["[bold]" in str(c) for c in cells] == [False, False, True, False, False, True]


@pytest.mark.parametrize(
    "name", ["[bold]x[/bold]", "[red]a", "x[/]", "[link=file:///etc]y[/link]", "a:car:b", "[/bold]"]
)
def test_names_are_shown_as_they_are(name: str) -> None:
    lines = printed([result(name, "recall", 1, 0.5, slice=f"{name}!")], (f"{name}!",), title=f"on {name}")
    assert lines[0] == f"on {name}"
    assert lines[2].startswith(f"{name}! (40 queries)")
    assert lines[3].startswith(f"  {name} ")


def test_nothing_to_show_is_an_empty_table() -> None:
    assert printed([], ("test",)) == ["system"]


def test_output_that_is_no_terminal_is_wide_enough_for_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    results = [
        result(system, metric, k, 0.123)
        for system in ("toolgen_replay-constrained", "toolgen_replay-free", "toolgen_replay")
        for metric, k in report.COLUMNS
    ]
    wide = console()
    assert wide.width == WIDTH
    assert all(len(line) <= WIDTH and "…" not in line for line in printed(results, width=wide.width))


def test_chosen_pairs_show_differences_in_points_and_leave_other_rivals_out() -> None:
    def difference(rival: str, low: float | None, high: float | None) -> Comparison:
        return Comparison("s", "test", "completeness", 10, "graph", rival, 0.042, low, high, 0.01, 30)

    out = io.StringIO()
    table = pair_table(
        [difference("dense", 0.01, 0.074), difference("bm25", None, None)], [("graph", "dense")], ["test", "x"]
    )
    Console(file=out, width=WIDTH, emoji=False, highlight=False).print(table)
    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    assert lines[1].split()[-1] == "C@10" and lines[2].split() == ["test", "(30", "queries)"]
    assert lines[3].split() == ["graph", "-", "dense", "+4.2", "[+1.0,", "+7.4]"] and len(lines) == 4
    assert report._difference(difference("bm25", None, None)) == "+4.2"


def test_text_as_markdown_is_a_table_whatever_it_holds() -> None:
    rows = [["a|b", "1,204", "0.12 [0.1, 0.2]", "x"], ["two\nlines", "3", "undefined", "1"]]
    lines = plain_markdown(["name", "n", "mcc", "mixed"], rows, title="t", note="so").splitlines()
    assert lines[:2] == ["**t**", ""]
    assert lines[2:4] == ["| name | n | mcc | mixed |", "| --- | ---: | ---: | --- |"]
    assert lines[4:] == ["| a\\|b | 1,204 | 0.12 [0.1, 0.2] | x |", "| two lines | 3 | undefined | 1 |", "", "so"]
    assert plain_markdown(["a"], []) == "| a |\n| --- |\n"


def test_nothing_in_a_markdown_cell_is_markup() -> None:
    cells = ["a | b", "<script>x</script>", "[x](javascript:y)", "\x1b[2J", "two\nlines"]
    (_, _, row) = plain_markdown(["1", "2", "3", "4", "5"], [cells]).strip().split("\n")
    assert row == "| a \\| b | &lt;script>x&lt;/script> | [x]\\(javascript:y) | \\x1b[2J | two lines |"
