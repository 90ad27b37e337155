"""What a query's topics are called on a cluster; pure.

A query is declared with the names of its home cluster (the first of its ``clusters``). On another cluster the route
from home decides; without one the route back is read the other way round; without either the names are the same.
"""

import re
from collections.abc import Callable

from state.settings import Query, Source, Tideover


def renaming(settings: Tideover, home: str, cluster: str) -> Callable[[str], str]:
    """The function from a topic's name at home to its name on ``cluster``."""
    if home == cluster:
        return lambda name: name
    there, back = settings.route(home, cluster), settings.route(cluster, home)
    if there is not None:
        return _forward(there.topics)
    return _backward(back.topics) if back is not None else lambda name: name


def _forward(topics: str | dict[str, str]) -> Callable[[str], str]:
    if isinstance(topics, str):
        return lambda name: name
    if set(topics) == {"prefix"}:
        prefix = topics["prefix"]
        return lambda name: prefix + name
    return lambda name: topics.get(name, name)


def _backward(topics: str | dict[str, str]) -> Callable[[str], str]:
    if isinstance(topics, str):
        return lambda name: name
    if set(topics) == {"prefix"}:
        prefix = topics["prefix"]
        return lambda name: name.removeprefix(prefix)
    inverse = {there: here for here, there in topics.items()}
    return lambda name: inverse.get(name, name)


def topics_of(settings: Tideover, query: Query, cluster: str) -> dict[str, tuple[str, ...]]:
    """Per source, its topics by their names on ``cluster``; none for a source that subscribes by a pattern."""
    rename = renaming(settings, query.clusters[0], cluster)
    return {name: tuple(rename(topic) for topic in source.topics) for name, source in query.sources.items()}


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
