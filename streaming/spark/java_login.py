"""Settings of Kafka's Java client, which Spark uses, for one cluster: certificates, and how it logs in.

A setting holds the PEM text itself, so that executors need no files. Secrets are read when a query starts.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import SecretStr

from state.settings.keys import Cluster, Spark
from state.settings.security import ClientCredentials, Kerberos, MskIam, Password, Sasl, Security
from streaming.errors import CredentialRefused
from streaming.jars import jar_paths
from streaming.secrets import Broken, reveal

_HINT = "check the files and secrets under security of this cluster; they are read at each start of a query"

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
    "AWS_MSK_IAM": "software.amazon.msk.auth.iam.IAMLoginModule",
}

_SIGNED_BY_AMAZON = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_MSK_ARTIFACT, MSK_JARS = "aws-msk-iam-auth", "msk-iam"
"""Where both are, and our set of jars with it."""
_REALMS = "KRB5_CONFIG"
_OPTIONS_OF_JVMS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")

_TOKENS_BY_OIDC = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
"""Since kafka-clients 3.4.0 (KAFKA-14496); from 3.1 to 3.9 there is one in the package ``secured``, too."""

_ALLOWED_ENDPOINTS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""System property of a JVM: the token endpoints that a client may use. Kafka 4.0 and later allow none without it."""


def java_client_settings(security: Security) -> dict[str, str]:
    """The settings as Kafka names them, as files and secrets are now. Raises ``CredentialRefused``."""
    found: dict[str, str] = {"security.protocol": security.protocol}
    if security.protocol.endswith("SSL"):
        if security.ca is not None:
            found |= _truststore(security.ca)
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
        found |= {"sasl.mechanism": security.sasl.mechanism, **_login(security.sasl)}
    return found


def with_logins(spark: Spark, clusters: Collection[Cluster], environment: Mapping[str, str] = os.environ) -> Spark:
    """Spark's settings, with the jars and the JVM's options that logins at these clusters need. Raises ``JarError``.

    Kerberos of Java reads the file that ``KRB5_CONFIG`` names, as the library of this process does. What the
    configuration brings itself goes last, and an own ``aws-msk-iam-auth`` is used as it is.
    """
    logins = [each.security.sasl for each in clusters]
    more: dict[str, str] = {}
    endpoints = {each.token_endpoint for each in logins if isinstance(each, ClientCredentials)}
    options = [f"-D{_ALLOWED_ENDPOINTS}={','.join(sorted(endpoints))}"] if endpoints else []
    if any(isinstance(each, Kerberos) for each in logins) and (realms := environment.get(_REALMS)):
        options.append(f"-Djava.security.krb5.conf={realms}")
    if options:
        more |= {key: " ".join([*options, str(spark.conf.get(key, ""))]).strip() for key in _OPTIONS_OF_JVMS}
    own = str(spark.conf.get("spark.jars", ""))
    if any(isinstance(each, MskIam) for each in logins) and not spark.brings(_MSK_ARTIFACT):
        more["spark.jars"] = ",".join([*([own] if own else []), *map(str, jar_paths(MSK_JARS))])
    return spark.model_copy(update={"conf": {**spark.conf, **more}}) if more else spark


def _login(sasl: Sasl) -> dict[str, str]:
    match sasl:
        case Password():
            return _jaas(sasl.mechanism, {"username": sasl.username, "password": _secret(sasl.password)})
        case ClientCredentials():
            options = {"clientId": sasl.client_id, "clientSecret": _secret(sasl.client_secret)}
            options |= {"scope": sasl.scope} if sasl.scope else {}
            options |= _truststore(sasl.ca) if sasl.ca is not None else {}
            return _jaas(sasl.mechanism, options) | {
                "sasl.oauthbearer.token.endpoint.url": sasl.token_endpoint,
                "sasl.login.callback.handler.class": _TOKENS_BY_OIDC,
            }
        case MskIam():
            options = {"awsProfileName": sasl.profile} if sasl.profile else {}
            if sasl.role:
                options |= {"awsRoleArn": sasl.role, "awsRoleSessionName": "tideover", "awsStsRegion": sasl.region}
            return _jaas(sasl.mechanism, options) | {"sasl.client.callback.handler.class": _SIGNED_BY_AMAZON}
        case Kerberos():
            options = {"useKeyTab": "true", "storeKey": "true", "useTicketCache": "false", "doNotPrompt": "true"}
            options |= {"keyTab": str(sasl.keytab), "principal": sasl.principal}
            return _jaas(sasl.mechanism, options) | {"sasl.kerberos.service.name": sasl.service}


def _jaas(mechanism: str, options: Mapping[str, str]) -> dict[str, str]:
    named = "".join(f" {key}={_quoted(value)}" for key, value in options.items())
    return {"sasl.jaas.config": f"{_LOGIN_MODULES[mechanism]} required{named};"}


def _quoted(text: str) -> str:
    """As Kafka's parser of JAAS settings reads it (``StreamTokenizer``): a quoted text ends with its line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _truststore(authority: Path) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(authority)}


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
        raise CredentialRefused(f"a secret cannot be read: {broken.why}", hint=_HINT) from None
