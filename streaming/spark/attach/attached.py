"""Hosts one query of an application: admits its start instead of starting it, and joins one that runs already.

All else is the supervisor's of a hosted query: permission, hold, fence, watch, report.
"""

import contextlib
import time
import uuid
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery

from state.model.entities import Assignment
from state.settings.keys import ACTIVE, Tideover
from state.settings.topics import pattern_of, renaming, topics_of
from streaming.meaning.uses import Sink
from streaming.spark.attach.driver import ApplicationDriver
from streaming.spark.checkpoint.batch_news import BatchNews
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.errors import RunError, RunFenced, SparkMissing
from streaming.spark.hosting import Hosting
from streaming.spark.jvm import java_query
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.kafka_options import PROMPT, cluster_options, identified, overridden
from streaming.spark.query.launch import switching
from streaming.spark.query.plan_columns import uses_in_query
from streaming.spark.query.query_run import Run
from streaming.spark.query.sink_memory import KAFKA_SINK, UNKNOWN_SINK
from streaming.spark.runner.supervisor import QuerySupervisor

MOVED = 75
"""The exit code of an application whose query was stopped because it was moved: EX_TEMPFAIL of ``sysexits.h``, "try
again". No scheduler takes it for a success."""
_LOOK_SECONDS = 0.1
_START_SECONDS = 120.0
"""How long a start may take behind its admission: Spark reads the checkpoint, and the job's own code runs."""


def attached_sources(hosting: Hosting, row: Assignment) -> dict[str, dict[str, str]]:
    """By declared source, what is laid over the application's own options for a row.

    On its first cluster the application's own connection stays. Elsewhere the configuration says where and as whom to
    read, and the topics where they have another name there. Raises ``CredentialRefused``.
    """
    settings, query = hosting.settings, hosting.query(row.query)
    home, found = query.clusters[0], {}
    for name, source in query.sources.items():
        where: dict[str, str] = {}
        if row.cluster != home:
            where = cluster_options(settings.clusters[row.cluster])
            here, there = (topics_of(settings, query, each)[name] for each in (home, row.cluster))
            pattern = pattern_of(settings, query, source, row.cluster)
            if pattern and pattern != pattern_of(settings, query, source, home):
                where["subscribePattern"] = pattern
            elif not pattern and here != there:
                where["subscribe"] = ",".join(there)
        found[name] = overridden(PROMPT | where | {"tideover.source": name}, source.options)
    return switching(hosting, row, found)


_READS, _WRITES, _TOPIC = "@reads", "@writes", "topic:"
"""Keys of ``Beside.java``; no source has such a name."""


def beside_options(hosting: Hosting, query: str, cluster: str) -> dict[str, dict[str, str]]:
    """What is laid over the application's own options of batches and of a Kafka sink, while the query is on a cluster.

    Empty for a query that declares neither. Raises ``CredentialRefused``.
    """
    settings, known = hosting.settings, hosting.query(query)
    found: dict[str, dict[str, str]] = {}
    if known.batch_reads:
        rename = renaming(settings, known.clusters[0], cluster)
        topics = {f"{_TOPIC}{each}": rename(each) for each in known.batch_reads}
        options, others = _elsewhere(hosting, query, cluster) | topics, settings.behind_endpoint(cluster)
        found[_READS] = identified(options, cluster, hosting.cluster_id(cluster), others)
    if known.output is not None:
        found[_WRITES] = _elsewhere(hosting, query, known.output.cluster_with(cluster))
    return found


def _elsewhere(hosting: Hosting, query: str, cluster: str) -> dict[str, str]:
    """The connection to a cluster: the application's own to the one that it names."""
    named = {"tideover.cluster": cluster}
    is_home = cluster == hosting.query(query).clusters[0]
    return named if is_home else cluster_options(hosting.settings.clusters[cluster]) | named


