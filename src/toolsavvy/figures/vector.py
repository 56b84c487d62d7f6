"""Small charts as SVG markup that lives inside a page: it takes the page's ink, fonts and light or dark colours.

Written by hand, not by matplotlib: a report draws dozens of them, each in a millisecond and a few kilobytes, and a page
shows them side by side or, on a phone, below one another at the same size. Colours are classes (`c0` ... `c6`, dashes
`d0` ... `d3`), which the page's style sheet gives their meaning. All text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 340, 232
"""Of a panel, in CSS pixels: what a phone shows without shrinking it."""
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 26, 40
COLOURS, DASHES = 7, 4
"""Looks that can be told apart: colours times dashes."""
_SCALE = ("#fde9c9", "#f6c58f", "#e59a6f", "#c66e66", "#96496a", "#5f2f66", "#2d1a4d")
"""From light to dark with even steps of lightness, so that it also works in grey."""


@dataclass(frozen=True)
class Svg:
    """Markup that this module made, and that may stand in a page as it is."""

    markup: str


@dataclass(frozen=True)
class Series:
    """A line of a chart.

    Args:
        look: number of its colour and dash; equal numbers look alike in all panels.
        x: [point], ascending.
        y: [point]; NaN breaks the line.
        low: [point], lower end of the interval, NaN where there is none; () for no band.
        high: [point], upper end.
        faint: a single seed behind its mean.
        points: whether points are marked.
    """

    look: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    faint: bool = False
    points: bool = True


@dataclass(frozen=True)
class Chart:
    """A line chart.

    Args:
        title: above it.
        x: what x is.
        y: what y is; in the description for those who do not see it.
        series: in order; the first are behind.
        is_log: x by its logarithm; all x must be positive.
        ticks: x positions that are named; () chooses round numbers.
    """

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    is_log: bool = False
    ticks: tuple[float, ...] = ()


@dataclass(frozen=True)
class Grid:
    """A heat map whose cells are written in.

    Args:
        title: above it.
        subtitle: a second line.
        x: what columns are.
        y: what rows are.
        columns: names.
        rows: names.
        values: [row][column], None where there is none.
        texts: [row][column].
        span: lowest and highest value of the colours, common to panels that are compared.
    """

    title: str
    subtitle: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]
    texts: Sequence[Sequence[str]]
    span: tuple[float, float] = field(default=(0.0, 1.0))


def chart(one: Chart) -> Svg:
    """Draw a line chart.

    Raises:
        ValueError: a logarithmic axis with an x that has no logarithm.
    """
    points = [(float(x), float(y)) for s in one.series for x, y in zip(s.x, s.y, strict=True) if math.isfinite(y)]
    ends = [float(v) for s in one.series for v in (*s.low, *s.high) if math.isfinite(v)]
    if one.is_log and any(x <= 0 for x, _ in points):
        raise ValueError("a logarithmic axis has positive values alone")
    ticks = nice_ticks([y for _, y in points] + ends)
    if one.is_log:
        named = tuple(one.ticks) or decades([x for x, _ in points])
    else:
        named = tuple(one.ticks) or nice_ticks([x for x, _ in points], 5)
    frame = _Frame([x for x, _ in points] + list(one.ticks), ticks, one.is_log)
    parts = [_heading(one.title), *_grid_lines(frame, ticks), *_x_axis(frame, named, one.x)]
    for series in one.series:
        parts += _series(frame, series)
    return _svg(HEIGHT, f"{one.title}: {one.y} by {one.x}", parts)


def nice_ticks(values: Sequence[float], count: int = 5) -> tuple[float, ...]:
    """About `count` round numbers that enclose the values."""
    if not values:
        return (0.0, 1.0)
    low, high = min(values), max(values)
    if high - low < 1e-12 * max(1.0, abs(high)):
        half = abs(low) * 0.1 or 0.5
        low, high = low - half, high + half
    rough = (high - low) / max(1, count - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(i * step, 12) for i in range(first, last + 1))


def decades(values: Sequence[float]) -> tuple[float, ...]:
    """Powers of ten within the values; the ends where there are fewer than two."""
    low, high = min(values), max(values)
    found = [10.0**i for i in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    step = -(-len(found) // 6) or 1
    return tuple(found[::step]) if len(found) > 1 else (low, high)


def number(value: float) -> str:
    """A tick's name: short, and exact for round numbers."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:.3g}".partition("e")
        return f"{mantissa}e{int(exponent)}" if exponent else mantissa
    return f"{value:,.6g}"


