"""Who may do what in a secured world: certificates by openssl or passwords of SCRAM users, and an authorizer.

Made for each world, in its folder `secrets`, which only its owner may read (and for every cluster in containers,
see ``lab.credentials``). `admin` is the lab itself and
`replicator` is MirrorMaker 2, both free to do anything; `tideover` has exactly the ACLs of docs/security.md. The
controllers' ports speak plain text: only the brokers use them.
"""

import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from lab.errors import ClusterSilent, StartFailed

Kind = Literal["mtls", "scram"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ADMIN, REPLICATOR, PRODUCT = USERS = ("admin", "replicator", "tideover")

_SERVER = "broker"
_MECHANISM = "SCRAM-SHA-512"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_TOOL_SECONDS = 60.0
_ACL_SECONDS = 30.0


@dataclass(frozen=True)
class Access:
    """The credentials of one world, and what each part of it needs to use them."""

    folder: Path
    kind: Kind
    names: tuple[str, ...] = ("IP:127.0.0.1",)
    """What the brokers are called by, as certificates say it."""

    @classmethod
    def found(cls, folder: Path) -> "Access | None":
        """What was made in a folder; None when nothing was."""
        if not (folder / "ca.pem").exists():
            return None
        return cls(folder, "scram" if (folder / f"{ADMIN}.password").exists() else "mtls")

    @property
    def protocol(self) -> str:
        """Kafka's name for what the brokers' listeners speak."""
        return "SSL" if self.kind == "mtls" else "SASL_SSL"

    @property
    def ca(self) -> Path:
        """Certificate of the authority that has signed all others."""
        return self.folder / "ca.pem"

    # -- making ----------------------------------------------------------------------------------------------------
    def make(self) -> None:
        """Make what is not there yet. Raises StartFailed when openssl is missing or fails."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.ca.exists():
            self._openssl("req", "-x509", *_NEW_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=lab")
        for name in (_SERVER, *(USERS if self.kind == "mtls" else ())):
            if not (self.folder / f"{name}.both").exists():
                self._sign(name)
        for user in USERS if self.kind == "scram" else ():
            if not (self.folder / f"{user}.password").exists():
                (self.folder / f"{user}.password").write_text(f"{secrets.token_urlsafe(24)}\n", encoding="ascii")

    def _sign(self, name: str) -> None:
        """A key, its certificate, and both in one file, as Java wants them."""
        self._openssl("req", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}",
                      "-addext", f"subjectAltName={','.join(self.names)}")  # fmt: skip
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                      "-days", "30", "-copy_extensions", "copy", "-out", f"{name}.pem")  # fmt: skip
        parts = [(self.folder / f"{name}.{kind}").read_text(encoding="ascii") for kind in ("key", "pem")]
        (self.folder / f"{name}.both").write_text("".join(parts), encoding="ascii")

    def _openssl(self, *arguments: str) -> None:
        command = ["openssl", *arguments]
        try:
            subprocess.run(command, cwd=self.folder, check=True, capture_output=True, timeout=_TOOL_SECONDS)
        except FileNotFoundError as error:
            raise StartFailed("a secured world needs openssl", hint="install it, or leave --secured out") from error
        except subprocess.CalledProcessError as error:
            raise StartFailed(f"openssl {arguments[0]} failed: {error.stderr.decode(errors='replace')}") from error

    def _password(self, user: str) -> str:
        return (self.folder / f"{user}.password").read_text(encoding="ascii").strip()

    # -- settings ---------------------------------------------------------------------------------------------------
    def storage(self) -> list[str]:
        """Arguments for the storage tool: users of SCRAM have to be there before the first broker starts."""
        if self.kind == "mtls":
            return []
        known = [f"{_MECHANISM}=[name={user},password={self._password(user)}]" for user in USERS]
        return [argument for each in known for argument in ("--add-scram", each)]

    def broker(self, listeners: Sequence[str] = ()) -> dict[str, object]:
        """What a broker's configuration says; without names of listeners there is one, called as its protocol."""
        free = ["ANONYMOUS"]  # on the controllers' listener alone
        free += [f"CN={user}" for user in (_SERVER, ADMIN, REPLICATOR)] if self.kind == "mtls" else [ADMIN, REPLICATOR]
        settings: dict[str, object] = {
            "listener.security.protocol.map": ",".join(
                [f"{name}:{self.protocol}" for name in listeners or (self.protocol,)] + ["CONTROLLER:PLAINTEXT"]
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{user}" for user in free),
            **_java_files(self.ca, self.folder / f"{_SERVER}.both"),
        }
        if not listeners:
            settings["security.inter.broker.protocol"] = self.protocol
        if self.kind == "mtls":
            return settings | {"ssl.client.auth": "required"}
        return settings | {
            "sasl.enabled.mechanisms": _MECHANISM,
            "sasl.mechanism.inter.broker.protocol": _MECHANISM,
            **{
                f"listener.name.{name.lower()}.{_MECHANISM.lower()}.sasl.jaas.config": self._jaas(ADMIN)
                for name in listeners or (self.protocol,)
            },
        }

    def java(self, user: str) -> dict[str, object]:
        """What a Java client's configuration says."""
        settings: dict[str, object] = {"security.protocol": self.protocol}
        if self.kind == "mtls":
            return settings | _java_files(self.ca, self.folder / f"{user}.both")
        return settings | _java_files(self.ca) | {"sasl.mechanism": _MECHANISM, "sasl.jaas.config": self._jaas(user)}

    def _jaas(self, user: str) -> str:
        return f'{_LOGIN} username="{user}" password="{self._password(user)}";'

    def client(self) -> dict[str, str]:
        """The settings of confluent-kafka, as the lab's own user."""
        settings = {"security.protocol": self.protocol, "ssl.ca.location": str(self.ca)}
        if self.kind == "mtls":
            files = {"certificate": "pem", "key": "key"}
            return settings | {f"ssl.{it}.location": str(self.folder / f"{ADMIN}.{end}") for it, end in files.items()}
        return settings | {
            "sasl.mechanism": _MECHANISM, "sasl.username": ADMIN, "sasl.password": self._password(ADMIN)
        }  # fmt: skip

    def product(self, user: str = PRODUCT) -> dict[str, object]:
        """The group `security` of Tideover's configuration, by default for Tideover's own user."""
        group: dict[str, object] = {"protocol": self.protocol, "ca": str(self.ca)}
        if self.kind == "mtls":
            return group | {"cert": str(self.folder / f"{user}.pem"), "key": str(self.folder / f"{user}.key")}
        password = f"file:{self.folder / f'{user}.password'}"
        return group | {"sasl": {"mechanism": _MECHANISM, "username": user, "password": password}}

    # -- permitting ------------------------------------------------------------------------------------------------
    def permit(self, bootstrap: Sequence[str], topics: Mapping[str, Sequence[str]]) -> None:
        """Let the product do these operations on topics, which need not be there yet. Raises ClusterSilent."""
        user = f"User:CN={PRODUCT}" if self.kind == "mtls" else f"User:{PRODUCT}"
        wanted = [
            AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, user, "*", AclOperation[operation],
                       AclPermissionType.ALLOW)
            for topic, operations in topics.items()
            for operation in operations
        ]  # fmt: skip
        admin = AdminClient({"bootstrap.servers": ",".join(bootstrap), "log_level": 0, **self.client()})
        try:
            for future in admin.create_acls(wanted, request_timeout=_ACL_SECONDS).values():
                future.result(_ACL_SECONDS)
        except Exception as error:
            raise ClusterSilent(f"ACLs could not be created on {', '.join(bootstrap)}: {error}") from error


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")


def _java_files(ca: Path, both: Path | None = None) -> dict[str, object]:
    settings: dict[str, object] = {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}
    return settings if both is None else settings | {"ssl.keystore.type": "PEM", "ssl.keystore.location": both}


class Servers(list[str]):
    """Bootstrap servers, with what confluent-kafka must say there to be let in."""

    def __init__(self, addresses: Sequence[str], access: Access | None = None) -> None:
        super().__init__(addresses)
        self._access = access

    @property
    def security(self) -> Mapping[str, str]:
        """As it is now."""
        return {} if self._access is None else self._access.client()


def settings_for(bootstrap: Sequence[str]) -> dict[str, str]:
    """The settings of confluent-kafka for a cluster."""
    more = bootstrap.security if isinstance(bootstrap, Servers) else {}
    return {"bootstrap.servers": ",".join(bootstrap), **more}
