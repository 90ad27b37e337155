"""What can be written in several ways and is one thing: checkpoints, servers, topics. Pure.

Two keys that are compared as they were typed count as two although they are one. Examples are two queries on one
checkpoint, two clusters behind one server, two topics whose records come into one log. So each kind has one form here,
everything that compares goes by it, and what turns out to be the same twice is a mistake of the configuration.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from itertools import permutations

Topics = str | Mapping[str, str]
"""How a route names its copies: ``identity``, ``{"prefix": ...}``, or a map of names."""

_SAME_SCHEME = {"s3": "s3a", "s3n": "s3a", "abfss": "abfs", "": "file"}
_DEFAULT_PORTS = {"hdfs": "8020"}
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)")


def canonical_path(path: str, default: str = "file:///", real: Callable[[str], str] = str) -> str:
    """A folder in one form, as Hadoop's ``Path`` understands it: ``scheme://authority/path``.

    Scheme and authority in lower case, no dots, no doubled or trailing slashes; what is left out comes from
    ``default``, Hadoop's ``fs.defaultFS``. ``s3`` and ``s3n`` are names of the connector ``s3a``, and
    ``abfss`` is ``abfs`` by TLS. ``real`` resolves the
    links of a local path, where that can be done.
    """
    scheme, authority, rest = _parts(path)
    default_scheme, default_authority, _ = _parts(default)
    if not scheme:
        scheme, authority = default_scheme or "file", default_authority
    elif not authority and scheme == default_scheme:
        authority = default_authority
    if scheme == "file":
        return f"file://{_normal(real(_normal(rest)))}"
    return f"{scheme}://{authority.removesuffix(':' + _DEFAULT_PORTS.get(scheme, ''))}{_normal(rest)}"


def are_one_folder(one: str, other: str) -> bool:
    """Whether two spellings name one folder."""
    return canonical_path(one) == canonical_path(other)


def _parts(path: str) -> tuple[str, str, str]:
    match = _URI.fullmatch(path)
    if match is None:
        return "", "", path
    scheme = match["scheme"].lower()
    return _SAME_SCHEME.get(scheme, scheme), (match["authority"] or "").lower(), match["path"]


def _normal(path: str) -> str:
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            kept = kept[:-1]
        elif part not in {"", "."}:
            kept.append(part)
    return "/" + "/".join(kept)


def of_checkpoints(
    checkpoints: Mapping[str, str], default: str, real: Callable[[str], str] = str
) -> Iterator[tuple[str, str]]:
    """Mistakes, each with its query: two on one checkpoint would each skip what the other has read.

    One inside the other would lie among its files and beside the checkpoints that its moves make.
    """
    owners: dict[str, str] = {}
    for name, checkpoint in checkpoints.items():
        path = canonical_path(checkpoint, default, real)
        for other, owner in owners.items():
            if other == path:
                yield name, f"it is already that of query {owner!r}"
            elif path.startswith(f"{other.removesuffix('/')}/"):
                yield name, f"it is inside that of query {owner!r}, {_shown(other)}"
            elif other.startswith(f"{path.removesuffix('/')}/"):
                yield name, f"that of query {owner!r}, {_shown(other)}, is inside it"
        owners.setdefault(path, name)


def _shown(path: str) -> str:
    return path.removeprefix("file://")


def canonical_server(address: str) -> str:
    """``host:port`` in one form: lower case, no final dot, one name for this host, one spelling of an IPv6 address."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]").lower().removesuffix(".")
    try:
        parsed = ip_address(host)
    except ValueError:
        pass
    else:
        host = "localhost" if str(parsed) in {"127.0.0.1", "::1"} else str(parsed)
    return f"{host}:{int(port) if port.isdecimal() else port}"


def of_servers(
    clusters: Mapping[str, Iterable[str]], endpoints: Mapping[str, object] | None = None
) -> Iterator[tuple[str, str]]:
    """Mistakes, each with its cluster: one server leads to one cluster, so two names would mean the same one.

    ``endpoints`` by cluster: the clusters of one endpoint have its servers.
    """
    of = {} if endpoints is None else endpoints
    owners: dict[str, str] = {}
    for name, servers in clusters.items():
        for server in dict.fromkeys(map(canonical_server, servers)):
            owner = owners.setdefault(server, name)
            if owner != name and (of.get(name) is None or of.get(name) != of.get(owner)):
                yield name, f"{server} is already a server of cluster {owner!r}"


def copied_as(topics: Topics, topic: str) -> str | None:
    """The name of a topic's copy behind a route; None where an explicit map does not name the topic."""
    if isinstance(topics, str):
        return topic
    return topics["prefix"] + topic if is_prefix(topics) else topics.get(topic)


def is_prefix(topics: Topics) -> bool:
    """Whether a route puts something before each name."""
    return not isinstance(topics, str) and set(topics) == {"prefix"}


def renaming(there: Topics | None, back: Topics | None) -> Callable[[str], str]:
    """From a topic's name at home to its name elsewhere, by the route there, else by the route back."""
    if there is not None:
        return lambda name: name if (copy := copied_as(there, name)) is None else copy
    if back is None or isinstance(back, str):
        return lambda name: name
    if is_prefix(back):
        prefix = back["prefix"]
        return lambda name: name.removeprefix(prefix)
    inverse = {source: name for name, source in back.items()}
    return lambda name: inverse.get(name, name)


