"""What can go wrong below the orchestrator.

TideoverError
├── ClusterUnreachable  no bootstrap server of a cluster answered in time
├── JarError            a jar set cannot be had as locked
└── JavaMissing         no Java new enough to run Spark, Kafka or Ivy
"""

from state.errors import TideoverError


class ClusterUnreachable(TideoverError):  # noqa: N818 - names the condition, as the sentence for the operator does
    """No bootstrap server of the cluster answered in time; asking again can help."""

    kind = "cluster-unreachable"


class JarError(TideoverError):
    """A jar set is unknown, cannot be fetched, or is not what its lock says."""

    kind = "jars"


class JavaMissing(TideoverError):  # noqa: N818 - names the condition, as the sentence for the operator does
    """No Java 17 or newer was found."""

    kind = "java"
