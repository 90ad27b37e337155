"""The verifier: what producers were acknowledged, what the clusters hold, what the sinks got; a verdict per query."""

import time
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from lab import acked
from lab.errors import ClusterSilent, LabError
from lab.java import Say
from lab.judge import Held, Truth, Verdict
from lab.log import Log
from lab.sinks import SINKS
from lab.world import Place

_AGAIN_SECONDS = 1.0


class Verifier:
    """Verifies the queries of one configuration; reading goes on where the last verdict left off."""

    def __init__(self, world: Place, configuration: Path, say: Say) -> None:
        self._world = world
        self._say = say
        self._logs: dict[tuple[str, str], Log] = {}
        self._queries = _read(configuration)
        for name, query in self._queries.items():
            if query["pipeline"] not in SINKS:
                say(f"{name}: skipped, the sink of {query['pipeline']} is not known here")

    def verdicts(self, wait_seconds: float) -> dict[str, Verdict]:
        """Judge; with a wait, only once nothing is missing and two verdicts in a row agree, or the wait is over."""
        deadline = time.monotonic() + wait_seconds
        before: dict[str, Verdict] | None = None
        while True:
            found = self._judge()
            settled = found == before and all(not each.lost for each in found.values())
            if settled or time.monotonic() >= deadline:
                return found
            before = found
            time.sleep(min(_AGAIN_SECONDS, max(0.0, deadline - time.monotonic())))

    def counts(self) -> dict[str, dict[str, int]]:
        """By query, what was acknowledged to producers and delivered to the sink; no cluster is asked.

        Whether there is load, told in a moment and in little memory, however much was sent: no verdict.
        """
        found = {}
        for name, query in self._queries.items():
            sink = SINKS.get(query["pipeline"])
            if sink is not None:
                counted = sum(acked.count(self._world.acked, topic) for topic in _topics(query))
                found[name] = {"acked": counted, "delivered": sink.delivered(Path(query["settings"]["sink"]))}
        return found

    def _judge(self) -> dict[str, Verdict]:
        found = {}
        truths: dict[tuple[str, ...], Truth] = {}
        for name, query in self._queries.items():
            sink = SINKS.get(query["pipeline"])
            if sink is None:
                continue
            read = _topics(query)
            clusters = tuple(query["clusters"][:2])
            if (*clusters, *read) not in truths:
                truths[*clusters, *read] = self._truth(read, *clusters)
            found[name] = sink.judge(query.get("settings", {}), truths[*clusters, *read])
        return found

    def _truth(self, read: tuple[str, ...], primary: str, standby: str) -> Truth:
        sent = [each for topic in read for each in acked.read(self._world.acked, topic)]
        # The primary first: what it has by now and the standby does not have a moment later was on its way.
        on_primary = list(chain.from_iterable(self._peek(primary, topic) for topic in read))
        on_standby = list(chain.from_iterable(self._read(standby, topic) for topic in read))
        by_order = sorted(sent, key=lambda each: (not each.acknowledged, each.offset, each.id))
        told = (Held(each.id, each.partition, each.offset, each.at_ms) for each in by_order)
        return Truth.gather(
            acked=(each.id for each in sent if each.acknowledged),
            standby=on_standby,
            elsewhere=chain(on_primary, told),
        )

    def _peek(self, cluster: str, topic: str) -> Iterable[Held]:
        """Return what is known of a topic on a cluster that may be dead."""
        if self._world.may_answer(cluster):
            try:
                return self._read(cluster, topic)
            except ClusterSilent as error:
                self._say(str(error))
        return self._log(cluster, topic).held

    def _read(self, cluster: str, topic: str) -> list[Held]:
        log = self._log(cluster, topic)
        log.advance()
        return log.held

    def _log(self, cluster: str, topic: str) -> Log:
        if (cluster, topic) not in self._logs:
            self._logs[cluster, topic] = Log(self._world.bootstrap(cluster), topic)
        return self._logs[cluster, topic]


def _topics(query: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted({topic for source in query["sources"].values() for topic in source.get("topics", ())}))


def _read(configuration: Path) -> Mapping[str, Any]:
    try:
        queries = yaml.safe_load(configuration.read_text(encoding="utf-8"))["queries"]
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        raise LabError(f"no queries can be read from {configuration}: {error}") from error
    return dict(queries)
