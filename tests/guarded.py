"""Real brokers behind TLS or SCRAM whose authorizer allows no one anything, and what an administrator does there.

The ACLs of Tideover come from where its users read them: the table in ``docs/security.md``.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.broker import running_broker
from tests.waiting import until

T = TypeVar("T", bound=AclBinding)
DOCS = Path(__file__).resolve().parents[1] / "docs" / "security.md"
ADMIN, ADMIN_PASSWORD = "admin", "adm-in-91c2"
_SECONDS = 120.0
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:CN=server;User:ANONYMOUS",  # anonymous: on the controller's listener alone
}


def documented(role: str, what: str) -> tuple[str, ...]:
    """The operations that the documentation wants for a role on one kind of topic, as ``kafka-acls.sh`` calls them."""
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 2 and cells[0] == role and cells[1].startswith(what):
            return tuple(re.findall(r"`(\w+)`", cells[2]))
    raise AssertionError(f"{DOCS} has no row for {role}, {what}")


@dataclass(frozen=True)
class Guarded:
    """A broker, and its administrator."""

    address: str
    security: Mapping[str, str]
    """What the administrator's client says to be let in."""
    files: Path
    """Where its certificates are."""

    @property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0, **self.security})

    def allow(self, user: str, topic: str, *operations: str, prefixed: bool = False) -> None:
        """Give a user ACLs on a topic, or on all whose names begin so."""
        admin = self._admin  # it ends with its last name, and what it was ordered to do with it
        kind = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        for future in admin.create_acls([binding(AclBinding, user, topic, each, kind) for each in operations]).values():
            future.result(_SECONDS)
        until(lambda: set(operations) <= self._allowed(user, topic, kind), f"{user} is not allowed {operations} yet")

    def revoke(self, user: str, topic: str, *operations: str) -> None:
        """Take them away; each must have been there."""
        admin = self._admin
        for each in operations:
            filters = [binding(AclBindingFilter, user, topic, each)]
            for future in admin.delete_acls(filters).values():
                assert len(future.result(_SECONDS)) == 1, f"{user} had no {each} on {topic}"
        kind = ResourcePatternType.LITERAL
        until(lambda: self._allowed(user, topic, kind).isdisjoint(operations), f"{user} is allowed {operations} still")

    def _allowed(self, user: str, topic: str, kind: ResourcePatternType) -> set[str]:
        """The operations that the broker itself knows of: it learns of a change after its controller has answered."""
        wanted = AclBindingFilter(
            ResourceType.TOPIC, topic, kind, f"User:{user}", "*", AclOperation.ANY, AclPermissionType.ALLOW
        )
        admin = self._admin
        found = admin.describe_acls(wanted).result(_SECONDS)
        return {each.operation.name.title().replace("_", "") for each in found}

    def set_password(self, user: str, password: str) -> None:
        """Make a user of SCRAM-SHA-512, or change its password."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        admin = self._admin
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(_SECONDS)


def binding(
    kind: type[T], user: str, topic: str, operation: str, named: ResourcePatternType = ResourcePatternType.LITERAL
) -> T:
    """One ACL, or the filter that finds it."""
    what, allow = AclOperation[in_capitals(operation)], AclPermissionType.ALLOW
    return kind(ResourceType.TOPIC, topic, named, f"User:{user}", "*", what, allow)


def in_capitals(operation: str) -> str:
    """An operation as clients call it: ``DESCRIBE_CONFIGS`` for ``DescribeConfigs``."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", operation).upper()


@contextmanager
def behind_tls(folder: Path, files: Path, **more: str) -> Iterator[Guarded]:
    """A broker that wants a client's certificate: the client of ``make_certificates`` is the user ``CN=client``.

    ``more`` settings with ``_`` for ``.``.
    """
    settings = {
        **_AUTHORIZER, **_keystore(files),
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
        **{key.replace("_", "."): value for key, value in more.items()},
    }  # fmt: skip
    admin = {
        "security.protocol": "SSL", "ssl.ca.location": str(files / "ca.pem"),
        "ssl.certificate.location": str(files / "server.pem"), "ssl.key.location": str(files / "server.key"),
    }  # fmt: skip
    with running_broker(folder, settings=settings) as address:
        yield Guarded(address, admin, files)


@contextmanager
def behind_scram(folder: Path, files: Path, users: Mapping[str, str], **more: str) -> Iterator[Guarded]:
    """A broker that wants a user and a password (SASL_SSL, SCRAM-SHA-512); ``more`` settings with ``_`` for ``.``."""
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    settings = {
        **_AUTHORIZER, **_keystore(files),
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
            f'{login} username="{ADMIN}" password="{ADMIN_PASSWORD}";'
        ),
        **{key.replace("_", "."): value for key, value in more.items()},
    }  # fmt: skip
    admin = {
        "security.protocol": "SASL_SSL", "ssl.ca.location": str(files / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": ADMIN, "sasl.password": ADMIN_PASSWORD,
    }  # fmt: skip
    passwords = {ADMIN: ADMIN_PASSWORD, **users}
    with running_broker(folder, settings=settings, scram=passwords) as address:
        yield Guarded(address, admin, files)


def _keystore(files: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files / "keystore.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
    }
