"""The text of ``sasl.jaas.config``: a login module and its options, as Kafka's clients read it (``JaasConfig``). Pure.

Java's ``StreamTokenizer`` reads it there: a slash outside quotes begins a comment, and a quoted text ends with its
line. No sentence made here holds a value, which may be a secret.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+ | /\*.*?\*/ | /[^\n\r]*)
      | (?P<quote>["'])(?P<quoted>(?:\\[^\n\r] | (?!(?P=quote))[^\\\n\r])*)(?P=quote)
      | (?P<word>[^\x00-\x20"'=;/]+)
      | (?P<mark>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?P<octal>[0-3]?[0-7]{1,2})|\\(?P<letter>.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = {"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"}


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginModule:
    """What logs in, and with which options."""

    name: str
    """Its class, without the packages: some vendors move these."""
    options: Mapping[str, str]


def login_module(text: str) -> LoginModule:
    """The login module that the text names. Raises ``ValueError`` with a sentence."""
    tokens = list(_tokens(text))
    if len(tokens) < 2 or tokens[0].mark or tokens[1].text.upper() not in _FLAGS:
        raise ValueError("it does not begin with a login module and the word required")
    options: dict[str, str] = {}
    rest = tokens[2:]
    while rest and not rest[0].is_(";"):
        key, equals, value = (*rest[:3], _NOTHING, _NOTHING)[:3]
        if key.mark or not equals.is_("=") or value.mark:
            raise ValueError(f"the option {key.text} has no value" if not key.mark else "an option has no name")
        options[key.text] = value.text
        rest = rest[3:]
    if not rest:
        raise ValueError("it does not end with a semicolon")
    if len(rest) > 1:
        raise ValueError("it names more than one login module")
    return LoginModule(name=tokens[0].text.rpartition(".")[2], options=options)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    mark: bool = False

    def is_(self, mark: str) -> bool:
        return self.mark and self.text in mark


_NOTHING = _Token("", mark=True)


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError("a quote is not closed in its line")
        place = found.end()
        if found["blank"] is None:
            quoted = found["quoted"]
            yield _Token(
                _ESCAPE.sub(_unescaped, quoted) if quoted is not None else found["word"] or found["mark"],
                mark=found["mark"] is not None,
            )


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match["octal"], 8)) if match["octal"] else _LETTERS.get(match["letter"], match["letter"])
