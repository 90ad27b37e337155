"""The matrix as a section of a report: what each case was, and what came."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reports.result import Section
from state.settings.keys import MethodName
from tests.alignment.cases import Case
from tests.alignment.world import Answer

ABOUT = """
Two real brokers (Kafka 4.3.1, one a cluster) with a real MirrorMaker 2 between them, and one topic of four partitions
for each case. Foreign records come first on the standby, so that no offsets agree. Positions are drawn at random.
What a query would remember there is read from the primary by the tracker's own reader. The resolver answers for
the four partitions of a topic together, with `methods: [exact, timestamp]` and a buffer of 15 minutes. Every record
has a number in a header, which no fingerprint covers; another client reads both logs whole and judges each place by
the numbers. Where the replicator was killed, half of the positions are drawn among those right after a record that
it has sent twice:

- *exact*: right after the first copy of the last record read, or at the end where the standby lacks it. Nothing is
  lost, and nothing is read twice but what the replicator itself sent twice (*of these, re-sent follow*);
- *earlier*: nothing is lost, some records are read again; *most* is the largest number of them at one position;
- *later*: a record that was not read lies before the place. Must be 0.

*Said* counts the places that the resolver itself called exact: none of these may be earlier. *By time* counts those
that content did not give. The replicator copies aborted transactions as ordinary records, so no place of a query that
reads only what is committed is called exact where they show.
""".strip()
COLUMNS = (
    "case", "positions", "to reach", "exact", "of these, re-sent follow", "earlier", "most", "later", "said", "by time",
)  # fmt: skip


_RESENT = 1 / 6
"""Of the places of a case with a killed replicator, so many must have re-sent records behind them."""


_MOST_SHOWN = 40
"""Fewer places show no share: where one of four is not found by content, all four of its topic go by time."""


@dataclass(frozen=True)
class Row:
    """One case and its answers."""

    case: Case
    answers: Sequence[Answer]

    def count(self, kind: str) -> int:
        """How many places are of a kind."""
        return sum(answer.verdict.kind == kind for answer in self.answers)

    @property
    def resent(self) -> int:
        """How many exact places records follow that were read before, because the replicator sent them twice."""
        return sum(answer.verdict.kind == "exact" and answer.verdict.resent > 0 for answer in self.answers)

    @property
    def problems(self) -> list[str]:
        """What no place may be, and what the case has to reach."""
        name, total = self.case.name, len(self.answers)
        found = [f"{name}: later: {answer}" for answer in self.answers if answer.verdict.kind == "later"]
        found += [
            f"{name}: called exact: {answer}"
            for answer in self.answers
            if answer.target.exact and answer.verdict.kind != "exact"
        ]
        found += [
            f"{name}: more repeated than forecast: {answer}"
            for answer in self.answers
            if answer.target.replay_records is not None and answer.verdict.repeated > answer.target.replay_records
        ]
        found += [
            f"{name}: more comes later than announced: {answer}"
            for answer in self.answers
            if answer.target.replay_later_records is not None
            and answer.verdict.absent > answer.target.replay_later_records
            and not self.case.compacted
        ]
        least = self.case.share * total if total >= _MOST_SHOWN or self.case.share == 1.0 else 1
        if self.count("exact") < least:
            found.append(f"{name}: {self.count('exact')} of {total} exact, {self.case.share:.0%} to reach")
        if self.case.killed and self.resent < _RESENT * total:
            found.append(f"{name}: re-sent records follow only {self.resent} of {total} places")
        return found

    def line(self) -> tuple[str, ...]:
        """Its row of the table."""
        methods = Counter(answer.target.method for answer in self.answers)
        cells = [
            self.case.name,
            len(self.answers),
            f"{self.case.share:.0%}",
            self.count("exact"),
            self.resent,
            self.count("earlier"),
            max(answer.verdict.repeated for answer in self.answers),
            self.count("later"),
            sum(answer.target.exact for answer in self.answers),
            methods[MethodName.TIMESTAMP],
        ]
        return tuple(map(str, cells))


def section(rows: Sequence[Row]) -> Section:
    """The whole matrix."""
    total = sum(len(row.answers) for row in rows)
    sums = {kind: sum(row.count(kind) for row in rows) for kind in ("exact", "earlier", "later")}
    return Section(
        texts=(ABOUT,), rows=tuple(row.line() for row in rows), columns=COLUMNS,
        after=(f"{total:,} positions: {sums['exact']:,} exact, {sums['earlier']:,} earlier, {sums['later']:,} later.",),
    )  # fmt: skip
