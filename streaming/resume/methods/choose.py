"""Which method gives the place: tried in their order of preference, the first that holds wins.

A method is one function from a want and its facts to a place, or to the reason why it does not hold. One that is not in
the table is not known here. The last four are no methods of finding but policies, and hold only when named as such
(``Rules.on_no_match``; ``streaming.resume.truncation`` has their table). They lose or repeat, and never silently.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from state.settings.keys import MethodName
from streaming.resume import notes
from streaming.resume.methods import segment, synced, timestamp
from streaming.resume.methods.content_search import Found, NoPlace, is_retention
from streaming.resume.model import Rules, Want
from streaming.resume.standby_lookup import NotApplicable, ResumeOffset, StandbyLookup
from streaming.resume.truncation import TABLE, Goto, Situation, resolved


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodInput:
    """All that a method may look at."""

    want: Want
    rules: Rules
    facts: StandbyLookup
    now: datetime
    idle: bool | None
    """Whether nothing followed the position on the old cluster; None unknown."""


Method = Callable[[MethodInput], ResumeOffset | NotApplicable]


def identity(question: MethodInput) -> ResumeOffset | NotApplicable:
    """The same offset, where it is proven that both sides keep the same ones."""
    copy = question.facts.copy
    return _seen(MethodName.IDENTITY, copy, question.facts) if isinstance(copy, Found) else NotApplicable(note=copy)


def exact(question: MethodInput) -> ResumeOffset | NotApplicable:
    """The place found by content."""
    found = question.facts.alignment
    if isinstance(found, NoPlace):
        return NotApplicable(note=notes.no_place(found))
    return _seen(MethodName.EXACT, found, question.facts)


def _seen(method: MethodName, found: Found, facts: StandbyLookup) -> ResumeOffset:
    """A proven place, clamped to what a reader can see."""
    if found.offset > facts.end:
        note = notes.joined(found.note, notes.OPEN_TRANSACTION)
        return ResumeOffset(method=method, offset=max(facts.begin, facts.end), note=note)
    return ResumeOffset(method=method, offset=found.offset, exact=found.exact, note=found.note)


def by_syncs(question: MethodInput) -> ResumeOffset | NotApplicable:
    """The place found by the replicator's offset syncs."""
    return synced.place(question.want, question.facts)


def by_time(question: MethodInput) -> ResumeOffset | NotApplicable:
    """The place found by time."""
    return timestamp.place(question.want, question.rules, question.facts, question.now, idle=question.idle)


def by_segment(question: MethodInput) -> ResumeOffset | NotApplicable:
    """The place found among whole segments."""
    return segment.place(question.want, question.rules, question.facts, question.now)


METHODS: Mapping[MethodName, Method] = {
    MethodName.IDENTITY: identity,
    MethodName.EXACT: exact,
    MethodName.SYNCED: by_syncs,
    MethodName.TIMESTAMP: by_time,
    MethodName.SEGMENT: by_segment,
}
"""Order is ``MethodName``'s own, whatever the order here."""


def choose(question: MethodInput) -> ResumeOffset | NotApplicable:
    """The first place that holds, with what was said against the methods before it; else the policy's."""
    against: list[str] = []
    if question.want.lost:
        return by_policy(question, notes.CUT)
    for name in MethodName:
        method = METHODS.get(name)
        if method is None or name not in question.rules.methods:
            continue
        place = method(question)
        if isinstance(place, ResumeOffset):
            return replace(place, note=notes.joined(*against, place.note))
        if place.note not in against:
            against.append(place.note)
    return by_policy(question, notes.joined(*against))


def by_policy(question: MethodInput, against: str) -> ResumeOffset | NotApplicable:
    """What holds when no method does: a row of the reset table, and its sentence."""
    policy, facts = question.want.lost or question.rules.on_no_match, question.facts
    goto = TABLE[policy, situation_of(question)]
    found, note = None, _SENTENCES[goto]
    if goto is Goto.TIME:
        looked = by_time(question)
        if isinstance(looked, ResumeOffset):
            found, note = looked.offset, notes.joined(note, looked.note)
        elif _is_timeless(facts):
            note = notes.joined(looked.note, _SENTENCES[Goto.END])
        else:
            return NotApplicable(note=notes.joined(against, looked.note, notes.FAIL))
    place = facts.alignment.offset if isinstance(facts.alignment, Found) else None
    offset = resolved(goto, begin=facts.begin, end=facts.end, divergence=place, by_time=found)
    if offset is None:
        return NotApplicable(note=notes.joined(against, note))
    if goto is Goto.DIVERGENCE and isinstance(facts.alignment, Found):
        note = notes.joined(note, facts.alignment.note)
    return ResumeOffset(method=MethodName(policy), offset=offset, note=notes.joined(against, note))


_SENTENCES: Mapping[Goto, str] = {
    Goto.BEGIN: "policy: resumed at the start of the standby's log",
    Goto.END: "policy: resumed at the standby's end, unread records are skipped",
    Goto.DIVERGENCE: "policy: resumed at the offset proven by content",
    Goto.TIME: "policy: resumed at the closest offset by time",
    Goto.NOWHERE: notes.FAIL,
}


def situation_of(question: MethodInput) -> Situation:
    """The column of the reset table: for a standby, its log is the one that was cut, at the place found by content."""
    if question.want.lost:
        return Situation.UNKNOWN
    if isinstance(question.facts.alignment, Found):
        return Situation.KNOWN
    if question.want.offset == 0:
        return Situation.INITIAL
    return Situation.TOO_LOW if is_retention(question.facts.alignment) else Situation.UNKNOWN


def _is_timeless(facts: StandbyLookup) -> bool:
    """Whether no time can ever be looked up, as opposed to a look-up that failed and may be retried."""
    error = facts.by_time.error if facts.by_time is not None else None
    return error is None or error.name in {"UNSUPPORTED_FOR_MESSAGE_FORMAT", "UNSUPPORTED_VERSION"}
