"""The connector's jars for tests that open a Spark session of their own.

The JVM of the first session stays for the whole test process, and jars are taken only when it starts: so every test's
session names them, whether it needs them or not.
"""

import pyspark

from streaming.companion.jar import companion_jar
from streaming.jars import jar_paths, set_names


def connector_jars() -> str:
    """The value of ``spark.jars`` for the installed pyspark, with the companion's jar and, where there is one, S3's."""
    sets = [name for kind in ("spark", "s3a") if (name := f"{kind}-{pyspark.__version__}") in set_names()]
    return ",".join(str(path) for path in [*(jar for name in sets for jar in jar_paths(name)), companion_jar()])
