"""The few doors into the JVM behind pyspark's back, all in one place.

pyspark keeps them in underscored attributes that have been the same since 2.x; everything else here asks through these
functions, so that a version that moves one is met in one file.
"""

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streaming.spark.access import with_meaning

JavaObject = Any  # py4j builds its proxies at run time: there is no type to name


def launch_jvm(conf: Mapping[str, str]) -> None:
    """Launch the JVM unless this process has one. Whatever is in ``conf`` stands in the arguments of its process."""
    arguments = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    SparkContext._ensure_initialized(conf=arguments)  # noqa: SLF001 - this module is the seam


def java_view(session: SparkSession) -> JavaObject:
    """py4j's view of the JVM's packages."""
    return session.sparkContext._jvm  # noqa: SLF001 - as above


def java_context(session: SparkSession) -> JavaObject:
    """Scala's ``SparkContext``."""
    return session.sparkContext._jsc.sc()  # noqa: SLF001 - as above


def java_query(query: StreamingQuery) -> JavaObject:
    """The JVM's ``StreamingQuery``."""
    return query._jsq  # noqa: SLF001 - as above


def java_writer(writer: DataStreamWriter) -> JavaObject:
    """The JVM's ``DataStreamWriter``."""
    return writer._jwrite  # noqa: SLF001 - as above


def jvm_has_ended() -> bool:
    """Whether the JVM that this process launched is gone."""
    gateway = SparkContext._gateway  # noqa: SLF001 - as above
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def has_stopped(session: SparkSession) -> bool:
    """Whether the application has ended, though its JVM may live on: a cluster manager that takes it away does that."""
    return bool(java_context(session).isStopped())


def root_cause(throwable: JavaObject) -> str:
    """The innermost cause of a Java throwable, as one line: its class and the first line of its message."""
    for _ in range(50):
        cause = throwable.getCause()
        if cause is None:
            break
        throwable = cause
    return one_line(str(throwable.getClass().getSimpleName()), str(throwable.getMessage() or ""))


def cause_of(error: BaseException) -> str:
    """What an exception of pyspark or py4j means, as one line: the innermost Java cause where there is one."""
    if isinstance(error, Py4JJavaError):
        return root_cause(error.java_exception)
    return one_line(type(error).__name__, str(error))


def one_line(name: str, message: str) -> str:
    """``Name: message`` with the first line that says something, cut to what a table can carry, and its meaning."""
    first = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return with_meaning(f"{name}: {first}"[:500] if first else name)
