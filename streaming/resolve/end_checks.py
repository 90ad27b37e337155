"""Whether the log of the standby still reaches the places that were found.

A leader that just changed may have cut its log behind the look-up of its end. What comes to such a log later takes the
offsets before the place, and the query would skip it without a word. So the end is looked up once more where no record
shows that the log goes so far: where the place is that end, or what a sync, a segment or the same offset says.
"""

from collections.abc import Sequence

from state.settings.keys import MethodName
from streaming.cluster_log import Spec
from streaming.resolve.batched_lookups import ask_offsets
from streaming.resolve.offset_syncs import Case, Lookup
from streaming.resume import notes
from streaming.resume.model import Target
from streaming.resume.target import failed_target

_SHOWN = frozenset({MethodName.EXACT, MethodName.TIMESTAMP})
"""A record that lies at the place, or before it, was read or named by a look-up, unless the place is the end."""


def unless_cut(run: Lookup, cases: Sequence[Case], targets: Sequence[Target]) -> list[Target]:
    """The targets of these cases, in their order; one that lies behind the end as it is now has an error instead."""
    pairs = list(zip(cases, targets, strict=True))
    asked = [(case.key, int(Spec.LATEST)) for case, target in pairs if _is_open(target)]
    ends = {key: looked.offset for (key, _), looked in ask_offsets(run.log, asked, run.deadline).items()}
    kept = []
    for case, target in pairs:
        place, end = target.target_offset or 0, ends.get(case.key)
        is_cut = end is not None and end < place and _is_open(target)
        error = notes.cut_since(place, end) if is_cut and end is not None else None
        kept.append(target if error is None else failed_target(case.want, run.rules, error))
    return kept


def _is_open(target: Target) -> bool:
    """Whether nothing that was read or named shows that the log goes as far as the place."""
    place = target.target_offset or 0
    return place > 0 and (place >= (target.end or 0) or target.method not in _SHOWN)
