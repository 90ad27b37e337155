"""The keys of a client's properties file while they are taken over one by one, and what was wrong with them."""

import re
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = "secrets"
"""Beside the configuration: the files that references name."""

_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]+):(?:(?P<path>[^}:]*):)?(?P<key>[^}:]*)\}")
_PEM = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----(?P<body>[A-Za-z0-9+/=\s]+)-----END (?P=kind)-----")
_LINE = 64


@dataclass(slots=True)
class PropertyReading:
    """What is left of a file, what was found so far, and every mistake. No mistake holds a value that may be secret."""

    left: MutableMapping[str, str]
    """Keys that were not needed yet."""
    cluster: str
    files: dict[str, str] = field(default_factory=dict)
    """By name below ``secrets``, what references need there."""
    mistakes: list[str] = field(default_factory=list)
    _providers: dict[str, str] = field(default_factory=dict)
    """Kafka's config providers: by the name that values have, the class."""

    def take(self, key: str) -> str | None:
        """The value of a key, which then counts as used; None where it is missing or empty."""
        return self.left.pop(key, "").strip() or None

    def wrong(self, key: str, why: str) -> None:
        """Note a mistake."""
        self.mistakes.append(f"{key}: {why}")

    def take_providers(self) -> None:
        """Note which config providers the file declares: values can name them instead of a secret."""
        for name in (self.take("config.providers") or "").split(","):
            kind = self.take(f"config.providers.{name.strip()}.class") or ""
            if name.strip():
                self._providers[name.strip()] = kind.rpartition(".")[2]
        for key in [key for key in self.left if key.startswith("config.providers.")]:
            self.left.pop(key)

    def secret(self, key: str, value: str, name: str) -> str:
        """A reference to the secret: to where it is already, or to a new file ``CLUSTER.name`` with it."""
        found = _REFERENCE.fullmatch(value)
        if found is not None and found["provider"] in self._providers:
            kind = self._providers[found["provider"]]
            if kind == "EnvVarConfigProvider" and not found["path"]:
                return f"env:{found['key']}"
            if kind == "DirectoryConfigProvider" and found["path"]:
                return f"file:{Path(found['path'], found['key']).resolve()}"
            self.wrong(key, f"a value by {kind or 'a provider without a class'} is not read here; write it, or use "
                            "EnvVarConfigProvider or DirectoryConfigProvider")  # fmt: skip
        elif value != value.strip():
            self.wrong(key, "it begins or ends with a space, which a file would lose; use EnvVarConfigProvider")
        return f"file:{self.new_file(name, value)}"

    def plain(self, key: str, value: str) -> str:
        """A value that is no secret, and is written as it is."""
        found = _REFERENCE.search(value)
        if found is not None and found["provider"] in self._providers:
            self.wrong(key, "only a secret can be given by a config provider here; write the value itself")
        return value

    def existing(self, key: str, location: str) -> str:
        """The absolute path of a file that must be there. As for Kafka's tools, it is relative to this folder."""
        file = Path(location).resolve()
        if not file.is_file():
            self.wrong(key, f"{file} is not a file")
        return str(file)

    def pem_file(self, key: str, text: str, name: str) -> str:
        """A file for PEM text that is in the properties themselves, where spaces may replace its line ends."""
        blocks = [(each["kind"], "".join(each["body"].split())) for each in _PEM.finditer(text)]
        if not blocks:
            self.wrong(key, "it holds no PEM text (-----BEGIN ...)")
        lines = (
            "\n".join((f"-----BEGIN {kind}-----", *_wrapped(body), f"-----END {kind}-----", ""))
            for kind, body in blocks
        )
        return self.new_file(name, "".join(lines))

    def new_file(self, name: str, text: str) -> str:
        """The path, relative to the configuration, of a file that will hold this text."""
        file = f"{self.cluster}.{name}"
        self.files[file] = text
        return f"{FOLDER}/{file}"


def _wrapped(body: str) -> list[str]:
    return [body[at : at + _LINE] for at in range(0, len(body), _LINE)]
