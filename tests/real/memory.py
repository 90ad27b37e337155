"""Streams whose rows a test gives, and stateful functions that only the JVM can have, for queries in pyspark.

Spark's own suites read a ``MemoryStream``, which Python has no word for. What they pass to ``flatMapGroupsWithState``
is a Scala closure: the same in Java is compiled by the compiler that Spark has for its generated code.
"""

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streaming.spark.jvm import JavaObject, java_context, java_view

JAR = "spark.tideover.test.jar"
"""Setting of a session: the jar that ``new_instance`` looks in."""


class Memory:
    """A source of one session that has the rows it was given, one batch at least for each time."""

    def __init__(self, session: SparkSession, columns: str) -> None:
        self._session = session
        self._schema = cast("StructType", StructType.fromDDL(columns))
        java = java_view(session).org.apache.spark.sql.execution.streaming.runtime
        self._stream = java.MemoryStream.apply(row_encoder(session, columns), session._jsparkSession)

    def frame(self) -> DataFrame:
        return DataFrame(self._stream.toDF(), self._session)

    def add(self, rows: Iterable[object]) -> None:
        """Give rows, each a tuple, or a value where there is one column."""
        tuples = [row if isinstance(row, tuple) else (row,) for row in rows]
        values = ", ".join(f"({', '.join(map(repr, row))})" for row in tuples)
        names = ", ".join(self._schema.names)
        frame = self._session.sql(f"SELECT * FROM VALUES {values} AS rows({names})").to(self._schema)
        self._stream.addData(scala_list(self._session, frame._jdf.collectAsList()))


def row_encoder(session: SparkSession, columns: str) -> JavaObject:
    return session.createDataFrame([], columns)._jdf.encoder()


def grouped(frame: DataFrame, keys: Sequence[str], key: JavaObject, value: JavaObject) -> JavaObject:
    """A ``KeyValueGroupedDataset``, with the encoders of its keys and of its rows."""
    rest = scala_list(frame.sparkSession, keys[1:])
    return getattr(frame._jdf.groupBy(keys[0], rest), "as")(key, value)


def scala_list(session: SparkSession, values: Any) -> JavaObject:
    java = java_view(session)
    if not hasattr(values, "getClass"):
        values = java.java.util.ArrayList(list(values))
    return java.scala.jdk.javaapi.CollectionConverters.asScala(values).toList()


def compile_jar(session: SparkSession, jar: Path, sources: Iterable[str], classes: Mapping[str, bytes]) -> None:
    """Put Java sources, compiled, and classes that there are into a jar; make it known to the executors."""
    with zipfile.ZipFile(jar, "w") as archive:
        for source in sources:
            compiler = java_view(session).org.codehaus.janino.SimpleCompiler()
            compiler.cook(source)
            for name, content in compiler.getBytecodes().items():
                archive.writestr(f"{name.replace('.', '/')}.class", bytes(content))
        for path, content in classes.items():
            archive.writestr(path, content)
    java_context(session).addJar(str(jar))


def new_instance(session: SparkSession, name: str) -> JavaObject:
    """An object of a class in the session's jar: the class path of a JVM that runs already has no room for it."""
    java = java_view(session)
    urls = java.java.lang.reflect.Array.newInstance(java.java.lang.Class.forName("java.net.URL"), 1)
    urls[0] = java.java.net.URL(Path(session.conf.get(JAR) or "").as_uri())
    loader = java.java.net.URLClassLoader(urls, java.java.lang.Thread.currentThread().getContextClassLoader())
    return loader.loadClass(name).newInstance()
