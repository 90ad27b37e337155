"""Each text was seen at a real broker, store or database; what it means decides what is done about it."""

import re
import sqlite3

import pytest
import sqlalchemy as sa
from kafka import errors

from state.error_meanings import (
    ACCESS,
    AUTHENTICATION,
    DATABASE,
    FILES,
    OURS,
    RETRIABLE,
    SQLSTATES,
    TLS,
    Meaning,
    meaning_of,
    meaning_of_authentication,
    meaning_of_client,
)
from state.errors import RowRefused, StoreUnavailable
from state.model.cluster_status import Fault
from state.settings.keys import Cluster
from state.store.sql.engine import translated
from streaming.clocks import Deadline
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.errors import broken, summed, trouble_of
from streaming.kafka.metadata import pauses
from streaming.kafka.probe import Probe, _Met
from streaming.kafka.security import refusal
from streaming.spark.jvm import with_meaning

MSK = "[446c81dc-9ab3-4d4b-b174-4ecd9baa406c]: "
SASL = {
    f"{MSK}Too many connects": Meaning.THROTTLED,
    f"{MSK}Access denied": Meaning.REFUSED,
    "Rate exceeded (Service: AWSSecurityTokenService; Status Code: 400; Error Code: Throttling)": Meaning.THROTTLED,
    "The throttling quota has been exceeded.": Meaning.THROTTLED,
    "Authentication failed: Invalid username or password": Meaning.REFUSED,
    "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256":
        Meaning.REFUSED,
    '{"status":"invalid_token"}': Meaning.REFUSED,
    "(GSSException: No valid credentials provided (Mechanism level: Clock skew too great (37)))": Meaning.CLOCK,
    "GSSException: No valid credentials provided (Mechanism level: Ticket expired (32) - PROCESS_TGS)": Meaning.EXPIRED,
    "(Mechanism level: Request is a replay (34) - Request is a replay)": Meaning.PASSING,
    "(Mechanism level: Client not yet valid - try again later (21))": Meaning.PASSING,
    "(Mechanism level: Server not found in Kerberos database (7) - UNKNOWN_SERVER)": Meaning.REFUSED,
    "Receive timed out": Meaning.PASSING,
    "Cannot locate KDC": Meaning.PASSING,
    "The security token included in the request is expired (Error Code: ExpiredToken)": Meaning.EXPIRED,
    "Signature not yet current: 20260301T101505Z is still later than 20260301T100505Z": Meaning.CLOCK,
    "The token endpoint response was unsuccessful: 503 Service Unavailable": Meaning.PASSING,
    "The token endpoint response was unsuccessful: 522 Origin timed out": Meaning.PASSING,
    "the token endpoint http://idp:504/token answers 401 Unauthorized: invalid_client": Meaning.REFUSED,
    "temporarily_unavailable": Meaning.PASSING,
    "slow_down": Meaning.THROTTLED,
    'Connection was closed before we received a valid response from endpoint URL: "https://sts.amazonaws.com/"':
        Meaning.PASSING,
    'Failed to connect to proxy URL: "http://p"': Meaning.PASSING,
    "An error occurred (InternalFailure) when calling the AssumeRole operation": Meaning.PASSING,
    'Cannot resolve servers for KDC in realm "EXAMPLE.COM"': Meaning.PASSING,
    "Cannot contact any KDC for realm 'EXAMPLE.COM'": Meaning.PASSING,
    "A service is not available that is required to process the request": Meaning.PASSING,
    "Session too short between re-authentication attempts": Meaning.EXPIRED,
}  # fmt: skip


@pytest.mark.parametrize("text", SASL)
def test_an_authentication_failure_means_what_its_text_says(text: str) -> None:
    """One text, read from a broker by our own client and by Kafka's Java client: one meaning in both."""
    expected = SASL[text]
    assert meaning_of_authentication(text).meaning is expected
    java = meaning_of_client(f"SaslAuthenticationException: {text}")
    assert java is not None
    assert java.meaning is expected
    outcome = errors.SaslAuthenticationFailedError(text)
    assert (refusal(outcome) is not None) == (expected in OURS)
    trouble, answer = trouble_of(outcome, "e:1", answered_before=True), broken(outcome, "e:1")
    assert trouble.fault is (Fault.OURS if expected in OURS else Fault.HERE)
    assert trouble.fault is not Fault.THEIRS, "a broker that answers so lives"
    assert (trouble.retriable, answer.retriable) == (expected in RETRIABLE, expected in RETRIABLE)
    assert text in trouble.text


