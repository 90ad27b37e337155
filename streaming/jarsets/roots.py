"""What each set of jars is made from; `python -m streaming.jars lock SET` resolves it into the lock beside this."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Roots:
    """What a lock is made from: a few coordinates, with all they need or alone."""

    coordinates: tuple[str, ...]
    transitive: bool
    without: frozenset[str] = frozenset()
    """Each `group:artifact` that is left out although another artifact depends on it."""


def _kafka(version: str, *extra: str) -> Roots:
    """Name broker, MirrorMaker and tools, logging through log4j 2 so that one log4j2.yaml serves every version."""
    modules = ("kafka_2.13", "connect-mirror", "kafka-tools")
    return Roots(
        coordinates=(
            *(f"org.apache.kafka:{module}:{version}" for module in modules),
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
            *extra,
        ),
        transitive=True,
        without=frozenset({"org.slf4j:slf4j-reload4j"}),  # Kafka 3's own binding; SLF4J wants exactly one
    )


def _connector(scala: str, spark: str, token_provider: str, kafka_clients: str, pool: str) -> Roots:
    """Name the connector's jars one by one: their other dependencies are inside Spark already, in Spark's versions.

    With them comes a local file system that does not start a process for every ``chmod``
    (``streaming.spark.checkpoint.hadoop_files``).
    """
    coordinates = (
        "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",
        f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{token_provider}",
        f"org.apache.kafka:kafka-clients:{kafka_clients}",
        f"org.apache.commons:commons-pool2:{pool}",
    )
    return Roots(coordinates=coordinates, transitive=False)


def _delta(module: str, version: str) -> Roots:
    coordinates = (f"io.delta:{module}:{version}", f"io.delta:delta-storage:{version}")
    return Roots(coordinates=coordinates, transitive=False)


def _golden(scala: str, version: str) -> Roots:
    """Name the jar in which Spark publishes the checkpoints that its own suites restart: tests carry those."""
    return Roots(coordinates=(f"org.apache.spark:spark-sql_{scala}:{version}:tests",), transitive=False)


_AWS = (
    "annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol", "checksums",
    "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws", "http-auth-aws-eventstream",
    "http-auth-spi", "http-client-spi", "identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles",
    "protocol-core", "regions", "retries", "retries-spi", "s3", "s3-transfer-manager", "sdk-core", "sts",
    "third-party-jackson-core", "utils", "utils-lite",
)  # fmt: skip


def _s3a(hadoop: str, sdk: str, analytics: str | None, without: frozenset[str] = frozenset()) -> Roots:
    """Name the connector of S3 for the Hadoop that Spark ships, and the modules of Amazon's SDK that it calls.

    Hadoop itself depends on one bundle of all of Amazon's services, many times as large. What the modules need besides
    is inside Spark. ``without``: modules that this version of the SDK does not have.
    """
    coordinates = (
        f"org.apache.hadoop:hadoop-aws:{hadoop}",
        *((f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{analytics}",) if analytics else ()),
        "software.amazon.eventstream:eventstream:1.0.1",
        "org.reactivestreams:reactive-streams:1.0.4",
        *(f"software.amazon.awssdk:{module}:{sdk}" for module in _AWS if module not in without),
    )
    return Roots(coordinates=coordinates, transitive=False)


def _s3a_by_version_1(hadoop: str, sdk: str, jackson: str) -> Roots:
    """The same for Hadoop 3.3, which calls the first version of Amazon's SDK."""
    coordinates = (
        f"org.apache.hadoop:hadoop-aws:{hadoop}",
        f"com.fasterxml.jackson.dataformat:jackson-dataformat-cbor:{jackson}",
        "software.amazon.ion:ion-java:1.0.2",
        f"com.amazonaws:jmespath-java:{sdk}",
        *(f"com.amazonaws:aws-java-sdk-{module}:{sdk}" for module in ("core", "dynamodb", "kms", "s3", "sts")),
    )
    return Roots(coordinates=coordinates, transitive=False)


