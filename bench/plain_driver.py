"""The queries of the example in a plain driver: no runner, no warm-up, nothing of Tideover.

One JSON argument: bootstrap, topic, conf, and by name of a query its pipeline, settings and checkpoint. All are started
at once and run until the process is ended. Who started it watches the checkpoints for commits.
"""

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from streaming.jars import jar_paths


def main(arguments: Sequence[str]) -> int:
    """Start the queries and wait for the end of any; an error ends the process with its traceback."""
    wanted = json.loads(arguments[0])
    session = plain_session(wanted["conf"])
    for query in wanted["queries"].values():
        frame = (
            session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", wanted["bootstrap"])
            .option("subscribe", wanted["topic"])
            .option("startingOffsets", "earliest")
            .load()
        )
        writer = pipeline(query["pipeline"])({"orders": frame}, query["settings"])
        writer.trigger(processingTime="1 second").option("checkpointLocation", query["checkpoint"]).start()
    session.streams.awaitAnyTermination()
    return 0


def plain_conf(spark: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration says of Spark, as the settings of a plain session."""
    return {**spark["conf"], "spark.master": spark["master"], "spark.ui.enabled": "false"}


def plain_session(conf: Mapping[str, Any]) -> SparkSession:
    """A session with these settings and the connector's jars."""
    builder = SparkSession.builder
    jars = ",".join(str(path) for path in jar_paths(f"spark-{pyspark.__version__}"))
    for key, value in {**conf, "spark.jars": jars}.items():
        builder = builder.config(key, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def pipeline(name: str) -> Any:
    """The function that ``module:function`` names: from frames and settings to a ``DataStreamWriter``."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
