"""Lines and bars as one SVG picture, from nothing but the standard library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from attrs import frozen

_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
_HEIGHT: Final = 320
_MARGIN: Final = 52
_LINES_WIDTH: Final = 520
_BARS_WIDTH: Final = 210


@frozen
class Lines:
    """Values at 1, 2, 3 and so on, by series."""

    title: str
    x_label: str
    series: Mapping[str, Sequence[float]]


@frozen
class Bars:
    """One value each."""

    title: str
    values: Mapping[str, float]


def picture(lines: Lines, bars: Sequence[Bars]) -> str:
    """The lines, then each group of bars, side by side; a series has the same colour everywhere."""
    colours = dict(zip(lines.series, _COLOURS, strict=False))
    width = _LINES_WIDTH + _BARS_WIDTH * len(bars)
    parts = [*_draw_lines(lines, colours)]
    for index, group in enumerate(bars):
        parts += _draw_bars(group, colours, _LINES_WIDTH + _BARS_WIDTH * index)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}"'
        f' viewBox="0 0 {width} {_HEIGHT}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _draw_lines(lines: Lines, colours: Mapping[str, str]) -> list[str]:
    longest = max(map(len, lines.series.values()))
    top = _round_up(max(max(values) for values in lines.series.values()))
    right = _LINES_WIDTH - _MARGIN
    bottom = _HEIGHT - _MARGIN

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            _MARGIN + (right - _MARGIN) * x / longest,
            bottom - (bottom - _MARGIN) * y / top,
        )

    parts = [_text(_MARGIN, 24, lines.title), _text(right - 60, bottom + 36, lines.x_label)]
    for step in range(5):
        value = top * step / 4
        left, y = at(0, value)
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{right}" stroke="#ddd"/>')
        parts.append(_text(left - 8, y + 4, f"{value:g}", anchor="end"))
        x, _ = at(longest * step / 4, 0)
        parts.append(_text(x, bottom + 18, f"{longest * step / 4:g}", anchor="middle"))
    for index, (name, values) in enumerate(lines.series.items()):
        points = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in enumerate(values, start=1))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>'
        )
        parts.append(_text(_MARGIN + 10, _MARGIN + 8 + 16 * index, name, colours[name]))
    return parts


def _draw_bars(bars: Bars, colours: Mapping[str, str], left: float) -> list[str]:
    top = _round_up(max(bars.values.values()))
    bottom = _HEIGHT - _MARGIN
    pitch = (_BARS_WIDTH - 20) / len(bars.values)
    parts = [_text(left, 24, bars.title)]
    for index, (name, value) in enumerate(bars.values.items()):
        height = (bottom - _MARGIN) * value / top
        x = left + pitch * index
        parts.append(
            f'<rect x="{x:.1f}" y="{bottom - height:.1f}" width="{pitch * 0.7:.1f}"'
            f' height="{height:.1f}" fill="{colours[name]}"/>'
        )
        middle = x + pitch * 0.35
        parts.append(_text(middle, bottom - height - 5, f"{value:.0f}", anchor="middle"))
        parts.append(_text(middle, bottom + 18, name, anchor="middle"))
    return parts


def _text(x: float, y: float, words: str, colour: str = "#333", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-family="sans-serif"'
        f' font-size="12" fill="{colour}">{escape(words)}</text>'
    )


def _round_up(value: float) -> float:
    """To a number whose quarters are easy to read."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 4, 6, 8, 10) if power * step >= value)
