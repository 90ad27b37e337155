"""Puts a runner together, runs it until a signal, and takes it apart again."""

import contextlib
import os
import signal
import threading
import uuid
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from urllib.parse import urlparse

import structlog
from pyspark.sql import SparkSession

from state.model.entities import Assignment
from state.settings.checkpoint_schemes import (
    GOOGLE,
    GOOGLE_HINT,
    HINT,
    LAKE_HINT,
    LAKES,
    OBJECTS,
    STORE_HINT,
    scheme_of,
    scheme_refusal,
)
from state.settings.connection_estimate import connections_of_start
from state.settings.keys import Tideover
from state.store.runner_store import RunnerStore
from streaming.clocks import ForwardClock
from streaming.companion.jar import companion_jar
from streaming.errors import CompanionError, JarError, JavaMissing
from streaming.kafka.link import Link
from streaming.kafka.pacing import Lane, pacer_of
from streaming.kafka.probed_clusters import probes_on
from streaming.probe.identities import Identities
from streaming.process import Identity, own_identity
from streaming.spark.bucket_rules import bucket_rules
from streaming.spark.checkpoint.batch_news import MANAGER, has_companion
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.hadoop_files import (
    HadoopFiles,
    checkpoint_files,
    keeps_local_checkpoints,
    names_own_files,
)
from streaming.spark.errors import RunError, UnsafeCheckpoint, UnsafeFileSystem
from streaming.spark.external.external_supervisor import supervisor_of
from streaming.spark.hosting import Hosting, absolute, logger_about
from streaming.spark.java_login import with_logins
from streaming.spark.jvm import has_stopped, java_context
from streaming.spark.masters.kubernetes import own_pod
from streaming.spark.query.kafka_options import count_tasks
from streaming.spark.query.launch import Sinks
from streaming.spark.query.session import Liveness, missing_companion, open_session, search_path
from streaming.spark.query.warmup import begin_warmup
from streaming.spark.runner.drill import begin_sweep
from streaming.spark.runner.registration import NameTakeover, Registration, clear_name
from streaming.spark.runner.runner import DriverProcess, Runner
from streaming.spark.runner.runner_probe import BatchListeners, RunnerProbe
from streaming.spark.tracking.tracker import Tracker

IN_STEPS = "no file is replaced in one step, and the offsets of an application are rewritten in place"
_HDFS = "org.apache.hadoop.hdfs.DistributedFileSystem"


def require_exclusive_create(session: SparkSession, settings: Tideover, runner: str, base: Path) -> None:
    """Raises ``UnsafeCheckpoint`` for the first query of this runner whose checkpoint may not lie where it does.

    Whether an object store obeys the condition shows in no name, so it is tried out, once for each bucket: raises
    ``FileSystemError`` where it cannot be.

    That is a file system on which two drivers could both create one entry of a log; nothing is hosted then. The
    configuration is checked for schemes; what lies behind a path without one, and behind ``hdfs``, is known to Hadoop's
    settings alone. The file system itself gets no request, which may be away just now.
    """
    conf = java_context(session).hadoopConfiguration()
    default = str(conf.get("fs.defaultFS", "file:///"))
    implementation = str(conf.get("fs.hdfs.impl", _HDFS))
    tried: set[str] = set()
    for name, query in settings.queries.items():
        if runner not in query.runners:
            continue
        checkpoint = absolute(query.checkpoint, base)
        refused, hint = scheme_refusal(checkpoint, default), HINT
        scheme = scheme_of(checkpoint) or scheme_of(default)
        if refused is None and scheme == "hdfs" and implementation != _HDFS:
            refused = f"{checkpoint} is on hdfs by {implementation} (fs.hdfs.impl), which is not known to be safe"
        if refused is None and scheme in OBJECTS:
            bucket = "//".join(urlparse(checkpoint)[:2])
            manager = str(session.conf.get(MANAGER, ""))
            fenced = has_companion(session) and query.spark.get(MANAGER, manager) == manager
            store, hint = ("Cloud Storage", GOOGLE_HINT) if scheme == GOOGLE else ("S3", STORE_HINT)
            refused = _store_refusal(session, checkpoint, bucket in tried, store, fenced=fenced)
            tried.add(bucket)
        if refused is None and scheme in LAKES:
            why = HadoopFiles(session).why_no_lake(checkpoint)
            refused, hint = f"{checkpoint} cannot be used: {why}" if why else None, LAKE_HINT
            if refused is None and query.application is not None:
                refused, hint = f"{checkpoint} is on {scheme}, where {IN_STEPS}", HINT
        if refused is not None:
            raise UnsafeCheckpoint(f"queries.{name}.checkpoint: {refused}", hint=hint)