def topics_beside(settings: Tideover, query: str, checkpoint: str) -> dict[str, object]:
    """The topics that a query declares beside its sources, and the servers by which code names them, without a place.

    ``checkpoint`` is that of the query, by the key that the driver has for it.
    """
    known = settings.queries[query]
    return {
        "query": query,
        "checkpoint": checkpoint,
        "reads": list(known.batch_reads),
        "writes": [] if known.output is None else [known.output.topic],
        "home": list(settings.clusters[known.clusters[0]].bootstrap),
    }


def declared_beside(hosting: Hosting, query: str, checkpoint: str, cluster: str) -> dict[str, object]:
    """What a query declares beside its sources, as ``Beside.java`` reads it. Raises ``CredentialRefused``."""
    known = hosting.query(query)
    follows = bool(known.batch_reads) or (known.output is not None and known.output.cluster == ACTIVE)
    return topics_beside(hosting.settings, query, checkpoint) | {
        "options": beside_options(hosting, query, cluster),
        "follows": follows,
    }


class AttachedRun(Run):
    """A run that its application began, so that the scheduler of the application has to see its stop."""

    driver: ApplicationDriver
    condemnation: str
    is_condemned = False

    def _stop(self) -> None:
        with contextlib.suppress(Py4JError):  # a driver that is gone has no exit code left to set
            if self.is_active:
                self.driver.condemn(MOVED, self.condemnation)
                self.is_condemned = True
        super()._stop()


