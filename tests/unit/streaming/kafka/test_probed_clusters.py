"""What the probes of one cluster share: a token, and the pause after a refusal."""

import threading
from collections.abc import Callable, Iterator

import pytest

from state.settings.keys import Detection, Tideover
from streaming.errors import CredentialRefused
from streaming.kafka.login import client_credentials, tokens
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.login.tokens import Token
from streaming.kafka.probed_clusters import OpenProbe, probes_on
from streaming.probe.identities import Identities
from streaming.probe.prober import Prober
from tests.fakecluster import FakeCluster
from tests.waiting import until


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 6}) as fake:
        yield fake


def with_tokens(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, fetch: Callable[[], Token]) -> OpenProbe:
    """What opens probes of a cluster that wants tokens."""
    monkeypatch.setattr(client_credentials, "fetch", lambda *_, **__: fetch())
    sasl = {"mechanism": "OAUTHBEARER", "token_endpoint": "http://e/t", "client_id": "a", "client_secret": "s"}
    east = {"bootstrap": fake.bootstrap, "security": {"protocol": "SASL_PLAINTEXT", "sasl": sasl}}
    settings = Tideover.model_validate({"store": "sqlite://", "clusters": {"east": east}})
    return probes_on(settings, Identities(settings))["east"]


@pytest.mark.parametrize("error", [LoginFailed("invalid_client"), CredentialRefused("it is no token")])
def test_looks_that_fail_share_the_pause_of_their_provider(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    requests: list[int] = []
    looks: list[int] = []

    def refuse() -> Token:
        requests.append(1)
        raise error

    for name in ("_FIRST_PAUSE_SECONDS", "_LONGEST_PAUSE_SECONDS"):
        monkeypatch.setattr(tokens, name, 600.0)
    prober = Prober("east", with_tokens(fake, monkeypatch, refuse), Detection(), on_look=lambda: looks.append(1))
    prober.begin()
    until(lambda: len(looks) >= 4)
    prober.close()
    assert requests == [1]


def test_a_token_that_comes_after_its_look_serves_the_next_one(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider slower than a look: no look waits for its own token."""
    over = threading.Semaphore(0)

    def slow() -> Token:
        assert over.acquire(timeout=60)
        return Token("a.b.c", 3600.0)

    one_at_a_time = Detection(failures=1)
    prober = Prober("east", with_tokens(fake, monkeypatch, slow), one_at_a_time, on_look=over.release)
    prober.begin()
    until(lambda: prober.window.newest_ok)
    prober.close()