def _store_refusal(session: SparkSession, checkpoint: str, known: bool, store: str, *, fenced: bool) -> str | None:
    """Why a checkpoint may not lie on an object store; ``fenced``: its manager of files is the companion's."""
    if not fenced:
        return f"{checkpoint} is on {store}, where Spark's own manager lets two drivers create one entry of its log"
    if known:
        return None
    probe, files = join(checkpoint, f"_tideover_probe-{uuid.uuid4().hex}"), HadoopFiles(session)
    try:
        created = files.create_atomically(probe, b"first")
    except UnsafeFileSystem as error:
        return str(error)
    try:
        if created and not files.create_atomically(probe, b"second"):
            return None
    finally:
        files.delete(probe)
    return (
        f"{checkpoint} is on a store that overwrites an object although it is put on the condition that there is none"
    )


_WITHOUT = "no companion in Spark: queries move by carry, and a stale driver is stopped by blocking entries alone"
_OWN_FILES = "the configuration names a manager of checkpoint files or a file system of its own"
GRACE_SECONDS = 10.0
_TRACKER_GRACE_SECONDS = 2.0
_SPARK_GRACE_SECONDS = 5.0
STATE = "TIDEOVER_STATE"
"""Names the folder of what the store cannot take for a while; else it is kept beside the configuration."""


def run_runner(
    settings: Tideover, name: str, *, store: RunnerStore, base: Path, take_over: NameTakeover | None = None
) -> int:
    """Run the runner of that name until SIGTERM or SIGINT; the exit code: 0 stopped, 2 could not continue.

    ``base`` is the configuration's folder; ``take_over`` lets it have a name that a silent process on another host has.
    Raises ``RunError`` when it cannot begin (``NameTaken``, ``SparkMissing``, ``UnsafeCheckpoint``,
    a name that is not configured), ``StoreError`` and ``JarError``. Ends the process itself if Spark will not.
    """
    if name not in settings.runners:
        known = ", ".join(sorted(settings.runners)) or "none"
        raise RunError(f"runner {name} is not in the configuration", hint=f"declared runners: {known}")
    if any(query.attach == name for query in settings.queries.values()):
        raise RunError(
            f"{name} is an application that starts its queries itself, so no runner of this name can be started",
            hint="start the application as its scheduler does: docs/adopt.md",
        )
    log = logger_about({"runner": name})
    here, instance = own_identity(), uuid.uuid4().hex
    former = clear_name(store, name, here, take_over, settings.spark)
    if former is not None:
        log.info("taking the name over", pid=former.pid, host=former.host, last_seen=former.seen_at.isoformat())
    tasks = _count_tasks(settings, name)
    session, missing = _session(settings, name, instance, base, log, tasks=sum(tasks.values()))
    files = checkpoint_files(session, local=keeps_local_checkpoints(settings, name))
    parts = assembled(
        settings, name, instance, store=store, base=base, here=here, spark=SparkInUse(session, files, missing, tasks)
    )
    return _run(parts, log)


class SparkInUse(NamedTuple):
    """The Spark that a runner works in: a session of its own, or an application's."""

    session: SparkSession
    files: CheckpointFiles
    companion_missing: str = ""
    """Why the session has no companion, where it has none."""
    tasks: Mapping[str, int] | None = None
    """By query, those of its sources: starts are spread over a cluster that limits connections. Without it, not."""


class Parts(NamedTuple):
    """What a runner is put together of, beside the queries."""

    hosting: Hosting
    tracker: Tracker
    lookout: RunnerProbe
    identities: Identities


def assembled(
    settings: Tideover,
    name: str,
    instance: str,
    *,
    store: RunnerStore,
    base: Path,
    here: Identity,
    spark: SparkInUse,
) -> Parts:
    """The parts of the runner of this name. Nothing has begun. Raises ``StoreError``."""
    identities = Identities(settings)
    identities.learn(store)
    own = [query for query, declared in settings.queries.items() if name in declared.runners]
    lookout = RunnerProbe(name, instance, probes_on(settings, identities, own), store, settings.detection)
    tracker = Tracker(
        lambda cluster: Link(settings.clusters[cluster], name=cluster, identify=identities.of(cluster)),
        store,
        spool_folder(base, os.environ) / name,
        ForwardClock(),
        settings.timeline_of,
        lookout.is_silent,
    )
    hosting = Hosting(
        settings=settings,
        runner=name,
        instance=instance,
        base=base,
        here=here,
        spark_master=str(spark.session.sparkContext.master),
        application_id=str(spark.session.sparkContext.applicationId),
        pod=own_pod(),
        session=spark.session,
        companion=has_companion(spark.session),
        companion_missing=spark.companion_missing,
        files=spark.files,
        store=store,
        listener=BatchListeners(tracker, lookout),
        stranger=lambda row: (
            identities.left_behind(row) or lookout.stranger_to(settings.queries[row.query], row.cluster)
        ),
        is_elsewhere=lookout.is_elsewhere,
        cluster_id=identities.known,
        is_silent=lookout.is_silent,
        bucket_rules=partial(bucket_rules, spark.session),
        log_of=cache(lambda cluster: Link(settings.clusters[cluster], name=cluster, identify=identities.of(cluster))),
        turn=partial(_turn, settings, spark.tasks or {}),
    )
    return Parts(hosting, tracker, lookout, identities)


