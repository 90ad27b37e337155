"""The verifier: what producers were acknowledged, what the clusters hold, what the sinks got; a verdict per query.

After a way home one cluster holds everything (``on``): what the other one got was copied there. What only that cluster
ever had, a tail, is given as it was reported (``tails``). A query may have read a beginning of it before it left, and a
report that names one record too many or too few shows as a loss.

What cannot be judged is an error with one sentence. Examples are a topic that does not exist, a query of an unknown
sink, a sink that was never written though records were acknowledged. No query is skipped, and none gets a zero for it.
"""

import itertools
import json
import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lab import ledger, queries, topics
from lab.errors import ClusterSilent, LabError, NoSink, Unjudgeable
from lab.java import Say
from lab.judge import QueryVerdict, judge_by_id
from lab.log import TopicReader
from lab.queries import Query
from lab.sink_contents import Judge
from lab.truth import Held, Topic, Truth
from lab.world import Place

_AGAIN_SECONDS = 1.0

_Read = tuple[str, str, str, str]
"""Primary, its name of a topic, standby, its name of that topic."""


@dataclass(frozen=True)
class Home:
    """The cluster that holds everything, and what was reported that only it ever had."""

    cluster: str
    tail: frozenset[tuple[str, int, int]] = frozenset()
    """Topic, partition and offset of each record."""

    @classmethod
    def read(cls, cluster: str, reports: Iterable[Path]) -> Self:
        """From what ``tideover show-op ID --tail -o json`` printed. Raises LabError."""
        reported: set[tuple[str, int, int]] = set()
        for path in reports:
            try:
                report = json.loads(path.read_text(encoding="utf-8"))
                records = {(each["topic"], each["partition"], each["offset"]) for each in report["records"]}
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise LabError(f"{path} is no report of a tail: {error!r}") from error
            if report["cluster"] != cluster:
                raise LabError(f"{path} is about {report['cluster']}, not about {cluster}")
            reported |= records
        return cls(cluster, frozenset(reported))


