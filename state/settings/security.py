"""The group ``security`` of a cluster: how its listeners are reached, and as whom.

Each way to log in has its own keys, chosen by ``mechanism``, so that a key of another way is a mistake.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, SecretStr, field_validator, model_validator

from state.settings.frozen import Settings

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_ENDPOINT = re.compile(
    rf"https?://({_LABEL}(\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{{1,5}}))?([/?][!-~]*)?$", re.ASCII
)
_PORTS = range(1, 65536)


class Password(Settings):
    """A user and a password, the latter only by reference (``env:NAME``, ``file:PATH``), read by each connection."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    username: str
    password: SecretStr


class ClientCredentials(Settings):
    """A token of an OpenID Connect provider, by the grant ``client_credentials`` (RFC 6749, section 4.4; KIP-768).

    The secret is by reference, and read for each new token.
    """

    mechanism: Literal["OAUTHBEARER"]
    token_endpoint: Annotated[str, Field(pattern=r"^https?://[^/@\s,]+(/[^@\s,]*)?$")]
    """Where tokens are given out: what the provider's discovery document calls ``token_endpoint``."""
    client_id: str
    client_secret: SecretStr
    scope: str | None = None
    ca: Path | None = None
    """Authority that signed the endpoint's certificate (PEM); None: those of this system, and of Java."""

    @field_validator("token_endpoint")
    @classmethod
    def _has_an_address(cls, endpoint: str) -> str:
        """What no client could connect to is a mistake here, and not a provider that does not answer."""
        url = _ENDPOINT.match(endpoint)
        if url is None or int(url["port"] or 1) not in _PORTS:
            raise ValueError(f"{endpoint} has no host and port that a client can connect to, or is not in ASCII")
        return endpoint


class MskIam(Settings):
    """IAM of an Amazon MSK cluster: the credentials of this process, as Amazon's SDK finds them, or of a role.

    Tideover reads no key: the SDK's own chain does (environment, profile, web identity, container, instance).
    """

    mechanism: Literal["AWS_MSK_IAM"]
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]+$")]
    """Of the cluster, as ``eu-central-1``: a signature is good for one region."""
    profile: str | None = None
    """A profile of ``~/.aws/config``, on the hosts of controller, runner and executors alike."""
    role: Annotated[str, Field(pattern=r"^arn:[a-z-]+:iam::[0-9]{12}:role/[^\s\"]+$")] | None = None
    """A role to assume, by its ARN."""

    @model_validator(mode="after")
    def _profile_or_role(self) -> Self:
        if self.profile is not None and self.role is not None:
            raise ValueError("name profile or role, not both; a profile can name a role itself (role_arn)")
        return self


class Kerberos(Settings):
    """A principal of Kerberos and its key table, which is read for each new ticket."""

    mechanism: Literal["GSSAPI"]
    principal: Annotated[str, Field(pattern=r'^[^\s@"]+@[^\s@"]+$')]
    """``tideover@EXAMPLE.COM``, as the key table has it."""
    keytab: Path
    """On the hosts of controller, runner and executors alike."""
    service: str = "kafka"
    """What brokers' principals begin with: Kafka's ``sasl.kerberos.service.name``."""


Sasl = Annotated[Password | ClientCredentials | MskIam | Kerberos, Field(discriminator="mechanism")]

WAYS_IN: Mapping[str, type[Settings]] = {
    mechanism: each
    for each in (Password, ClientCredentials, MskIam, Kerberos)
    for mechanism in get_args(each.model_fields["mechanism"].annotation)
}
"""By mechanism, the group with its keys."""


class Security(Settings):
    """How to talk to a cluster's listeners: Kafka's own ``security.protocol`` and its files (PEM).

    Files and ``key_password`` (by reference) are read by each new connection, so a change of them needs no restart.
    """

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    key_password: SecretStr | None = None
    check_hostname: bool = True
    sasl: Sasl | None = None

    @model_validator(mode="after")
    def _sasl_matches_protocol(self) -> Self:
        if self.protocol.startswith("SASL") and self.sasl is None:
            raise ValueError(f"protocol {self.protocol} needs a sasl group")
        if self.sasl is not None and not self.protocol.startswith("SASL"):
            raise ValueError(f"a sasl group needs protocol SASL_PLAINTEXT or SASL_SSL, not {self.protocol}")
        if isinstance(self.sasl, MskIam) and self.protocol != "SASL_SSL":
            raise ValueError(f"AWS_MSK_IAM needs protocol SASL_SSL, not {self.protocol}: a signature can be used again")
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key must be set together")
        return self
