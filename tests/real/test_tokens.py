"""Tokens of an OpenID Connect provider, on real brokers: our own client, Spark's, and what is wrong with either.

The provider is a small server of our own (``tests/tokens.py``); signatures and their check by the brokers are real.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from replication_tool.producer import Writer
from state.model.cluster_status import Fault
from state.settings.keys import Cluster
from state.settings.security import Security
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.probe import Probe
from streaming.probe.probe_result import ProbeResult
from tests.certificates import make_certificates
from tests.logins import LoginBroker, behind_password, behind_tokens
from tests.ports import free_port
from tests.real.moving import moving
from tests.secrecy import files_below, files_with, process_arguments
from tests.tokens import AUDIENCE, TokenServer, serving_tokens
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.shared]

SECRET = "correct-horse-51d0"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"), SECRET)


@pytest.fixture(scope="module")
def tokens(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    with serving_tokens(tmp_path_factory.mktemp("tokens"), {"ann": SECRET}, certificates=files) as server:
        yield server


@pytest.fixture(scope="module")
def broker(tokens: TokenServer, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    """It ends each session with its token, or after three seconds."""
    folder = tmp_path_factory.mktemp("broker")
    with behind_tokens(folder, tokens, files, connections_max_reauth_ms="3000") as broker:
        yield broker


def security_group(tokens: TokenServer, files: Path, **more: Any) -> dict[str, Any]:
    """As the configuration has it."""
    sasl = {
        "mechanism": "OAUTHBEARER",
        "token_endpoint": tokens.token_endpoint,
        "client_id": "ann",
        "client_secret": SECRET,
        "ca": str(files / "ca.pem"),
        **more,
    }
    return {"protocol": "SASL_SSL", "ca": str(files / "ca.pem"), "sasl": sasl}


def login(broker: LoginBroker, tokens: TokenServer, files: Path, **more: Any) -> Cluster:
    security = Security.model_validate(security_group(tokens, files, **more))
    return Cluster(bootstrap=(broker.address,), security=security)


class Looks:
    """One probe of a cluster, which keeps its connections and its token."""

    def __init__(self, cluster: Cluster) -> None:
        self._probe = Probe(cluster, name="east", topics=(), memory=ProbeMemory())

    def __enter__(self) -> "Looks":
        return self

    def __exit__(self, *_: object) -> None:
        self._probe.close()

    def __call__(self, seconds: float = 60.0) -> ProbeResult:
        return self._probe.run(seconds)


def test_a_token_serves_many_logins_and_is_replaced_before_it_ends(
    broker: LoginBroker, tokens: TokenServer, files: Path
) -> None:
    tokens.seconds = 6.0
    before = len(tokens.given)
    try:
        with Looks(login(broker, tokens, files)) as look:
            first = look()
            assert first.ok, first.trouble
            assert len(tokens.given) == before + 1

            def is_replaced() -> bool:
                sight = look()
                assert sight.ok, sight.trouble
                return len(tokens.given) >= before + 3

            until(is_replaced, "the token was never replaced")
    finally:
        tokens.seconds = 3600.0


def assert_refused(sight: ProbeResult, *words: str) -> None:
    """The probe calls it ours to correct, in these words and without the secret."""
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault) == ("credential", Fault.OURS), sight.trouble
    assert [word for word in words if word not in sight.trouble.text] == [], sight.trouble.text
    assert SECRET not in repr(sight)


def test_a_refusal_of_the_provider_is_ours_in_its_own_words(
    broker: LoginBroker, tokens: TokenServer, files: Path
) -> None:
    for more, words in (
        ({"client_secret": "wrong-horse"}, ("answers 401", "invalid_client: Client ann is not known so")),
        ({"token_endpoint": tokens.jwks}, (f"the token endpoint {tokens.jwks} answers 404 Not Found",)),
        ({"ca": files / "stranger.pem"}, ("certificate of https://127.0.0.1", "is refused")),
    ):
        with Looks(login(broker, tokens, files, **more)) as look:
            assert_refused(look(), *words)


def test_a_provider_that_does_not_answer_is_no_wrong_credential(
    broker: LoginBroker, tokens: TokenServer, files: Path
) -> None:
    unreachable = f"https://127.0.0.1:{free_port()}/token"
    with Looks(login(broker, tokens, files, token_endpoint=unreachable)) as look:
        sight = look()
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault) == ("authentication", Fault.HERE), sight.trouble
    assert f"the token endpoint {unreachable} does not answer" in sight.trouble.text
    assert sight.trouble.retriable


def test_a_provider_that_hangs_is_no_silence_of_the_cluster(
    broker: LoginBroker, tokens: TokenServer, files: Path
) -> None:
    before = len(tokens.given)
    tokens.silent.set()
    try:
        with Looks(login(broker, tokens, files)) as look:
            sight = look(3.0)
    finally:
        tokens.silent.clear()
    until(lambda: len(tokens.given) > before, "the request that hung was never answered")
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault) == ("authentication", Fault.HERE), sight.trouble
    assert "the service that gives out tokens or tickets does not answer" in sight.trouble.text


def test_a_provider_that_throttles_gets_a_pause_and_is_no_refusal(
    broker: LoginBroker, tokens: TokenServer, files: Path
) -> None:
    tokens.answer = 429, {"error": "slow_down"}
    with Looks(login(broker, tokens, files)) as look:
        try:
            sight = look()
        finally:
            tokens.answer = None
        assert sight.trouble is not None
        assert (sight.trouble.kind, sight.trouble.fault) == ("throttled", Fault.HERE), sight.trouble
        until(lambda: look().ok, "the provider answers again, and no token is requested")


def test_a_token_that_the_broker_refuses_is_ours_and_its_successor_counts(
    broker: LoginBroker, tokens: TokenServer, files: Path
) -> None:
    tokens.audience = "another"
    with Looks(login(broker, tokens, files)) as look:
        try:
            assert_refused(look(), "SASL")
        finally:
            tokens.audience = AUDIENCE
        until(lambda: look().ok, "a new token was never requested")


def test_the_writer_of_records_gets_its_tokens_too(broker: LoginBroker, tokens: TokenServer, files: Path) -> None:
    writer = Writer("west", login(broker, tokens, files))
    writer.create_compacted("written", 1)
    assert writer.has("written")


@pytest.mark.matrix
def test_a_query_moves_from_a_password_to_tokens(
    broker: LoginBroker, tokens: TokenServer, files: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n", encoding="utf-8")
    token = security_group(tokens, files, client_secret=f"file:{secret}")
    password = {"mechanism": "PLAIN", "username": "ann", "password": f"file:{secret}"}
    with ExitStack() as primary:
        dying = primary.enter_context(behind_password(tmp_path / "east", files, "ann", SECRET))
        with moving(tmp_path / "scene", (dying, broker), (token | {"sasl": password}, token)) as scene:
            scene.assert_moves(primary.close)
            assert files_with(SECRET, files_below(tmp_path / "scene")) == []
            assert SECRET not in process_arguments()
