"""The driver's session: what Spark is given, and by which way."""

import re
import sys
from pathlib import Path

import pytest
from pyspark import SparkConf, SparkContext
from structlog.testing import capture_logs

from state.settings.keys import Spark, Tideover
from streaming.errors import JavaMissing
from streaming.process import INSTANCE_KEY
from streaming.spark.checkpoint.hadoop_files import keeps_local_checkpoints, names_own_files
from streaming.spark.errors import SparkMissing
from streaming.spark.hosting import logger_about
from streaming.spark.query import session
from streaming.spark.query.session import connector_jars, nearest_set, search_path, session_conf, store_jars, task_slots
from streaming.spark.runner import service

SECRETS = [
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.azure.account.key.ours.dfs.core.windows.net",
    "spark.ssl.keyPassword",
    "spark.hadoop.ldap.passwd",
    "spark.kafka.clusters.west.sasl.jaas.config",
    "spark.kafka.clusters.west.ssl.keystore.key",
    "spark.kubernetes.authenticate.oauthToken",
]


def test_a_stuck_run_leaves_slots_for_the_new_one() -> None:
    assert task_slots(4, 2) == 8
    assert task_slots(1, 2) == 4
    assert task_slots(3_500, 2) == 128
    assert task_slots(1, 64) == 64


def test_the_configuration_wins_over_our_session_settings() -> None:
    known = Spark(conf={"spark.ui.enabled": True, "spark.jars": "/own.jar"})
    conf = session_conf(known, jars=[Path("/ours.jar")], partitions=8, cores=2, extra={"spark.app.name": "x"})
    assert conf["spark.master"] == "local[16,3]"
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.jars"] == "/own.jar,/ours.jar"
    assert conf["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize("key", ["spark.driver.extraClassPath", "spark.executorEnv.PYTHONPATH"])
def test_a_path_of_the_configuration_is_added_to_and_not_replaced(key: str) -> None:
    conf = session_conf(Spark(conf={key: "/own"}), jars=[], partitions=1, cores=1, extra={key: "/ours"})
    assert conf[key] == "/own:/ours"
    assert session_conf(Spark(), jars=[], partitions=1, cores=1, extra={key: "/ours"})[key] == "/ours"
    assert session_conf(Spark(conf={key: "/own"}), jars=[], partitions=1, cores=1, extra={})[key] == "/own"


@pytest.mark.parametrize("where", ["session", "query"])
@pytest.mark.parametrize(
    "key", ["spark.hadoop.fs.file.impl", "spark.sql.streaming.checkpointFileManagerClass", "spark.ui.enabled"]
)
def test_local_files_are_reached_as_the_configuration_says(key: str, where: str) -> None:
    settings = Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
            "spark": {"conf": {key: "own"} if where == "session" else {}},
            "runners": {"a": {}, "b": {}},
            "queries": {
                "q": {
                    "pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
                    "runners": ["a"], "checkpoint": "c", "spark": {key: "own"} if where == "query" else {},
                }
            },
        }
    )  # fmt: skip
    assert keeps_local_checkpoints(settings, "a") is (key == "spark.ui.enabled")
    assert names_own_files(settings, "a") is (key != "spark.ui.enabled"), "then the companion's manager yields"


def test_a_secret_is_not_among_the_arguments_that_the_jvm_is_launched_with(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: dict[str, str] = {}

    def launch_gateway(conf: SparkConf) -> None:
        launched.update(conf.getAll())
        raise OSError("no JVM is wanted here")

    monkeypatch.setattr(sys.modules[SparkContext.__module__], "launch_gateway", launch_gateway)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(session, "_prepare_environment", lambda _path: None)
    conf = {"spark.jars": "/spark-sql-kafka-0-10.jar", "spark.driver.memory": "2g", **dict.fromkeys(SECRETS, "hush")}
    with pytest.raises(SparkMissing, match="no JVM is wanted here"):
        session.open_session(Spark(master="local[1]", conf={**conf}), name="a", instance="one", partitions=1)
    assert launched["spark.driver.memory"] == "2g"
    assert launched[INSTANCE_KEY] == "one", "an orphaned driver is told by it"
    assert "hush" not in str(launched)


def test_pipelines_are_found_through_a_link_and_not_in_its_target_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version").mkdir()
    (tmp_path / "link").symlink_to("version")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["first"])
    assert search_path(Path("link")) == [tmp_path, tmp_path / "link"]
    assert sys.path == [str(tmp_path), str(tmp_path / "link"), "first"]


@pytest.mark.parametrize("key", [*SECRETS, "spark.hadoop.fs.s3a.access.key"])
def test_our_secrets_are_hidden_on_sparks_own_pages(key: str) -> None:
    conf = session_conf(Spark(), jars=[], partitions=1, cores=1, extra={})
    everywhere = conf["spark.redaction.regex"].replace("(?i)", "")  # Java may turn it on in the middle
    assert re.search(everywhere, key, re.IGNORECASE)


def test_a_spark_without_a_locked_connector_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SparkMissing, match=r"this is Spark 4\.3\.0, .* only for 3\.4\.4, .*, 4\.2\.0") as refused:
        connector_jars(Spark(), "4.3.0")
    assert "pip install pyspark==VERSION" in refused.value.hint
    own = Spark(conf={"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"})
    assert connector_jars(own, "4.3.0") == []


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("3.5.7", "spark-3.5.7"), ("3.5.6-amzn-2", "spark-3.5.7"), ("3.5.1.3.5.cloudera", "spark-3.5.7"),
        ("4.1.0", "spark-4.1.2"), ("4.10.0", None), ("4", None), ("3.3.4", None),
    ],
)  # fmt: skip
def test_a_vendors_version_takes_the_connector_of_its_minor_version(version: str, found: str | None) -> None:
    assert nearest_set("spark", version) == found


def test_a_checkpoint_on_s3_brings_the_connector_or_is_refused() -> None:
    bucket, default = ["hdfs://n/a", "s3a://bucket/revenue"], Spark(conf={"spark.hadoop.fs.defaultFS": "s3a://bucket"})
    for spark, checkpoints in ((Spark(), bucket), (default, ["/revenue"])):
        with pytest.raises(SparkMissing, match=r"no connector of S3 for Spark 4\.3\.0") as refused:
            store_jars(spark, checkpoints, "4.3.0")
        assert "org.apache.hadoop:hadoop-aws" in refused.value.hint
    assert store_jars(Spark(), ["/revenue", "hdfs://n/a"], "3.5.7") == []
    own = Spark(conf={"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2"})
    assert store_jars(own, bucket, "4.0.0") == []


def test_a_runner_without_a_companion_says_so_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(progress: object) -> Path:
        raise JavaMissing("there is a Java, but no compiler (javac)")

    monkeypatch.setattr(service, "companion_jar", missing)
    with capture_logs() as lines:
        found, why = service._companion(logger_about({"runner": "a"}))
    assert (found, why) == (None, "there is a Java, but no compiler (javac)")
    (line,) = lines
    assert line["log_level"] == "warning"
    assert line["error"] == "there is a Java, but no compiler (javac)"
