"""What an error of a broker, a file system or a database means for the caller that got it: one table of real texts.
Pure.

The class of an error often says less than its text. A cluster that takes no more connections for a moment answers with
the class of a wrong password. A store whose token has expired answers like one that never knew us. A create whose
answer was lost comes back as "exists". Three mistakes follow, and each has cost a night of work. Credentials are
changed that were right, a cluster that needs a pause is called misconfigured, and a race that was won counts as lost.

Each row has where its text was seen, and a test that holds the text itself. The first row that matches counts.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple


class Meaning(StrEnum):
    """What to do about an error."""

    THROTTLED = "throttled"
    """The service lives and needs a pause: try again, after a pause of random length."""
    PASSING = "passing"
    """A part of the service is away or changes hands: try again. It says nothing of our credentials."""
    CLOCK = "clock"
    """A clock is wrong, this host's as a rule: neither credentials nor the service are."""
    EXPIRED = "expired"
    """What we showed was right once: renew it."""
    REFUSED = "refused"
    """The service does not let us in, or not do that: a person has to change something."""
    TAKEN = "taken"
    """It exists already. Whose it is must be read: an answer that was lost on the way looks the same as a lost race."""
    FULL = "full"
    """There is no room."""


RETRIABLE = frozenset({Meaning.THROTTLED, Meaning.PASSING})
OURS = frozenset({Meaning.EXPIRED, Meaning.REFUSED})
"""What only a change on our side can mend."""


class Row(NamedTuple):
    """One text and its meaning."""

    pattern: str
    """A regular expression, searched for without regard to case; its group ``what`` may stand in the sentence."""
    meaning: Meaning
    sentence: str
    source: str
    """Where the text comes from."""


_TAKEN = "one that has not expired, of an authority in the broker's truststore"
_OWN = "our own certificate (security.cert)"

AUTHENTICATION = (
    Row(r"too many connects", Meaning.THROTTLED,
        "the cluster limits how many connections are made in a second; our credentials are not at fault",
        "AWS MSK with IAM: aws-msk-iam-auth#28, #45, #61"),
    Row(r"throttl|response code 429|rate exceeded|too many requests|too many connections|quota.{0,20}exceeded"
        r"|slow[ _]?down",
        Meaning.THROTTLED, "the service requests a pause; our credentials are not at fault",
        "AWS STS ThrottlingException; Kafka THROTTLING_QUOTA_EXCEEDED"),
    Row(r"clock skew|RequestTimeTooSkewed|signature (?:not yet current|expired)|\(37\)", Meaning.CLOCK,
        "the clocks of this host and of the service differ by too much: correct the clock (NTP)",
        "RFC 4120 KRB_AP_ERR_SKEW; AWS Signature Version 4"),
    Row(r"\((?:21|33|34)\)|request is a replay|ticket not yet valid|client not yet valid", Meaning.PASSING,
        "Kerberos requests another try", "org.apache.kafka.common.security.kerberos.KerberosError"),
    Row(r"tokens or tickets does not answer|error occurred while retrieving token",
        Meaning.PASSING,
        "the provider of tokens does not answer, or requests a pause; our credentials are not known to be wrong",
        "streaming.kafka.login; Kafka's OAuthBearerLoginModule up to 3.9, which does not name the cause"),
    Row(r"this process could not prepare the login", Meaning.PASSING,
        "something is wrong on this host; neither our credentials nor the cluster are known to be at fault",
        "streaming.kafka.login"),
    Row(r"receive timed out|cannot (?:locate|contact any|resolve servers for) KDC|ICMP port unreachable|try again"
        r"|could not connect to the endpoint|timeout on endpoint|connection (?:refused|reset|timed out)"
        r"|connection was closed before we received|failed to connect to proxy"
        r"|a service is not available that is required"
        r"|(?:service|temporarily|currently)[ _]?(?:un|not )available"
        r"|(?:status|status code|response code|unsuccessful):? *(?:408|425|5\d\d)\b|(?<![\w.:/])50[0234]\b"
        r"|internal ?(?:server )?(?:error|failure)",
        Meaning.PASSING, "the service that checks credentials does not answer; ours are not known to be wrong",
        "JDK sun.security.krb5; MIT krb5; OAUTHBEARER token endpoints; botocore.exceptions; AWS common errors"),
    Row(r"expired|token is not active|reauthentication|re-authentication", Meaning.EXPIRED,
        "the credentials were right and have expired: renew them",
        "AWS ExpiredToken; RFC 4120 KRB_AP_ERR_TKT_EXPIRED; SaslServerAuthenticator (KIP-368)"),
)  # fmt: skip
"""Texts behind an authentication failure; one that no row knows is a refusal."""

