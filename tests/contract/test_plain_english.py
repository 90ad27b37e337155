"""The documents use standard words and short sentences.

Each page has the number of dialect words and of long sentences that it may have. Most have none. Lower a number when
you mend a page, and raise none.
"""

import re
from pathlib import Path

import pytest

from tests.contract.test_docs import PAGES, ROOT

DIALECT = re.compile(
    r"\b(told|tells?|telling|asks?|asked|asking|whoever|somebody|someone|nobody|by itself|by themselves"
    r"|stands(?! (?:for|by)\b)|stood"
    r"|go on|goes on|went on|going on|heed(?:s|ed|ing)?|in vain|anew|meanwhile|story|stories|turned round|viewpoint)\b",
    re.IGNORECASE,
)
"""Words with a standard word: continue for go on, report or print for tell, request for ask, a name for somebody."""
LONGEST = 30
"""Words of a sentence."""
WRITTEN_ELSEWHERE = {"defects.md"}
"""One line for each defect, added by the people who mended it."""
ALLOWED = {
    "architecture.md": (0, 1),
    "companion.md": (1, 1),
    "containers.md": (0, 2),
    "deployment.md": (1, 0),
    "faults.md": (18, 0),  # names of tests
    "operation.md": (1, 0),  # `not asked` is an answer of a gate
    "places.md": (0, 3),
    "programs.md": (1, 2),
}
"""By page: dialect words, and sentences of more than ``LONGEST`` words; a page that is not here has none."""
JUDGED = [page for page in PAGES if page.name not in WRITTEN_ELSEWHERE]


def prose(page: Path) -> str:
    """The text without blocks of commands, and links as their words."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))


def sentences(text: str) -> list[str]:
    """Of paragraphs, items, cells of tables and headings."""
    parts = re.split(r"\n\s*\n|\n(?=[-*#|] ?)|\n(?=\d+\. )|\|", text)
    return [each for part in parts for each in re.split(r"(?<=[.?!:;])\s+", " ".join(part.split())) if each]


def too_long(text: str) -> list[str]:
    return [each for each in sentences(text) if len(re.findall(r"[\w`'-]+", each)) > LONGEST]


@pytest.mark.parametrize("page", JUDGED, ids=lambda page: page.name)
def test_a_page_has_no_more_dialect_and_long_sentences_than_it_had(page: Path) -> None:
    text = prose(page)
    words, long = DIALECT.findall(text), too_long(text)
    allowed = ALLOWED.get(page.name, (0, 0))
    assert len(words) <= allowed[0], words
    assert len(long) <= allowed[1], long


def test_a_long_sentence_and_a_dialect_word_are_seen() -> None:
    assert too_long("word " * 31 + ".") != []
    assert too_long("word " * 20 + ". " + "word " * 20) == []
    assert DIALECT.findall("The run goes on, and nobody tells.") == ["goes on", "nobody", "tells"]


def test_the_pages_are_those_of_the_checkout() -> None:
    assert (ROOT / "README.md") in JUDGED
