"""What was looked up on the standby for one want, and what a method makes of it: pure values between the steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from state.settings.keys import MethodName
from streaming.cluster_log import LogRecord, OffsetAnswer, Segments
from streaming.resume.methods.content_search import Found, NoPlace
from streaming.resume.offset_syncs import Syncs
from streaming.resume.sent_again import NOTHING, Resent


@dataclass(frozen=True, kw_only=True, slots=True)
class StandbyLookup:
    """One partition of the standby, seen for one want. Offsets belong to one snapshot."""

    begin: int
    end: int
    """Where a reader ends: the high watermark, or the last stable offset under ``read_committed``."""
    log_end: int
    """The high watermark."""
    by_time: OffsetAnswer | None
    """Answer to ``T - buffer``; None when it was not looked up (T unknown, method not allowed)."""
    newest_ms: int | None
    """Largest timestamp on the standby; None unknown or empty."""
    earliest_ms: int | None
    """Timestamp of the first record kept; read only where retention may matter."""
    append_time: bool
    alignment: Found | NoPlace
    segments: Segments | None = None
    """The newest segments at ``T - buffer``; looked up only where times cannot be."""
    scanned: Sequence[LogRecord] = ()
    """The records read for the alignment, in offset order."""
    scanned_from: int | None = None
    """Offset from which they were read on."""
    syncs: Syncs | str = ""
    """The replicator's offset syncs of the old partition, or why there are none; empty when they were not read."""
    copy: Found | str = ""
    """The place where both sides keep the same offsets, once proven, or why it is not; empty when not looked up."""
    behind: Sequence[LogRecord] | None = None
    """All records from the place found by content up to ``log_end``; None where not all were read."""
    resent: Resent = NOTHING
    """What was sent again behind the place found by content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResumeOffset:
    """Where one method says to resume."""

    method: MethodName
    offset: int
    exact: bool = False
    repeats: int | None = None
    """At most this many records from ``offset`` on were already read, as the method knows it; None: it does not."""
    note: str = ""
    expired: bool = False
    """Whether the standby has deleted records from there on, and unread ones may be among them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NotApplicable:
    """Why a method does not hold here."""

    note: str
