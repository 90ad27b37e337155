"""Loading the configuration: one YAML file, every mistake told at once with its path, secrets by reference only.

YAML is read as its version 1.2 does it where that matters to people: ``on``, ``no`` and ``12:30`` stay words, a date
stays text, and a key given twice is a mistake instead of a silent last-wins. Relative paths are relative to the file,
so that a verb means the same from every folder.
"""

import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError

from orchestrator.errors import ConfigError
from orchestrator.mistakes import undeclared_names, worded
from state.settings import Tideover

VARIABLE = "TIDEOVER_CONFIG"
DEFAULT = "tideover.yaml"

_SECRETS = re.compile(r"store|http\.token|clusters\.[^.]+\.security\.(key_password|sasl\.password)")
_FILES = re.compile(r"clusters\.[^.]+\.security\.(ca|cert|key)")
_INLINE_PASSWORD = re.compile(r"^[^:]+://[^/@:]*:[^/@]+@")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


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
    path = Path(given or environment.get(VARIABLE) or DEFAULT)
    if not path.is_file():
        raise ConfigError(
            f"no configuration: {path} is not a file",
            hint=f"name one with -c FILE or {VARIABLE}, or change to the folder that holds {DEFAULT}",
        )
    return path.resolve()


def load(given: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> Loaded:
    """Read, resolve and validate. Raises ``ConfigError`` with every mistake."""
    path = locate(given, environment)
    raw = _read(path)
    mistakes: list[str] = []
    resolved = _resolve(raw, "", base=path.parent, environment=environment, mistakes=mistakes)
    _place_queries(resolved, path.parent)
    settings: Tideover | None = None
    try:
        settings = Tideover.model_validate(resolved)
    except ValidationError as error:
        mistakes += worded(error)
        mistakes += [mistake for mistake in undeclared_names(resolved) if mistake not in mistakes]
    if settings is None or mistakes:
        count = f"{len(mistakes)} mistake{'s' if len(mistakes) != 1 else ''}"
        raise ConfigError(f"{count} in {path}:", hint="conf/tideover.yaml shows every key", mistakes=mistakes)
    return Loaded(path=path, settings=settings)


def _read(path: Path) -> dict[str, object]:
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8", hint=str(error)) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{path}{where}: {error.problem}", hint="the file is not valid YAML there") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} holds no groups of settings", hint="start from conf/tideover.yaml")
    return raw


def _resolve(value: object, path: str, *, base: Path, environment: Mapping[str, str], mistakes: list[str]) -> object:
    if isinstance(value, dict):
        return {
            key: _resolve(
                inner, f"{path}.{key}" if path else str(key), base=base, environment=environment, mistakes=mistakes
            )
            for key, inner in value.items()
        }
    if not isinstance(value, str):
        return value
    if _SECRETS.fullmatch(path):
        return _resolve_secret(value, path, base=base, environment=environment, mistakes=mistakes)
    if _FILES.fullmatch(path):
        file = base / value
        if not file.is_file():
            mistakes.append(f"{path}: {file} is not a file")
        return str(file)
    return value


def _resolve_secret(value: str, path: str, *, base: Path, environment: Mapping[str, str], mistakes: list[str]) -> str:
    scheme, _, name = value.partition(":")
    if scheme == "env":
        if name not in environment:
            mistakes.append(f"{path}: the environment variable {name} is not set")
        value = environment.get(name, "")
    elif scheme == "file":
        file = base / name
        if not file.is_file():
            mistakes.append(f"{path}: {file} is not a file")
            return ""
        value = file.read_text(encoding="utf-8").strip()
    elif path != "store" or _INLINE_PASSWORD.match(value):
        mistakes.append(f"{path}: a secret is not written here; name it as env:NAME or file:PATH")
        return ""
    return _place_store(value, base) if path == "store" else value


def _place_store(url: str, base: Path) -> str:
    prefix, file = url[: len("sqlite:///")], url[len("sqlite:///") :]
    if prefix != "sqlite:///" or not file or file.startswith((":memory:", "file:")):
        return url
    return f"{prefix}{(base / file).resolve()}"


def _place_queries(raw: object, base: Path) -> None:
    queries = raw.get("queries") if isinstance(raw, dict) else None
    for query in queries.values() if isinstance(queries, dict) else ():
        checkpoint = query.get("checkpoint") if isinstance(query, dict) else None
        if isinstance(query, dict) and isinstance(checkpoint, str) and not _SCHEME.match(checkpoint):
            query["checkpoint"] = str((base / checkpoint).resolve())
