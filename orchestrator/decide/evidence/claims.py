"""What a document claims, checked against what the clusters hold now: it holds, does not, or is unknown.

Of each partition that a move placed three things are claimed. *resume-offset* and *replay* are checked by
``placement_claims``. *exposure* is the number of records of the old cluster that were not on the other one, counted in
its log as it was when the move was measured.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from orchestrator.decide.move.forecast import is_unread
from orchestrator.decide.move.left_behind import Exposed, LeftPartition, left_partition
from state.model.evidence import BEFORE_ALL, Evidence, sha256_of, wrong_in
from state.model.pins import Pin
from state.model.plan import Followed, FollowedPartition, Plan, PlannedPartition, StandbyPartition, Witness

LATE, OUTPUT, SINK = "late-rows", "output-stopped", "sink-took-nothing"
OF_SINK = frozenset({LATE, OUTPUT, SINK})
"""Claims about what the sink got: by the rows that Spark counts, and by what the sink itself holds."""


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    CANNOT_BE_CHECKED = "cannot be checked"


class Claim(NamedTuple):
    """One claim of a document, checked."""

    name: str
    """``document``, ``chain``, ``resume-offset``, ``replay``, ``exposure``, ``late-rows``, ``output-stopped`` or
    ``sink-took-nothing``."""
    topic: str | None
    partition: int | None
    """Of the cluster that the query went to; None where the claim is of the whole document."""
    verdict: Verdict
    expected: object
    found: object
    text: str

    @property
    def is_only_unknown(self) -> bool:
        """Whether it is about what the sink got, and that is not known."""
        return self.name in OF_SINK and self.verdict is Verdict.CANNOT_BE_CHECKED


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """One partition as a document says that it was placed."""

    key: StandbyPartition
    row: PlannedPartition
    """Of the plan's partitions."""
    followed: FollowedPartition | None
    """What was remembered of it; None where its records are not known to lie in the one of its number."""

    @property
    def is_unread(self) -> bool:
        """Nothing had been read of it."""
        return is_unread(self.row.offset, self.row.method)

    @property
    def is_rewound(self) -> bool:
        """The query went back on the same cluster: all up to its old position comes again, and is not looked for."""
        return self.followed is not None and self.followed.rewound

    @property
    def remembered(self) -> tuple[Witness, ...]:
        """Consumed records, oldest first."""
        return self.followed.records if self.followed is not None else ()


def placed(document: Mapping[str, Any]) -> list[Placed]:
    """The partitions that a move placed; none where it moved nothing."""
    if not document["moved"]:
        return []
    followed = {row.key: row for row in _followed(document).partitions}
    rows = [PlannedPartition.of(row) for row in document["partitions"]]
    return [Placed(key=row.key, row=row, followed=followed.get(row.key)) for row in rows]


def left(document: Mapping[str, Any]) -> tuple[int, list[LeftPartition]]:
    """When the resume offsets were looked up, in milliseconds, and what to look for on the cluster that was left."""
    found = [left_partition(each.row, each.followed) for each in placed(document) if each.followed is not None]
    return _followed(document).asked_at_ms or 0, [each for each in found if each is not None]


def _followed(document: Mapping[str, Any]) -> Followed:
    """What the move of a document is measured by."""
    plan = Plan.of(document["plan"] or {})
    return plan.followed or Followed()


