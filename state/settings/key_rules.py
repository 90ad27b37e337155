"""The rules between settings: what no single key can show. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from pydantic import SecretStr

from state.settings import cluster_endpoints, shared_applications
from state.settings.canonical import items, mapping, of_checkpoints, of_clusters, of_topics
from state.settings.checkpoint_schemes import HINT, scheme_refusal
from state.settings.values import is_loopback, parse_duration, write_duration

_DEFAULT_FS = "spark.hadoop.fs.defaultFS"


def contradictions(raw: object, real: Callable[[str], str] = str) -> Iterator[str]:
    """One sentence for each, ``path: what``. ``real`` resolves the links of a local path.

    What no single key can show. It is read from the plain mapping, not from the finished settings, so that it is
    reported together with all other mistakes. A group that is itself mistaken is passed over.
    """
    groups = mapping(raw)
    declared, queries = mapping(groups.get("clusters")), mapping(groups.get("queries"))
    yield from cluster_endpoints.mistakes(declared)
    clusters = mapping(cluster_endpoints.expanded(declared))
    yield from (cluster_endpoints.in_file(each, clusters) for each in of_clusters(clusters))
    yield from _of_routes(items(groups.get("routes")), clusters)
    yield from of_topics(list(items(groups.get("routes"))), queries)
    for name, query in queries.items():
        query = mapping(query)
        yield from _of_names(f"queries.{name}.clusters", "cluster", query.get("clusters"), clusters)
        yield from _of_runners(name, query, mapping(groups.get("runners")))
        for cluster in mapping(query.get("settings_by_cluster")):
            if cluster not in set(items(query.get("clusters"))):
                yield f"queries.{name}.settings_by_cluster: the query does not run on cluster {cluster!r}"
        output = mapping(query.get("output")).get("cluster", "active")
        if isinstance(output, str) and output not in {"active", *clusters}:
            yield f"queries.{name}.output.cluster: {output!r} is not declared"
    yield from _of_applications(queries)
    yield from shared_applications.mistakes(mapping(groups.get("applications")), queries)
    yield from _of_order(queries)
    yield from _of_checkpoints(queries, mapping(mapping(groups.get("spark")).get("conf")).get(_DEFAULT_FS), real)
    yield from _of_switch(queries, mapping(mapping(groups.get("spark")).get("conf")))
    yield from _of_retention(groups, queries)
    yield from _of_http(groups.get("http"))
    yield from _of_store(groups)
    known = {*mapping(groups.get("runners")), *(mapping(query).get("attach") for query in queries.values())}
    for index, token in enumerate(map(mapping, items(mapping(groups.get("http")).get("tokens")))):
        runner = token.get("runner")
        if isinstance(runner, str) and runner not in known:
            yield f"http.tokens.{index}.runner: {runner!r} is not declared"


def _of_store(groups: Mapping[str, object]) -> Iterator[str]:
    """A process has the store, or the controllers that have it."""
    store = groups.get("store")
    has_store = bool(store.get_secret_value()) if isinstance(store, SecretStr) else store is not None
    has_controller = groups.get("controller") is not None
    if not has_store and not has_controller:
        yield "store: is required"
    if has_store and has_controller:
        yield "controller: leave it out beside store, or leave out store where the process must not have its password"


def _of_runners(name: str, query: Mapping[str, object], declared: Mapping[str, object]) -> Iterator[str]:
    """An attached query has its application for a runner."""
    if "attach" in query and query["attach"] is not None:
        yield from _of_names(f"queries.{name}.attach", "runner", [query["attach"]], declared)
    else:
        yield from _of_names(f"queries.{name}.runners", "runner", query.get("runners"), declared)


def _of_applications(queries: Mapping[str, object]) -> Iterator[str]:
    """The driver of an application hosts no pipeline."""
    attached = {mapping(query).get("attach"): name for name, query in queries.items()}
    for name, query in queries.items():
        if mapping(query).get("attach") is None:
            for runner in items(mapping(query).get("runners")):
                if runner is not None and runner in attached:
                    yield f"queries.{name}.runners: {runner!r} is the application of queries.{attached[runner]}"


_FILE_ACCESS = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.hadoop.fs.file.impl",
    "spark.hadoop.fs.AbstractFileSystem.file.impl",
)
"""Settings that keep the companion out of Spark."""


def _of_switch(queries: Mapping[str, object], conf: Mapping[str, object]) -> Iterator[str]:
    """Its source is the companion's, without which it cannot read, nor count offsets on from home."""
    for name, query in queries.items():
        resume = mapping(query).get("resume", "auto")
        if mapping(query).get("home_offsets") is True and resume not in {"switch", "auto"}:
            yield f"queries.{name}.home_offsets: only resume: switch continues offsets from home, not {resume}"
    switched = [name for name, query in queries.items() if mapping(query).get("resume") == "switch"]
    for key in _FILE_ACCESS:
        if switched and (key in conf or any(key in mapping(mapping(q).get("spark")) for q in queries.values())):
            yield f"queries.{switched[0]}.resume: switch needs the companion, and {key} keeps it out of Spark"


