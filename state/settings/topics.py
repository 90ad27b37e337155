"""What topics are called on a cluster, and which query reads what another one writes; pure.

A query is declared with the names of its home cluster (the first of its ``clusters``). On another cluster the route
from home decides; without one the route back is read the other way round; without either the names are the same.

A query whose output another one reads is *upstream* of it. That is found from ``output`` and ``sources``, for all
clusters on which both may run, so that it does not change with a move. ``after`` says it where the configuration does
not show it. What is declared is no circle (``key_rules.contradictions``). What is found may be one: two queries that
each read what the other writes. Nothing shows then which goes first, so what was found of the circle does not count.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import pairwise

from state.settings import canonical
from state.settings.canonical import copied_as
from state.settings.key_rules import circle_in
from state.settings.keys import Query, Source, Tideover


def renaming(settings: Tideover, home: str, cluster: str) -> Callable[[str], str]:
    """The function from a topic's name at home to its name on ``cluster``."""
    if home == cluster:
        return lambda name: name
    there, back = settings.route(home, cluster), settings.route(cluster, home)
    return canonical.renaming(None if there is None else there.topics, None if back is None else back.topics)


def home_naming(settings: Tideover, query: Query, source: str, cluster: str) -> dict[str, object]:
    """How the companion finds the name at home of a source's topic on a cluster; empty where names are the same.

    ``{"prefix": "east."}`` or ``{"names": {"orders-west": "orders"}}``. Behind a route that is read the other way round
    only the declared topics are known: no name shows whether a prefix was taken from it.
    """
    home = query.clusters[0]
    route = None if home == cluster else settings.route(home, cluster)
    if route is not None and not isinstance(route.topics, str):
        if set(route.topics) == {"prefix"}:
            return {"prefix": route.topics["prefix"]}
        return {"names": {there: here for here, there in route.topics.items() if here != there}}
    rename = renaming(settings, home, cluster)
    names = {rename(topic): topic for topic in query.sources[source].topics if rename(topic) != topic}
    return {"names": names} if names else {}


def topics_of(settings: Tideover, query: Query, cluster: str) -> dict[str, tuple[str, ...]]:
    """Per source, its topics by their names on ``cluster``; none for a source that subscribes by a pattern."""
    rename = renaming(settings, query.clusters[0], cluster)
    return {name: tuple(rename(topic) for topic in source.topics) for name, source in query.sources.items()}


def all_topics_of(settings: Tideover, query: Query, cluster: str) -> frozenset[str]:
    """The same of all its sources together."""
    return frozenset(topic for topics in topics_of(settings, query, cluster).values() for topic in topics)


def pattern_of(settings: Tideover, query: Query, source: Source, cluster: str) -> str | None:
    """The source's ``subscribePattern`` on ``cluster``.

    Behind an explicit map of names it is the other names of the mapped topics that match at home, one by one.
    """
    if source.pattern is None or cluster == query.clusters[0]:
        return source.pattern
    route = settings.route(query.clusters[0], cluster)
    topics = route.topics if route is not None else "identity"
    if isinstance(topics, str):
        return source.pattern
    if set(topics) == {"prefix"}:
        return f"{re.escape(topics['prefix'])}(?:{source.pattern})"
    return "|".join(re.escape(there) for here, there in topics.items() if re.fullmatch(source.pattern, here))


