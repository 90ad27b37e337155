"""A vendor's build of Spark has a version of its own: the companion goes by what is there, and says what is not."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from tests.jars import spark_line
from tests.wheel import ROOT

pytestmark = [pytest.mark.real, pytest.mark.matrix]

VENDOR = f"{pyspark.__version__.rpartition('.')[0]}.6-amzn-2"
_SECONDS = 120.0
_OPENED = """
import json, sys
import pyspark
from state.settings.keys import Spark
from streaming.companion.jar import companion_jar
from streaming.spark.checkpoint.batch_news import MANAGER, has_companion
from streaming.spark.query.session import missing_companion, open_session

pyspark.__version__ = sys.argv[1]
session = open_session(
    Spark(conf=json.loads(sys.argv[2])), name="a", instance="one", partitions=1, companion=companion_jar()
)
rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().writeStream.format("noop")
query = rows.option("checkpointLocation", sys.argv[3]).trigger(availableNow=True).start()
query.processAllAvailable()
query.stop()
print(json.dumps({
    "version": session.version, "manager": session.conf.get(MANAGER, ""), "companion": has_companion(session),
    "missing": missing_companion(session),
}))
session.stop()
"""


def opened(version: str, conf: Mapping[str, object], checkpoint: Path) -> dict[str, object]:
    """What a session is that a runner opens in a process of its own, where pyspark has this version."""
    words = [sys.executable, "-c", _OPENED, version, json.dumps(conf), str(checkpoint)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_build_with_a_vendors_version_gets_the_companion(tmp_path: Path) -> None:
    folder = tmp_path / "vendor"
    folder.mkdir()
    (folder / "spark-version-info.properties").write_text(f"version={VENDOR}\n", encoding="ascii")
    found = opened(VENDOR, {"spark.driver.extraClassPath": str(folder)}, tmp_path / "checkpoint")
    assert found == {"version": VENDOR, "manager": spark_line().manager, "companion": True, "missing": ""}
    assert list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")), "the companion's manager wrote its log"


def test_a_spark_without_what_the_companion_needs_runs_and_says_why(tmp_path: Path) -> None:
    """A connector of one's own that has no Kafka client: the query runs, and its next move is by carry."""
    own = tmp_path / "spark-sql-kafka-0-10-own.jar"
    with zipfile.ZipFile(own, "w"):
        pass
    found = opened(pyspark.__version__, {"spark.jars": str(own)}, tmp_path / "checkpoint")
    assert not found["companion"]
    assert str(found["missing"]).startswith("this Spark lacks org.apache.kafka.")
    assert list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")), "it runs as before"