def of_document(kept: Evidence, neighbours: Sequence[Evidence]) -> list[Claim]:
    """Whether a document is unchanged, and is in the chain where it says."""
    before = next((each for each in neighbours if each.sequence == kept.sequence - 1), None)
    after = next((each for each in neighbours if each.sequence == kept.sequence + 1), None)
    expected = before.sha256 if before is not None else BEFORE_ALL
    claims = []
    if kept.document is None:
        text = "the document was deleted by retention; its hash stays in the chain"
        claims.append(Claim("document", None, None, Verdict.CANNOT_BE_CHECKED, kept.sha256, None, text))
    else:
        wrong = wrong_in(kept)
        verdict = Verdict.HOLDS if wrong is None else Verdict.DOES_NOT_HOLD
        text = "unchanged since it was written" if wrong is None else f"the document {wrong}"
        claims.append(Claim("document", None, None, verdict, kept.sha256, sha256_of(kept.document), text))
    if kept.previous != expected:
        gone = before is None and kept.sequence > 1
        text = f"number {kept.sequence - 1} of the chain is {'missing' if gone else 'not the document that it names'}"
        claims.append(Claim("chain", None, None, Verdict.DOES_NOT_HOLD, expected, kept.previous, text))
    elif after is not None and after.previous != kept.sha256:
        text = f"number {after.sequence} of the chain names a different predecessor"
        claims.append(Claim("chain", None, None, Verdict.DOES_NOT_HOLD, kept.sha256, after.previous, text))
    else:
        text = f"number {kept.sequence} of the chain; its neighbours agree"
        claims.append(Claim("chain", None, None, Verdict.HOLDS, expected, kept.previous, text))
    return claims


def strangers(document: Mapping[str, Any], pins: Iterable[Pin]) -> dict[str, str]:
    """Clusters of a document whose name another cluster has by now, each with the sentence that says so."""
    now = {pin.cluster: pin.id for pin in pins}
    return {
        each["cluster"]: f"{each['cluster']} is another cluster now: id {now[each['cluster']]}, it was {each['id']}"
        for each in document["clusters"]
        if each["id"] is not None and now.get(each["cluster"], each["id"]) != each["id"]
    }


def of_exposure(one: Placed, found: int | None, why_not: str, known: Exposed = Exposed()) -> Claim:  # noqa: B008 - frozen
    """How many records the other cluster did not have. ``why_not``: why that could not be counted.

    A forecast knows the old log up to its last sample. What was written behind that is missing as well, and is named
    beside it: it was no part of what the forecast claims. ``known``: what else was counted.
    """
    expected, about = one.row.exposure_records, ("exposure", one.key.topic, one.key.partition)
    bound = one.row.at_most.exposure_records if one.row.at_most is not None else None
    forecast = "forecast" if bound is None or expected is not None else "the upper bound of the plan"
    expected = bound if expected is None else expected
    counted = found if known.sampled is None else known.sampled
    if expected is None:
        return Claim(*about, Verdict.CANNOT_BE_CHECKED, None, found, "the plan could not forecast it")
    if counted is None:
        bounds = f"between {known.at_least} and {known.at_most} records; " if known.at_least is not None else ""
        return Claim(*about, Verdict.CANNOT_BE_CHECKED, expected, None, f"{bounds}{why_not}")
    if counted > expected:
        text = f"{counted - expected} more records were missing than {forecast}"
        return Claim(*about, Verdict.DOES_NOT_HOLD, expected, counted, text)
    text = f"no more records were missing than {forecast}" + _behind_the_sample(found, known, counted)
    return Claim(*about, Verdict.HOLDS, expected, counted, text)


def _behind_the_sample(found: int | None, known: Exposed, counted: int) -> str:
    """What is known of records that no forecast could know."""
    if found is not None and found > counted:
        return f" from the last sample; {found - counted} more were written after it and are missing, too"
    if found is None and known.at_most is not None and known.at_most > counted:
        bounds = f"{max(0, (known.at_least or 0) - counted)} to {known.at_most - counted}"
        return f" from the last sample; how many were written after it is unknown ({bounds})"
    return ""


def verdict_of(claims: Iterable[Claim]) -> Verdict:
    """Of all together: one that does not hold decides, then one that cannot be checked.

    What a sink does not report at all is shown as unknown and decides nothing.
    """
    found = {claim.verdict for claim in claims if not claim.is_only_unknown}
    for each in (Verdict.DOES_NOT_HOLD, Verdict.CANNOT_BE_CHECKED):
        if each in found:
            return each
    return Verdict.HOLDS


def read(kept: Evidence) -> dict[str, Any] | None:
    """The document of a link; None where it is gone or cannot be read."""
    try:
        said: dict[str, Any] | None = json.loads(kept.document) if kept.document is not None else None
    except ValueError:
        return None
    return said
