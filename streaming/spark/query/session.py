"""The driver's Spark session, whether it still answers, and the small session of each query on top of it.

One SparkContext hosts all queries of a runner: a query moves between clusters in about a second, where a new driver
takes eleven. Each run gets a session of its own, so that its settings touch no other run's.
"""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from state.errors import TideoverError
from state.settings.checkpoint_schemes import STORE, STORES, scheme_of
from state.settings.keys import Query, Spark
from streaming import class_archive
from streaming.jars import jar_paths, set_names
from streaming.java import java_home
from streaming.process import INSTANCE_KEY, set_own
from streaming.secrets import SECRET_NAME, looks_secret
from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.checkpoint.hadoop_files import local_disk_conf
from streaming.spark.errors import SparkMissing
from streaming.spark.jvm import JavaObject, java_view, launch_jvm, launched_view, protect_callbacks
from streaming.spark.spark_build import SparkBuild, older_manager, probe_build

_PAUSE_SECONDS = 1.0
_TICK_SECONDS = 1.0
"""Of a longer time between two looks no more counts: this process was stopped itself, or its whole host was."""


class Liveness:
    """Calls ``has_stopped``, which calls into the JVM, in a thread of its own.

    py4j has no time-out: a call into a JVM that is frozen, or collects garbage for minutes, never returns. So one
    thread calls, once a second, and the runner's loop only looks at how long the call has been waiting.
    """

    def __init__(self, has_stopped: Callable[[], bool], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._has_stopped = has_stopped
        self._monotonic = monotonic
        self._questions = 0
        self._waiting = False
        self._looked_at: tuple[int, float] = (0, monotonic())
        self._silent = 0.0

    def begin(self, ended: Callable[[], None], over: threading.Event) -> None:
        """Look until ``over``; call ``ended`` when Spark's context has stopped on its own.

        A standalone master, YARN or a lost connection to either takes the application away and leaves the JVM.
        """

        def live() -> None:
            while not over.wait(_PAUSE_SECONDS):
                self._questions += 1
                self._waiting = True
                try:
                    stopped = self._has_stopped()
                except Py4JError:
                    return  # without a JVM there is no answer, and the runner sees that itself
                finally:
                    self._waiting = False
                if stopped:
                    ended()
                    return

        threading.Thread(target=live, name="spark application", daemon=True).start()

    def silence(self) -> float:
        """For how many seconds the JVM has not answered, as far as this process was running; to be called often."""
        now, (question, before) = self._monotonic(), self._looked_at
        self._looked_at = (self._questions, now)
        same = self._waiting and question == self._questions
        self._silent = self._silent + min(now - before, _TICK_SECONDS) if same else 0.0
        return self._silent


_HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.numRecentProgressUpdates": "100",
    "spark.sql.streaming.stateStore.providerClass": _HDFS_BACKED,
    "spark.sql.shuffle.partitions": "4",
    "spark.redaction.regex": f"(?i)secret|password|token|access[.]?key|{SECRET_NAME}",
}
"""HDFS-backed state and few shuffle partitions restart fastest; a checkpoint pins both at its first start.

Spark's own pages and event logs hide what Spark hides by default, and what is a secret to us.
"""

