"""Applications of several queries, declared once under ``applications`` and named by each of their queries. Pure.

Everything else knows the commands at the query. So the name there becomes the commands, with the name beside them.
"""

from collections.abc import Iterator, Mapping

from state.settings.canonical import items, mapping

NAME = "name"
_OF_ONE = ("{topics}", "{checkpoint}", "{epoch}", "{query}")
"""What is replaced by something of one query."""
_ALIKE = ("runners", "clusters")


def expanded(applications: Mapping[str, object], queries: Mapping[str, object]) -> dict[str, object]:
    """The group ``queries`` with the commands of a declared application in place of its name."""
    found: dict[str, object] = {}
    for query, declared in queries.items():
        name = _named(declared)
        commands = applications.get(name) if name is not None else None
        known = isinstance(commands, Mapping)
        found[query] = {**mapping(declared), "application": {**mapping(commands), NAME: name}} if known else declared
    return found


def in_file(mistake: str, queries: Mapping[str, object]) -> str:
    """A mistake of an application that is declared once, with the path that it has in the file."""
    group, _, rest = mistake.partition(".")
    query, _, key = rest.partition(".")
    name = _named(queries.get(query)) if group == "queries" else None
    if name is None or not key.startswith("application."):
        return mistake
    return f"applications.{name}.{key.removeprefix('application.')}"


def mistakes(applications: Mapping[str, object], queries: Mapping[str, object]) -> Iterator[str]:
    """What no single key can show, each with its path."""
    members: dict[str, list[str]] = {name: [] for name in applications}
    for query, declared in queries.items():
        name = _named(declared)
        if name in members:
            members[name].append(query)
    yield from _of_copies(queries)
    for name, own in members.items():
        yield from _of_application(name, mapping(applications[name]), own)
        yield from _of_members(name, {query: mapping(queries[query]) for query in own})


def _of_application(name: str, commands: Mapping[str, object], own: list[str]) -> Iterator[str]:
    if not own:
        yield f"applications.{name}: no query names it"
    for command, words in commands.items():
        found = [each for each in _OF_ONE if any(each in str(word) for word in items(words))]
        for each in found:
            yield f"applications.{name}.{command}: {each} is of one query, and an application may have several"


def _of_copies(queries: Mapping[str, object]) -> Iterator[str]:
    """Commands that are typed twice would be taken for two applications, and stopped and started by each query."""
    known: dict[tuple[tuple[str, ...], ...], str] = {}
    for query, declared in queries.items():
        application = mapping(mapping(declared).get("application"))
        if application.get(NAME) is not None:
            continue
        found = tuple(tuple(map(str, items(application.get(key)))) for key in ("stop", "status"))
        if not all(found) or any(each in word for words in found for word in words for each in _OF_ONE):
            continue
        if found in known:
            yield (
                f"queries.{query}.application: stops what queries.{known[found]}.application stops: declare it once "
                "under applications, and name it in both"
            )
        known.setdefault(found, query)


def _of_members(name: str, own: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    first, known = next(iter(own.items()), ("", mapping(None)))
    for query, declared in own.items():
        for key in _ALIKE:
            if list(items(declared.get(key))) != list(items(known.get(key))):
                yield f"queries.{query}.{key}: must be as those of {first}, because application {name} has both queries"
        for other in items(declared.get("after")):
            if other in own and other != query:
                yield f"queries.{query}.after: application {name} has {other} too, and its queries move together"


def _named(query: object) -> str | None:
    name = mapping(query).get("application")
    if isinstance(name, Mapping):  # as settings hold it
        name = name.get(NAME)
    return name if isinstance(name, str) else None