class AttachedSupervisor(QuerySupervisor):
    """Of one query under one epoch."""

    def __init__(self, driver: ApplicationDriver, *hosted: Any) -> None:
        """``hosted``: what the supervisor of a hosted query takes."""
        super().__init__(*hosted)
        self.driver = driver
        self._is_at_rest = False
        """Whether it waits for its application to start it, and what ran before is quiet."""

    @property
    def must_end(self) -> bool:
        """Whether its run was stopped for a move and is quiet, so that its application has to be started again."""
        return (self.is_quiet or self._is_at_rest) and any(_is_condemned(run) for run in self._known_runs())

    def _known_runs(self) -> list[Run]:
        with self._lock:
            return list(self._runs)

    def _sources(self, row: Assignment) -> dict[str, dict[str, str]]:
        return attached_sources(self._hosting, row) | beside_options(self._hosting, row.query, row.cluster)

    def _detach(self) -> None:
        """The session is the application's."""
        self._session = None

    def unrest(self) -> str | None:
        """A query that runs without an admission is not quiet, whatever this process knows of it."""
        if self.driver.is_plain(self._key):
            return "its application runs it without Tideover, because no attendant answered when it began"
        return super().unrest()

    @property
    def _key(self) -> str:
        return self.driver.key(self._assignment.checkpoint)

    def _start(self) -> tuple[Run, Follower]:
        self._await_former()
        self._await_start()  # a run that was held and could not continue has ended since the last look
        row, key = self._assignment, self._key
        running = self.driver.running(key)
        if running is not None and running.epoch <= row.epoch:
            run, follower = self._joined(key, running.follower), self._follower()
            run.go_on(row.epoch, None)  # a hold that a process before this one began
            what = "query joined"
        else:
            run, follower = self._admitted(key)
            what = "query admitted"
        with self._lock:
            self._runs = [each for each in self._runs if each.unrest() is not None] + [run]
            self._gate, self._session = CallbackGate(), self._hosting.session
            name = _sink_of(run.query)
            self.sink = KAFKA_SINK if name == KAFKA_SINK.format else UNKNOWN_SINK
        self._begun(run, what)
        self._ledger.writes_to(name)
        query = run.query
        names_topic = self._hosting.query(self._assignment.query).output is not None
        sink = Sink(name=name or "unknown sink", names_topic=names_topic)
        self._unread = partial(uses_in_query, self._hosting.session, query, sink), time.monotonic()
        return run, follower

    def _await_start(self) -> None:
        """Only the application starts it; until then what is known of its last run stays."""
        key = self._key
        while not (self.driver.running(key) or key in self.driver.requests() or any(e.is_held for e in self._before)):
            if self._closing.is_set():
                raise RunFenced(f"{self._assignment.query} was to stop before its application started it")
            runs = self._known_runs()
            self._is_at_rest = any(map(_is_condemned, runs)) and all(run.unrest() is None for run in runs)
            self._closing.wait(_LOOK_SECONDS)
        self._is_at_rest = False

    def _has_finished(self, run: Run) -> bool:
        """A job that reads what is there has ended without an error, and so has a query that its application stopped.

        It is not reported before nothing of it can write any more. An application often ends in the same moment, and
        takes Spark's scheduler with it: of what ran in this JVM nothing is left then, executors elsewhere may outlive
        it. Raises ``SparkMissing`` where they may, and py4j's errors.
        """
        if run.error() is not None:
            return False
        try:
            while run.unrest() is not None:
                self._closing.wait(_LOOK_SECONDS)
                if self._closing.is_set():
                    return False
        except SparkMissing:
            if not self._hosting.spark_master.startswith("local"):
                raise
        return True

    def await_next_start(self, seconds: float) -> None:
        """The application ends: report that its next start is awaited, where the run has ended as it wanted.

        Waits at most so long for a run that has ended a moment ago. One that ended before this process began is known
        by its last report. Raises ``StoreError`` and py4j's errors.
        """
        if not self._ledger.has_begun:
            if self.driver.query(self._key) is None and not self.driver.is_plain(self._key):
                self._ledger.awaited_behind_restart()
            return
        deadline = time.monotonic() + seconds
        while not self._ledger.is_finished and time.monotonic() < deadline:
            if self.driver.query(self._key) is not None or self.is_quiet:
                return  # it is ended with its JVM, which is no end that it wanted
            time.sleep(_LOOK_SECONDS)
        self._ledger.awaited()

    def _follower(self) -> Follower:
        row, files = self._assignment, self._hosting.files
        return Follower(files, row.checkpoint, self._hosting.declared(row.query, row.cluster), Placed.of(row))

    def _admitted(self, key: str) -> tuple[AttachedRun, Follower]:
        """Admit the start that waits, and wait until the query runs. Raises ``RunError`` where it does not."""
        row = self._assignment
        self._permission.require_cluster()
        self._permission.require_row()
        follower = self._permission.open_checkpoint()
        self._unfinished.before_start(follower.committed, UNKNOWN_SINK, None, self._permission.require_row)
        known = self._hosting.query(row.query)
        sources = {
            name: {
                "topics": ",".join(known.sources[name].topics),
                "pattern": known.sources[name].pattern or "",
                "options": options,
            }
            for name, options in attached_sources(self._hosting, row).items()
        }
        beside = declared_beside(self._hosting, row.query, key, row.cluster)
        news = BatchNews(self._hosting.session, uuid.uuid4().hex)
        with self._beginning():
            self.driver.admit(
                key,
                {
                    "query": row.query,
                    "epoch": row.epoch,
                    "follower": news.follower,
                    "sources": sources,
                    "beside": beside,
                },
            )
            deadline = time.monotonic() + _START_SECONDS
            while self.driver.query(key) is None:
                if key in self.driver.requests() or time.monotonic() >= deadline:
                    news.close()
                    raise RunError(f"{row.query} was admitted and did not start: the application's log says why")
                time.sleep(_LOOK_SECONDS / 4)
            return self._joined(key, news.follower), follower

    def _joined(self, key: str, follower: str) -> AttachedRun:
        query = self.driver.query(key)
        if query is None:
            raise RunError(f"{self._assignment.query} has ended")
        run = AttachedRun(self._hosting.session, query, CallbackGate(), BatchNews(self._hosting.session, follower))
        run.driver = self.driver
        run.condemnation = (
            f"{self._assignment.query} was stopped on {self._assignment.cluster} because it is moved from there"
        )
        return run


def _is_condemned(run: Run) -> bool:
    return isinstance(run, AttachedRun) and run.is_condemned


def _sink_of(query: StreamingQuery) -> str | None:
    """The name of a sink by its class: ``kafka`` decides which columns reach a topic. None where it is unknown."""
    try:
        name = str(java_query(query).streamingQuery().sink().getClass().getSimpleName())
    except Py4JError:
        return None
    return "kafka" if "kafka" in name.lower() else name