TLS = (
    Row(r"certificate has expired|CertificateExpiredException|validity check", Meaning.REFUSED,
        "the broker's certificate has expired", "OpenSSL; JDK"),
    Row(r"certificate is not yet valid|CertificateNotYetValid", Meaning.CLOCK,
        "the broker's certificate is not valid yet, or this host's clock is wrong", "OpenSSL; JDK"),
    Row(r"hostname mismatch|No (?:subject alternative|name matching)", Meaning.REFUSED,
        "the broker's certificate is for another name than bootstrap has (security.check_hostname)", "OpenSSL; JDK"),
    Row(r"IP address mismatch", Meaning.REFUSED,
        "the broker's certificate is for another address (security.check_hostname)", "OpenSSL"),
    Row(r"CERTIFICATE_VERIFY_FAILED|PKIX path|unable to find valid certification path", Meaning.REFUSED,
        "the broker's certificate is not signed by an authority that we trust (security.ca)", "OpenSSL; JDK"),
    Row(r"certificate[_ ]required", Meaning.REFUSED, f"the broker wants {_OWN}, or misses it: name {_TAKEN}",
        "TLS alert 116"),
    Row(r"certificate_expired|certificate expired", Meaning.EXPIRED,
        f"the broker refuses {_OWN}: it has expired, renew it", "TLS alert 45"),
    Row(r"unsupported_certificate", Meaning.REFUSED, f"the broker refuses the kind of {_OWN}", "TLS alert 43"),
    Row(r"certificate[_ ]unknown|bad[_ ]certificate|unknown[_ ]ca\b", Meaning.REFUSED,
        f"the broker refuses {_OWN}, or misses it: name {_TAKEN}", "TLS alerts 42, 46, 48"),
    Row(r"handshake[_ ]failure", Meaning.REFUSED, f"the broker ends the handshake: it wants {_OWN}, or other ciphers",
        "TLS alert 40"),
    Row(r"wrong_version_number|Unsupported or unrecognized SSL message", Meaning.REFUSED,
        "the broker does not speak TLS at this address (security.protocol)", "OpenSSL; JDK"),
    Row(r"PBES2 SecretKeyFactory not available", Meaning.REFUSED,
        "this Java cannot read a key encrypted as OpenSSL 3 does; use: openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES", "JDK"),
)  # fmt: skip
"""A connection that merely breaks off in the middle of a handshake is in no row: that is a sick broker."""

ACCESS = (
    Row(r"TopicAuthorizationException.*?\[(?P<what>[^\]]*)\]", Meaning.REFUSED,
        "our user has no ACL on topic {what}: a source needs Read, a sink Write", "org.apache.kafka.common.errors"),
    Row(r"TopicAuthorizationException", Meaning.REFUSED,
        "our user has no ACL on one of its topics: a source needs Read, a sink Write",
        "org.apache.kafka.common.errors"),
    Row(r"GroupAuthorizationException.*?group: (?P<what>\S+)", Meaning.REFUSED,
        "our user has no ACL that allows Read on group {what}", "org.apache.kafka.common.errors"),
    Row(r"TransactionalIdAuthorizationException", Meaning.REFUSED,
        "our user has no ACL that allows Write on the transactional id that the options name",
        "org.apache.kafka.common.errors"),
    Row(r"ClusterAuthorizationException", Meaning.REFUSED,
        "our user has no ACL on the cluster: a sink needs IdempotentWrite on brokers before Kafka 2.8",
        "org.apache.kafka.common.errors"),
    Row(r"ThrottlingQuotaExceededException|throttling quota has been exceeded", Meaning.THROTTLED,
        "the cluster requests a pause", "org.apache.kafka.common.errors"),
)  # fmt: skip

FILES = (
    Row(r"SlowDown|Slow Down|reduce your request rate|Status Code: 503|Status Code: 429|TooManyRequests|ServerBusy"
        r"|rateLimitExceeded|429 Too Many Requests",
        Meaning.THROTTLED, "the store requests a pause", "S3 error responses; Azure Storage; Cloud Storage, JSON API"),
    Row(r"RequestTimeTooSkewed", Meaning.CLOCK,
        "the clocks of this host and of the store differ by too much: correct the clock (NTP)", "S3 error responses"),
    Row(r"ExpiredToken|TokenRefreshRequired|provided token has expired|token.{0,40}(?:is|has) expired", Meaning.EXPIRED,
        "the credentials for the store have expired: renew them", "S3 error responses; HDFS delegation tokens"),
    Row(r"ConditionalRequestConflict|OperationAborted", Meaning.PASSING,
        "another write of the same object is under way", "S3 conditional writes, status 409"),
    Row(r"PreconditionFailed|Status Code: 412|FileAlreadyExistsException|already exists", Meaning.TAKEN,
        "it exists already: what is there has to be read before a race counts as lost",
        "S3 conditional writes, status 412; Hadoop"),
    Row(r"No space left on device|Disk quota exceeded|DiskSpace quota|quota.{0,20}is exceeded|DSQuotaExceeded"
        r"|QuotaExceeded", Meaning.FULL, "there is no room", "Linux ENOSPC and EDQUOT; HDFS quotas"),
    Row(r"safe mode|StandbyException|not supported in state standby|RetriableException|InternalError|Status Code: 500",
        Meaning.PASSING, "the store changes hands or starts: try again", "HDFS NameNode; S3 error responses"),
    Row(r"Permission denied|Access ?Denied|AccessControlException|InvalidAccessKeyId|SignatureDoesNotMatch"
        r"|Status Code: 40[13]|does not have storage\.[\w.]+ access|403 Forbidden|401 Unauthorized", Meaning.REFUSED,
        "our user may not do that", "Linux EACCES; Hadoop; S3; Cloud Storage, JSON API"),
)  # fmt: skip

