"""The driver's Spark session, and the small session of each query on top of it.

One SparkContext hosts all queries of a runner: a query moves between clusters in about a second, where a new driver
takes eleven. Each run gets a session of its own, so that its settings touch nobody else's.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from state.errors import TideoverError
from state.settings import Query, Spark
from streaming.jars import jar_paths, set_names
from streaming.java import java_home_binary
from streaming.secrets import SECRET_NAME, looks_secret
from streaming.spark.disk import local_disk_conf
from streaming.spark.jvm import JavaObject, java_view, launch_jvm
from streaming.spark.run_errors import SparkMissing

INSTANCE_KEY = "spark.tideover.instance"
"""Stands in the JVM's command line, so that an orphaned driver can be told by its runner's instance."""

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

Spark's own pages and event logs hide what it hides by itself, and what is a secret to us.
"""

_QUIET = {
    "org.apache.hadoop.util.Shell": "ERROR",  # it warns of every interrupted chmod of a run that is stopped
    "org.apache.kafka": "ERROR",  # a dead cluster would be reported by each client ten times a second
    "org.apache.spark.sql.kafka010": "ERROR",
    "org.apache.spark.sql.execution.streaming": "ERROR",
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution": "OFF",  # its exception is the query's, told once
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution": "OFF",
    "org.apache.spark.sql.execution.streaming.runtime.StreamExecution": "OFF",
    "org.apache.spark.sql.execution.streaming.state": "ERROR",
    "org.apache.spark.sql.catalyst.analysis.ResolveWriteToStream": "ERROR",
    "org.apache.spark.scheduler": "ERROR",
    "org.apache.spark.scheduler.TaskSetManager": "OFF",
    "org.apache.spark.executor.Executor": "OFF",
    "org.apache.spark.util.Utils": "OFF",  # it logs each cancelled task of a fenced run with its stack
    "org.apache.spark.sql.execution.datasources.FileFormatWriter": "OFF",
}

_MOST_SLOTS = 128
_SHORTEST_DELAY_MS, _LONGEST_DELAY_MS = 10, 1000


def task_slots(partitions: int, cores: int) -> int:
    """Slots of ``local[*]``: a stuck run holds one per partition, and the new one needs as many beside it."""
    return max(4, cores, min(2 * partitions, _MOST_SLOTS))


def session_conf(
    spark: Spark, *, jars: Iterable[Path], partitions: int, cores: int, extra: Mapping[str, str]
) -> dict[str, str]:
    """The session's settings: ours, under what the configuration says."""
    theirs = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in spark.conf.items()}
    local = spark.master.startswith("local")
    ours = _DEFAULTS | ({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if local else {})
    master = f"local[{task_slots(partitions, cores)}]" if spark.master == "local[*]" else spark.master
    paths = [*theirs.pop("spark.jars", "").split(","), *(str(jar) for jar in jars)]
    return {
        **ours,
        **theirs,
        **extra,
        "spark.master": master,
        "spark.jars": ",".join(path for path in paths if path),
    }


def connector_jars(spark: Spark, version: str) -> list[Path]:
    """The Kafka connector's jars for this pyspark; none when the configuration brings its own."""
    if "kafka-0-10" in str(spark.conf.get("spark.jars.packages", "")) + str(spark.conf.get("spark.jars", "")):
        return []
    name = f"spark-{version}"
    if name not in set_names():
        have = ", ".join(each for each in set_names() if each.startswith("spark-"))
        raise SparkMissing(
            f"no locked set of connector jars fits pyspark {version}",
            hint=f"install one of {have}, or set spark.conf spark.jars.packages to a connector of your own",
        )
    return jar_paths(name)


def open_session(
    spark: Spark,
    *,
    name: str,
    instance: str,
    partitions: int,
    local_checkpoints: bool = False,
    python_path: Sequence[Path] = (),
) -> SparkSession:
    """Start (or join) the driver's session. Raises ``SparkMissing`` and the errors of ``jar_paths``.

    The JVM is launched without the secrets, since everybody may read the arguments of a process; Spark is then told
    them through pyspark's own connection. Executors ask the driver for their settings.
    """
    jars = connector_jars(spark, pyspark.__version__)
    _prepare_environment(python_path)
    extra = {"spark.app.name": f"tideover {name}", INSTANCE_KEY: instance}
    if local_checkpoints:
        extra |= local_disk_conf(pyspark.__version__, jars)
    if not spark.master.startswith("local"):
        extra["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    conf = session_conf(spark, jars=jars, partitions=partitions, cores=os.cpu_count() or 1, extra=extra)
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        launch_jvm({key: value for key, value in conf.items() if not looks_secret(key)})
        session = builder.getOrCreate()
    except TideoverError:
        raise
    except Exception as error:  # py4j and the JVM raise what they like; here it all means the same
        raise SparkMissing(
            f"Spark could not be started on {spark.master}: {str(error).partition(chr(10))[0]}"
        ) from error
    _quieten(session)
    return session


def polling_delay_ms(query: Query) -> int:
    """How long a run that found nothing new stays in that state, which Spark shows for 10 ms only.

    It is how a runner learns that an idle query reads its cluster, so it must be seen by somebody who looks a few times
    a second. Half a trigger costs no record any time: the other half is waited for anyway.
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
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("JAVA_HOME", str(java_home_binary().resolve().parent.parent))
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    wanted = [str(path) for path in python_path if str(path) not in known]
    os.environ["PYTHONPATH"] = os.pathsep.join([*wanted, *(path for path in known if path)])


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