Routes = Mapping[tuple[str, str], Topics]
"""By cluster and cluster: how the copies are named."""


def of_route(topics: Topics) -> Iterator[str]:
    """Mistakes of one map of names: records of two topics in one log have one position, which skips some of them."""
    if isinstance(topics, str) or is_prefix(topics):
        return
    owners: dict[str, str] = {}
    for name, copy in topics.items():
        if owners.setdefault(copy, name) != name:
            yield f"{owners[copy]!r} and {name!r} are both named {copy!r}: each topic needs a name of its own"


def of_way_back(there: Topics, back: Topics) -> Iterator[str]:
    """Mistakes of two explicit maps, one each way: a topic that returns under another name is not the one that left."""
    if isinstance(there, str) or isinstance(back, str) or is_prefix(there) or is_prefix(back):
        return
    sources = {name: source for source, name in back.items()}
    for name, copy in there.items():
        if back.get(copy, name) != name:
            yield f"{name!r} is named {copy!r} there, but {copy!r} comes back as {back[copy]!r}"
        elif sources.get(name, copy) != copy:
            yield f"{name!r} is named {copy!r} there, but what comes back as {name!r} is {sources[name]!r}"


def of_query(home_names: Iterable[str], clusters: Iterable[str], routes: Routes) -> Iterator[str]:
    """Mistakes of one query: on each of its clusters, each of its topics has one name, and no other topic has it.

    A route that copies under another name than the query reads would have its offsets count in the wrong log. Behind a
    prefix a copy has a name of its own, which no gate takes for the topic.
    """
    names, order = list(dict.fromkeys(home_names)), list(dict.fromkeys(clusters))
    if not order:
        return
    on = {
        cluster: {
            name: name
            if cluster == order[0]
            else renaming(routes.get((order[0], cluster)), routes.get((cluster, order[0])))(name)
            for name in names
        }
        for cluster in order
    }
    for cluster, named in on.items():
        owners: dict[str, str] = {}
        for name, there in named.items():
            if owners.setdefault(there, name) != name:
                yield f"{owners[there]!r} and {name!r} are both named {there!r} on {cluster}"
    for source, target in permutations(order, 2):
        topics = routes.get((source, target))
        if topics is None or is_prefix(topics):
            continue
        for name in names:
            copy = copied_as(topics, on[source][name])
            if copy is not None and copy != on[target][name]:
                yield (
                    f"{name!r} is named {on[target][name]!r} on {target}, but the route from {source} copies "
                    f"{on[source][name]!r} to {copy!r}"
                )


def of_clusters(clusters: Mapping[str, object]) -> Iterator[str]:
    """Mistakes, each with its path: two names of one cluster, by a server or by its id."""
    servers = {
        name: [each for each in items(mapping(cluster).get("bootstrap")) if isinstance(each, str)]
        for name, cluster in clusters.items()
    }
    of_endpoint = {name: mapping(cluster).get("endpoint") for name, cluster in clusters.items()}
    for name, mistake in of_servers(servers, of_endpoint):
        yield f"clusters.{name}.bootstrap: {mistake}"
    owners: dict[str, str] = {}
    for name, cluster in clusters.items():
        known = mapping(cluster).get("id")
        if isinstance(known, str) and owners.setdefault(known, name) != name:
            yield f"clusters.{name}.id: it is already that of cluster {owners[known]!r}"


def of_topics(routes: Sequence[object], queries: Mapping[str, object]) -> Iterator[str]:
    """Mistakes, each with its path; what is wrong with one route is not repeated for each query that goes by it."""
    named: dict[tuple[str, str], Topics] = {}
    for index, route in enumerate(routes):
        source, target, topics = (mapping(route).get(key) for key in ("from", "to", "topics"))
        topics = _topics(topics)
        if topics is None or not isinstance(source, str) or not isinstance(target, str) or (source, target) in named:
            continue
        found = list(of_route(topics))
        if (target, source) in named:
            found += of_way_back(named[target, source], topics)
        yield from (f"routes.{index}.topics: {mistake}" for mistake in found)
        if not found:
            named[source, target] = topics
    for name, query in queries.items():
        clusters = [each for each in items(mapping(query).get("clusters")) if isinstance(each, str)]
        sources = mapping(mapping(query).get("sources"))
        read = [list(items(mapping(source).get("topics"))) for source in sources.values()]
        for source, named_there in zip(sources, read, strict=True):
            for topic, times in Counter(each for each in named_there if isinstance(each, str)).items():
                if times > 1:
                    yield f"queries.{name}.sources.{source}.topics: {topic!r} is named twice"
        every = [each for named_there in read for each in named_there if isinstance(each, str)]
        yield from (f"queries.{name}.sources: {mistake}" for mistake in of_query(every, clusters, named))


def _topics(value: object) -> Topics | None:
    """How a route names its copies; None where that is itself a mistake."""
    if value is None or value == "identity":
        return "identity"
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        return None
    return {str(name): str(copy) for name, copy in value.items()}


def mapping(value: object) -> Mapping[str, object]:
    """A group of the plain mapping; empty where it is itself a mistake."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> Iterable[object]:
    """A list of the plain mapping; empty where it is itself a mistake."""
    return value if isinstance(value, (list, tuple)) else ()