def _abfs(hadoop: str, openssl: str) -> Roots:
    """Name the client of Azure Data Lake for the Hadoop that Spark ships; only tests fetch it."""
    coordinates = (f"org.apache.hadoop:hadoop-azure:{hadoop}", f"org.wildfly.openssl:wildfly-openssl:{openssl}")
    return Roots(coordinates=coordinates, transitive=False)


def _gcs(version: str) -> Roots:
    """Name Google's connector of Cloud Storage, in one jar with all it needs; only tests fetch it."""
    return Roots(coordinates=(f"com.google.cloud.bigdataoss:gcs-connector:{version}:shaded",), transitive=False)


def _hadoop(version: str, bouncycastle: str) -> Roots:
    """Name the daemons of YARN and HDFS as Hadoop publishes them for tests, and what they log and certify by.

    Only tests fetch them. The clients that the daemons call are those of their own version, whichever Spark is there.
    """
    coordinates = (
        *(f"org.apache.hadoop:hadoop-client-{part}:{version}" for part in ("api", "minicluster", "runtime")),
        *(f"org.bouncycastle:{module}-jdk18on:{bouncycastle}" for module in ("bcpkix", "bcprov", "bcutil")),
        *(f"org.slf4j:slf4j-{part}:1.7.36" for part in ("api", "reload4j")),
        "ch.qos.reload4j:reload4j:1.2.25",
        "commons-logging:commons-logging:1.3.5",
    )
    return Roots(coordinates=coordinates, transitive=False)


def _companion(scala: str, spark: str, scala_library: str, hadoop: str, jackson: str, kafka_clients: str) -> Roots:
    """Name what the companion is compiled against: the jars of that Spark which hold the interfaces, and no others."""
    parts = ("sql", "catalyst", "core", *(() if spark.startswith("3.4.") else ("sql-api", "common-utils")))
    coordinates = (
        *(f"org.apache.spark:spark-{part}_{scala}:{spark}" for part in parts),
        f"org.apache.hadoop:hadoop-client-api:{hadoop}",
        *(f"com.fasterxml.jackson.core:jackson-{part}:{jackson}" for part in ("databind", "core")),
        f"org.apache.kafka:kafka-clients:{kafka_clients}",
        f"org.scala-lang:scala-library:{scala_library}",
        f"jakarta.servlet:jakarta.servlet-api:{_servlet(spark)}",
    )
    return Roots(coordinates=coordinates, transitive=False)


def _servlet(spark: str) -> str:
    """The interfaces of Spark's UI; before Spark 4 this artifact still has the package ``javax.servlet``."""
    return "4.0.3" if spark.startswith("3.") else "6.0.0" if spark.startswith("4.2.") else "5.0.0"


_SCALATEST = (
    "scalatest-core", "scalatest-funsuite", "scalatest-matchers-core", "scalatest-shouldmatchers", "scalatest-diagrams",
)  # fmt: skip


def _suites(spark: str) -> Roots:
    """Name Spark's own suites of streams and of its Kafka connector, and what runs them; `golden` has those of SQL."""
    modules = ("core", "catalyst", "common-utils", "sql-kafka-0-10")
    coordinates = (
        *(f"org.apache.spark:spark-{module}_2.13:{spark}:tests" for module in modules),
        *(f"org.scalatest:{module}_2.13:3.2.19" for module in _SCALATEST),
        "org.scalatest:scalatest-compatible:3.2.19",
        "org.scalactic:scalactic_2.13:3.2.19",
        "org.scalatestplus:mockito-5-12_2.13:3.2.19.0",
    )
    return Roots(coordinates=coordinates, transitive=False)


_TOOLS = (
    "com.google.googlejavaformat:google-java-format:1.28.0:all-deps",
    "org.junit.platform:junit-platform-console-standalone:1.13.4",
)
"""What the companion's Java is formatted and tested with; only developers fetch them."""

