"""What was found, joined and judged: which queries can be attached, what to add, and what speaks against it. Pure.

A checkpoint and an event log are of one query where they have one query id: Spark writes it into both. A log and an
application that a cluster manager lists are one where they have one application id. Nothing else joins them, for
neither names nor topics are proof.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from streaming.companion.jar import LINES
from streaming.spark.attach.submission import PLUGIN
from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.inventory.checkpoints import FoundCheckpoint
from streaming.spark.inventory.event_logs import LoggedApplication, LoggedQuery
from streaming.spark.masters.listing import ListedApplication

_MINORS = tuple(f"{line.spark.rpartition('.')[0]}." for line in LINES)
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+|\A[_.-]+")
_LONGEST = 64
_TEMPORARY = re.compile(r"/temporary-[0-9a-f-]+\Z")


@dataclass(frozen=True, slots=True)
class Managed:
    """An application as its cluster manager lists it, with what its driver or its log adds."""

    listed: ListedApplication
    logged: LoggedApplication | None
    why: str | None = None
    """Why its queries are not known; None: its log was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One query that could be attached."""

    query: str
    """The name that it would have."""
    application: str | None = None
    application_id: str | None = None
    application_state: str | None = None
    """As its cluster manager has it, in its own words."""
    tracking_url: str | None = None
    query_id: str | None = None
    checkpoint: str | None = None
    batch: int | None = None
    topics: tuple[tuple[str, ...], ...] = ()
    """Of each Kafka source; alike ones once."""
    released_on: str | None = None
    """The cluster on which it has to begin; None: the first one."""
    patterns: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    sink: str | None = None
    spark: str | None = None
    add: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """What has to be known first, and how to find out."""
    notes: tuple[str, ...] = ()

    @property
    def ready(self) -> bool | None:
        """Whether it can be attached; None where that is not known yet."""
        if self.against:
            return False
        return None if self.unknown else True


def candidates_of(
    checkpoints: Iterable[FoundCheckpoint],
    logs: Iterable[LoggedApplication],
    application: str | None = None,
    managed: Sequence[Managed] = (),
) -> tuple[Candidate, ...]:
    """Every query of these checkpoints and logs; ``application`` is the name where no log gives one.

    Of several logs of one application the last that is given counts. An application that runs and of which no query is
    known is there by its own name.
    """
    found, logs = list(checkpoints), [*logs, *(each.logged for each in managed if each.logged is not None)]
    times = Counter[str | None](each.query_id for each in found)
    logged = _logged(logs)
    made = [_of_checkpoint(each, logged, application, times) for each in found]
    known = {each.query_id for each in found}
    for query_id, owners in logged.items():
        if query_id not in known:
            made.extend(_of_log(app, query, len(owners)) for app, query in owners[-1:])
    made += _without_queries(managed, {app.id for app in logs if app.queries})
    made = [_as_listed(each, managed) for each in made]
    return tuple(_named(sorted(made, key=lambda each: (each.application or "", each.query, each.checkpoint or ""))))


def _without_queries(managed: Iterable[Managed], known: Collection[str | None]) -> Iterable[Candidate]:
    """What runs and may have queries. One whose whole log was read and that has none is no application of streams."""
    for each in managed:
        listed, logged = each.listed, each.logged
        if not listed.is_running or each.why is None or listed.id in known:
            continue
        known = {*known, listed.id}
        made = Candidate(
            query=listed.name or listed.id, application=listed.name, application_id=listed.id, spark=listed.spark,
            unknown=(f"its queries are not known: {each.why}",),
        )  # fmt: skip
        yield made if logged is None else _with_log(made, logged, LoggedQuery(id=listed.id), 1)


def _as_listed(made: Candidate, managed: Iterable[Managed]) -> Candidate:
    """With what its cluster manager says; of several sources the last one that knows it."""
    for each in managed:
        if made.application_id is not None and each.listed.id == made.application_id:
            listed = each.listed
            made = replace(made, application_state=listed.state, tracking_url=listed.tracking_url or made.tracking_url)
    return made


Owners = Mapping[str, Sequence[tuple[LoggedApplication, LoggedQuery]]]


def _logged(logs: Iterable[LoggedApplication]) -> Owners:
    """By query id the applications that ran it; of each name the last."""
    found: dict[str, dict[str | None, tuple[LoggedApplication, LoggedQuery]]] = {}
    for app in logs:
        for query in app.queries.values():
            found.setdefault(query.id, {})[app.name] = (app, query)
    return {query: list(each.values()) for query, each in found.items()}


def _of_checkpoint(
    found: FoundCheckpoint, logged: Owners, application: str | None, times: Mapping[str | None, int]
) -> Candidate:
    owners = logged.get(found.query_id or "", ())
    folder = found.path.rstrip("/").rpartition("/")[2]
    made = Candidate(
        query=folder, application=application, query_id=found.query_id, checkpoint=found.path, batch=found.batch,
        topics=tuple(dict.fromkeys(found.sources)), operators=found.operators, released_on=found.released_on,
    )  # fmt: skip
    against, notes = list[str](), list[str]()
    if found.trouble is not None:
        against.append(found.trouble)
    elif not found.sources and found.batch is not None:
        against.append("it reads no Kafka topic")
    if times[found.query_id] > 1 and found.query_id is not None:
        against.append(f"{times[found.query_id]} checkpoints have its query id: one is a copy; leave the copies out")
    if _TEMPORARY.search(found.path):
        against.append("the query names no checkpointLocation, so each start has a new checkpoint")
    unknown = [] if found.batch is not None or against else ["it has committed no batch: run it once"]
    if found.moved_to is not None:
        unknown.append(
            f"Tideover has moved it to {found.moved_to}: only the store that has this move starts it; another one does "
            "after tideover release"
        )
    if found.released_on is not None:
        notes.append(f"Tideover has released it on {found.released_on}: its clusters begin with that one")
    if found.other_sources:
        notes.append(f"{found.other_sources} of its sources are not Kafka's, or have read nothing yet: they stay")
    made = replace(made, against=tuple(against), notes=tuple(notes), unknown=tuple(unknown))
    if owners:
        return _with_log(made, *owners[-1], len(owners))
    if application is None:
        hint = "its application is not known: give its event log, or --application"
        return replace(made, unknown=(*made.unknown, hint))
    return replace(made, add=(_SUBMIT,))


_SUBMIT = "start it by tideover submit, or add the jar and the two settings"


def _of_log(app: LoggedApplication, query: LoggedQuery, owners: int) -> Candidate:
    made = Candidate(
        query=query.name or query.id,
        query_id=query.id,
        topics=tuple(
            dict.fromkeys(_topics(each.what) for each in query.sources or () if each.way == "Subscribe")
        ),
        unknown=("its checkpoint is not known: give the folder that holds it",),
        against=() if query.sources is None or query.sources else ("it reads no Kafka topic",),
    )  # fmt: skip
    return _with_log(made, app, query, owners)


def _with_log(made: Candidate, app: LoggedApplication, query: LoggedQuery, owners: int) -> Candidate:
    against, notes, add, unknown = list(made.against), list(made.notes), list(made.add), list(made.unknown)
    sources = query.sources or ()
    if owners > 1:
        against.append(f"{owners} applications have run it: only one may own a checkpoint")
    if any(each.way == "Assign" for each in sources):
        against.append("it names its partitions by assign, which is not supported")
    if app.spark is None:
        against.append(f"{app.where} does not say which Spark it was")
    elif not app.spark.startswith(_MINORS):
        unknown.append(f"whether the jar fits Spark {app.spark}: the plugin looks at its start, and its log says so")
    manager = app.conf.get(MANAGER, "")
    if manager and not manager.startswith("tideover."):
        against.append(f"{MANAGER} is {manager}: remove that setting")
    if "Kafka" in (query.sink or ""):
        notes.append("its Kafka sink stays on the cluster that its code names, unless output declares its topic")
    if "ForeachBatch" in (query.sink or ""):
        notes.append("of foreachBatch nothing shows: a Kafka client that it opens itself is out of reach of a move")
    if PLUGIN not in app.conf.get("spark.plugins", ""):
        add.append(_SUBMIT)
    application = app.conf.get("spark.tideover.application") or app.name
    if application is None or not fit_name(application):
        against.append(f"{app.where} gives its application no name: set spark.tideover.application")
    elif fit_name(application) != application:
        add.append(f"spark.tideover.application={fit_name(application)}, because {application!r} is not a name here")
    return replace(
        made,
        query=query.name or made.query,
        application=application,
        application_id=app.id,
        patterns=tuple(dict.fromkeys(each.what for each in sources if each.way == "SubscribePattern")),
        sink=query.sink,
        spark=app.spark,
        add=tuple(add),
        against=tuple(against),
        unknown=tuple(unknown),
        notes=tuple(notes),
    )


def _topics(what: str) -> tuple[str, ...]:
    return tuple(sorted(each.strip() for each in what.split(",")))


def _named(made: Sequence[Candidate]) -> Iterable[Candidate]:
    """Each with a name of its own that the configuration takes."""
    fit = [fit_name(each.query) or "query" for each in made]
    times, used = Counter(fit), set[str]()
    for each, name in zip(made, fit, strict=True):
        longer = name if times[name] == 1 else fit_name(f"{each.application or 'unknown'}-{name}")
        unique, number = longer, 2
        while unique in used:
            unique, number = f"{longer}-{number}", number + 1
        used.add(unique)
        yield replace(each, query=unique)


def fit_name(text: str) -> str:
    """As a name of the configuration: at most 64 letters, digits, ``.``, ``_`` and ``-``; empty where none is left."""
    return _UNFIT.sub("-", text).strip("-._")[:_LONGEST]


def configuration_of(found: Iterable[Candidate], clusters: Collection[str]) -> dict[str, dict[str, object]]:
    """``runners`` and ``queries`` of the configuration, for what nothing speaks against and whose place is known.

    What was released on a cluster that is not among ``clusters`` is left out.
    """
    chosen = [
        each
        for each in found
        if not each.against and each.application and each.checkpoint and each.released_on in {None, *clusters}
    ]
    queries: dict[str, object] = {
        each.query: {
            "attach": fit_name(each.application or ""),
            "checkpoint": each.checkpoint,
            "sources": _declared(each),
            "clusters": sorted(clusters, key=lambda name: name != each.released_on),
        }
        for each in chosen
        if each.topics or each.patterns
    }
    runners: dict[str, object] = {fit_name(each.application or ""): {} for each in chosen if each.query in queries}
    return {"runners": runners, "queries": queries}


def _declared(each: Candidate) -> dict[str, object]:
    """A source by its topic where it has one of its own; what a pattern matched is left to the pattern."""
    if each.patterns:
        if len(each.patterns) == 1 and len(each.topics) <= 1:
            return {"source": {"pattern": each.patterns[0]}}
        known: list[dict[str, object]] = [{"pattern": pattern} for pattern in each.patterns]
        rest = [t for t in each.topics if not any(_fully(p, t) for p in each.patterns)]
        return {f"source{index}": one for index, one in enumerate([*known, *({"topics": list(t)} for t in rest)], 1)}
    names = [fit_name(topics[0]) if len(topics) == 1 else "" for topics in each.topics]
    return {
        name or ("source" if len(names) == 1 else f"source{index}"): {"topics": list(topics)}
        for index, (name, topics) in enumerate(zip(names, each.topics, strict=True), 1)
    }


def _fully(pattern: str, topics: Iterable[str]) -> bool:
    try:
        return all(re.fullmatch(pattern, topic) for topic in topics)
    except re.error:  # a pattern of Java's that Python does not know
        return False