_PATHS = ("spark.driver.extraClassPath", "spark.executorEnv.PYTHONPATH")
"""Settings of which a configuration may have its own part: the runner adds to it."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MISFIT = "spark.tideover.companion.missing"
_OWN_STORE_HINT = (
    "name Hadoop's connector (org.apache.hadoop:hadoop-aws) in spark.conf, spark.jars.packages, in the version of this "
    "Spark's Hadoop"
)

_QUIET = {
    "org.apache.hadoop.util.Shell": "ERROR",  # it warns of every interrupted chmod of a run that is stopped
    "org.apache.kafka": "ERROR",  # a dead cluster would be reported by each client ten times a second
    "org.apache.spark.sql.kafka010": "ERROR",
    "org.apache.spark.sql.execution.streaming": "ERROR",
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution": "OFF",  # its exception is the query's, logged once
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution": "OFF",
    "org.apache.spark.sql.execution.streaming.runtime.StreamExecution": "OFF",
    "org.apache.spark.sql.execution.streaming.state": "ERROR",
    "org.apache.hadoop.fs.s3a.S3AFileSystem": "ERROR",  # Hadoop 3.3 warns that the companion takes its client
    "org.apache.hadoop.fs.s3a.S3ABlockOutputStream": "ERROR",  # it warns of each put that came second, with statistics
    "org.apache.hadoop.fs.s3a.S3AInstrumentation": "ERROR",
    "org.apache.spark.sql.catalyst.analysis.ResolveWriteToStream": "ERROR",
    "org.apache.spark.scheduler": "ERROR",
    "org.apache.spark.scheduler.TaskSetManager": "OFF",
    "org.apache.spark.executor.Executor": "OFF",
    "org.apache.spark.util.Utils": "OFF",  # it logs each cancelled task of a fenced run with its stack
    "org.apache.spark.sql.execution.datasources.FileFormatWriter": "OFF",
}

_MOST_SLOTS = 128
_TASK_TRIES = 3
"""Of a task, as on a cluster (``spark.task.maxFailures``): ``local[N]`` has one, and a first fetch that takes longer
than ``kafkaConsumer.pollTimeoutMs`` would end the query."""
_SHORTEST_DELAY_MS, _LONGEST_DELAY_MS = 10, 1000


def task_slots(partitions: int, cores: int) -> int:
    """Slots of ``local[*]``: a stuck run holds one per partition, and the new one needs as many beside it."""
    return max(4, cores, min(2 * partitions, _MOST_SLOTS))


def session_conf(
    spark: Spark, *, jars: Iterable[Path], partitions: int, cores: int, extra: Mapping[str, str]
) -> dict[str, str]:
    """The session's settings: ours, under what the configuration says; paths of both are put behind one another.

    ``extra`` is what a runner cannot do without.
    """
    theirs = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in spark.conf.items()}
    local = spark.master.startswith("local")
    ours = _DEFAULTS | ({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if local else {})
    slots = task_slots(partitions, cores)
    master = f"local[{slots},{_TASK_TRIES}]" if spark.master == "local[*]" else spark.master
    paths = [*theirs.pop("spark.jars", "").split(","), *(str(jar) for jar in jars)]
    joined = {key: f"{theirs[key]}{os.pathsep}{extra[key]}" for key in _PATHS if theirs.get(key) and extra.get(key)}
    return {
        **ours,
        **theirs,
        **extra,
        **joined,
        "spark.master": master,
        "spark.jars": ",".join(path for path in paths if path),
    }


def connector_jars(spark: Spark, version: str) -> list[Path]:
    """The Kafka connector's jars for this pyspark, or for another patch of its minor version.

    None when the configuration brings its own. Raises ``SparkMissing`` where there is none of that minor version.
    """
    if spark.brings("kafka-0-10"):
        return []
    name = nearest_set("spark", version)
    if name is None:
        supported = ", ".join(each.removeprefix("spark-") for each in set_names() if each.startswith("spark-"))
        raise SparkMissing(
            f"this is Spark {version}, but Tideover has Kafka connectors only for {supported}",
            hint="pip install pyspark==VERSION with one of these, or name a connector of your own in spark.conf: "
            "spark.jars.packages",
        )
    return jar_paths(name)


def nearest_set(kind: str, version: str) -> str | None:
    """The set of jars of a Spark version, else the one of its minor version: ``3.5.6-amzn-2`` takes that of 3.5."""
    minor = re.match(r"\d+\.\d+(?!\d)", version)
    known = [each for each in set_names() if minor is not None and each.startswith(f"{kind}-{minor[0]}.")]
    return next((each for each in known if each == f"{kind}-{version}"), next(iter(known), None))


def store_jars(spark: Spark, checkpoints: Iterable[str], version: str) -> list[Path]:
    """What Spark needs to reach checkpoints on S3; none when there are none, or the configuration brings its own."""
    default = str(spark.conf.get("spark.hadoop.fs.defaultFS", ""))
    schemes = {scheme_of(checkpoint) or scheme_of(default) for checkpoint in checkpoints}
    if spark.brings("hadoop-aws") or not schemes & STORES:
        return []
    name = nearest_set(STORE, version)
    if name is None:
        raise SparkMissing(
            f"Tideover has no connector of S3 for Spark {version}, so no checkpoint on S3 without one of your own",
            hint=_OWN_STORE_HINT,
        )
    return jar_paths(name)


def open_session(
    spark: Spark,
    *,
    name: str,
    instance: str,
    partitions: int,
    checkpoints: Sequence[str] = (),
    local_checkpoints: bool = False,
    companion: Path | None = None,
    python_path: Sequence[Path] = (),
) -> SparkSession:
    """Start (or join) the driver's session, which reaches the ``checkpoints``.

    Raises ``SparkMissing`` and the errors of ``jar_paths``.

    With the jar of the ``companion`` its file manager is the session's, unless this Spark lacks something that it
    needs: ``missing_companion`` says what.

    The JVM is launched without the secrets, since everybody may read the arguments of a process; Spark then gets them
    through pyspark's own connection. Executors get their settings from the driver.
    """
    jars = [*connector_jars(spark, pyspark.__version__), *store_jars(spark, checkpoints, pyspark.__version__)]
    _prepare_environment(python_path)
    disk = local_disk_conf(jars) if local_checkpoints else {}
    extra = {INSTANCE_KEY: instance} | disk
    if companion is not None:
        jars = [*jars, companion]
    if not spark.master.startswith("local"):
        extra["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    conf = session_conf(spark, jars=jars, partitions=partitions, cores=os.cpu_count() or 1, extra=extra)
    conf.setdefault("spark.app.name", f"tideover {name}")
    if archived := class_archive.options(driver_archive(conf)):
        conf[_JAVA_OPTIONS] = " ".join([*archived, conf.get(_JAVA_OPTIONS, "")]).strip()  # what theirs says goes last
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        launch_jvm({key: value for key, value in conf.items() if not looks_secret(key)})
        for key, value in _found_conf(with_companion=companion is not None, on_disk=bool(disk)).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        protect_callbacks(session)
    except TideoverError:
        raise
    except Exception as error:  # py4j and the JVM raise what they like; here it all means the same
        raise SparkMissing(
            f"Spark could not be started on {spark.master}: {str(error).partition(chr(10))[0]}"
        ) from error
    _quieten(session)
    return session


def _found_conf(*, with_companion: bool, on_disk: bool) -> dict[str, str]:
    """The manager of checkpoint files for the Spark whose JVM was launched; where it is not the companion's, why."""
    build = probe_build(launched_view()) if with_companion else SparkBuild("", "")
    manager = build.manager or (older_manager(launched_view()) if on_disk else "")
    return {key: value for key, value in ((MANAGER, manager), (_MISFIT, build.misfit)) if value}


