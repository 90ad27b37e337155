"""The sentences: every cause of a missing or doubtful place has its own, so that none is mistaken for another."""

from datetime import UTC, datetime

from state.plain_text import amount
from streaming.cluster_log import PartitionError
from streaming.resume.methods.content_search import Cause, Found, NoPlace
from streaming.resume.standby_lookup import StandbyLookup

NO_TIMESTAMP = "no time of a consumed record is known, so the standby cannot be searched by time"
NOTHING_READ = "nothing was read yet: resumed at the start of the standby's log"
NOTHING_LEFT = (
    "no record that was read is remembered, and the old partition was empty: resumed at the start of the standby's log"
)
TIME_PAST_CONTENT = "the time look-up went past the offset proven by content: resumed at the proven offset"
ONLY_YOUNGER = "the first record that the standby still holds is newer than the last one read: resumed there"
OPEN_TRANSACTION = "an open transaction on the standby pins its last stable offset: resumed there"
UNPROVEN_BOUND = "replay is an upper bound: the offset could not be proven by content"
ADDED = "the old topic was not known to have this partition"
NO_SYNC = "the offset-syncs topic has no entry for this partition"
SYNC_AHEAD = "the offset sync points past the standby's end: it belongs to another log"
SYNC_PAST_CONTENT = "the offset sync went past the offset proven by content: resumed at the proven offset"
SYNC_EXPIRED = (
    "retention: the standby has deleted the records at the offset sync; unread records may have expired there"
)
CUT = "log truncation: the old log was cut before the position, at an unknown offset"
FAIL = "no method applies, and policy.on_no_match is fail"
SEGMENT = "whole segments earlier: the standby only reports when a segment was last written"
NO_SEGMENT = "no segment of the standby is that old: resumed at the start of its log"

CAUSES = {
    Cause.NOT_REMEMBERED: "no records are remembered for this partition",
    Cause.LAGS: (
        "the standby lags: all its records are older than those remembered; records of other writers among them may be "
        "skipped"
    ),
    Cause.UNACCOUNTED: "the standby holds no record as new as the last one read, and that it lags is not shown",
    Cause.CONTRADICTED: "the standby's answers contradict each other",
    Cause.EMPTY: "the standby's partition is empty",
    Cause.MISMATCH: "the standby holds records as new as the last one read, but not that record in its context",
    Cause.THIN: "too little context was left on the standby to trust a match",
    Cause.RETENTION: "retention on the standby has removed the records around the position",
    Cause.COMPACTED: "compaction has removed every remembered record",
    Cause.COMPACTED_APPEND_TIME: "a compacted topic with LogAppendTime cannot be aligned",
    Cause.SCAN_LIMIT: "the scan limit was reached before the last record read",
    Cause.DEADLINE: "the deadline passed while the standby was read",
    Cause.ERROR: "the standby could not be read",
    Cause.TRUNCATED: "the old log was cut, so the remembered records may exist nowhere",
    Cause.REPARTITIONED: "the standby's partitions do not match the old cluster's one to one",
}


def joined(*parts: str) -> str:
    """Several notes as one, empty ones left out."""
    return "; ".join(part for part in parts if part)


def instant(timestamp_ms: int) -> str:
    """A time for people: ISO 8601 in UTC; bare milliseconds where the calendar ends."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def no_place(outcome: NoPlace) -> str:
    """Why content gave no place."""
    return f"{CAUSES[outcome.cause]}{f' ({outcome.detail})' if outcome.detail else ''}"


def future(time_ms: int) -> str:
    """No clock has come to that time yet."""
    return f"{instant(time_ms)} is in the future"


def failed(error: PartitionError) -> str:
    """A partition's error; one that passes without help (a leader that just changed) says so."""
    again = ", trying again may help: the leader may just have changed" if error.retriable else ""
    return f"{error.name}: {error.text}{again}"


def no_match(time_ms: int, facts: StandbyLookup, now: datetime, *, idle: bool | None) -> str:
    """Why the standby has no record at or after a time; in each case the query resumes at the standby's end."""
    if time_ms > now.timestamp() * 1000:
        return f"{future(time_ms)}: resumed at the standby's end"
    if facts.end < facts.log_end:
        return OPEN_TRANSACTION
    if facts.begin == facts.end:
        return "the standby's partition is empty: resumed at its end"
    lacks = isinstance(facts.alignment, Found) and facts.alignment.missing != 0
    if idle and not lacks:
        return f"idle partition: nothing since {instant(time_ms)}, resumed at the standby's end"
    newest = "" if facts.newest_ms is None else f", its newest is of {instant(facts.newest_ms)}"
    return f"the standby lags: no record since {instant(time_ms)}{newest}; resumed at its end"


def cut_since(place: int, end: int) -> PartitionError:
    """The standby's log ended at the place or behind it when it was first queried."""
    text = f"its end went back to {end}, before the resume offset {place}: the log was cut"
    return PartitionError(name="CONTRADICTION", text=text, retriable=True)


def unproven_copy(reason: str) -> str:
    """A route that is said to keep offsets, and for which the records do not prove it."""
    return f"the same offset is not proven: {reason}"


def before_syncs(offset: int, oldest: int) -> str:
    """No sync is old enough."""
    return f"the oldest offset sync is for {oldest}, after {offset}"


def unread_behind(offsets: int) -> str:
    """Too much to look through for records that were sent again."""
    return (
        f"{offsets} offsets after the resume offset are too many to search for records that the replicator sent again: "
        "how many are read twice is unknown"
    )


def unsearched_behind(offsets: int) -> str:
    """Not read to the end: the time was over, or the cluster gave no answer."""
    return (
        f"{offsets} offsets after the resume offset were not searched to the end for records that the replicator sent "
        "again: how many are read twice is unknown"
    )


def unconfirmed(agreeing: int, known: int) -> str:
    """Syncs against content: they prove themselves by the times of the records that they speak of."""
    return f"the offset syncs are not trusted either: only {agreeing} of {known} remembered times are where they say"


def begun_late(begin: int) -> str:
    """Nothing was read, and retention has worked on the standby."""
    return f"retention: the standby's log begins at {begin}; unread records before that may have been deleted"


def set_back(read_to: int, offset: int) -> str:
    """Rule of an old log that was cut at a known offset."""
    return f"log truncation: read to {read_to}, resumed where the old log diverges from what was read, at {offset}"


def retention(earliest_ms: int, time_ms: int) -> str:
    """The standby no longer reaches back as far as requested."""
    return (
        f"retention: the standby's first record is of {instant(earliest_ms)}, after {instant(time_ms)}; "
        "unread records may have expired there"
    )


def repartitioned(old: int, new: int) -> str:
    """Rule of a standby with another number of partitions."""
    counts = f"{amount(old, 'partition')} there, {new} here"
    return f"{counts}: every partition resumes at the topic's earliest time minus the buffer"


def unaligned(partition: int) -> str:
    """Rule of a standby of which one partition lacks what was read; why it does is not shown."""
    return (
        f"partition {partition} does not hold the records it held on the old cluster. A topic that was recreated, a "
        "replicator that began later or another partitioner is possible. So every partition resumes at the topic's "
        "earliest time minus the buffer"
    )
