"""Says what Kafka's Java clients mean when a cluster refuses them: which ACL is missing, what is wrong with a secret.

Their exceptions name the resource and not the operation; what a query does with the resource tells it.
"""

import re

_TAKEN = "one that has not expired, of an authority in the broker's truststore"
_MEANINGS = (
    (
        r"TopicAuthorizationException.*?\[(?P<what>[^\]]*)\]",
        "our user has no ACL on topic {what}: a source needs Read, a sink Write",
    ),
    (r"TopicAuthorizationException", "our user has no ACL on one of its topics: a source needs Read, a sink Write"),
    (r"GroupAuthorizationException.*?group: (?P<what>\S+)", "our user has no ACL that allows Read on group {what}"),
    (
        r"TransactionalIdAuthorizationException",
        "our user has no ACL that allows Write on the transactional id that the options name",
    ),
    (
        r"ClusterAuthorizationException",
        "our user has no ACL on the cluster: a sink needs IdempotentWrite on brokers before Kafka 2.8",
    ),
    (r"SaslAuthenticationException", "user or password under security.sasl are not those of the cluster"),
    (
        r"PBES2 SecretKeyFactory not available",
        "this Java cannot read a key encrypted as OpenSSL 3 does; use: openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES",
    ),
    (r"CertificateExpiredException|validity check", "the broker's certificate has expired"),
    (
        r"PKIX path|unable to find valid certification path",
        "the broker's certificate is not of an authority that we trust (security.ca)",
    ),
    (
        r"No (?:subject alternative|name matching)",
        "the broker's certificate is for another name than bootstrap has (security.check_hostname)",
    ),
    (r"certificate_expired", "the broker refuses our own certificate (security.cert): it has expired, renew it"),
    (
        r"(?:certificate_unknown|certificate_required|bad_certificate|unknown_ca)",
        f"the broker refuses our own certificate (security.cert), or misses it: name {_TAKEN}",
    ),
)


def with_meaning(line: str) -> str:
    """The line, with what it means behind it where it is about credentials or ACLs."""
    for pattern, meaning in _MEANINGS:
        found = re.search(pattern, line)
        if found is not None:
            return f"{line} ({meaning.format(**found.groupdict())})"
    return line