class _Frame:
    """From numbers to pixels."""

    def __init__(self, x: Sequence[float], ticks: Sequence[float], is_log: bool) -> None:
        self._log = is_log
        low, high = (min(x), max(x)) if x else (0.0, 1.0)
        low, high = self._of(low), self._of(high)
        room = 0.04 * (high - low) or 0.5
        self._x = (low - room, high + room)
        self._y = (min(ticks), max(ticks))

    def _of(self, x: float) -> float:
        return math.log10(x) if self._log else x

    def x(self, value: float) -> float:
        low, high = self._x
        return LEFT + (self._of(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _heading(title: str) -> str:
    return f'<text class="head" x="2" y="14">{_short(title, 52)}</text>'


def _short(text: str, most: int) -> str:
    """Escaped, and cut where there is no room; control characters are replaced."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return escape(text if len(text) <= most else text[: most - 1] + "…")


def _grid_lines(frame: _Frame, ticks: Sequence[float]) -> list[str]:
    parts = []
    for tick in ticks:
        y = frame.y(tick)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 3.5:.1f}">{number(tick)}</text>')
    return parts


def _x_axis(frame: _Frame, ticks: Sequence[float], label: str) -> list[str]:
    base = HEIGHT - BOTTOM
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>']
    last = -math.inf
    for tick in ticks:
        x, name = frame.x(tick), number(tick)
        if not LEFT - 1 <= x <= WIDTH - RIGHT + 1:
            continue
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 4}"/>')
        half = 3.2 * len(name)
        if x - half >= last + 4:  # names never overlap
            parts.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{base + 16}">{name}</text>')
            last = x + half
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*parts, f'<text class="name" text-anchor="middle" x="{middle}" y="{HEIGHT - 6}">{_short(label, 46)}</text>']


def _series(frame: _Frame, one: Series) -> list[str]:
    look = f"c{one.look % COLOURS} d{one.look // COLOURS % DASHES}"
    parts = []
    if len(one.low):
        ends = [
            (frame.x(x), frame.y(a), frame.y(b))
            for x, a, b in zip(one.x, one.low, one.high, strict=True)
            if math.isfinite(a) and math.isfinite(b)
        ]
        if len(ends) > 1:
            outline = [(x, high) for x, _, high in ends] + [(x, low) for x, low, _ in reversed(ends)]
            parts.append(f'<polygon class="band {look}" points="{_points(outline)}"/>')
    places = [(frame.x(x), frame.y(y)) if math.isfinite(y) else None for x, y in zip(one.x, one.y, strict=True)]
    kind = "line faint" if one.faint else "line"
    parts += [f'<polyline class="{kind} {look}" points="{_points(run)}"/>' for run in _runs(places) if len(run) > 1]
    if one.points and len(places) <= 25:
        parts += [f'<circle class="dot {look}" cx="{p[0]:.1f}" cy="{p[1]:.1f}" r="2.6"/>' for p in places if p]
    return parts


def _runs(places: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Unbroken parts of a line."""
    found: list[list[tuple[float, float]]] = [[]]
    for place in places:
        if place is None:
            found.append([])
        else:
            found[-1].append(place)
    return found


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def grid(one: Grid) -> Svg:
    """Draw a heat map; cells without a value are hatched out by a dash."""
    left = min(140, 14 + 6 * max((min(22, len(r)) for r in one.rows), default=0)) + 16
    width = (WIDTH - left - RIGHT) / max(1, len(one.columns))
    height = 26
    low, high = one.span
    first = TOP + 15
    parts = [_heading(one.title), f'<text class="name" x="2" y="30">{_short(one.subtitle, 56)}</text>']
    for i, (row, texts) in enumerate(zip(one.values, one.texts, strict=True)):
        top = first + i * height
        parts.append(
            f'<text class="tick" text-anchor="end" x="{left - 6}" y="{top + 17}">{_short(one.rows[i], 22)}</text>'
        )
        for j, (value, text) in enumerate(zip(row, texts, strict=True)):
            parts += _square(left + j * width, top, width, height, _share(value, low, high), text)
    base = first + len(one.rows) * height
    room = max(3, int(width / 6.2))
    for j, name in enumerate(one.columns):
        x = left + (j + 0.5) * width
        parts.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{base + 15}">{_short(name, room)}</text>')
    middle = (left + WIDTH - RIGHT) / 2
    parts.append(f'<text class="name" text-anchor="middle" x="{middle:.1f}" y="{base + 31}">{_short(one.x, 40)}</text>')
    half = first + len(one.rows) * height / 2
    turned = f'transform="rotate(-90 11 {half:.1f})"'
    name = _short(one.y, max(8, int(len(one.rows) * height / 5)))
    parts.append(f'<text class="name" text-anchor="middle" x="11" y="{half:.1f}" {turned}>{name}</text>')
    return _svg(base + 38, f"{one.title}, {one.subtitle}: by {one.y} and {one.x}", parts)


def _share(value: float | None, low: float, high: float) -> float | None:
    """Place on the colour scale."""
    if value is None or not math.isfinite(value):
        return None
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.5


def _square(x: float, y: float, width: float, height: float, share: float | None, text: str) -> list[str]:
    place = f'x="{x:.1f}" y="{y}" width="{width - 1:.1f}" height="{height - 1}"'
    middle = f'text-anchor="middle" x="{x + width / 2:.1f}" y="{y + height / 2 + 4}"'
    if share is None:
        return [f'<rect class="none" {place}/>', f'<text class="tick" {middle}>–</text>']  # noqa: RUF001
    step = min(len(_SCALE) - 1, int(share * len(_SCALE)))
    ink = "bright" if step > 2 else "dark"
    shown = _short(text, max(3, int(width / 5.6)))
    return [f'<rect {place} fill="{_SCALE[step]}"/>', f'<text class="cell {ink}" {middle}>{shown}</text>']


def _svg(height: float, alt: str, parts: Sequence[str]) -> Svg:
    inner = "".join(parts)
    return Svg(
        f'<svg class="chart" role="img" aria-label="{_short(alt, 300)}" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{WIDTH}" height="{height:g}">{inner}</svg>'
    )
