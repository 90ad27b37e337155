"""Puts a runner together, runs it until a signal, and takes it apart again."""

import contextlib
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from state.ports import Store
from state.settings import Tideover
from streaming.clocks import Onward
from streaming.eyes import eyes_on
from streaming.kafka.link import Link
from streaming.spark.disk import checkpoint_files, keeps_local_checkpoints
from streaming.spark.facts import bound
from streaming.spark.hosting import Hosting
from streaming.spark.identity import own_identity
from streaming.spark.jvm import has_stopped
from streaming.spark.launch import FileSinks
from streaming.spark.partitions import count_partitions
from streaming.spark.registration import Registration, TakeOver, clear_name
from streaming.spark.run_errors import RunError
from streaming.spark.runner import Runner
from streaming.spark.session import open_session, search_path
from streaming.spark.sight import Listeners, Lookout
from streaming.spark.tracker import Tracker
from streaming.spark.warmup import begin_warmup

GRACE_SECONDS = 10.0
_TRACKER_GRACE_SECONDS = 2.0
_SPARK_GRACE_SECONDS = 5.0
_LOOK_SECONDS = 1.0
STATE = "TIDEOVER_STATE"
"""Names the folder of what the store cannot take for a while; else it is kept beside the configuration."""


def run_runner(settings: Tideover, name: str, *, store: Store, base: Path, take_over: TakeOver | None = None) -> int:
    """Run the runner of that name until SIGTERM or SIGINT; the exit code: 0 stopped, 2 could not go on.

    ``base`` is the configuration's folder; ``take_over`` lets it have a name that a silent process on another host has.
    Raises ``RunError`` when it cannot begin (``NameTaken``, ``SparkMissing``,
    a name that is not configured), ``StoreError`` and ``JarError``. Ends the process by itself if Spark will not.
    """
    if name not in settings.runners:
        known = ", ".join(sorted(settings.runners)) or "none"
        raise RunError(f"runner {name} is not in the configuration", hint=f"there are: {known}")
    log = bound({"runner": name})
    here, instance = own_identity(), uuid.uuid4().hex
    former = clear_name(store, name, here, take_over)
    if former is not None:
        log.info("taking the name over", pid=former.pid, host=former.host, last_seen=former.seen_at.isoformat())
    local = keeps_local_checkpoints(settings, name)
    session = open_session(
        settings.spark,
        name=name,
        instance=instance,
        partitions=_count_partitions(settings, name),
        local_checkpoints=local,
        python_path=search_path(base),
    )
    tracker = Tracker(
        lambda cluster: Link(settings.clusters[cluster], name=cluster),
        store,
        spool_folder(base, os.environ) / name,
        Onward(),
        settings.timeline_of,
    )
    own = [query for query, declared in settings.queries.items() if name in declared.runners]
    lookout = Lookout(name, instance, eyes_on(settings, own), store, settings.detection)
    hosting = Hosting(
        settings=settings,
        runner=name,
        instance=instance,
        base=base,
        here=here,
        spark_master=str(session.sparkContext.master),
        application_id=str(session.sparkContext.applicationId),
        session=session,
        files=checkpoint_files(session, local=local),
        store=store,
        watch=Listeners(tracker, lookout),
    )
    registration = Registration(hosting)
    registration.renew()
    sinks = FileSinks(hosting)
    runner = Runner(hosting, registration, sinks)
    log.info("runner is up", pid=os.getpid(), spark=session.version, master=session.sparkContext.master)
    tracker.begin(sorted({cluster for query in settings.queries.values() for cluster in query.clusters}))
    lookout.begin()
    over = threading.Event()
    begin_warmup(hosting, runner, sinks, registration.set_warm, over)
    watch_application(session, runner.lose_application, over)
    code, quiet = 0, False
    with _signals(runner):
        try:
            runner.run()
        except RunError as error:
            log.warning("runner cannot go on", error=str(error))
            code = 2
        finally:
            over.set()
            lookout.close()
            quiet = runner.close(GRACE_SECONDS)
            tracker.close(_TRACKER_GRACE_SECONDS)
    log.info("runner is down", quiet=quiet)
    _end_spark(hosting, code)
    return code


def watch_application(session: SparkSession, ended: Callable[[], None], over: threading.Event) -> None:
    """Call ``ended`` when Spark's context has stopped by itself; ``over`` gives it up.

    A standalone master, YARN or a lost connection to either takes the application away and leaves the JVM. In a thread
    of its own, so that a JVM which does not answer for a while costs the runner no heartbeat.
    """

    def live() -> None:
        while not over.wait(_LOOK_SECONDS):
            try:
                if has_stopped(session):
                    ended()
                    return
            except Py4JError:
                return  # without a JVM there is nobody to ask, and the runner sees that itself

    threading.Thread(target=live, name="spark application", daemon=True).start()


def spool_folder(base: Path, environment: Mapping[str, str]) -> Path:
    """Where runners keep what the store cannot take, a folder each: a mounted configuration may be read-only."""
    return Path(environment[STATE]) if environment.get(STATE) else base / ".tideover"


def _count_partitions(settings: Tideover, name: str) -> int:
    with contextlib.ExitStack() as links:
        return count_partitions(
            settings, name, lambda cluster: links.enter_context(Link(settings.clusters[cluster], name=cluster))
        )


@contextlib.contextmanager
def _signals(runner: Runner) -> Iterator[None]:
    """SIGTERM and SIGINT ask the runner to stop; a second one changes nothing."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        runner.ask_to_stop()

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
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
