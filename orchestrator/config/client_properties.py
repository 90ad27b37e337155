"""How a cluster is reached, from the properties file that Kafka's own tools take (``--command-config``).

Kafka's keys become the group ``security`` of a cluster. A secret becomes a reference: to a file of its own, which the
caller writes, or to the variable or file that a config provider of Kafka names already. A key of Kafka's security
without a counterpart is a mistake and is never passed over, for it may be what keeps a connection safe.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.config.client_login import BY_HAND, login
from orchestrator.config.client_tls import tls
from orchestrator.config.property_reading import PropertyReading
from orchestrator.errors import ConfigError
from state.plain_text import amount
from streaming.spark.attach.submission import read_properties

_SECURITY = ("security.", "sasl.", "ssl.")
_WAITING = ("sasl.login.refresh.", "sasl.login.retry.", "sasl.login.connect.", "sasl.login.read.", "sasl.kerberos.")
"""How long Kafka's client waits and when it tries again: Tideover has limits of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSecurity:
    """What a properties file says of one cluster."""

    group: Mapping[str, object]
    """``security``, as the configuration has it; empty where the cluster takes plain text."""
    files: Mapping[str, str]
    """By name in the folder ``secrets`` beside the configuration, what the references in ``group`` need there."""
    unused: tuple[str, ...]
    """Keys that are about something else than how a cluster is reached."""


def read_client_properties(file: Path, *, cluster: str, servers: Sequence[str] = ()) -> ClientSecurity:
    """Read the file for a cluster with these ``servers`` (``HOST:PORT``). Raises ``ConfigError`` with every mistake."""
    try:
        properties = read_properties(file.read_text(encoding="latin-1"))  # as java.util.Properties does
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", hint="name another file") from None
    except ValueError as error:
        raise ConfigError(f"{file}: {error}", hint="Kafka's own tools would refuse it, too") from None
    reading = PropertyReading(dict(properties), cluster)
    group = _security(reading, servers)
    if reading.mistakes:
        raise ConfigError(
            f"{amount(len(reading.mistakes), 'mistake')} in {file}:",
            hint=f"correct a copy of the file; or leave it out and {BY_HAND}",
            mistakes=reading.mistakes,
        )
    return ClientSecurity(group=group, files=reading.files, unused=tuple(sorted(reading.left)))


def _security(reading: PropertyReading, servers: Sequence[str]) -> dict[str, object]:
    reading.take_providers()
    reading.take("bootstrap.servers")  # as for Kafka's tools, the servers are typed
    protocol = (reading.take("security.protocol") or "PLAINTEXT").upper()
    group: dict[str, object] = {"protocol": protocol}
    if protocol.endswith("SSL"):
        group |= tls(reading)
    if protocol.startswith("SASL"):
        group["sasl"] = login(reading, servers)
    for key in sorted(reading.left):
        if key.startswith(_SECURITY) and not key.startswith(_WAITING):
            reading.wrong(key, _why_unknown(key, protocol))
    return {} if protocol == "PLAINTEXT" else group


def _why_unknown(key: str, protocol: str) -> str:
    if key.startswith("ssl.") and not protocol.endswith("SSL"):
        return f"security.protocol={protocol} has no TLS, so remove the key, or correct the protocol"
    if key.startswith("sasl.") and not protocol.startswith("SASL"):
        return f"security.protocol={protocol} has no login, so remove the key, or correct the protocol"
    return "Tideover has no setting for it; remove it if the cluster accepts a client without"
