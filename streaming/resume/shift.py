"""Whether a batch under way can continue in its run on another cluster: by how much its offsets differ there; pure.

The run itself goes by the same rule (``Shift.java``): the cases of ``tests/cases/shift.json`` are tested in both
languages. A plan that promises otherwise than the run then does promises a batch once that the sink gets twice.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

TopicOffsets = Mapping[str, Mapping[str, int]]
Naming = Callable[[str], str]
"""From a topic's name on a cluster to its name at home."""


class Ends(NamedTuple):
    """What a batch reads of a source: offsets by topic and partition, the last ones excluded."""

    start: TopicOffsets
    end: TopicOffsets


def shift_between(here: Ends, named: Naming, there: Ends, named_there: Naming) -> dict[str, dict[str, int]] | None:
    """By topic here and partition, what is added to an offset; None where a record in the middle has no known place.

    That is where a partition spans another number of offsets there. The cause is holes that transactions or compaction
    left, a place that was found by time, a partition more from which the batch would read.
    """
    ours, theirs = _by_home(here.end, named), _by_home(there.end, named_there)
    if not ours or ours.keys() != theirs.keys() or len(ours) < len(here.end) or len(theirs) < len(there.end):
        return None
    found: dict[str, dict[str, int]] = {}
    for home, topic in ours.items():
        other = theirs[home]
        starts, ends = here.start.get(topic, {}), here.end[topic]
        starts_there, ends_there = there.start.get(other, {}), there.end[other]
        known = ends.keys() <= starts.keys() & starts_there.keys() & ends_there.keys()
        if not known or any(ends_there[each] != starts_there.get(each) for each in ends_there.keys() - ends.keys()):
            return None
        found[topic] = {each: starts_there[each] - starts[each] for each in ends}
        if any(ends_there[each] - ends[each] != by for each, by in found[topic].items()):
            return None
    return found


def _by_home(offsets: TopicOffsets, named: Naming) -> dict[str, str]:
    return {named(topic): topic for topic in offsets}
