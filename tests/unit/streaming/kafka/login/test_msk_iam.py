"""A signed token by Amazon's own library, and what each failure of it means."""

import base64
import sys
from collections.abc import Callable
from typing import Any

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

from state.error_meanings import Meaning
from state.settings.security import MskIam
from streaming.errors import CredentialRefused
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.login.msk_iam import fetch
from streaming.kafka.security import hindrance

REGION, ROLE = "eu-central-1", "arn:aws:iam::123456789012:role/tideover"


def settings(**more: Any) -> MskIam:
    return MskIam.model_validate({"mechanism": "AWS_MSK_IAM", "region": REGION, **more})


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_token_is_a_signed_url_of_a_quarter_of_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x" * 40)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    token = fetch(settings())
    url = base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode()
    assert url.startswith(f"https://kafka.{REGION}.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert 880 < token.seconds <= 900


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("An error occurred (AccessDenied) when calling the AssumeRole operation: not authorized", Meaning.REFUSED),
        ("An error occurred (ExpiredToken) when calling the AssumeRole operation: it has expired", Meaning.EXPIRED),
        ("An error occurred (Throttling) when calling the AssumeRole operation: Rate exceeded", Meaning.THROTTLED),
        ('Could not connect to the endpoint URL: "https://sts.amazonaws.com/"', Meaning.PASSING),
        ('Connect timeout on endpoint URL: "https://sts.amazonaws.com/"', Meaning.PASSING),
    ],
)
def test_an_answer_for_a_role_means_its_text(said: str, meaning: Meaning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token_from_role_arn", failing(RuntimeError(said)))
    with pytest.raises(Exception, match=f"no credentials for {ROLE}: ") as refused:
        fetch(settings(role=ROLE))
    found = hindrance(refused.value)
    assert found is not None
    assert found.meaning is meaning


def test_no_credentials_are_ours_only_where_there_never_were_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's chain finds none, too, where the metadata service of an instance is away."""
    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token", failing(AttributeError("None")))
    with pytest.raises(CredentialRefused, match="no credentials of AWS are found"):
        fetch(settings())
    with pytest.raises(LoginFailed) as failed:
        fetch(settings(), answered_before=True)
    assert failed.value.found.meaning is Meaning.PASSING


def test_a_missing_library_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(CredentialRefused, match="not installed") as refused:
        fetch(settings())
    assert refused.value.hint == "pip install tideover[iam]"


def test_a_role_and_a_profile_at_once_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="name profile or role, not both"):
        settings(role=ROLE, profile="p")
