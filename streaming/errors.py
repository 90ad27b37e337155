"""What can go wrong below the orchestrator.

TideoverError
├── JarError                a jar set cannot be had as locked
├── JavaMissing             no Java new enough to run Spark, Kafka or Ivy
└── KafkaError              a cluster cannot be looked at
    ├── ClusterUnreachable  no bootstrap server answered in time; retrying can help
    └── CredentialRefused   our own TLS or SASL settings are at fault: says nothing of the cluster's health
"""

from typing import ClassVar

from state.errors import TideoverError


class JarError(TideoverError):
    """A jar set is unknown, cannot be fetched, or is not what its lock says."""

    kind = "jars"


class JavaMissing(TideoverError):
    """No Java 17 or newer was found."""

    kind = "java"


class KafkaError(TideoverError):
    """A Kafka cluster could not be looked at."""

    kind = "kafka"
    retriable: ClassVar[bool] = False
    """Whether the same call can succeed later with nothing changed on our side."""


class ClusterUnreachable(KafkaError):
    """No bootstrap server of the cluster answered in time; asking again can help."""

    kind = "cluster-unreachable"
    retriable = True


class CredentialRefused(KafkaError):
    """The cluster refuses our TLS or SASL settings, or they cannot be used."""

    kind = "credential-refused"
