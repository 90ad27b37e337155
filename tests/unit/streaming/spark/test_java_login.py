"""What Spark's own client of Kafka gets for a login: settings, options of its JVMs, and jars."""

from pathlib import Path
from typing import Any

import pytest

from state.settings.keys import Cluster, Spark
from state.settings.security import Security
from streaming.jars import set_names
from streaming.jarsets.roots import ROOTS
from streaming.spark.java_login import MSK_JARS, java_client_settings, with_logins

TOKENS = {"mechanism": "OAUTHBEARER", "token_endpoint": "https://login/token", "client_id": "ann"}
IAM = {"mechanism": "AWS_MSK_IAM", "region": "eu-central-1"}
ROLE = "arn:aws:iam::123456789012:role/tideover"


def security(sasl: dict[str, Any]) -> Security:
    return Security.model_validate({"protocol": "SASL_SSL", "sasl": sasl})


def cluster(sasl: dict[str, Any]) -> Cluster:
    return Cluster(bootstrap=("e:1",), security=security(sasl))


def test_a_client_of_a_provider_is_named_with_its_authority_on_one_line(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN\nx\n-----END\n", encoding="ascii")
    found = java_client_settings(security({**TOKENS, "client_secret": 'a"b', "scope": "kafka", "ca": ca}))
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://login/token"
    assert found["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="ann" clientSecret="a\\"b" scope="kafka" ssl.truststore.type="PEM" '
        'ssl.truststore.certificates="-----BEGIN\\nx\\n-----END\\n";'
    )


def test_a_login_by_iam_names_a_profile_or_a_role() -> None:
    module = "software.amazon.msk.auth.iam.IAMLoginModule required"
    for more, options in (
        ({}, ""),
        ({"profile": "p"}, ' awsProfileName="p"'),
        ({"role": ROLE}, f' awsRoleArn="{ROLE}" awsRoleSessionName="tideover" awsStsRegion="eu-central-1"'),
    ):
        found = java_client_settings(security({**IAM, **more}))
        assert found["sasl.mechanism"] == "AWS_MSK_IAM"
        assert found["sasl.jaas.config"] == f"{module}{options};"


KERBEROS = {"mechanism": "GSSAPI", "principal": "t@R", "keytab": "/t.keytab"}


def test_a_login_by_kerberos_uses_the_key_table_and_no_cache() -> None:
    found = java_client_settings(security(KERBEROS))
    assert found["sasl.kerberos.service.name"] == "kafka"
    assert found["sasl.jaas.config"] == (
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true" storeKey="true" '
        'useTicketCache="false" doNotPrompt="true" keyTab="/t.keytab" principal="t@R";'
    )


def test_java_reads_the_realms_that_this_process_reads() -> None:
    realms = {"KRB5_CONFIG": "/etc/own.conf"}
    option = "-Djava.security.krb5.conf=/etc/own.conf"
    assert with_logins(Spark(), [cluster(KERBEROS)], realms).conf == {
        "spark.driver.extraJavaOptions": option,
        "spark.executor.extraJavaOptions": option,
    }
    assert with_logins(Spark(), [cluster(KERBEROS)], {}).conf == {}
    assert with_logins(Spark(), [Cluster(bootstrap=("e:1",))], realms).conf == {}


def test_endpoints_are_allowed_in_each_jvm_before_what_the_user_says() -> None:
    spark = Spark(conf={"spark.driver.extraJavaOptions": "-Dx=1"})
    clusters = [cluster({**TOKENS, "client_secret": "s", "token_endpoint": f"https://{name}/t"}) for name in "ba"]
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://a/t,https://b/t"
    assert with_logins(spark, clusters).conf == {
        "spark.driver.extraJavaOptions": f"{allowed} -Dx=1",
        "spark.executor.extraJavaOptions": allowed,
    }


def test_jars_for_iam_are_added_unless_the_user_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.spark.java_login.jar_paths", lambda name: [Path(f"/jars/{name}.jar")])
    plain = Cluster(bootstrap=("e:1",))
    ours = f"/jars/{MSK_JARS}.jar"
    assert with_logins(Spark(), [plain]).conf == {}
    assert with_logins(Spark(), [plain, cluster(IAM)]).conf == {"spark.jars": ours}
    assert with_logins(Spark(conf={"spark.jars": "/a.jar"}), [cluster(IAM)]).conf == {"spark.jars": f"/a.jar,{ours}"}
    own = Spark(conf={"spark.jars.packages": "software.amazon.msk:aws-msk-iam-auth:2.3.0"})
    assert with_logins(own, [cluster(IAM)]) is own


def test_each_connector_of_ours_has_the_client_that_requests_tokens() -> None:
    """Its class is in kafka-clients since 3.4.0."""
    for name in (name for name in set_names() if name.startswith("spark-")):
        (client,) = (each for each in ROOTS[name].coordinates if each.startswith("org.apache.kafka:kafka-clients:"))
        major, minor, _ = client.rpartition(":")[2].split(".")
        assert (int(major), int(minor)) >= (3, 4), f"{name} has {client}"
