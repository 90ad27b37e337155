"""The chain of evidence: whatever is changed in it afterwards is found."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from state.model.entities import Event
from state.model.evidence import BEFORE_ALL, Chain, Evidence, Flaw, announcement, canonical, sealed, sha256_of

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
Rows = list[Evidence]


def links(many: int = 4) -> Rows:
    made: Rows = []
    for number in range(1, many + 1):
        facts = {"operation": {"id": f"op-{number}"}, "note": "Köln"}
        last = made[-1] if made else None
        made.append(sealed(facts, operation=f"op-{number}", query="revenue", last=last, at=AT))
    return made


def flaws(rows: Rows, announced: list[Event] | None = None) -> list[Flaw]:
    chain = Chain()
    chain.add(rows[:2])
    chain.add(rows[2:])
    return chain.end(announced or [])


def announced(rows: Rows) -> list[Event]:
    return [announcement(row, epoch=2, actor="ann") for row in rows]


def with_document(row: Evidence, old: str, new: str) -> Evidence:
    assert row.document is not None
    assert old in row.document
    return replace(row, document=row.document.replace(old, new, 1))


def test_an_unchanged_chain_has_no_flaw() -> None:
    rows = links()
    assert (rows[0].sequence, rows[0].previous) == (1, BEFORE_ALL)
    assert flaws(rows, announced(rows)) == []
    assert flaws([]) == []


def test_canonical_text_is_the_same_whatever_the_order_of_keys() -> None:
    assert (
        canonical({"b": 1.5, "a": [None, "ö"]})
        == canonical({"a": [None, "ö"], "b": 1.5})
        == '{"a":[null,"\\u00f6"],"b":1.5}'
    )
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical(float("nan"))


def test_one_changed_byte_anywhere_in_a_document_is_found() -> None:
    rows = links(2)
    text = rows[0].document or ""
    for at in range(len(text)):
        changed = text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]
        assert flaws([replace(rows[0], document=changed), rows[1]]), f"byte {at}"


def rehashed(row: Evidence) -> Evidence:
    """A document that was changed together with its own hash: the next one still names the old hash."""
    changed = with_document(row, "op-2", "op-9")
    return replace(changed, sha256=sha256_of(changed.document or ""))


TAMPERED: dict[str, tuple[Callable[[Rows], Rows], Flaw]] = {
    "a document is changed": (
        lambda rows: [rows[0], with_document(rows[1], "note", "nope"), *rows[2:]],
        Flaw(2, "op-2", "was changed: its hash is another one"),
    ),
    "a document is changed with its hash": (
        lambda rows: [rows[0], rehashed(rows[1]), *rows[2:]],
        Flaw(3, "op-3", "names a different predecessor than document 2"),
    ),
    "the first one is removed": (lambda rows: rows[1:], Flaw(1, None, "is missing")),
    "one in the middle is removed": (lambda rows: [*rows[:2], rows[3]], Flaw(3, None, "is missing")),
    "the last one is removed": (
        lambda rows: rows[:3],
        Flaw(4, "op-4", "is missing: the history says that it was kept"),
    ),
    "two change places": (
        lambda rows: [rows[0], replace(rows[2], sequence=2), replace(rows[1], sequence=3), rows[3]],
        Flaw(2, "op-3", "names a different predecessor than document 1"),
    ),
    "they come in another order": (
        lambda rows: [rows[0], rows[2], rows[1], rows[3]],
        Flaw(2, None, "is missing"),
    ),
    "a document stands under another operation": (
        lambda rows: [*rows[:3], replace(rows[3], operation="op-1")],
        Flaw(4, "op-1", "is not at the place in the chain that it names"),
    ),
    "the last one is written anew": (
        lambda rows: [
            *rows[:3],
            sealed({"operation": {"id": "op-4"}}, operation="op-4", query="q", last=rows[2], at=AT),
        ],
        Flaw(4, "op-4", "has another hash than the history says"),
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_the_chain_shows_that(what: str) -> None:
    tamper, flaw = TAMPERED[what]
    rows = links()
    assert flaw in flaws(tamper(rows), announced(rows))


def test_documents_that_retention_deleted_break_nothing_and_hide_nothing() -> None:
    rows = links()
    pruned = [replace(rows[0], document=None), replace(rows[1], document=None), *rows[2:]]
    assert flaws(pruned, announced(rows)) == []
    assert flaws([pruned[0], replace(pruned[1], sha256="0" * 64), *rows[2:]]), "the third names the hash of the second"
    assert flaws([pruned[0], *rows[2:]]) == [Flaw(2, None, "is missing")]
