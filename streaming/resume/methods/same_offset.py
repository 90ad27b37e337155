"""Method ``identity``: the same offset, where the replicator copies bytes and so keeps offsets; only after proof.

That a route keeps offsets is what the configuration says. The old cluster may be dead, so the standby is compared with
what is remembered of it. The last records read, with offset, time and content, must lie on the standby at those very
offsets. The ends that were last seen must not contradict it. A name or a topic id proves nothing of the records: a tail
that was not mirrored can be cut and written again under the same id.

Records that are alike lie at other offsets just as well, so they prove nothing alone: then both sides must have ended
at the same offset and time. Then the place holds also where the records after the remembered ones were never looked at.
A standby that ends before the position is resumed at its end, like any that lags.

Where the records agree up to an offset and none of them from there on is at its place, the standby's log parts from the
old one at that offset. That is the place: what follows was never read, and what was read behind it is gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from state.model.entities import EndSample, Fingerprint
from state.plain_text import amount
from streaming.cluster_log import LogRecord
from streaming.resume import notes
from streaming.resume.methods.content_search import TRUSTED, Found
from streaming.resume.model import Want

COMPARED = 64
"""How many of the newest remembered records are compared."""
WIDEST = 4_096
"""Records over more offsets than that are not read for the comparison."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """What both sides are known to be, one partition's."""

    begin: int
    end: int
    """Of the standby, one snapshot."""
    newest_ms: int | None
    newest_at: int | None
    """The standby's offset of the record with that time; None unknown."""
    append_time: bool
    topic_id: str | None
    old: EndSample | None
    """The old partition as it was last seen."""


def sampled(want: Want, *, begin: int, end: int) -> tuple[Fingerprint, ...]:
    """The remembered records that the standby should hold at the same offsets, newest ones; empty if there is none."""
    kept = [record for record in want.ring if begin <= record.offset < min(end, want.offset)][-COMPARED:]
    return tuple(record for record in kept if kept[-1].offset - record.offset < WIDEST)


def tracked_to(want: Want, *, end: int) -> int:
    """Up to which offset both sides can be compared: before it every record that was read is known, as is each hole."""
    return min(end, want.offset, want.offset if want.ring_offset is None else want.ring_offset)


def prove(want: Want, here: Lineage, records: Sequence[LogRecord] | None) -> Found | str:
    """The place, or in one sentence why the same offset is not proven to be it.

    ``records``: the standby's over the offsets of the sampled ones; None when they could not be read.
    """
    against = _contradiction(want, here)
    if against:
        return against
    expected = sampled(want, begin=here.begin, end=here.end)
    if records is None and expected:
        return "the standby's records could not be read to compare them"
    there = {record.offset: record for record in records or ()}
    same = [_is_same(each, there.get(each.offset), here) for each in expected]
    if not all(same):
        return _diverged(want, expected, same, there)
    if stray := _stray(want, here, expected, records or ()):
        return f"the standby holds a record at {stray.offset}, where the old log had none"
    if _is_repetitive(expected, there, here) and not _ends_agree(want, here):
        return "the remembered records are too similar to distinguish one offset from another"
    is_whole = bool(expected) and expected[-1].offset == len(expected) - 1
    same_ends = _is_same_topic(here) and _ends_agree(want, here)
    if len(expected) < TRUSTED and not is_whole and not same_ends:
        return f"{len(expected)} remembered records are within the standby's log, {TRUSTED} are needed"
    unknown = min(want.offset, here.end) - (want.ring_offset or 0)
    if unknown > 0 and not (_ends_agree(want, here) and _is_newest_behind(want, here)):
        return f"the remembered records end {unknown} before the position"
    missing = max(0, want.offset - here.end)
    note = f"the standby lags: it ends {amount(missing, 'offset')} before the position" if missing else ""
    return Found(min(want.offset, here.end), exact=missing == 0, missing=missing, note=note)


