"""Which settings are secrets: they stand in the configuration by reference (``streaming.secrets``), never themselves.

Where Tideover names a key, it knows that it is a secret. In what is handed on to Spark, to Kafka's clients or to a
pipeline, the key's name tells: ``spark.hadoop.fs.s3a.secret.key``.
"""

import re

from streaming.secrets import looks_secret

_URL_PASSWORD = re.compile(r"(?P<before>://[^:/@]*:)[^@]+@|(?P<key>[?&](?:ssl)?password=)[^&]+")


def is_secret(path: tuple[str, ...]) -> bool:
    """Whether the value at this path of the configuration must be given by reference."""
    match path:
        case ("http", "token") | ("clusters", _, "security", "key_password"):
            return True
        case ("clusters", _, "security", "sasl", "password"):
            return True
        case ("spark", "conf", key) | ("queries", _, "settings" | "spark", key):
            return looks_secret(key)
        case ("queries", _, "sources", _, "options", key) | ("queries", _, "output", "options", key):
            return looks_secret(key)
    return False


def is_read_at_use(path: tuple[str, ...]) -> bool:
    """Whether the reference at this path is kept, to be read anew by each connection that needs what is behind it."""
    return path[:1] == ("clusters",)


def has_password(url: str) -> bool:
    """Whether a password stands in a URL."""
    return _URL_PASSWORD.search(url) is not None


def without_password(url: str, mask: str) -> str:
    """The URL with ``mask`` for its password."""
    return _URL_PASSWORD.sub(lambda m: f"{m['before']}{mask}@" if m["before"] else f"{m['key']}{mask}", url)
