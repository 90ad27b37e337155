"""A properties file of Kafka's tools becomes the group ``security``, with references in place of secrets."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.client_properties import ClientSecurity, read_client_properties
from orchestrator.errors import ConfigError
from state.settings.security import Security

MODULES = "org.apache.kafka.common.security"
PLAIN = f"sasl.jaas.config={MODULES}.plain.PlainLoginModule required"
SCRAM = f'{MODULES}.scram.ScramLoginModule required \\\n  username="ann" \\\n  password="it\'s hidden";'
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
BY_OIDC = f"sasl.login.callback.handler.class={MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
TOKENS = "sasl.oauthbearer.token.endpoint.url=https://login.example/token"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule"
AWS = "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler"


def read(folder: Path, *lines: str, servers: tuple[str, ...] = ()) -> ClientSecurity:
    file = folder / "client.properties"
    file.write_text("\n".join(lines), encoding="latin-1")
    found = read_client_properties(file, cluster="east", servers=servers)
    if found.group:
        Security.model_validate(found.group)
    return found


def mistakes(folder: Path, *lines: str) -> str:
    with pytest.raises(ConfigError) as refused:
        read(folder, *lines)
    assert "hidden" not in f"{refused.value} {refused.value.hint}"
    return str(refused.value)


def test_a_password_goes_into_a_file_and_the_group_names_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    found = read(
        tmp_path, "# Kafka's tools", "security.protocol=sasl_ssl", "sasl.mechanism = SCRAM-SHA-512",
        f"sasl.jaas.config: {SCRAM}", "ssl.truststore.type=PEM", f"ssl.truststore.location={tmp_path}/ca.pem",
        "ssl.endpoint.identification.algorithm=", "bootstrap.servers=elsewhere:1", "client.id=tools",
        "sasl.login.refresh.buffer.seconds=300",
    )  # fmt: skip
    assert found.group == {
        "protocol": "SASL_SSL",
        "ca": str(tmp_path / "ca.pem"),
        "check_hostname": False,
        "sasl": {"mechanism": "SCRAM-SHA-512", "username": "ann", "password": "file:secrets/east.password"},
    }
    assert found.files == {"east.password": "it's hidden"}
    assert found.unused == ("client.id", "sasl.login.refresh.buffer.seconds")


def test_plain_text_needs_no_group(tmp_path: Path) -> None:
    assert (read(tmp_path).group, read(tmp_path, "client.id=tools").group) == ({}, {})


def test_a_secret_that_kafka_itself_reads_by_reference_stays_where_it_is(tmp_path: Path) -> None:
    providers = (
        "config.providers=env,dir",
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths=/run/secrets",
    )
    head = (*providers, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN")
    for value, reference in (("${env:EAST}", "env:EAST"), ("${dir:/run/secrets:east}", "file:/run/secrets/east")):
        found = read(tmp_path, *head, f'{PLAIN} username="ann" password="{value}";')
        sasl: Any = found.group["sasl"]
        assert (sasl["password"], found.files) == (reference, {})
    assert "only a secret can be given by a config provider" in mistakes(
        tmp_path, *head, f'{PLAIN} username="${{env:USER}}" password="hidden";'
    )
    without = head[4:]
    assert read(tmp_path, *without, f'{PLAIN} username="ann" password="${{env:EAST}}";').files == {
        "east.password": "${env:EAST}"  # no provider is declared: Kafka sends these letters
    }


@pytest.mark.parametrize(
    "lines",
    [
        (f'sasl.jaas.config={OAUTH} clientId="tools" clientSecret="hidden" scope="kafka";',),
        (
            f"sasl.jaas.config={OAUTH};",
            "sasl.oauthbearer.client.credentials.client.id=tools",
            "sasl.oauthbearer.client.credentials.client.secret=hidden",
            "sasl.oauthbearer.scope=kafka",
            f"sasl.oauthbearer.jwt.retriever.class={MODULES}.oauthbearer.ClientCredentialsJwtRetriever",
        ),
    ],
)
def test_tokens_by_a_clients_credentials_old_keys_and_new(lines: tuple[str, ...], tmp_path: Path) -> None:
    found = read(tmp_path, "security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", BY_OIDC, TOKENS, *lines)
    assert found.group["sasl"] == {
        "mechanism": "OAUTHBEARER",
        "token_endpoint": "https://login.example/token",
        "client_id": "tools",
        "client_secret": "file:secrets/east.client_secret",
        "scope": "kafka",
    }
    assert found.files == {"east.client_secret": "hidden"}


def test_mutual_tls_by_files_and_by_text_in_the_properties(tmp_path: Path) -> None:
    both = tmp_path / "client.pem"
    both.write_text("-----BEGIN PRIVATE KEY-----")
    found = read(tmp_path, "security.protocol=SSL", "ssl.keystore.type=PEM", f"ssl.keystore.location={both}",
                 "ssl.key.password=hidden")  # fmt: skip
    assert found.group == {
        "protocol": "SSL", "cert": str(both), "key": str(both), "key_password": "file:secrets/east.key_password"
    }  # fmt: skip
    body = "QUJD" * 20
    found = read(
        tmp_path, "security.protocol=SSL", "ssl.keystore.type=PEM", "ssl.truststore.type=PEM",
        f"ssl.keystore.key=-----BEGIN PRIVATE KEY----- {body} -----END PRIVATE KEY-----",
        f"ssl.keystore.certificate.chain=-----BEGIN CERTIFICATE-----\\n{body}\\n-----END CERTIFICATE-----",
        f"ssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\\n {body}\\\n -----END CERTIFICATE-----",
    )  # fmt: skip
    assert {name: found.group[name] for name in ("ca", "cert", "key")} == {
        "ca": "secrets/east.ca.pem", "cert": "secrets/east.cert.pem", "key": "secrets/east.key.pem"
    }  # fmt: skip
    text = f"-----BEGIN CERTIFICATE-----\n{body[:64]}\n{body[64:]}\n-----END CERTIFICATE-----\n"
    assert found.files["east.ca.pem"] == found.files["east.cert.pem"] == text


def test_amazons_iam_takes_the_region_from_the_brokers_names(tmp_path: Path) -> None:
    lines = ("security.protocol=SASL_SSL", AWS, "sasl.mechanism=AWS_MSK_IAM",
             f"sasl.jaas.config={IAM} required awsProfileName=kafka;")  # fmt: skip
    servers = (
        "b-1.shop.abc.c2.kafka.eu-central-1.amazonaws.com:9098",
        "b-2.shop.abc.c2.kafka.eu-central-1.amazonaws.com:9098",
    )
    found = read(tmp_path, *lines, servers=servers)
    assert found.group["sasl"] == {"mechanism": "AWS_MSK_IAM", "region": "eu-central-1", "profile": "kafka"}
    assert "do not show the region" in mistakes(tmp_path, *lines)


def test_kerberos_by_a_key_table_and_not_by_a_cache(tmp_path: Path) -> None:
    table = tmp_path / "ann.keytab"
    table.touch()
    module = "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required storeKey=true"
    lines = ("security.protocol=SASL_PLAINTEXT", "sasl.kerberos.service.name=brokers")
    found = read(tmp_path, *lines, f'{module} useKeyTab=true principal="ann@EXAMPLE.COM" keyTab="{table}";')
    assert found.group["sasl"] == {
        "mechanism": "GSSAPI", "principal": "ann@EXAMPLE.COM", "keytab": str(table), "service": "brokers"
    }  # fmt: skip
    assert "by a key table only" in mistakes(tmp_path, *lines, f"{module} useTicketCache=true;")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("ssl.truststore.location=/etc/kafka/trust.jks", "ssl.truststore.password=hidden"),
         "store of type JKS, and only PEM is read; type: keytool -list -rfc -keystore /etc/kafka/trust.jks > ca.pem"),
        (("ssl.keystore.location=/etc/kafka/own.p12", "ssl.keystore.type=PKCS12", "ssl.keystore.password=hidden"),
         "is a store of type PKCS12, and only PEM is read; type: keytool -importkeystore"),
        (("ssl.keystore.key=hidden",), "ssl.keystore.certificate.chain must be set together"),
        (("ssl.keystore.key=hidden", "ssl.keystore.certificate.chain=hidden"), "it holds no PEM text"),
        (("ssl.truststore.type=PEM", "ssl.truststore.location=/none.pem"), "/none.pem is not a file"),
        (("ssl.cipher.suites=TLS_AES_128_GCM_SHA256",), "ssl.cipher.suites: Tideover has no setting for it"),
        (("ssl.endpoint.identification.algorithm=ldaps",), "write https, or nothing after the ="),
        (("sasl.mechanism=PLAIN",), "sasl.mechanism: security.protocol=SSL has no login"),
    ],
)  # fmt: skip
def test_tls_that_is_not_taken_over_is_one_sentence(lines: tuple[str, ...], why: str, tmp_path: Path) -> None:
    assert why in mistakes(tmp_path, "security.protocol=SSL", *lines)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((), "sasl.jaas.config: it is missing"),
        (("sasl.mechanism=PLAIN", f"sasl.jaas.config={OAUTH};"), "no login by OAuthBearerLoginModule with PLAIN"),
        (("sasl.mechanism=PLAIN", f'{PLAIN} username="ann" password="hidden" tokenauth="true";'),
         "no setting for the option tokenauth"),
        (("sasl.mechanism=PLAIN", f'{PLAIN} password="hidden";'), "the option username is missing"),
        (("sasl.mechanism=PLAIN", f'{PLAIN} username="ann" password="hidden "; '), "begins or ends with a space"),
        (("sasl.mechanism=PLAIN", f'{PLAIN} username="ann" password="hidden'), "a quote is not closed"),
        (("sasl.mechanism=OAUTHBEARER", f"sasl.jaas.config={OAUTH};", BY_OIDC, TOKENS), "clientSecret are missing"),
        (("sasl.mechanism=OAUTHBEARER", f"sasl.jaas.config={OAUTH};", TOKENS),
         "OAUTHBEARER is supported only with OAuthBearerLoginCallbackHandler, not with none"),
        (("sasl.mechanism=PLAIN", f'{PLAIN} username="ann" password="hidden";', "ssl.truststore.type=PEM"),
         "ssl.truststore.type: security.protocol=SASL_PLAINTEXT has no TLS"),
    ],
)  # fmt: skip
def test_a_login_that_is_not_taken_over_is_one_sentence(lines: tuple[str, ...], why: str, tmp_path: Path) -> None:
    assert why in mistakes(tmp_path, "security.protocol=SASL_PLAINTEXT", *lines)


def test_all_mistakes_are_listed_at_once(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "security.protocol=SASL_SSL", "ssl.protocol=TLSv1.2", "ssl.truststore.location=/t.jks")
    assert said.startswith(f"3 mistakes in {tmp_path}/client.properties:\n")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.properties cannot be read: No such file"):
        read_client_properties(tmp_path / "none.properties", cluster="east")
