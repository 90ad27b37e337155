"""A token from a provider of the tests, and each answer that is none, without the secret in a sentence."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import errors

from state.error_meanings import Meaning
from state.settings.security import ClientCredentials
from streaming.errors import CredentialRefused
from streaming.kafka.login.client_credentials import fetch
from streaming.kafka.security import hindrance
from tests.ports import free_port
from tests.tokens import TokenServer, encoded, serving_tokens

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    with serving_tokens(tmp_path_factory.mktemp("tokens"), {"ann": SECRET}) as server:
        yield server


@pytest.fixture
def tokens(server: TokenServer) -> Iterator[TokenServer]:
    yield server
    server.answer = None


def client(tokens: TokenServer, **more: Any) -> ClientCredentials:
    known = {"mechanism": "OAUTHBEARER", "token_endpoint": tokens.token_endpoint, "client_id": "ann"}
    return ClientCredentials.model_validate({**known, "client_secret": SECRET, "scope": "kafka", **more})


def test_a_token_comes_with_its_lifetime(tokens: TokenServer) -> None:
    token = fetch(client(tokens))
    assert token.text.count(".") == 2
    assert token.seconds == tokens.seconds


def test_a_lifetime_that_the_answer_lacks_is_read_from_the_token(tokens: TokenServer) -> None:
    made = ".".join(encoded(each) for each in (b"{}", b'{"exp": 1100}', b"x"))
    tokens.answer = 200, {"access_token": made}
    assert fetch(client(tokens), wall=lambda: 1000.0).seconds == 100.0
    with pytest.raises(CredentialRefused, match="expired already"):
        fetch(client(tokens), wall=lambda: 1200.0)


@pytest.mark.parametrize(
    ("answer", "meaning", "words"),
    [
        ((401, {"error": "invalid_client", "error_description": "no such client"}), Meaning.REFUSED,
         "answers 401 Unauthorized: invalid_client: no such client"),
        ((400, {"error": "invalid_client", "error_description": f"{SECRET} is wrong"}), Meaning.REFUSED,
         r"invalid_client: \*\*\*\*\* is wrong"),
        ((302, {}), Meaning.REFUSED, "answers 302 Found"),
        ((429, {}), Meaning.THROTTLED, "answers 429 Too Many Requests"),
        ((503, {}), Meaning.PASSING, "answers 503 Service Unavailable"),
    ],
)  # fmt: skip
def test_a_refusal_of_a_provider_means_its_text(tokens: TokenServer, answer: Any, meaning: Meaning, words: str) -> None:
    tokens.answer = answer
    with pytest.raises(errors.SaslAuthenticationFailedError, match=words) as refused:
        fetch(client(tokens))
    found = hindrance(refused.value)
    assert found is not None
    assert found.meaning is meaning
    assert SECRET not in found.text


def test_a_provider_that_cannot_be_reached_says_nothing_of_our_secret(tokens: TokenServer) -> None:
    for endpoint in (f"http://127.0.0.1:{free_port()}/token", "http://no-such-host.invalid/token"):
        with pytest.raises(errors.SaslAuthenticationFailedError, match="does not answer") as refused:
            fetch(client(tokens, token_endpoint=endpoint))
        found = hindrance(refused.value)
        assert found is not None
        assert found.meaning is Meaning.PASSING


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"hello": 1}, "it has no access_token"),
        ({"access_token": "opaque", "expires_in": 5}, "no JWT"),
        ({"access_token": "a\nb.c.d", "expires_in": 5}, "no text of ASCII"),
        ([], "is no token"),
    ],
)
def test_an_answer_without_a_usable_token_is_refused_in_a_sentence(tokens: TokenServer, answer: Any, why: str) -> None:
    tokens.answer = 200, answer
    with pytest.raises(CredentialRefused, match=why):
        fetch(client(tokens))


def test_a_secret_that_went_away_is_ours_to_correct(tokens: TokenServer, tmp_path: Path) -> None:
    with pytest.raises(CredentialRefused, match=r"the client's secret cannot be read: .* is not a file"):
        fetch(client(tokens, client_secret=f"file:{tmp_path / 'gone'}"))
