"""A picture of where the seconds of a move go: a bar for each step, and one for what it is compared with; pure."""

from collections.abc import Mapping, Sequence
from html import escape

from bench.report import STEPS, Row

_WIDTH, _LABEL, _LINE, _BAR = 760, 250, 24, 14
_OURS, _THEIRS, _TEXT = "#2f81f7", "#8b949e", "#6e7781"
"""On a light page and on a dark one."""


def to_svg(rows: Sequence[Row]) -> str:
    """SVG; empty where no row knows its steps. Lengths are medians in seconds, all to one scale."""
    blocks = [(row, steps) for row in rows if isinstance(steps := row.detail.get(STEPS), Mapping)]
    if not blocks:
        return ""
    beside = {row.what: [(each.name, each.spread.median) for each in row.others if each.spread] for row, _ in blocks}
    known = [seconds for _, steps in blocks for seconds in steps.values()]
    most = max([0.001, *known, *(seconds for each in beside.values() for _, seconds in each)])
    lines: list[str] = []
    y = 8
    for row, steps in blocks:
        y += _LINE
        lines.append(f'<text x="4" y="{y - 6}" font-weight="bold">{escape(f"{row.measurement}: {row.what}")}</text>')
        bars = [(name, seconds, _OURS) for name, seconds in steps.items()]
        bars += [(name, seconds, _THEIRS) for name, seconds in beside[row.what]]
        for name, seconds, colour in bars:
            y += _LINE
            length = round((_WIDTH - _LABEL - 80) * seconds / most, 1)
            lines += [
                f'<text x="{_LABEL - 8}" y="{y - 6}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{_LABEL}" y="{y - _LINE + 7}" width="{max(length, 1)}" height="{_BAR}" fill="{colour}"/>',
                f'<text x="{_LABEL + length + 8}" y="{y - 6}">{seconds:.2f} s</text>',
            ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 8}" width="{_WIDTH}" height="{y + 8}" '
        f'font-family="sans-serif" font-size="13" fill="{_TEXT}">\n' + "\n".join(lines) + "\n</svg>\n"
    )
