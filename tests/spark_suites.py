"""Spark's own suites, as it publishes them, run against the companion's file manager and its source.

``python -m tests.spark_suites [SUITE...]`` prints how many tests of each passed. A suite takes the manager from the
setting that a user would write; the one about managers themselves is given ours by a class of a few lines
(``tests/suites``), and another one puts our source in the place of Spark's. Where a test fails, the suite runs once
more without either: what fails there, too, wants something that is not published, such as the files of Spark's source
tree.

Suites of the Kafka source bring a broker of their own, in their JVM, on the loopback address.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from streaming.companion.jar import companion_jar, run_javac
from streaming.jars import jar_paths
from streaming.java import OLDEST_MAJOR, java_home_binary
from tests.jars import spark_line

OURS = Path(__file__).parent / "suites"
_STREAMING = "org.apache.spark.sql.execution.streaming"
_KAFKA = "org.apache.spark.sql.kafka010"
BROKER = "3.9.1"
"""Of the Kafka that Spark 4.2.0 tests its source with; its classes come behind Spark's, of which some have the names of
its own."""
SUITES = (
    f"{_KAFKA}.KafkaDontFailOnDataLossSuite",
    f"{_KAFKA}.KafkaSourceStressForDontFailOnDataLossSuite",
    f"{_KAFKA}.KafkaSourceStressSuite",
    "tideover.spark41.FencedManagerSuite",
    f"{_STREAMING}.CheckpointFileManagerSuite",
    f"{_STREAMING}.HDFSMetadataLogSuite",
    f"{_STREAMING}.OffsetSeqLogSuite",
    f"{_STREAMING}.CompactibleFileStreamLogSuite",
    "org.apache.spark.sql.streaming.CommitLogSuite",
)
BY_OUR_SOURCE = SUITES[:2]
"""The third looks for the class of Spark's own source in the plan (``AddKafkaData``), and reads by that."""
KNOWN = {
    "SPARK-52824: CheckpointFileManager.create() throws uncategorized error": "here a manager is named",
    "failOnDataLoss=false should not return duplicated records: continuous processing": "our source knows no such mode",
}
"""Tests that fail with what is ours, by what they request; why that is as it should be."""
EXCHANGED = "read by the companion's source: "
_SECONDS = 900.0
_OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
"""What Spark wants opened of the JDK; its own launcher does it (``JavaModuleOptions``)."""
_LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
_ENDED = re.compile(r"^- (?P<name>.+?)(?P<failed> \*\*\* FAILED \*\*\*.*)?(?P<left> !!! (?:CANCELED|IGNORED) !!!)?$")


@dataclass(frozen=True)
class Outcome:
    """How a suite ended."""

    suite: str
    passed: tuple[str, ...]
    failed: tuple[str, ...]
    left_out: tuple[str, ...]
    """Tests that the suite itself cancels or ignores."""
    complete: bool
    """Whether the runner came to its end, so that nothing is missing."""
    exchanged: int
    """How many plans read by our source."""
    output: str


def run_suite(suite: str, scratch: Path, *, sparks_own: bool = False) -> Outcome:
    """Run one suite in a JVM of its own, with what is the companion's or with what Spark takes by default."""
    line = spark_line()
    jars = [companion_jar(), *jar_paths(f"suites-{line.spark}"), *jar_paths(f"golden-{line.spark}")]
    jars += jar_paths(f"spark-{line.spark}")
    spark = Path(pyspark.__file__).parent / "jars"
    against = [*jars, *jar_paths(f"companion-{line.spark}"), *sorted(spark.glob("spark-*.jar"))]
    run_javac(sorted(OURS.glob("*.java")), against, scratch / "classes", OLDEST_MAJOR)
    (scratch / "tmp").mkdir(exist_ok=True)
    ours = suite in BY_OUR_SOURCE and not sparks_own
    manager = {} if sparks_own else {"spark.sql.streaming.checkpointFileManagerClass": line.manager}
    settings = {
        **manager,
        **({"spark.sql.extensions": "tideover.CompanionsSource"} if ours else {}),
        "spark.testing": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "java.io.tmpdir": str(scratch / "tmp"),
        "java.security.manager": "allow",
    }
    behind = jar_paths(f"kafka-{BROKER}") if suite.startswith(_KAFKA) else []
    class_path = os.pathsep.join([str(scratch / "classes"), *map(str, jars), str(spark / "*"), *map(str, behind)])
    command = [str(java_home_binary()), "-ea", "-Xmx2g", "-cp", class_path]
    command += [f"-D{key}={value}" for key, value in settings.items()]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    command += ["org.scalatest.tools.Runner", "-R", str(scratch / "classes"), "-s", suite, "-oW"]
    done = subprocess.run(
        command, cwd=scratch, env={**os.environ, **_LOOPBACK}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    return read_outcome(suite, done.stdout)


def read_outcome(suite: str, output: str) -> Outcome:
    """What ScalaTest's report says."""
    ended = [match for line in output.splitlines() if (match := _ENDED.match(line)) is not None]
    return Outcome(
        suite=suite,
        passed=tuple(each["name"] for each in ended if not each["failed"] and not each["left"]),
        failed=tuple(each["name"] for each in ended if each["failed"]),
        left_out=tuple(each["name"] for each in ended if each["left"]),
        complete="Suites: completed" in output and "aborted 0" in output,
        exchanged=output.count(EXCHANGED),
        output=output,
    )


def main(suites: Sequence[str]) -> int:
    """Run them one after the other; 1 when a test failed with ours alone, a suite did not come to its end, or did
    not read by our source although it was to."""
    worst = 0
    for suite in suites:
        with tempfile.TemporaryDirectory(prefix="tideover-suites-") as scratch:
            result = run_suite(suite, Path(scratch))
            elsewhere = run_suite(suite, Path(scratch), sparks_own=True).failed if result.failed else ()
        ours = [name for name in result.failed if name not in elsewhere]
        unknown = [name for name in ours if name not in KNOWN]
        state = "complete" if result.complete else "did not come to its end"
        state += f", {result.exchanged} plans read by our source" if suite in BY_OUR_SOURCE else ""
        both = len(result.failed) - len(ours)
        _say(f"{suite}: {len(result.passed)} passed, {len(ours)} failed, {both} failed with Spark's own, {state}")
        for name in ours:
            _say(f"    failed: {name}" + (f" ({KNOWN[name]})" if name in KNOWN else ""))
        unread = suite in BY_OUR_SOURCE and not result.exchanged
        worst = max(worst, int(bool(unknown) or not result.complete or unread))
    return worst


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main([suite for suite in SUITES if not sys.argv[1:] or suite.rpartition(".")[2] in sys.argv[1:]]))
