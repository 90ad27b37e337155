"""Which method gives the place: tried in their order of preference, the first that holds wins.

A method is one function from a want and its facts to a place, or to the reason why it does not hold; one that is not in
the table is not known here. The last three are no methods of finding but policies, and hold only when named as such
(``Rules.on_no_match``): they lose or repeat, and never silently.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from state.settings import MethodName
from streaming.resume import notes, timestamp
from streaming.resume.exact import Found
from streaming.resume.facts import Facts, Place, Unheld
from streaming.resume.model import Rules, Want


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """All that a method may look at."""

    want: Want
    rules: Rules
    facts: Facts
    now: datetime
    idle: bool | None
    """Whether nothing followed the position on the old cluster; None unknown."""


Method = Callable[[Question], Place | Unheld]


def exact(question: Question) -> Place | Unheld:
    """The place found by content, clamped to what a reader can see."""
    facts = question.facts
    if not isinstance(facts.alignment, Found):
        return Unheld(note=notes.no_place(facts.alignment))
    found = facts.alignment
    if found.offset > facts.end:
        note = notes.joined(found.note, notes.OPEN_TRANSACTION)
        return Place(method=MethodName.EXACT, offset=max(facts.begin, facts.end), note=note)
    return Place(method=MethodName.EXACT, offset=found.offset, exact=found.exact, note=found.note)


def by_time(question: Question) -> Place | Unheld:
    """The place found by time."""
    return timestamp.place(question.want, question.rules, question.facts, question.now, idle=question.idle)


METHODS: Mapping[MethodName, Method] = {
    MethodName.EXACT: exact,
    MethodName.TIMESTAMP: by_time,
}
"""Order is ``MethodName``'s own, whatever the order here."""


def choose(question: Question) -> Place | Unheld:
    """The first place that holds, with what was said against the methods before it; else the policy's."""
    against: list[str] = []
    for name in MethodName:
        method = METHODS.get(name)
        if method is None or name not in question.rules.methods:
            continue
        place = method(question)
        if isinstance(place, Place):
            return Place(
                method=place.method, offset=place.offset, exact=place.exact, note=notes.joined(*against, place.note)
            )
        if place.note not in against:
            against.append(place.note)
    return by_policy(question.rules.on_no_match, question.facts, notes.joined(*against))


def by_policy(policy: str, facts: Facts, against: str) -> Place | Unheld:
    """What holds when no method does."""
    if policy == MethodName.EARLIEST:
        note = "policy: resumed at the standby's begin"
        return Place(method=MethodName.EARLIEST, offset=facts.begin, note=notes.joined(against, note))
    if policy == MethodName.LATEST:
        note = "policy: resumed at the standby's end, unread records are skipped"
        return Place(method=MethodName.LATEST, offset=facts.end, note=notes.joined(against, note))
    return Unheld(note=notes.joined(against, notes.FAIL))
