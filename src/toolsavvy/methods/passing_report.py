"""Pass rates of several runs told: tables, and the figure with its arrows from before to after training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from toolsavvy.assets import atomic_write
from toolsavvy.figures.passing import Dot, Panel, pass_rates
from toolsavvy.methods.passing import RETRIEVAL, Gathered, gather
from toolsavvy.methods.story import rich_table
from toolsavvy.report import console
from toolsavvy.suites.table import write_jsonl

AXES = {"recall": "recall@k, %", "ndcg": "nDCG@k, %"}
NOTE = (
    "% with 95 % intervals over operations. recall: the right tool is offered; picked: it is called; pass rate: the "
    "call has the right effect on the account, carried out on moto. oracle_tools: the right tool and random others."
)


def show_passing(
    folders: Sequence[Path],
    folder: Path,
    pairs: Sequence[Sequence[str]] = (),
    resamples: int = 2000,
    missing: Sequence[str] = (),
) -> None:
    """Print the tables; write `pass_rates.{jsonl,md}`, `pass_rate_*.jsonl` and `figures/pass_rate.{png,svg}`.

    Raises:
        UserError: no run has a pass rate.
    """
    for sentence in missing:
        console().print(f"[yellow]left out:[/yellow] {escape(sentence)}", soft_wrap=True)
    found = gather(folders, pairs, resamples)
    texts = []
    for title, head, body in tables(found):
        console().print(rich_table(title, head, body))
        rule = ["---", *["---:"] * (len(head) - 1)]
        texts.append("\n".join([f"**{title}**", "", *(f"| {' | '.join(row)} |" for row in (head, rule, *body))]))
    console().print(f"[dim]{escape(NOTE)}[/dim]", soft_wrap=True)
    with atomic_write(folder / "pass_rates.md", text=True) as file:
        file.write("\n\n".join([*texts, NOTE]) + "\n")
    for name, records in (
        ("pass_rates", found.rows), ("pass_rate_gains", found.gains), ("pass_rate_correlations", found.correlations),
    ):  # fmt: skip
        write_jsonl(folder / f"{name}.jsonl", records)
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    pass_rates([figures / "pass_rate.png", figures / "pass_rate.svg"], panels(found), y="pass rate@k, %")
    console().print(f"pass_rates.md, .jsonl and figures/pass_rate.svg: {folder}", soft_wrap=True, markup=False)


def tables(found: Gathered) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, head and rows: pass rates of every setting, then what was gained, then rank correlations."""
    made = []
    for setting in dict.fromkeys(r.setting for r in found.rows):
        rows = [
            [r.system, str(r.k), *map(_percent, (r.recall, r.ndcg, r.picked)), _ends(r.pass_rate, r.low, r.high)]
            for r in found.rows
            if r.setting == setting
        ]
        made.append((f"pass rates, {setting}", ["system", "k", "recall", "nDCG", "picked", "pass rate"], rows))
    if found.gains:
        gains = [
            [f"{g.system} - {g.rival}", str(g.k), f"{100 * g.recall:+.1f}", _ends(g.pass_rate, g.low, g.high, "+"),
             f"{g.p:.4f}"]
            for g in found.gains
        ]  # fmt: skip
        made.append(("gained, points", ["pair", "k", "recall", "pass rate", "p"], gains))
    told = [
        [f"{c.metric}@{c.k} - pass rate@{c.k}", c.kind, "undefined" if c.value is None else f"{c.value:.2f}", c.verdict]
        for c in found.correlations
    ]
    made.append(("rank correlations over systems", ["of", "kind", "value", "verdict"], told))
    return made


def panels(found: Gathered) -> list[list[Panel]]:
    """A row of panels a setting: pass rate against recall, and against nDCG."""
    grid = []
    for setting in dict.fromkeys(r.setting for r in found.rows):
        own = [r for r in found.rows if r.setting == setting]
        dots = {
            metric: tuple(Dot(r.system, r.k, *_scaled(getattr(r, metric), r.pass_rate, r.low, r.high)) for r in own)
            for metric in RETRIEVAL
        }
        grid.append([Panel(setting, AXES[metric], dots[metric], found.pairs) for metric in RETRIEVAL])
    return grid


def _scaled(x: float, y: float, low: float | None, high: float | None) -> tuple[float, float, float, float]:
    return 100 * x, 100 * y, 100 * (y if low is None else low), 100 * (y if high is None else high)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _ends(value: float, low: float | None, high: float | None, sign: str = "") -> str:
    ends = "" if low is None or high is None else f" [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"
    return f"{100 * value:{sign}.1f}{ends}"
