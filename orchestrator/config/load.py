"""Loading the configuration: one YAML file, every mistake reported at once with its path, secrets by reference only.

YAML is read as its version 1.2 does it where that matters to people. ``on``, ``no`` and ``12:30`` stay words, a date
stays text, and a key given twice is a mistake instead of a silent last-wins. Relative paths are relative to the file,
so that a verb means the same from every folder. The library ruamel.yaml knows 1.2, but in Python only: a configuration
of a hundred queries takes it 286 ms instead of 28, at every verb. What it makes of dates, of ``1_000`` and of keys that
are numbers would have to be undone as well.
"""

import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError

from orchestrator.config.errors import worded
from orchestrator.config.masks import has_password
from orchestrator.errors import ConfigError
from state.settings import shared_applications
from state.settings.canonical import mapping
from state.settings.cluster_endpoints import expanded, in_file
from state.settings.key_rules import contradictions
from state.settings.keys import Tideover
from streaming.secrets import Broken, absolute, is_reference, looks_secret, secret_behind


def is_secret(path: tuple[str, ...]) -> bool:
    """Whether the value at this path of the configuration must be given by reference.

    Where Tideover names a key, it knows that it is a secret. In what is handed on to Spark, to Kafka's clients or to a
    pipeline, the key's name decides: ``spark.hadoop.fs.s3a.secret.key``. A reference is read by ``streaming.secrets``.
    """
    match path:
        case (
            ("http", "tokens", _, "token")
            | ("controller", "token")
            | ("notify", "targets", _, "url")
            | ("clusters", _, "security", "key_password")
            | ("clusters", _, "schema_registry", "password")
            | ("routes", _, "replicator", "password")
        ):
            return True
        case ("clusters", _, "security", "sasl", "password" | "client_secret"):
            return True
        case ("spark", "conf", key) | ("queries", _, "settings" | "spark", key):
            return looks_secret(key)
        case ("queries", _, "settings_by_cluster", _, key):
            return looks_secret(key)
        case ("queries", _, "sources", _, "options", key) | ("queries", _, "output", "options", key):
            return looks_secret(key)
    return False


def is_read_at_use(path: tuple[str, ...]) -> bool:
    """Whether the reference at this path is kept, to be read again by each connection that needs what is behind it."""
    return path[:1] in {("clusters",), ("routes",), ("controller",)}


VARIABLE = "TIDEOVER_CONFIG"
DEFAULT = "tideover.yaml"

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")
_STORE = re.compile(r"(sqlite(\+pysqlite)?:///|postgresql(\+psycopg)?://).")
_OLD_KEY = re.compile(rb"(?m)^-----(BEGIN (?!ENCRYPTED )[A-Z0-9 ]+ PRIVATE KEY)-----")
"""A private key in a form of its own (PKCS#1, SEC1, OpenSSH): Python reads most of them, Kafka's Java clients none."""
MOST_VALUES = 200_000
"""Values of a configuration, aliases followed: a thousand queries have 30,000."""
_NO_FILE = "name one with -c FILE or TIDEOVER_CONFIG, or change to the folder that holds tideover.yaml"


class _Loader(yaml.CSafeLoader):
    """YAML without its traps: no sexagesimal numbers, no dates, only ``true`` and ``false`` are booleans."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9]\d*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+\.\d*(?:[eE][-+]?\d+)?$"), list("-+0123456789")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, object]:
    seen: set[Hashable] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            key = str(key)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is given twice", key_node.start_mark)
        seen.add(key)
    loader.flatten_mapping(node)
    return {str(key): value for key, value in loader.construct_mapping(node, deep=True).items()}


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A configuration and where it came from."""

    path: Path
    settings: Tideover


