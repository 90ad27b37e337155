"""The recording of the demo that the README shows: ``make recording`` plays the demo and writes an animated SVG.

Each line appears at its own time. A wait of more than two seconds is cut to two, and the page starts again some seconds
after the last line. The picture is text: it needs no player, no script and no other file, and a reader who has switched
motion off sees the whole page at once.

``python -m tests.demo_recording FILE`` plays the demo; with ``--from LOG`` it takes the lines that a demo has printed.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLUMNS = 118
_LONGEST_WAIT = 2.0
_LAST_SECONDS = 9.0
"""For how long the whole page is shown before it starts again."""
_PAGE_SECONDS = 1.0
"""From the last timed line to the page with the verdict."""
_CHARACTER, _LINE, _MARGIN = 7.2, 17, 14
"""Width and height of a character of the font, and the margin, in pixels."""
_TIMED = re.compile(r" *(\d+\.\d) s  (.*)")
_SECRET = re.compile(r" \(log in with \w+\)")
_FOLD_INDENT = " " * 12
_STYLE = """
svg{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
rect{fill:#11161d}text{fill:#d6dde6;white-space:pre}
.command{fill:#7ee0a3}.verdict{fill:#7ee0a3;font-weight:bold}.fault{fill:#ff9f8a}
"""
_STILL = "@media (prefers-reduced-motion:reduce){text{animation:none!important}}"


@dataclass(frozen=True)
class Line:
    """One line of the picture, and when it appears, in seconds."""

    at: float
    text: str


def lines_of(printed: Iterable[str]) -> list[Line]:
    """What the demo printed, with waits cut, long lines folded and the password of the page left out."""
    shown, at, before = [Line(0.0, "$ make demo")], 0.6, 0.0
    is_page = False
    for each in printed:
        text = each.rstrip("\n")
        if found := _TIMED.match(text):
            now = float(found[1])
            at, before = at + min(_LONGEST_WAIT, now - before), now
        elif len(shown) == 1:
            continue  # of make, before the demo
        elif not is_page:
            at, is_page = at + _PAGE_SECONDS, True
        shown += [Line(at, part) for part in _folded(_SECRET.sub("", text))]
    verdict = max((row for row, line in enumerate(shown) if line.text.startswith("verdict:")), default=len(shown))
    return shown[: verdict + 1]


def svg(lines: Sequence[Line]) -> str:
    """The picture, as text."""
    total = lines[-1].at + _LAST_SECONDS
    width, height = round(COLUMNS * _CHARACTER + 2 * _MARGIN), len(lines) * _LINE + 2 * _MARGIN
    moments = sorted({line.at for line in lines})
    frames = "".join(_frame(number, at, total) for number, at in enumerate(moments) if at)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    drawn = [_drawn(row, line, _class(line, moments)) for row, line in enumerate(lines) if line.text]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            "<title>make demo: the primary is killed under load, and the queries continue on the standby</title>",
            f"<style>{_STYLE}{frames}\n{_STILL}</style>",
            f'<rect width="{width}" height="{height}" rx="8"/>',
            *drawn,
            "</svg>",
            "",
        ]
    )


def _frame(number: int, at: float, total: float) -> str:
    """Lines of this moment are invisible until it comes, in each round."""
    share = 100 * at / total
    frames = f"0%,{share:.2f}%{{opacity:0}}{share + 0.01:.2f}%,100%{{opacity:1}}"
    return f"@keyframes a{number}{{{frames}}}.a{number}{{animation:a{number} {total:.1f}s infinite}}"


def _drawn(row: int, line: Line, kind: str) -> str:
    y = _MARGIN + (row + 1) * _LINE - 5
    return f'<text x="{_MARGIN}" y="{y}" class="{kind}">{escape(line.text)}</text>'


def _class(line: Line, moments: Sequence[float]) -> str:
    kinds = {"$ ": "command", "verdict:": "verdict"}
    found = [kind for start, kind in kinds.items() if line.text.startswith(start)]
    found += ["fault"] if re.search(r" s  (kill|freeze) east", line.text) else []
    found += [f"a{moments.index(line.at)}"] if line.at else []
    return " ".join(found)


def _folded(text: str) -> list[str]:
    """Between words, where the line is longer than the picture is wide."""
    parts = []
    while len(text) > COLUMNS and (cut := text.rfind(" ", len(_FOLD_INDENT) + 1, COLUMNS)) > 0:
        parts.append(text[:cut])
        text = _FOLD_INDENT + text[cut + 1 :]
    return [*parts, text]


def _play() -> list[str]:
    command = [sys.executable, "-m", "lab.demo", "--dir", "build/recording"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the demo ended with exit code {done.returncode}: nothing was recorded")
    return done.stdout.splitlines()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo_recording", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="the SVG")
    parser.add_argument("--from", dest="log", type=Path, help="what a demo has printed; default: play one now")
    options = parser.parse_args(arguments)
    printed = options.log.read_text(encoding="utf-8").splitlines() if options.log else _play()
    options.file.write_text(svg(lines_of(printed)), encoding="utf-8")


if __name__ == "__main__":
    main()
