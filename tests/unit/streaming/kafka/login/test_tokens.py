"""When a token is used, replaced and given up, on a clock that the test sets."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from kafka import errors

from streaming.errors import CredentialRefused
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.login.tokens import Token, Tokens


@dataclass
class Provider:
    """Gives out numbered tokens, or fails; its clock is the test's."""

    now: float = 0.0
    secret: str = "first"
    fails: str | Exception | None = None
    seconds: float = 100.0
    given: int = 0
    requests: int = 0
    tokens: Tokens = field(init=False)
    begun: list[Callable[[], None]] = field(default_factory=list)
    """What is to run on a thread of its own."""

    def __post_init__(self) -> None:
        self.tokens = Tokens(
            self.fetch, lambda: self.secret, monotonic=lambda: self.now, draw=lambda low, high: (low + high) / 2,
            begin=self.begun.append,
        )  # fmt: skip

    def fetch(self, answered_before: bool) -> Token:
        self.requests += 1
        if isinstance(self.fails, Exception):
            raise self.fails
        if self.fails is not None:
            raise errors.SaslAuthenticationFailedError(self.fails)
        self.given += 1
        return Token(f"token-{self.given}", self.seconds)

    def use(self, until: float | None = None) -> str:
        return str(self.tokens.prepare("e", until)["sasl_oauth_token_provider"].token())


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login waits no real time for the successor of a token."""
    monkeypatch.setattr("streaming.kafka.login.tokens._PATIENCE_SECONDS", 0.0)


def test_a_login_gets_the_successor_that_comes_at_once() -> None:
    provider = Provider()
    provider.use()
    provider.now = 80.0
    provider.tokens._begin = lambda fetch: fetch()
    assert provider.use() == "token-2"


def test_a_token_is_replaced_behind_its_logins_after_four_fifths_of_its_life() -> None:
    provider = Provider()
    assert [provider.use(), provider.use()] == ["token-1", "token-1"]
    provider.now = 79.9
    assert (provider.use(), provider.begun) == ("token-1", [])
    provider.now = 80.0
    assert [provider.use(), provider.use()] == ["token-1", "token-1"]
    (fetch,) = provider.begun
    fetch()
    assert (provider.use(), provider.given) == ("token-2", 2)


def test_a_token_that_cannot_be_replaced_serves_until_2_s_before_its_end() -> None:
    provider = Provider()
    provider.use()
    provider.fails, provider.now = "the token endpoint x does not answer: refused", 90.0
    assert provider.use() == "token-1"
    provider.begun.pop()()
    provider.now = 97.9
    assert provider.use() == "token-1"
    provider.begun.pop()()
    provider.now = 98.0  # a broker would end the session before it is of use
    with pytest.raises(errors.SaslAuthenticationFailedError, match="does not answer"):
        provider.use()


def test_a_short_token_is_replaced_before_its_last_fifth() -> None:
    provider = Provider(seconds=5.0)
    provider.use()
    provider.now = 3.99
    assert provider.use() == "token-1"
    provider.now = 4.01
    assert provider.use() == "token-2"


def test_a_refused_client_pauses_longer_and_longer_but_not_with_a_new_secret() -> None:
    provider = Provider(fails="invalid_client")
    pauses = []
    for _ in range(8):
        with pytest.raises(errors.SaslAuthenticationFailedError):
            provider.use()
        failed_at, requests = provider.now, provider.requests
        while provider.requests == requests:
            provider.now += 1 / 128
            with pytest.raises(errors.SaslAuthenticationFailedError, match="invalid_client"):
                provider.use()
        pauses.append(provider.now - failed_at)
    assert pauses[0] == pytest.approx(0.375, abs=0.02)
    assert pauses == sorted(pauses)
    assert max(pauses) == pytest.approx(11.25, abs=0.02)
    provider.fails, provider.secret = None, "second"
    assert provider.use() == "token-1"


def test_a_token_that_a_broker_refused_is_replaced_but_not_at_once() -> None:
    provider = Provider()
    provider.use()
    provider.now = 1.0
    provider.tokens.was_refused()
    assert provider.use() == "token-1"
    provider.now = 2.0
    provider.tokens.was_refused()
    assert provider.use() == "token-2"


@pytest.mark.parametrize("error", [CredentialRefused("no token"), KeyError("unforeseen")])
def test_each_failure_is_remembered_for_its_pause(error: Exception) -> None:
    provider = Provider(fails=error)
    for _ in range(3):
        with pytest.raises(type(error)):
            provider.use()
    assert provider.requests == 1
    provider.fails, provider.now = None, 1.0
    assert provider.use() == "token-1"


def test_a_host_that_starts_no_thread_uses_its_token_to_the_end() -> None:
    provider = Provider()
    provider.use()
    provider.now = 80.0

    def refuse(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    provider.tokens._begin = refuse
    assert [provider.use(), provider.use()] == ["token-1", "token-1"]
    provider.now = 100.0
    assert provider.use() == "token-2"


@pytest.mark.parametrize(("until", "patience"), [(None, 0.3), (90.0, 0.3), (80.3, 0.1), (79.0, 0.0)])
def test_a_login_waits_a_third_of_its_time_for_a_successor_at_most(
    until: float | None, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.kafka.login.tokens._PATIENCE_SECONDS", 0.3)
    waited: list[float | None] = []
    monkeypatch.setattr(threading.Event, "wait", lambda _, timeout=None: waited.append(timeout))
    provider = Provider()
    provider.use()
    provider.now = 80.0
    assert provider.use(until) == "token-1"
    assert waited == [pytest.approx(patience)]


def test_a_login_whose_time_is_over_requests_nothing() -> None:
    """Another login waits for the provider."""
    provider = Provider()
    with provider.tokens._fetching, pytest.raises(LoginFailed, match="does not answer"):
        provider.use(0.0)
    assert provider.requests == 0
    assert provider.use(1.0) == "token-1"