def missing_companion(session: SparkSession) -> str:
    """What this Spark lacks that the companion needs, in one sentence; empty where nothing was missed."""
    return str(session.conf.get(_MISFIT, ""))


def driver_archive(conf: Mapping[str, str]) -> Path:
    """Where the archive of a driver's classes lies; its class path as in ``AbstractCommandBuilder.buildClassPath``."""
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    own = os.environ.get("SPARK_CONF_DIR") or str(home / "conf")
    entries = [conf.get("spark.driver.extraClassPath", ""), own, str(home / "jars" / "*")]
    entries += [os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")]
    return class_archive.archive_of("driver", entries)


def polling_delay_ms(query: Query) -> int:
    """How long a run that found nothing new stays in that state, which Spark shows for 10 ms only.

    It is how a runner learns that an idle query reads its cluster, so it must be seen by a thread that looks a few
    times a second. Half a trigger costs no record any time: the other half is waited for anyway.
    """
    return min(_LONGEST_DELAY_MS, max(_SHORTEST_DELAY_MS, round(query.trigger.total_seconds() * 500)))


def query_session(session: SparkSession, name: str, query: Query, epoch: int) -> SparkSession:
    """A session for one run: the query's own settings, and the epoch for sinks that are conditional on it."""
    own = session.newSession()
    own.conf.set("spark.sql.streaming.pollingDelay", f"{polling_delay_ms(query)}ms")
    for key, value in query.spark.items():
        own.conf.set(key, str(value).lower() if isinstance(value, bool) else str(value))
    own.conf.set("spark.tideover.query", name)
    own.conf.set("spark.tideover.epoch", str(epoch))
    return own


def _prepare_environment(python_path: Sequence[Path]) -> None:
    """Workers run this very interpreter and find the pipelines' modules."""
    ours = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    for name, value in ours.items():
        set_own(name, os.environ.get(name, value))
    set_own("JAVA_HOME", str(java_home()))  # an older one does not know the options for an archive of classes
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    wanted = [str(path) for path in python_path if str(path) not in known]
    set_own("PYTHONPATH", os.pathsep.join([*wanted, *(path for path in known if path)]))


def _quieten(session: SparkSession) -> None:
    session.sparkContext.setLogLevel("WARN")
    log4j: JavaObject = java_view(session).org.apache.logging.log4j
    for logger, level in _QUIET.items():
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.toLevel(level))


def search_path(base: Path) -> list[Path]:
    """Where pipelines are looked for, and put there: the working directory, then the configuration's folder."""
    folders = [Path.cwd(), base.absolute()]  # a link stays one: what it points to may be replaced while we run
    sys.path[:0] = [str(folder) for folder in folders if str(folder) not in sys.path]
    return folders