ROOTS: Mapping[str, Roots] = {
    "kafka-4.3.1": _kafka("4.3.1"),
    "kafka-3.9.1": _kafka("3.9.1", "com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:2.16.2"),
    "spark-4.2.0": _connector("2.13", "4.2.0", "4.0.0", "3.9.1", "2.12.0"),
    "spark-4.1.2": _connector("2.13", "4.1.2", "4.0.0", "3.9.1", "2.12.1"),
    "spark-4.0.0": _connector("2.13", "4.0.0", "4.0.0", "3.9.0", "2.12.0"),
    "spark-3.5.7": _connector("2.12", "3.5.7", "3.5.7", "3.4.1", "2.11.1"),
    "spark-3.4.4": _connector("2.12", "3.4.4", "3.4.4", "3.4.1", "2.11.1"),
    "abfs-3.4.4": _abfs("3.3.4", "1.0.7.Final"),
    "abfs-3.5.7": _abfs("3.3.4", "1.0.7.Final"),
    "abfs-4.0.0": _abfs("3.4.1", "1.1.3.Final"),
    "abfs-4.1.2": _abfs("3.4.2", "2.1.4.Final"),
    "abfs-4.2.0": _abfs("3.5.0", "2.2.5.Final"),
    "gcs-3.4.4": _gcs("hadoop3-2.2.33"),
    "gcs-3.5.7": _gcs("hadoop3-2.2.33"),
    "gcs-4.0.0": _gcs("3.1.15"),
    "gcs-4.1.2": _gcs("3.1.15"),
    "gcs-4.2.0": _gcs("4.0.4"),
    "s3a-3.4.4": _s3a_by_version_1("3.3.4", "1.12.262", "2.14.2"),
    "s3a-3.5.7": _s3a_by_version_1("3.3.4", "1.12.262", "2.15.2"),
    "s3a-4.0.0": _s3a("3.4.1", "2.25.53", None, frozenset({"retries", "retries-spi", "utils-lite"})),
    "s3a-4.1.2": _s3a("3.4.2", "2.29.52", "1.2.1", frozenset({"utils-lite"})),
    "s3a-4.2.0": _s3a("3.5.0", "2.35.4", "1.3.1"),
    "hadoop-3.5.0": _hadoop("3.5.0", "1.82"),
    "msk-iam": Roots(coordinates=("software.amazon.msk:aws-msk-iam-auth:2.3.5:all",), transitive=False),
    "delta-4.0.0": _delta("delta-spark_2.13", "4.0.0"),
    "delta-4.2.0": _delta("delta-spark_4.2_2.13", "4.4.0"),
    "iceberg-4.0.0": Roots(coordinates=("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",), transitive=False),
    "hudi-3.5.7": Roots(coordinates=("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",), transitive=False),
    "golden-3.5.7": _golden("2.12", "3.5.7"),
    "golden-4.0.0": _golden("2.13", "4.0.0"),
    "golden-4.2.0": _golden("2.13", "4.2.0"),
    "companion-3.4.4": _companion("2.12", "3.4.4", "2.12.17", "3.3.4", "2.14.2", "3.3.2"),
    "companion-3.5.7": _companion("2.12", "3.5.7", "2.12.18", "3.3.4", "2.15.2", "3.4.1"),
    "companion-4.0.0": _companion("2.13", "4.0.0", "2.13.16", "3.4.1", "2.18.2", "3.9.0"),
    "companion-4.1.2": _companion("2.13", "4.1.2", "2.13.17", "3.4.2", "2.20.0", "3.9.1"),
    "companion-4.2.0": _companion("2.13", "4.2.0", "2.13.18", "3.5.0", "2.21.2", "3.9.1"),
    "suites-4.2.0": _suites("4.2.0"),
    "companion-tools": Roots(coordinates=_TOOLS, transitive=False),
}
