"""The login module of ``sasl.jaas.config``, read as Kafka's clients read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from orchestrator.config.jaas import LoginModule, login_module
from state.settings.security import Password, Security
from streaming.spark.java_login import java_client_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="ann" password="a b";', {"username": "ann", "password": "a b"}),
        (f"kafkashaded.{PLAIN} REQUIRED\n username=ann\n password='a\"b' ;\n", {"username": "ann", "password": 'a"b'}),
        (f"{PLAIN} required // a comment\n /* another\n one */ username=1;", {"username": "1"}),
        (rf'{PLAIN} required password="a\"b\\c\td\101";', {"password": 'a"b\\c\tdA'}),
        (f'{PLAIN} required password="a;b=c/d" password="e";', {"password": "e"}),
        (f"{PLAIN} required;", {}),
    ],
)  # fmt: skip
def test_a_login_module_and_its_options(text: str, options: dict[str, str]) -> None:
    assert login_module(text) == LoginModule(name="PlainLoginModule", options=options)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with a login module"),
        (PLAIN, "does not begin with a login module"),
        (f"{PLAIN} needed a=b;", "does not begin with a login module"),
        (f'{PLAIN} required password="hidden-word"', "does not end with a semicolon"),
        (f'{PLAIN} required password="hidden-word', "a quote is not closed"),
        (f'{PLAIN} required password="hidden-\nword";', "a quote is not closed"),
        (f"{PLAIN} required password;", "the option password has no value"),
        (f"{PLAIN} required password=;", "the option password has no value"),
        (f"{PLAIN} required password=/etc/key;", "the option password has no value"),
        (f"{PLAIN} required ={PLAIN};", "an option has no name"),
        (f"{PLAIN} required; {PLAIN} required;", "more than one login module"),
    ],
)
def test_a_text_that_kafka_refuses_is_one_sentence_without_a_secret(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        login_module(text)
    assert "hidden" not in str(refused.value)


@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_the_options_that_java_gets_from_us_are_read_back(user: str, password: str) -> None:
    if password.startswith(("env:", "file:")) or {"\r", "\n"} & {*user, *password}:
        return  # a reference; and a line end, which the Java client takes in its escaped form only
    sasl = Password(mechanism="PLAIN", username=user, password=SecretStr(password))
    text = java_client_settings(Security(protocol="SASL_SSL", sasl=sasl))["sasl.jaas.config"]
    assert login_module(text).options == {"username": user, "password": password}