def _stray(
    want: Want, here: Lineage, expected: Sequence[Fingerprint], records: Sequence[LogRecord]
) -> LogRecord | None:
    """The first record behind the remembered ones and before the position; one that was aborted fills its own hole."""
    first, last = expected[-1].offset + 1 if expected else 0, tracked_to(want, end=here.end)
    return next((each for each in records if first <= each.offset < last and not each.uncommitted), None)


def _diverged(
    want: Want, expected: Sequence[Fingerprint], same: Sequence[bool], there: Mapping[int, LogRecord]
) -> Found | str:
    """The offset at which the standby parts from what was read, if the records show one; else which one differs.

    All before it are the same, enough of them for a proof, and no remembered content lies on the standby from there on.
    """
    at = same.index(False)
    odd = f"the standby does not hold the same record at offset {expected[at].offset}"
    gone = {each.digest for each in expected[at:]}
    if at < TRUSTED or any(same[at:]) or want.ring_offset != want.offset or expected[at].offset not in there:
        return odd
    before = {each.digest for each in expected[:at]}
    place = expected[at - 1].offset + 1
    if any(record.digest in gone | before for offset, record in there.items() if offset >= place):
        return odd
    lacking, odd_at = want.offset - place, expected[at].offset
    note = f"the standby's log parts from the old one at {place}: {lacking} offsets that were read are not there"
    between = sum(place <= offset < odd_at for offset in there)
    if between:
        note = f"the standby's log parts from the old one between {place} and {odd_at}, where no record is remembered"
    return Found(place, exact=not between, repeats=between, gone=lacking, note=note)


def _contradiction(want: Want, here: Lineage) -> str:
    """What the log ranges say against one and the same log; empty if nothing."""
    old, newest = here.old, here.newest_ms
    if want.offset < here.begin:
        return f"the standby begins at {here.begin}, after the position"
    if old is None or old.newest_timestamp_ms is None or newest is None or here.append_time:
        return ""
    if here.end == old.end and newest != old.newest_timestamp_ms:
        return f"both sides end at {here.end}, but with different newest timestamps"
    if here.end < old.end and newest > old.newest_timestamp_ms:
        return f"the standby ends before the old partition did, with a newer time ({notes.instant(newest)})"
    return ""


def _is_same_topic(here: Lineage) -> bool:
    return here.old is not None and here.old.topic_id is not None and here.old.topic_id == here.topic_id


def _ends_agree(want: Want, here: Lineage) -> bool:
    """Whether both sides ended at the same offset, at or after the position, with the same newest time."""
    old = here.old
    if old is None or here.newest_ms is None:
        return False
    return want.offset <= here.end == old.end and here.newest_ms == old.newest_timestamp_ms


def _is_newest_behind(want: Want, here: Lineage) -> bool:
    """Whether the record of the newest time lies behind those remembered: else it shows nothing of what lies there."""
    return here.newest_at is not None and here.newest_at >= (want.ring_offset or 0)


def _is_repetitive(expected: Sequence[Fingerprint], there: Mapping[int, LogRecord], here: Lineage) -> bool:
    """Whether the same records could also lie at other offsets: a log that is shifted would look no different.

    So it is where they repeat themselves, or where the standby fills a hole of the old log with one of them.
    """
    timeless = here.append_time or any(record.append_time for record in there.values())
    known = [_content(record, timeless=timeless) for record in expected]
    if any(known[step:] == known[:-step] for step in range(1, len(known) // 2 + 1)):
        return True
    holes = there.keys() - {record.offset for record in expected}
    return any(_content(there[offset], timeless=timeless) in known for offset in holes)


def _content(record: Fingerprint | LogRecord, *, timeless: bool) -> tuple[bytes, int]:
    return record.digest, 0 if timeless else record.timestamp_ms


def _is_same(old: Fingerprint, here: LogRecord | None, lineage: Lineage) -> bool:
    if here is None or here.digest != old.digest:
        return False
    return here.append_time or lineage.append_time or here.timestamp_ms == old.timestamp_ms
