"""The connector's jars for tests that open a Spark session of their own.

The JVM of the first session stays for the whole test process, and jars are taken only when it starts: so every test's
session names them, whether it needs them or not.
"""

import pyspark

from streaming.companion.jar import companion_jar
from streaming.jars import jar_paths


def connector_jars() -> str:
    """The value of ``spark.jars`` for the installed pyspark, the companion's jar included."""
    return ",".join(str(path) for path in [*jar_paths(f"spark-{pyspark.__version__}"), companion_jar()])