LOGIN = "LoginException: org.apache.kafka.common.KafkaException: java.io.IOException: The"
RETRIEVING = "LoginException: An internal error occurred while retrieving token from callback handler"


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (f"KafkaException: {RETRIEVING}", Meaning.PASSING),
        (f"{LOGIN} response code 401 and error response {{'invalid_client' - 'no such'}}", Meaning.REFUSED),
        (f"{LOGIN} unexpected response code 429 and error message {{}}", Meaning.THROTTLED),
        (f"{LOGIN} unexpected response code 503 and error message {{}}", Meaning.PASSING),
        ("LoginException: org.apache.kafka.common.KafkaException: java.net.ConnectException: Connection refused",
         Meaning.PASSING),
    ],
)  # fmt: skip
def test_a_login_of_the_java_client_means_what_its_line_says(line: str, meaning: Meaning) -> None:
    """Lines of kafka-clients 3.4.1, 3.9.1 and 4.3.1."""
    found = meaning_of_client(line)
    assert found is not None
    assert found.meaning is meaning


def test_a_cluster_that_throttles_one_of_us_is_not_misconfigured_for_all() -> None:
    throttled = trouble_of(
        errors.SaslAuthenticationFailedError(f"{MSK}Too many connects"), "e:1", answered_before=False
    )
    silent, denied = (trouble_of(each, "e:2", answered_before=False) for each in (
        None, errors.SaslAuthenticationFailedError(f"{MSK}Access denied")))  # fmt: skip
    assert summed([silent, throttled]) == throttled
    assert summed([denied, throttled]) == throttled
    assert summed([silent, denied]).fault is Fault.OURS


FILE_TEXTS = {
    "AWSStatus503Exception: PUT 0-byte object on cp/offsets/7: software.amazon.awssdk.services.s3.model.S3Exception: "
    "Please reduce your request rate. (Service: S3, Status Code: 503, Request ID: x):SlowDown": Meaning.THROTTLED,
    "AmazonS3Exception: Slow Down (Service: Amazon S3; Status Code: 503; Error Code: 503 Slow Down)": Meaning.THROTTLED,
    "RemoteFileChangedException: At least one of the pre-conditions you specified did not hold (Service: S3, "
    "Status Code: 412):PreconditionFailed": Meaning.TAKEN,
    "FileAlreadyExistsException: s3a://b/cp/offsets/7 already exists": Meaning.TAKEN,
    "The conditional request cannot succeed due to a conflicting operation (Status Code: 409):"
    "ConditionalRequestConflict": Meaning.PASSING,
    "AccessDeniedException: The provided token has expired. (Service: S3, Status Code: 400):ExpiredToken":
        Meaning.EXPIRED,
    "token (token for alice: HDFS_DELEGATION_TOKEN owner=alice) is expired, current time: 2026": Meaning.EXPIRED,
    "The difference between the request time and the current time is too large. (Status Code: 403):"
    "RequestTimeTooSkewed": Meaning.CLOCK,
    "AccessDeniedException: Access Denied (Service: S3, Status Code: 403)": Meaning.REFUSED,
    "AccessControlException: Permission denied: user=alice, access=WRITE, inode=/cp": Meaning.REFUSED,
    "GoogleJsonResponseException: 403 Forbidden POST o?ifGenerationMatch=0&name=cp/offsets/7: a@b.iam does not have "
    "storage.objects.create access to the Google Cloud Storage object.": Meaning.REFUSED,
    "GoogleJsonResponseException: 429 Too Many Requests: The object cp/offsets/7 exceeded the rate limit for object "
    "mutation operations. reason: rateLimitExceeded": Meaning.THROTTLED,
    "FSError: java.io.IOException: No space left on device": Meaning.FULL,
    "DSQuotaExceededException: The DiskSpace quota of /cp is exceeded: quota = 1 GB": Meaning.FULL,
    "StandbyException: Operation category WRITE is not supported in state standby": Meaning.PASSING,
    "SafeModeException: Cannot create file /cp/x. Name node is in safe mode.": Meaning.PASSING,
}  # fmt: skip


