"""What can go wrong below the orchestrator.

TideoverError
├── JarError                a jar set cannot be had as locked
├── CompanionError          the companion's jar cannot be built, or is not there
├── JavaMissing             no Java new enough to run Spark, Kafka or Ivy
├── RegistryUnreachable     a schema registry does not answer, or not as one
├── ServiceTrouble          an HTTP service refuses, does not answer, or answers no JSON
└── KafkaError              a cluster cannot be looked at
    ├── ClusterUndeclared   the configuration has no such cluster: it may have been there when a move began
    ├── ClusterUnreachable  no bootstrap server answered in time; retrying can help
    ├── WrongCluster        another cluster answers under the name than the one that has it
    │   └── NotHere         the cluster's endpoint leads to another of its declared clusters now
    └── CredentialRefused   our own TLS or SASL settings are at fault: says nothing of the cluster's health
"""

from typing import ClassVar

from state.errors import TideoverError


class JarError(TideoverError):
    """A jar set is unknown, cannot be fetched, or is not what its lock says."""

    kind = "jars"


class CompanionError(TideoverError):
    """The companion's jar cannot be built, or the one that was shipped is not whole."""

    kind = "companion"


class JavaMissing(TideoverError):
    """No Java 17 or newer was found."""

    kind = "java"


class RegistryUnreachable(TideoverError):
    """A schema registry does not answer, or not as one."""

    kind = "registry"


class ServiceTrouble(TideoverError):
    """An HTTP service refuses, does not answer, or answers no JSON."""

    kind = "service"

    def __init__(self, message: str = "", *, hint: str = "", status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        """Of its answer; None where none came that can be read."""


class KafkaError(TideoverError):
    """A Kafka cluster could not be looked at."""

    kind = "kafka"
    retriable: ClassVar[bool] = False
    """Whether the same call can succeed later with nothing changed on our side."""


class ClusterUndeclared(KafkaError):
    """The configuration declares no such cluster."""

    kind = "cluster-undeclared"


class ClusterUnreachable(KafkaError):
    """No bootstrap server of the cluster answered in time; a second request can help."""

    kind = "cluster-unreachable"
    retriable = True


class WrongCluster(KafkaError):
    """Another cluster answers under the name than the one that has it."""

    kind = "wrong-cluster"

    def __init__(self, message: str = "", *, hint: str = "", seen: str) -> None:
        super().__init__(message, hint=hint)
        self.seen = seen
        """The id that it gave itself."""


class NotHere(WrongCluster):
    """The cluster's endpoint leads to another of the clusters declared behind it; a second request can help."""

    kind = "not-here"
    retriable = True


class CredentialRefused(KafkaError):
    """The cluster refuses our TLS or SASL settings, or they cannot be used."""

    kind = "credential-refused"