SQLSTATES = {
    "40001": (Meaning.PASSING, "another transaction was first"),
    "40P01": (Meaning.PASSING, "two transactions waited for each other, and this one was ended"),
    "55P03": (Meaning.PASSING, "another transaction holds the lock"),
    "57P01": (Meaning.PASSING, "the server shuts down"),
    "57P02": (Meaning.PASSING, "the server has crashed and starts again"),
    "57P03": (Meaning.PASSING, "the server starts or stops"),
    "25006": (Meaning.PASSING, "the server is a read-only replica: it was demoted, or the URL leads to a standby"),
    "53300": (Meaning.THROTTLED, "the server has no free connection: raise max_connections, or run fewer processes"),
    "53400": (Meaning.THROTTLED, "the server has reached a limit of its configuration"),
    "53100": (Meaning.FULL, "the server's disk is full: make room there"),
    "53200": (Meaning.FULL, "the server has no memory left"),
    "28000": (Meaning.REFUSED, "the server does not let this user in: correct the URL of store, or pg_hba.conf"),
    "28P01": (Meaning.REFUSED, "user or password in the URL of store are wrong"),
    "3D000": (Meaning.REFUSED, "the database that the URL of store names does not exist"),
    "42501": (Meaning.REFUSED, "the user in the URL of store may not do that: grant it"),
    "23505": (Meaning.TAKEN, "a row with that key exists already"),
}
"""PostgreSQL's codes (its documentation, appendix A) that say more than that the store failed. A refused login
has none: its text is in ``DATABASE``.
"""

DATABASE = (
    Row(r"too many clients already|remaining connection slots are reserved|too many connections for", Meaning.THROTTLED,
        "the server has no free connection: raise max_connections, or run fewer processes", "PostgreSQL, at the login"),
    Row(r"password authentication failed|no pg_hba\.conf entry|role .* does not exist", Meaning.REFUSED,
        "the server does not let this user in: correct the URL of store, or pg_hba.conf", "PostgreSQL, at the login"),
    Row(r"database .* does not exist", Meaning.REFUSED, "the database that the URL of store names does not exist",
        "PostgreSQL, at the login"),
    Row(r"(?:starting up|shutting down|in recovery mode|not yet accepting connections)", Meaning.PASSING,
        "the server starts or stops", "PostgreSQL, at the login"),
    Row(r"database or disk is full", Meaning.FULL, "the disk of the store's file is full: make room there",
        "SQLITE_FULL"),
    Row(r"readonly database", Meaning.REFUSED, "this user may not write the store's file, or its folder",
        "SQLITE_READONLY"),
    Row(r"unable to open database file", Meaning.REFUSED, "the folder of the store's file is not there, or not ours",
        "SQLITE_CANTOPEN"),
    Row(r"database (?:table )?is locked", Meaning.PASSING, "another process writes", "SQLITE_BUSY, SQLITE_LOCKED"),
    Row(r"malformed|not a database", Meaning.REFUSED, "the store's file is damaged: put a backup in its place",
        "SQLITE_CORRUPT, SQLITE_NOTADB"),
)  # fmt: skip


class Found(NamedTuple):
    """What a text means."""

    meaning: Meaning
    sentence: str


def meaning_of(text: str, rows: Iterable[Row]) -> Found | None:
    """What the first row that knows the text says of it; None where none does."""
    for row in rows:
        match = re.search(row.pattern, text, re.IGNORECASE | re.DOTALL)
        if match is not None:
            return Found(row.meaning, row.sentence.format(**match.groupdict()))
    return None


_PASSING_STATUSES = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY)

_SASL = re.compile(
    r"SaslAuthentication|LoginException|SASL authentication failed|GSSException|KrbException", re.IGNORECASE
)


def meaning_of_client(line: str) -> Found | None:
    """What a line of Kafka's or Hadoop's Java clients means: access, authentication, certificates, files."""
    found = meaning_of(line, ACCESS)
    if found is None and _SASL.search(line) is not None:
        found = meaning_of_authentication(line)
    return found or meaning_of(line, TLS)


def meaning_of_status(status: int) -> Found | None:
    """What an HTTP status of a service that gives out credentials means; None where its words decide."""
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Found(Meaning.THROTTLED, "the service requests a pause; our credentials are not at fault")
    if status in _PASSING_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Found(Meaning.PASSING, "the service that gives out tokens is in trouble; ours are not known to be wrong")
    return None


def meaning_of_authentication(text: str) -> Found:
    """What an authentication failure means; a refusal where no row knows its text."""
    refused = Found(Meaning.REFUSED, "user, password or policy are not what the cluster wants (security.sasl)")
    return meaning_of(text, AUTHENTICATION) or refused
