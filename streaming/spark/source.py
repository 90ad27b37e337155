"""The options of a Kafka source or sink for one cluster.

Spark needs 183 s to notice a dead Kafka with its default options; with those below a query fails within seconds and a
stuck task leaves its slot within one. ``kafka.request.timeout.ms`` of 500 would be faster still and less tolerant, 300
kills healthy queries. What the configuration says wins, but for
where a query reads: that changes with the cluster.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr
from pyspark.sql import DataFrame, SparkSession

from state.settings import Cluster, Query, Sasl, Security, Tideover
from streaming.errors import CredentialRefused
from streaming.secrets import Broken, reveal
from streaming.spark.topics import pattern_of, topics_of

Options = Mapping[str, str]

PROMPT = {
    "kafkaConsumer.pollTimeoutMs": "1000",
    "kafka.default.api.timeout.ms": "1500",
    "kafka.request.timeout.ms": "1000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "100",
}
"""What makes a dead or frozen cluster show within seconds."""

SHORT_WAIT = {"kafka.fetch.max.wait.ms": "25"}
"""Each task asks for the log's range after its first poll (``InternalKafkaConsumer.fetch``), on the connection on which
the client has already asked for more records. At the end of a log that does not grow, as behind a primary that died,
the broker holds that fetch for Kafka's default of 500 ms, and the task waits behind it: 450 ms of a first batch, seen
in thread dumps. Executors fetch in batches only, so a short wait costs few requests."""

_HINT = "check the files and secrets under security of this cluster; they are read at each start of a query"

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def cluster_options(cluster: Cluster) -> dict[str, str]:
    """Bootstrap servers and security, for reading and for writing, as files and secrets are now.

    Raises ``CredentialRefused`` when one of them cannot be read.
    """
    return {
        "kafka.bootstrap.servers": ",".join(cluster.bootstrap),
        **{f"kafka.{key}": value for key, value in _security(cluster.security).items()},
    }


def source_options(
    settings: Tideover, query: Query, name: str, cluster: str, starting: Mapping[str, Mapping[str, int]] | None
) -> dict[str, str]:
    """All options of one declared source on one cluster.

    ``starting`` is Spark's ``startingOffsets`` JSON of a fresh move; without it the declared ``starting`` holds, which
    Spark looks at on the very first start only.
    """
    source = query.sources[name]
    pattern = pattern_of(settings, query, source, cluster)
    ours = {
        **cluster_options(settings.clusters[cluster]),
        **PROMPT,
        **SHORT_WAIT,
        "kafka.allow.auto.create.topics": "false",
        "failOnDataLoss": "true",
        **(
            {"subscribePattern": pattern}
            if pattern
            else {"subscribe": ",".join(topics_of(settings, query, cluster)[name])}
        ),
        "startingOffsets": source.starting if starting is None else _compact(starting),
    }
    return overridden(ours, source.options)


def overridden(ours: Options, theirs: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """Our options under the user's: Spark's options know no case, so neither does the comparison."""
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in theirs.items()}
    named = {key.lower() for key in texts}
    return {key: value for key, value in ours.items() if key.lower() not in named} | texts


def read_source(session: SparkSession, options: Options) -> DataFrame:
    """The Kafka DataFrame that a pipeline gets."""
    return session.readStream.format("kafka").options(**options).load()


def _security(security: Security) -> dict[str, str]:
    """Kafka client settings; the PEM texts themselves, so that executors need no files."""
    found: dict[str, str] = {"security.protocol": security.protocol}
    if security.protocol.endswith("SSL"):
        if security.ca is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(security.ca)}
        if security.cert is not None and security.key is not None:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _pem(security.cert),
                "ssl.keystore.key": _pem(security.key),
            }
        if security.key_password is not None:
            found["ssl.key.password"] = _secret(security.key_password)
        if not security.check_hostname:
            found["ssl.endpoint.identification.algorithm"] = ""
    if security.sasl is not None:
        found |= {"sasl.mechanism": security.sasl.mechanism, "sasl.jaas.config": _jaas(security.sasl)}
    return found


def _jaas(sasl: Sasl) -> str:
    user, password = _quoted(sasl.username), _quoted(_secret(sasl.password))
    return f"{_LOGIN_MODULES[sasl.mechanism]} required username={user} password={password};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not PEM"
        raise CredentialRefused(f"{path} cannot be read: {reason}", hint=_HINT) from None


def _secret(secret: SecretStr) -> str:
    try:
        return reveal(secret)
    except Broken as broken:
        raise CredentialRefused(f"a secret cannot be had: {broken.why}", hint=_HINT) from None


def _compact(offsets: Mapping[str, Mapping[str, int]]) -> str:
    return json.dumps({topic: dict(partitions) for topic, partitions in offsets.items()}, separators=(",", ":"))
