"""A plot as SVG: a few lines over a few sizes, with their values beside the points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 320, 60, 20, 150, 50
_COLOURS = ("#0b6e4f", "#b5541c", "#5b5b8c", "#888888")


def lines(sizes: Sequence[int], seconds: Mapping[str, Sequence[float]], title: str) -> str:
    """Seconds over millions of rows, one line per way."""
    most = max(max(values) for values in seconds.values()) * 1.1

    def x(size: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * size / max(sizes)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / most

    drawn = [_text(_LEFT, _HEIGHT - 8, title)]
    drawn += [
        _line([(x(0), y(0)), (x(max(sizes)), y(0))], "#444"),
        _line([(x(0), y(0)), (x(0), y(most))], "#444"),
    ]
    drawn += [_text(x(size) - 12, y(0) + 18, f"{size / 1_000_000:g} M") for size in sizes]
    labels = list(
        zip(
            *(_apart([y(value) - 8 for value in at_size]) for at_size in zip(*seconds.values(), strict=True)),
            strict=True,
        )
    )
    for colour, (name, values), tops in zip(_COLOURS, seconds.items(), labels, strict=False):
        points = [(x(size), y(value)) for size, value in zip(sizes, values, strict=True)]
        drawn.append(_line(points, colour))
        for (left, top), value, label in zip(points, values, tops, strict=True):
            drawn.append(f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{colour}"/>')
            drawn.append(_text(left - 14, label, f"{value:.1f} s", colour))
        drawn.append(_text(points[-1][0] + 30, tops[-1], name, colour))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>{"".join(drawn)}</svg>\n'
    )


def _apart(tops: Sequence[float]) -> list[float]:
    """The same places from the lowest up, none of them on top of the one below."""
    free, found = float("inf"), list(tops)
    for number in sorted(range(len(tops)), key=lambda number: -tops[number]):
        found[number] = min(tops[number], free)
        free = found[number] - 14
    return found


def _line(points: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _text(left: float, top: float, text: str, colour: str = "#222") -> str:
    return f'<text x="{left:.1f}" y="{top:.1f}" fill="{colour}">{escape(text)}</text>'
