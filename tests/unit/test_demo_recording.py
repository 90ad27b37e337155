"""The recording of the demo: its lines at their times, with waits cut and the password left out."""

import re

from tests.demo_recording import COLUMNS, Line, lines_of, svg

PRINTED = """\
.venv/bin/python -m lab.demo --dir build/demo
   0.0 s  two Kafka clusters
  19.7 s  look at it: http://127.0.0.1:19110/ (log in with bd5e78cce3)
  20.2 s  kill east, under 2,000 records/s

query   acked  lost
a<b         7     0

verdict: lost 0, repeated 0

report: build/demo/report.json
""".splitlines()


def test_a_line_appears_at_its_time_and_a_long_wait_is_cut() -> None:
    lines = lines_of(PRINTED)
    assert lines[:4] == [
        Line(0.0, "$ make demo"),
        Line(0.6, "   0.0 s  two Kafka clusters"),
        Line(2.6, "  19.7 s  look at it: http://127.0.0.1:19110/"),
        Line(3.1, "  20.2 s  kill east, under 2,000 records/s"),
    ]
    assert {line.at for line in lines[4:]} == {4.1}
    assert lines[-1].text == "verdict: lost 0, repeated 0"


def test_a_line_that_is_too_long_is_folded_between_words() -> None:
    words = "word " * 60
    lines = lines_of([f"   0.0 s  {words}", "verdict: kept"])
    assert all(len(line.text) <= COLUMNS for line in lines)
    assert "".join(line.text for line in lines[1:-1]).split() == ["0.0", "s", *words.split()]


def test_the_picture_escapes_text_and_animates_each_moment_once() -> None:
    drawn = svg(lines_of(PRINTED))
    assert "a&lt;b" in drawn
    assert len(re.findall(r"@keyframes (a\d+)", drawn)) == len(set(re.findall(r"@keyframes (a\d+)", drawn))) == 4
    assert "prefers-reduced-motion" in drawn
    assert drawn.count("<text") == len([line for line in lines_of(PRINTED) if line.text])
