"""The queries of a configuration as the judge reads them: which topics on which clusters, and what they are called.

Read from the file itself and not by the product's own code, so that a mistake of the product in this is no mistake of
its judge. What cannot be judged raises `Unjudgeable`, with one sentence.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.errors import LabError, Unjudgeable
from lab.sink_contents import SINKS, Sink


@dataclass(frozen=True, kw_only=True)
class Query:
    """One query: its topics by their names on the primary, and how the standby calls them."""

    name: str
    sink: Sink
    settings: Mapping[str, Any]
    primary: str
    standby: str
    topics: tuple[str, ...]
    patterns: tuple[str, ...]
    on_standby: Callable[[str], str]
    on_primary: Callable[[str], str | None]
    """None for a name that no topic of the primary has on the standby."""

    def home(self, topic: str) -> str:
        """The name on the primary of a topic from which the sink says that a record came."""
        here = self.on_primary(topic)
        return here if here is not None and self.reads(here) else topic

    def reads(self, topic: str) -> bool:
        """Whether a topic of the primary is one of its own."""
        return topic in self.topics or any(re.fullmatch(pattern, topic) for pattern in self.patterns)


def read(configuration: Path, only: Collection[str] = ()) -> list[Query]:
    """Read the queries of a configuration, or only some: what is not judged may be unknown. Raises LabError."""
    try:
        declared = yaml.safe_load(configuration.read_text(encoding="utf-8"))
        queries, routes = declared["queries"], declared.get("routes") or ()
    except (OSError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        raise LabError(f"no queries can be read from {configuration}: {error}") from error
    if not queries:
        raise Unjudgeable(f"{configuration} names no queries, so there is nothing to judge")
    unknown = set(only) - set(queries)
    if unknown:
        raise Unjudgeable(f"{configuration} names no query {', '.join(sorted(unknown))}")
    known = set(declared.get("clusters") or ())
    return [_query(name, given or {}, known, routes) for name, given in queries.items() if not only or name in only]


def _query(name: str, given: Mapping[str, Any], known: Iterable[str], routes: Sequence[Mapping[str, Any]]) -> Query:
    pipeline = given.get("pipeline")
    sink = SINKS.get(str(pipeline))
    if sink is None:
        raise Unjudgeable(
            f"query {name}: the sink of pipeline {pipeline} cannot be judged",
            hint=f"the judge knows {', '.join(sorted(SINKS))}; name the queries to judge by --query",
        )
    clusters = list(given.get("clusters") or ())
    if len(clusters) != 2:
        raise Unjudgeable(f"query {name} names {len(clusters)} clusters, and the judge compares two: primary, standby")
    for cluster in clusters:
        if cluster not in known:
            raise Unjudgeable(f"query {name}: cluster {cluster} is not among the clusters of the configuration")
    sources = [source or {} for source in (given.get("sources") or {}).values()]
    topics = {topic for source in sources for topic in source.get("topics") or ()}
    patterns = {source["pattern"] for source in sources if source.get("pattern")}
    if not sources or not all(source.get("topics") or source.get("pattern") for source in sources):
        raise Unjudgeable(f"query {name} has no source, or one without topics and pattern")
    settings = given.get("settings") or {}
    if not settings.get("sink"):
        raise Unjudgeable(f"query {name}: settings.sink does not say where its sink is")
    primary, standby = clusters
    there, back = _naming(primary, standby, routes)
    return Query(
        name=name, sink=sink, settings=settings, primary=primary, standby=standby,
        topics=tuple(sorted(topics)), patterns=tuple(sorted(patterns)), on_standby=there, on_primary=back,
    )  # fmt: skip


def _naming(
    primary: str, standby: str, routes: Sequence[Mapping[str, Any]]
) -> tuple[Callable[[str], str], Callable[[str], str | None]]:
    """How a topic of the primary is called on the standby, and the other way round.

    By the route between them; the route back is read the other way round; without either, names are the same.
    """
    by_ends = {(route["from"], route["to"]): route.get("topics", "identity") for route in routes}
    if (primary, standby) in by_ends:
        return _named(by_ends[primary, standby])
    there, back = _named(by_ends.get((standby, primary), "identity"))
    return (lambda name: back(name) or name), there


def _named(topics: str | Mapping[str, str]) -> tuple[Callable[[str], str], Callable[[str], str | None]]:
    if isinstance(topics, str):
        return (lambda name: name), (lambda name: name)
    if set(topics) == {"prefix"}:
        prefix = topics["prefix"]
        return (lambda name: prefix + name), (lambda name: name[len(prefix) :] if name.startswith(prefix) else None)
    back = {there: here for here, there in topics.items()}
    return (lambda name: topics.get(name, name)), (lambda name: back.get(name))