@dataclass(frozen=True, kw_only=True, slots=True)
class Chains:
    """Which queries come before which."""

    upstream: Mapping[str, tuple[str, ...]]
    """By query, those directly upstream of it, in the order of the configuration; without circles."""
    circles: tuple[tuple[str, ...], ...] = ()
    """Each of those that were found: names of which each writes what the next one reads, and the last the first."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """By query: its own, or a higher one of those that come after it."""

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """These names, each behind those that are upstream of it, else those of the higher priority first, and else in
        the order in which they are given."""
        wanted = sorted(dict.fromkeys(names), key=lambda name: -self.priorities.get(name, 0))
        place = {name: index for index, name in enumerate(wanted)}
        known = list(place)
        sorter = TopologicalSorter({name: self.among(name, place) for name in known})
        sorter.prepare()
        ready, sorted_names = [place[name] for name in sorter.get_ready()], list[str]()
        heapify(ready)
        while ready:
            name = known[heappop(ready)]
            sorted_names.append(name)
            sorter.done(name)
            for freed in sorter.get_ready():
                heappush(ready, place[freed])
        return tuple(sorted_names)

    def among(self, query: str, names: Collection[str]) -> tuple[str, ...]:
        """Those of these names that are directly upstream of a query."""
        return tuple(name for name in self.upstream.get(query, ()) if name in names)


def chains_of(settings: Tideover) -> Chains:
    """What is declared and what is found."""
    queries = settings.queries
    writing = [name for name, query in queries.items() if query.output is not None]
    found = {
        name: [other for other in writing if other != name and _is_read(settings, queries[other], query)]
        for name, query in queries.items()
    }
    circles: list[tuple[str, ...]] = []
    while circle := circle_in(upstream := _together(queries, found)):
        circles.append(circle[:-1])
        for before, name in pairwise(circle):
            found[name] = [other for other in found[name] if other != before]
    return Chains(
        upstream={name: before for name, before in upstream.items() if before},
        circles=tuple(circles),
        priorities=_inherited({name: query.priority for name, query in queries.items()}, upstream),
    )


def _inherited(own: Mapping[str, int], upstream: Mapping[str, Sequence[str]]) -> Mapping[str, int]:
    """Who is waited for is as urgent as who waits."""
    found = dict(own)
    waiting = sorted(own, key=own.__getitem__)
    while waiting:
        name = waiting.pop()
        for before in upstream.get(name, ()):
            if found[before] < found[name]:
                found[before] = found[name]
                waiting.append(before)
    return found


def _together(queries: Mapping[str, Query], found: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """Upstream by either, in the order of the configuration, so that each process sees the same."""
    return {
        name: tuple(other for other in queries if other in query.after or other in found[name])
        for name, query in queries.items()
    }


def handed_on(settings: Tideover, query: str, source: str, target: str) -> str | None:
    """The topic that a move takes from one cluster to the other, where another query reads it on both.

    Copies of what was written on ``source`` and what the query writes on ``target`` meet in one log there. None where
    the output does not move, has another name as a copy, or no query here reads it.
    """
    writer, route = settings.queries[query], settings.route(source, target)
    output = writer.output
    if output is None or output.cluster != "active" or route is None:
        return None
    if copied_as(route.topics, output.topic) != output.topic:
        return None
    readers = (each for name, each in settings.queries.items() if name != query)
    both = (each for each in readers if {source, target} <= set(each.clusters))
    read = any(all(_reads(settings, each, cluster, output.topic) for cluster in (source, target)) for each in both)
    return output.topic if read else None


def _is_read(settings: Tideover, writer: Query, reader: Query) -> bool:
    """Whether one query reads what another one writes, where it is written or as a copy."""
    return any(_reads(settings, reader, cluster, topic) for cluster, topic in _written(settings, writer))


def _written(settings: Tideover, writer: Query) -> Iterator[tuple[str, str]]:
    """Cluster and name of each topic that holds what a query writes, copies by one route included."""
    output = writer.output
    if output is None:
        return
    for cluster in writer.clusters if output.cluster == "active" else (output.cluster,):
        yield cluster, output.topic
        for route in settings.routes:
            copy = copied_as(route.topics, output.topic) if route.source == cluster else None
            if copy is not None:
                yield route.target, copy


def _reads(settings: Tideover, reader: Query, cluster: str, topic: str) -> bool:
    if cluster not in reader.clusters:
        return False
    if any(topic in topics for topics in topics_of(settings, reader, cluster).values()):
        return True
    patterns = (pattern_of(settings, reader, source, cluster) for source in reader.sources.values())
    return any(pattern is not None and re.fullmatch(pattern, topic) is not None for pattern in patterns)
