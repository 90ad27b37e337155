"""Writes to a cluster, with confluent-kafka: kafka-python writes no header without a value, and a tail may have one."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from replication_tool.errors import WriteFailed
from state.settings.keys import Cluster
from state.settings.security import ClientCredentials, Kerberos, MskIam, Password, Sasl, Security
from streaming.secrets import reveal

_SECONDS = 60.0


class Record(NamedTuple):
    """What is written; the partition follows from the key, as Kafka's own producer chooses it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


class Writer:
    """One cluster to write to. Every method raises WriteFailed."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self._name = name
        self._settings: Mapping[str, Any] = {
            "bootstrap.servers": ",".join(cluster.bootstrap),
            "log_level": 0,  # it writes a line to stderr for every refused connection otherwise
            **_security(cluster.security),
        }

    def has(self, topic: str) -> bool:
        """Whether there is such a topic, an internal one included."""
        known = self._try(lambda admin: admin.list_topics(timeout=_SECONDS).topics, "list its topics")
        return topic in known and known[topic].error is None

    def create_compacted(self, topic: str, partitions: int) -> None:
        """Make a compacted topic with the cluster's own number of replicas."""
        wanted = NewTopic(topic, partitions, -1, config={"cleanup.policy": "compact"})
        self._try(lambda admin: _done(admin.create_topics([wanted])), f"create topic {topic}")

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._try(lambda admin: _done(admin.delete_topics([topic])), f"delete topic {topic}")

    def write(self, records: Iterable[Record]) -> int:
        """Write all records, none twice, and wait until the cluster has them; returns how many."""
        settings = {
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
        }  # as Java's clients choose
        producer = Producer({**self._settings, **settings})
        refused: list[str] = []
        count = 0

        def note(error: object, _: object) -> None:
            if error is not None:
                refused.append(str(error))

        for each in records:
            more: dict[str, Any] = {} if each.timestamp_ms is None else {"timestamp": each.timestamp_ms}
            producer.produce(
                each.topic, key=each.key, value=each.value, headers=list(each.headers), on_delivery=note, **more
            )
            producer.poll(0)
            count += 1
        waiting = producer.flush(_SECONDS)
        if waiting or refused:
            why = refused[0] if refused else f"no answer in {_SECONDS:g} s"
            raise WriteFailed(f"{self._name} took {count - waiting - len(refused)} of {count} records: {why}")
        return count

    def _try(self, call: Callable[[Any], Any], what: str) -> Any:
        try:
            return call(AdminClient(dict(self._settings)))
        except KafkaException as error:
            raise WriteFailed(f"{self._name} does not {what}: {error.args[0].str()}") from error


def _done(futures: Mapping[str, Any]) -> None:
    for future in futures.values():
        future.result(_SECONDS)


def _security(security: Security) -> dict[str, str]:
    """The settings of a cluster's group ``security`` as librdkafka calls them."""
    wanted: dict[str, str | Path | None] = {
        "security.protocol": security.protocol,
        "ssl.ca.location": security.ca,
        "ssl.certificate.location": security.cert,
        "ssl.key.location": security.key,
        "ssl.key.password": None if security.key_password is None else reveal(security.key_password),
        "ssl.endpoint.identification.algorithm": None if security.check_hostname else "none",
    }
    wanted |= _login(security.sasl)
    return {key: str(value) for key, value in wanted.items() if value is not None}


def _login(sasl: Sasl | None) -> dict[str, str | Path | None]:
    match sasl:
        case None:
            return {}
        case Password():
            return {
                "sasl.mechanism": sasl.mechanism,
                "sasl.username": sasl.username,
                "sasl.password": reveal(sasl.password),
            }
        case ClientCredentials():
            return {
                "sasl.mechanism": sasl.mechanism,
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": sasl.token_endpoint,
                "sasl.oauthbearer.client.id": sasl.client_id,
                "sasl.oauthbearer.client.secret": reveal(sasl.client_secret),
                "sasl.oauthbearer.scope": sasl.scope,
                "https.ca.location": sasl.ca,
            }
        case MskIam() | Kerberos():
            raise WriteFailed(
                f"a cluster with {sasl.mechanism} cannot be written to by this tool",
                hint="give the cluster a listener with SCRAM, and name it in the configuration of this tool",
            )