def _turn(settings: Tideover, tasks: Mapping[str, int], row: Assignment) -> float:
    """Seconds until a start of this row is worth a try; 0.0: now, and its connections count from here on."""
    count, cluster = tasks.get(row.query), settings.clusters.get(row.cluster)
    if count is None or cluster is None:
        return 0.0
    opened = connections_of_start(settings.queries[row.query], count, len(cluster.bootstrap))
    return pacer_of(cluster).take(Lane.START, opened)


def _session(
    settings: Tideover, name: str, instance: str, base: Path, log: structlog.stdlib.BoundLogger, *, tasks: int
) -> tuple[SparkSession, str]:
    """Spark for this runner, on folders in which a file can be created exclusively; why it has no companion, if so."""
    own = names_own_files(settings, name)
    companion, missing = (None, _OWN_FILES) if own else _companion(log)
    session = open_session(
        with_logins(settings.spark, settings.clusters.values()),
        name=name,
        instance=instance,
        partitions=tasks,
        checkpoints=[query.checkpoint for query in settings.queries.values() if name in query.runners],
        local_checkpoints=keeps_local_checkpoints(settings, name),
        companion=companion,
        python_path=search_path(base),
    )
    if companion is not None and (missing := missing_companion(session)):
        log.warning(_WITHOUT, spark=session.version, error=missing)
    require_exclusive_create(session, settings, name, base)
    return session, missing


def _run(parts: Parts, log: structlog.stdlib.BoundLogger) -> int:
    """Host queries until the process is to end; the exit code."""
    hosting, tracker, lookout, identities = parts
    session, settings = hosting.session, hosting.settings
    registration = Registration(hosting)
    registration.renew()
    sinks = Sinks(hosting)
    liveness = Liveness(lambda: has_stopped(session))
    wakeups = hosting.store.wakeups()
    process = DriverProcess(supervisor=supervisor_of)
    runner = Runner(hosting, registration, sinks, liveness, identities, wakeups, process)
    log.info("runner is up", pid=os.getpid(), spark=session.version, master=session.sparkContext.master)
    own = (query for query in settings.queries.values() if hosting.runner in query.runners)
    tracker.begin(sorted({cluster for query in own for cluster in query.clusters}))
    lookout.begin()
    over = threading.Event()
    begin_warmup(hosting, runner, sinks, registration, over)
    begin_sweep(hosting, over)
    liveness.begin(runner.lose_application, over)
    code, quiet = 0, False
    with _signals(runner):
        try:
            runner.run()
        except RunError as error:
            log.warning("runner cannot continue", error=str(error))
            code = 2
        finally:
            over.set()
            lookout.close()
            quiet = runner.close(GRACE_SECONDS)
            wakeups.close()
            tracker.close(_TRACKER_GRACE_SECONDS)
    log.info("runner is down", quiet=quiet)
    _end_spark(hosting, code)
    return code


def _companion(log: structlog.stdlib.BoundLogger) -> tuple[Path | None, str]:
    """The jar that Spark is to load; else None and why, which the log says: everything runs without, too."""
    try:
        return companion_jar(log.info), ""
    except (CompanionError, JavaMissing, JarError) as error:
        log.warning(_WITHOUT, error=str(error))
        return None, str(error)


def spool_folder(base: Path, environment: Mapping[str, str]) -> Path:
    """Where runners keep what the store cannot take, a folder each: a mounted configuration may be read-only."""
    return Path(environment[STATE]) if environment.get(STATE) else base / ".tideover"


def _count_tasks(settings: Tideover, name: str) -> dict[str, int]:
    with contextlib.ExitStack() as links:
        return count_tasks(
            settings, name, lambda cluster: links.enter_context(Link(settings.clusters[cluster], name=cluster))
        )


@contextlib.contextmanager
def _signals(runner: Runner) -> Iterator[None]:
    """SIGTERM and SIGINT order the runner to stop; a second one changes nothing."""

    def request_stop(_number: int, _frame: FrameType | None) -> None:
        runner.request_stop()

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    before = {number: signal.signal(number, request_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_spark(hosting: Hosting, code: int) -> None:
    """Stop Spark, and end the process where a JVM thread that hangs in a dead client would hold it up."""
    ended = threading.Event()

    def stop() -> None:
        with contextlib.suppress(Exception):  # a JVM that is already gone has nothing left to stop
            hosting.session.stop()
        ended.set()

    threading.Thread(target=stop, name="stop spark", daemon=True).start()
    if not ended.wait(_SPARK_GRACE_SECONDS):
        os._exit(code)
