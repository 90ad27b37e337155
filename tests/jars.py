"""The connector's jars, and sessions of Spark, for tests that open one of their own.

The JVM of the first session stays for the whole test process, and jars are taken only when it starts: so every test's
session names them, whether it needs them or not.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyspark
from pyspark.sql import SparkSession

from streaming.companion.jar import LINES, Line, companion_jar
from streaming.jars import jar_paths, set_names
from streaming.spark.jvm import java_context


def connector_jars() -> str:
    """The value of ``spark.jars`` for the installed pyspark, with the companion and the clients of stores."""
    sets = [
        name for kind in ("spark", "s3a", "abfs", "gcs") if (name := f"{kind}-{pyspark.__version__}") in set_names()
    ]
    return ",".join(str(path) for path in [*(jar for name in sets for jar in jar_paths(name)), companion_jar()])


def spark_line() -> Line:
    """The line of the installed pyspark: tests run on those that the companion is compiled against."""
    (line,) = (each for each in LINES if each.spark == pyspark.__version__)
    return line


@contextmanager
def local_spark(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A quiet session of two slots in this process, with these settings beside its own; it ends with the block."""
    own = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": connector_jars(),
    }
    session = SparkSession.builder.master("local[2]").config(map={**own, **settings}).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@contextmanager
def hadoop_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Within the block Hadoop makes new clients by these settings of a session; what was set before comes back."""
    conf = java_context(spark).hadoopConfiguration()
    before = {key: conf.get(key) for key in settings}
    for key, value in settings.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            conf.unset(key) if value is None else conf.set(key, value)