@pytest.mark.parametrize("text", FILE_TEXTS)
def test_texts_of_a_file_system_have_their_own_meanings(text: str) -> None:
    found = meaning_of(text, FILES)
    assert found is not None
    assert found.meaning is FILE_TEXTS[text]


@pytest.mark.parametrize("rows", [AUTHENTICATION, TLS, ACCESS, FILES, DATABASE])
def test_each_row_can_be_read_and_names_its_source(rows: tuple[tuple[str, Meaning, str, str], ...]) -> None:
    for pattern, _, sentence, source in rows:
        groups = set(re.compile(pattern).groupindex)
        assert all(f"{{{name}}}" in sentence for name in groups), pattern
        assert source, pattern
        assert not sentence.endswith("."), pattern


def test_passing_states_of_a_database_differ_from_lasting_ones() -> None:
    passing = {state for state, (meaning, _) in SQLSTATES.items() if meaning in RETRIABLE}
    assert {"40001", "40P01", "53300", "25006", "57P03"} <= passing
    assert {"28P01", "53100", "42501"}.isdisjoint(passing)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("connection failed: FATAL:  sorry, too many clients already", Meaning.THROTTLED),
        ("FATAL: remaining connection slots are reserved for roles with the SUPERUSER attribute", Meaning.THROTTLED),
        ('FATAL: too many connections for role "tideover"', Meaning.THROTTLED),
        ('connection failed: FATAL:  password authentication failed for user "tideover"', Meaning.REFUSED),
        ('FATAL: database "x" does not exist', Meaning.REFUSED),
        ("FATAL: the database system is starting up", Meaning.PASSING),
        ("database is locked", Meaning.PASSING),
        ("database or disk is full", Meaning.FULL),
        ("attempt to write a readonly database", Meaning.REFUSED),
        ("database disk image is malformed", Meaning.REFUSED),
    ],
)
def test_texts_of_a_database_have_their_own_meanings(text: str, meaning: Meaning) -> None:
    found = meaning_of(text, DATABASE)
    assert found is not None
    assert found.meaning is meaning


def test_a_store_says_what_keeps_it_from_writing() -> None:
    """Each is retried, for each can pass; the hint says what a person can do."""
    for said, text, hint in (
        ("database or disk is full", "the store has no room", "make room"),
        ("attempt to write a readonly database", "the store refuses us", "may not write"),
        ("FATAL: sorry, too many clients already", "the store has no connection for us", "max_connections"),
        ("database is locked", "the store cannot be reached or is locked", "another process writes"),
        ("could not connect", "the store cannot be reached or is locked", "it is retried"),
    ):
        with pytest.raises(StoreUnavailable, match=text) as raised, translated():
            raise sa.exc.OperationalError("INSERT", {}, sqlite3.OperationalError(said))
        assert hint in raised.value.hint
    for value in (sa.exc.DataError("INSERT", {}, ValueError("too long")),):
        with pytest.raises(RowRefused), translated():
            raise value


def test_a_requested_pause_is_longer_and_never_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("streaming.kafka.metadata.time.sleep", slept.append)
    pause, deadline = pauses(), Deadline.after(600)
    for _ in range(20):
        pause(deadline, 1.0)
    assert min(slept) >= 0.5
    assert len(set(slept)) > 10


def test_a_probe_makes_no_connections_during_a_requested_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """New connections are what it has too many of."""
    tried: list[int] = []

    def refuse(*_: object, **__: object) -> None:
        tried.append(1)
        raise _Met(trouble_of(errors.SaslAuthenticationFailedError("Too many connects"), "e:1", answered_before=True))

    memory = ProbeMemory()
    probe = Probe(Cluster(bootstrap=("e:1",)), name="east", topics=(), memory=memory)
    monkeypatch.setattr(probe, "_query_all", refuse)
    for _ in range(3):
        seen = probe.run(1.0)
        assert seen.trouble is not None
        assert (seen.trouble.kind, seen.trouble.fault) == ("throttled", Fault.HERE)
    assert len(tried) == 1
    memory.quiet_until = 0.0
    probe.run(1.0)
    assert len(tried) == 2
    probe.close()


def test_words_of_sparks_client_about_throttling_blame_no_password() -> None:
    line = with_meaning(f"SaslAuthenticationException: {MSK}Too many connects")
    assert "limits how many connections" in line
    assert "password" not in line