def locate(given: str | Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The file to read: the one given, else ``TIDEOVER_CONFIG``, else ``./tideover.yaml``. ``ConfigError`` if none."""
    if given == "":
        raise ConfigError("no configuration: -c names no file", hint=_NO_FILE)
    path = Path(given or environment.get(VARIABLE) or DEFAULT)
    if not path.is_file():
        raise ConfigError(f"no configuration: {path} is not a file", hint=_NO_FILE)
    # Kubernetes mounts a file as a link into a folder of its present version below the link. What is read again, or
    # written, has to be beside the link: that folder goes when the version does. Any other link is only another name.
    link, target = path.parent.resolve() / path.name, path.resolve()
    return link if target.is_relative_to(link.parent) else target


def load(given: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> Loaded:
    """Read, resolve and validate. Raises ``ConfigError`` with every mistake."""
    path = locate(given, environment)
    raw = _read(path)
    resolver = _Resolver(path.parent, environment)
    resolved = resolver.resolve(raw)
    mistakes, clusters = resolver.mistakes, expanded(mapping(mapping(resolved).get("clusters")))
    settings: Tideover | None = None
    try:
        settings = Tideover.model_validate(resolved)
    except ValidationError as error:
        queries = mapping(mapping(resolved).get("queries"))
        at_clusters = (in_file(mistake, clusters) for mistake in worded(error))
        found = dict.fromkeys(shared_applications.in_file(mistake, queries) for mistake in at_clusters)
        mistakes += [mistake for mistake in found if mistake.partition(": ")[0] not in resolver.unresolved]
    mistakes += [mistake for mistake in contradictions(resolved, os.path.realpath) if mistake not in mistakes]
    if settings is None or mistakes:
        count = f"{len(mistakes)} mistake{'s' if len(mistakes) != 1 else ''}"
        raise ConfigError(f"{count} in {path}:", hint="conf/tideover.yaml shows every key", mistakes=mistakes)
    return Loaded(path=path, settings=settings)


def names(group: str, given: str | Path | None = None) -> list[str]:
    """What a group of the file declares, for the shell's completion: mistakes and secrets elsewhere hide no name."""
    try:
        declared = mapping(_read(locate(given)).get(group))
    except ConfigError:
        return []
    return list(expanded(declared) if group == "clusters" else declared)


def _parsed(text: str) -> object:
    """What the text holds. Raises ``yaml.YAMLError`` and ``ValueError``."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check_size(root)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _check_size(root: yaml.Node) -> None:
    """Refuse a file whose aliases repeat each other. Raises ``ValueError``.

    Ten lines of aliases of aliases can stand for 10^9 values, and each reader of them takes minutes. An alias counts
    as the values that it stands for; each node is looked at once.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = MOST_VALUES  # a node that holds its own alias is without end
            inner: list[yaml.Node] = []
            if isinstance(node, yaml.MappingNode):
                inner = [each for pair in node.value for each in pair]
            elif isinstance(node, yaml.SequenceNode):
                inner = list(node.value)
            sizes[id(node)] = 1 + sum(map(size, inner))
        return sizes[id(node)]

    if size(root) > MOST_VALUES:
        raise ValueError(f"its aliases stand for more than {MOST_VALUES:,} values")


def _read(path: Path) -> dict[str, object]:
    try:
        raw = _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", hint="check the permissions of the file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid UTF-8 text", hint=str(error)) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{path}{where}: {error.problem}", hint="the file is not valid YAML there") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}", hint="start from conf/tideover.yaml") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} has no settings", hint="start from conf/tideover.yaml")
    return raw


class _Resolver:
    """The file's mapping with secrets in place of their references, and paths that no working folder changes.

    Clusters' secrets, and a file with the store's URL, are looked at and left where they are: each new connection reads
    them again.
    """

    def __init__(self, base: Path, environment: Mapping[str, str]) -> None:
        self._base = base
        self._environment = environment
        self.mistakes: list[str] = []
        self.unresolved: set[str] = set()
        """Paths whose mistake is reported already."""

    def resolve(self, value: object, path: tuple[str, ...] = ()) -> object:
        if isinstance(value, dict):
            return {key: self.resolve(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.resolve(inner, (*path, str(index))) for index, inner in enumerate(value)]
        if value is None:
            return None
        if is_secret(path):
            return self._secret(value, path)
        if not isinstance(value, str):
            return value
        match path:
            case ("store",):
                return self._store(value, path)
            case ("clusters", *_, "ca" | "cert" | "keytab") | ("http", "tls", "cert" | "key" | "clients"):
                return self._file(value, path)
            case ("routes", _, "replicator", "ca") | ("controller", "ca" | "cert" | "key"):
                return self._file(value, path)
            case ("clusters", _, "security", "key"):
                return self._key(value, path)
            case ("queries", _, "checkpoint") if value and not _SCHEME.match(value):
                return str((self._base / value).resolve())
            case ("evidence", "folder") if value:
                return str((self._base / value).resolve())
        return value

    def _secret(self, value: object, path: tuple[str, ...]) -> str:
        try:
            secret = secret_behind(value, self._base, self._environment)
        except Broken as error:
            self._wrong(path, error.why)
            return ""
        return absolute(str(value), self._base) if is_read_at_use(path) else secret

    def _store(self, value: str, path: tuple[str, ...]) -> str:
        url = self._secret(value, path) if is_reference(value) or has_password(value) else value
        if (url or not value) and not _STORE.match(url):
            self._wrong(path, "write sqlite:///path (one host) or postgresql+psycopg://... (several)")
        if url.startswith("postgresql") and value.startswith("file:"):
            return absolute(value, self._base)
        prefix, file = url[: len("sqlite:///")], url[len("sqlite:///") :]
        if prefix != "sqlite:///" or not file or file.startswith((":memory:", "file:")):
            return url
        return f"{prefix}{(self._base / file).resolve()}"

    def _file(self, value: str, path: tuple[str, ...]) -> str:
        file = self._base / value
        if not file.is_file():
            self._wrong(path, f"{file} is not a file")
        return str(file)

    def _key(self, value: str, path: tuple[str, ...]) -> str:
        file = self._file(value, path)
        try:
            old = _OLD_KEY.search(Path(file).read_bytes()) if Path(file).is_file() else None
        except OSError:
            return file  # not ours to read, which a connection will show
        if old is not None:
            self._wrong(
                path,
                f"{file} begins with {old[1].decode('ascii')}, which Kafka's Java clients cannot read; "
                "convert it with openssl pkcs8 -topk8 -nocrypt -in OLD -out NEW; the new key has no "
                "password, so remove "
                "key_password",
            )
        return file

    def _wrong(self, path: tuple[str, ...], why: str) -> None:
        self.unresolved.add(".".join(path))
        self.mistakes.append(f"{'.'.join(path)}: {why}")