class Verifier:
    """Verifies the queries of one configuration; reading continues where the last verdict ended."""

    def __init__(
        self, world: Place, configuration: Path, say: Say, *, only: Collection[str] = (), home: Home | None = None
    ) -> None:
        self._world = world
        self._say = say
        self._logs: dict[tuple[str, str], TopicReader] = {}
        self._home = home
        self._queries = queries.read(configuration, only)

    def verdicts(self, wait_seconds: float) -> dict[str, QueryVerdict]:
        """Judge; with a wait, only once nothing is missing and two verdicts in a row agree, or the wait is over."""
        deadline = time.monotonic() + wait_seconds
        before: dict[str, QueryVerdict] | None = None
        while True:
            found: dict[str, QueryVerdict] | None = None
            try:
                found = self._judge()
            except NoSink:
                if time.monotonic() >= deadline:
                    raise
            if found is not None:
                settled = found == before and all(not each.lost for each in found.values())
                if settled or time.monotonic() >= deadline:
                    return found
            before = found
            time.sleep(min(_AGAIN_SECONDS, max(0.0, deadline - time.monotonic())))

    def counts(self) -> dict[str, dict[str, int]]:
        """By query, what was acknowledged to producers and delivered to the sink; no cluster is queried.

        Whether there is load, known in a moment and in little memory, however much was sent: no verdict.
        """
        return {query.name: self._count(query) for query in self._queries}

    def _count(self, query: Query) -> dict[str, int]:
        counted = 0
        for topic in self._sent_to(query):
            places = {(query.primary, topic), (query.standby, query.on_standby(topic))}
            counted += sum(ledger.count(self._world.acked, there, cluster) for cluster, there in places)
        try:
            delivered = query.sink.delivered(Path(query.settings["sink"]))
        except NoSink:
            if counted:
                raise
            delivered = 0
        return {"acked": counted, "delivered": delivered}

    def _judge(self) -> dict[str, QueryVerdict]:
        # The sinks first: what they hold by now the clusters hold a moment later, too, also while records are sent.
        judges = {query.name: self._read_sink(query) for query in self._queries}
        found = {}
        read: dict[_Read, Topic] = {}
        for query in self._queries:
            truth = Truth({topic: self._topic(query, topic, read) for topic in self._topics(query)})
            judge = judges[query.name]
            if isinstance(judge, NoSink):
                if not truth.is_empty:
                    raise judge
                found[query.name] = judge_by_id(truth, {})
            else:
                found[query.name] = judge(truth)
        return found

    def _read_sink(self, query: Query) -> Judge | NoSink:
        try:
            return query.sink.read(query.settings, query.home)
        except NoSink as missing:  # right as long as nothing was sent
            return missing

    def _topics(self, query: Query) -> list[str]:
        """The topics of a query by their names on the primary; what matches its patterns on either cluster, too."""
        if not query.patterns:
            return list(query.topics)
        matching = self._sent_to(query)
        matching |= {each for each in self._peek_names(query.primary) or () if query.reads(each)}
        there = (query.on_primary(each) for each in topics.names(self._world.bootstrap(query.standby)))
        matching |= {each for each in there if each is not None and query.reads(each)}
        for pattern in query.patterns:
            if not any(re.fullmatch(pattern, each) for each in matching):
                raise Unjudgeable(f"query {query.name}: no topic matches its pattern {pattern} on either cluster")
        return sorted(matching)

    def _sent_to(self, query: Query) -> set[str]:
        """The topics that a query names, and those that match its patterns of which the ledger of traffic knows."""
        there = {query.on_primary(each) for each in ledger.topics(self._world.acked, query.standby)}
        known = ledger.topics(self._world.acked, query.primary) | (there - {None})
        return {*query.topics, *(each for each in known if each is not None and query.reads(each))}

    def _topic(self, query: Query, topic: str, read: dict[_Read, Topic]) -> Topic:
        """Read one topic of a query on both clusters; queries of the same topic share what was read."""
        if self._home is not None:
            return self._at_home(query, topic, self._home)
        there = query.on_standby(topic)
        key = query.primary, topic, query.standby, there
        if key not in read:
            # The primary first: what it has by now and the standby does not have a moment later was on its way.
            on_primary = self._peek(query, topic)
            on_standby = self._on_standby(query, topic, there)
            direct = ledger.read(self._world.acked, there, query.standby)
            read[key] = Topic.gather(
                sent=ledger.read(self._world.acked, topic, query.primary), direct=direct,
                primary=on_primary, standby=on_standby,
            )  # fmt: skip
        return read[key]

    def _at_home(self, query: Query, topic: str, home: Home) -> Topic:
        """Everything is on one cluster; of its tail a query may have read a beginning."""
        names = {query.primary: topic, query.standby: query.on_standby(topic)}
        if home.cluster not in names:
            raise Unjudgeable(f"query {query.name} does not run on {home.cluster}")
        name = names[home.cluster]
        held = self._read(home.cluster, name)
        tail = [each for each in held if (name, each.partition, each.offset) in home.tail]
        known = set(tail)
        acked = [ledger.read(self._world.acked, called, cluster) for cluster, called in names.items()]
        rest = [each for each in held if each not in known]
        return Topic.gather(primary=tail, standby=rest, direct=itertools.chain(*acked))

    def _peek(self, query: Query, topic: str) -> Iterable[Held]:
        """Return what is known of a topic on the primary, which may be dead."""
        names = self._peek_names(query.primary)
        if names is not None and topic not in names:
            if topic in query.topics:
                raise Unjudgeable(f"query {query.name}: topic {topic} does not exist on {query.primary}")
            return ()  # of a pattern, and made on the standby
        if names is not None:
            try:
                return self._read(query.primary, topic)
            except ClusterSilent as error:
                self._say(str(error))
        return self._log(query.primary, topic).held

    def _peek_names(self, cluster: str) -> set[str] | None:
        """The topics of a cluster that may be dead; None when it does not answer."""
        if self._world.may_answer(cluster):
            try:
                return topics.names(self._world.bootstrap(cluster))
            except ClusterSilent as error:
                self._say(str(error))
        return None

    def _on_standby(self, query: Query, topic: str, there: str) -> Iterable[Held]:
        if there in topics.names(self._world.bootstrap(query.standby)):
            return self._read(query.standby, there)
        if topic in query.topics:
            raise Unjudgeable(f"query {query.name}: topic {there} does not exist on {query.standby}")
        return ()  # of a pattern, and not replicated yet

    def _read(self, cluster: str, topic: str) -> list[Held]:
        log = self._log(cluster, topic)
        log.advance()
        return log.held

    def _log(self, cluster: str, topic: str) -> TopicReader:
        if (cluster, topic) not in self._logs:
            self._logs[cluster, topic] = TopicReader(self._world.bootstrap(cluster), topic)
        return self._logs[cluster, topic]
