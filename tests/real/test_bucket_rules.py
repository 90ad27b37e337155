"""The lifecycle of a checkpoint's bucket, read by the connector's own client and judged; the server is a stand-in."""

from collections.abc import Iterator
from http import HTTPStatus

import pytest
from pyspark.sql import SparkSession

from state.model.entities import BucketRules, RulesFound
from streaming.spark.bucket_rules import bucket_rules
from streaming.spark.jvm import java_context
from tests.bucket_lifecycle import Lifecycles, expires, lifecycles, rule
from tests.object_store import (
    ObjectStore,
    module_store,  # noqa: F401 - a fixture
    spark_on,
)

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.jars("s3a")]

TO_GLACIER = "<Transition><Days>7</Days><StorageClass>GLACIER</StorageClass></Transition>"
BOTH = "deletes them after 90 days and moves them to GLACIER after 7 days"
OLD_VERSIONS = "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"


@pytest.fixture(scope="module")
def server() -> Iterator[Lifecycles]:
    with lifecycles() as known:
        yield known


@pytest.fixture(scope="module")
def spark(store: ObjectStore) -> Iterator[SparkSession]:
    with spark_on(store) as session:
        yield session


def found(spark: SparkSession, server: Lifecycles, bucket: str) -> BucketRules:
    java_context(spark).hadoopConfiguration().set(f"fs.s3a.bucket.{bucket}.endpoint", f"http://127.0.0.1:{server.port}")
    seen = bucket_rules(spark, f"s3a://{bucket}/checkpoints/revenue")
    assert seen is not None
    assert any(f"/{bucket}" in path and "lifecycle" in path for path in server.requested)
    return seen


@pytest.mark.parametrize(
    ("bucket", "rules", "text"),
    [
        ("whole", [rule("tidy", "<Prefix></Prefix>", expires(30))],
         "rule tidy of bucket whole takes objects in the whole bucket, and deletes them after 30 days"),
        ("below", [rule("tidy", "<Prefix>checkpoints/revenue/state/</Prefix>", expires(3))],
         "rule tidy of bucket below takes objects below checkpoints/revenue/state/, and deletes them after 3 days"),
        ("tier", [rule("cold", "<Prefix>checkpoints/</Prefix>", TO_GLACIER + expires(90))],
         f"rule cold of bucket tier takes objects below checkpoints/, and {BOTH}"),
    ],
)  # fmt: skip
def test_a_rule_that_takes_objects_of_the_checkpoint_is_named(
    spark: SparkSession, server: Lifecycles, bucket: str, rules: list[str], text: str
) -> None:
    assert found(spark, server, server.has(bucket, *rules)) == BucketRules(RulesFound.RULES, text)


def test_rules_for_other_objects_and_old_versions_are_harmless(spark: SparkSession, server: Lifecycles) -> None:
    server.has(
        "harmless",
        rule("elsewhere", "<Prefix>logs/</Prefix>", expires(1)),
        rule("off", "<Prefix></Prefix>", expires(1), status="Disabled"),
        rule("versions", "<Prefix></Prefix>", OLD_VERSIONS),
    )
    text = "no rule of bucket harmless deletes or moves objects below checkpoints/revenue/"
    assert found(spark, server, "harmless") == BucketRules(RulesFound.NONE, text)
    server.refuses("bare", HTTPStatus.NOT_FOUND, "NoSuchLifecycleConfiguration")
    assert found(spark, server, "bare").found is RulesFound.NONE


def test_a_rule_for_objects_with_a_tag_is_unknown(spark: SparkSession, server: Lifecycles) -> None:
    tagged = "<And><Prefix>checkpoints/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And>"
    server.has("tagged", rule("some", tagged, expires(1)))
    seen = found(spark, server, "tagged")
    assert seen.found is RulesFound.UNKNOWN
    assert seen.text.startswith("rule some of bucket tagged takes objects with a tag below checkpoints/")


def test_a_lifecycle_that_may_not_be_read_is_unknown(spark: SparkSession, server: Lifecycles) -> None:
    server.refuses("closed", HTTPStatus.FORBIDDEN, "AccessDenied")
    text = "our user may not read the lifecycle of bucket closed (s3:GetLifecycleConfiguration)"
    assert found(spark, server, "closed") == BucketRules(RulesFound.UNKNOWN, text)


def test_a_store_without_the_request_is_unknown_and_a_disk_has_no_bucket(
    spark: SparkSession, store: ObjectStore
) -> None:
    seen = bucket_rules(spark, f"{store.url}/checkpoint")
    assert seen is not None
    assert seen.found is RulesFound.UNKNOWN
    assert seen.text == f"the store of bucket {store.folder.name} does not say which lifecycle it has"
    assert bucket_rules(spark, "/var/checkpoint") is None
