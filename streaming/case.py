"""One want on its way to a target: where it is looked for, and what was found out about it so far."""

from dataclasses import dataclass

from state.model import TopicPartition
from streaming.resume.exact import Found, NoPlace
from streaming.resume.model import Want
from streaming.resume.syncs import Syncs
from streaming.scan import Scan


@dataclass(kw_only=True, slots=True, eq=False)
class Case:
    """A want, the partition of the standby that may hold its place, and the evidence."""

    want: Want
    key: TopicPartition
    partner: bool = True
    """Whether the standby's partition is the old one's copy; not so where partitions do not match one to one."""
    alignment: Found | NoPlace | None = None
    scan: Scan | None = None
    idle: bool | None = None
    ever_read: int = 0
    note: str = ""
    added: bool = False
    """Whether the standby has this partition beyond those that were known of the old topic."""
    copy: Found | str = ""
    """What came of comparing the same offsets on both sides; empty when that was not asked."""
    syncs: Syncs | str = ""
    """The replicator's offset syncs of the old partition, or why there are none; empty when that was not asked."""