def _of_routes(routes: Iterable[object], clusters: Mapping[str, object]) -> Iterator[str]:
    seen: dict[tuple[object, object], int] = {}
    for index, route in enumerate(routes):
        ends = mapping(route).get("from"), mapping(route).get("to")
        for end in dict.fromkeys(ends):
            if isinstance(end, str) and end not in clusters:
                yield f"routes.{index}: cluster {end!r} is not declared"
        if None in ends:
            continue
        if ends[0] == ends[1]:
            yield f"routes.{index}: from and to are both {ends[0]!r}"
        if ends in seen:
            yield f"routes.{index}: routes.{seen[ends]} is from {ends[0]!r} to {ends[1]!r} already"
        seen.setdefault(ends, index)


def _of_names(path: str, noun: str, names: object, declared: Mapping[str, object]) -> Iterator[str]:
    for name, times in Counter(name for name in items(names) if isinstance(name, str)).items():
        if name not in declared:
            yield f"{path}: {noun} {name!r} is not declared"
        if times > 1:
            yield f"{path}: {noun} {name!r} is named twice"


def _of_order(queries: Mapping[str, object]) -> Iterator[str]:
    """Queries of a circle would wait for each other, so none of them could be moved. Each circle is reported once."""
    before: dict[str, list[str]] = {}
    for name, query in queries.items():
        after = mapping(query).get("after")
        yield from _of_names(f"queries.{name}.after", "query", after, queries)
        before[name] = [each for each in items(after) if isinstance(each, str) and each in queries and each != name]
        if name in items(after):
            yield f"queries.{name}.after: the query names itself"
    places = list(before)
    while circle := circle_in(before):
        for earlier, later in pairwise(circle):
            before[later] = [each for each in before[later] if each != earlier]
        names = list(reversed(circle[1:]))
        first = min(range(len(names)), key=lambda index: places.index(names[index]))
        rotated = [*names[first:], *names[: first + 1]]
        yield f"queries.{rotated[0]}.after: a circle, so none of them could be moved: {' after '.join(rotated)}"


def circle_in(before: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Names of which each has to come before the next, and the last one is the first; empty where there are none.

    ``before`` has for each name those that come before it.
    """
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def _of_checkpoints(queries: Mapping[str, object], default: object, real: Callable[[str], str]) -> Iterator[str]:
    fallback = default if isinstance(default, str) else "file:///"
    found = {name: mapping(query).get("checkpoint") for name, query in queries.items()}
    declared = {name: path for name, path in found.items() if isinstance(path, str)}
    for name, mistake in of_checkpoints(declared, fallback, real):
        yield f"queries.{name}.checkpoint: {mistake}"
    for name, checkpoint in declared.items():
        refused = scheme_refusal(checkpoint, fallback)
        if refused is not None:
            yield f"queries.{name}.checkpoint: {refused}; {HINT}"


def _of_retention(groups: Mapping[str, object], queries: Mapping[str, object]) -> Iterator[str]:
    """A move that is forgotten before its cool-down is over would not hold back the next."""
    kept = _duration(mapping(groups.get("retention")).get("history"))
    policies = {"policy": groups.get("policy")} | {
        f"queries.{name}.policy": mapping(query).get("policy") for name, query in queries.items()
    }
    for path, policy in policies.items():
        cooldown = _duration(mapping(policy).get("cooldown"))
        if kept is not None and cooldown is not None and cooldown > kept:
            yield (
                f"{path}.cooldown: {write_duration(cooldown)} is longer than retention.history, which keeps operations"
            )


def _duration(value: object) -> timedelta | None:
    try:
        return None if value is None else parse_duration(value)
    except ValueError:
        return None


_TOKEN = re.compile(r"[!-~]{20,512}")
_DIFFERENT = 8
"""Different characters of a token: 48 random hex digits have fewer once in 10^13 times."""


def _of_http(http: object) -> Iterator[str]:
    """To listen to more than this host takes tokens, and something that encrypts them on their way."""
    http = mapping(http)
    listen, tokens = http.get("listen"), list(items(http.get("tokens")))
    if isinstance(listen, str) and re.search(r":\d+$", listen) and not is_loopback(listen):
        if not tokens:
            yield f"http.tokens: is required, because other hosts reach {listen}"
        if not http.get("tls") and not http.get("behind_proxy"):
            yield (
                f"http.tls: is required, because other hosts reach {listen}; or set behind_proxy: true, if a proxy "
                "on the way encrypts"
            )
    yield from _of_tokens(tokens)


def _of_tokens(tokens: Iterable[object]) -> Iterator[str]:
    names: dict[object, int] = {}
    known: dict[str, int] = {}
    for index, token in enumerate(map(mapping, tokens)):
        name, secret = token.get("name"), token.get("token")
        if name is not None and name in names:
            yield f"http.tokens.{index}.name: http.tokens.{names[name]} has it already"
        names.setdefault(name, index)
        text = secret.get_secret_value() if isinstance(secret, SecretStr) else secret
        if not isinstance(text, str) or not text:
            continue
        if not _TOKEN.fullmatch(text):
            yield (
                f"http.tokens.{index}.token: needs 20 to 512 printable ASCII characters and no blanks, such as "
                "openssl rand -hex 24 prints"
            )
        elif len(set(text)) < _DIFFERENT:
            yield (
                f"http.tokens.{index}.token: has {len(set(text))} different characters and needs {_DIFFERENT}; "
                "openssl rand -hex 24 makes one that cannot be guessed"
            )
        if text in known:
            yield f"http.tokens.{index}.token: http.tokens.{known[text]} has it already"
        known.setdefault(text, index)
