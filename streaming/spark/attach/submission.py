"""The command line of an application with Tideover's jar and settings in it.

``spark-submit`` takes one list of jars and one list of plugins, and of several the one with the highest precedence. It
is ``--jars`` before ``--conf spark.jars`` before the files of settings, the last ``--conf`` of a key before the others.
Of the files ``--properties-file`` comes first; ``spark-defaults.conf`` counts without it, or with
``--load-spark-defaults`` (``SparkSubmitArguments`` of Spark 3.5 to 4.2). So what the user has is found by that order,
and what is ours is added to it; everything else stays as it was typed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PLUGIN = "tideover.AttachPlugin"
_FLAGS = frozenset({
    "--supervise", "--verbose", "-v", "--load-spark-defaults", "--help", "-h", "--usage-error", "--version",
})  # fmt: skip
"""Options of ``spark-submit`` that take no value (``SparkSubmitOptionParser``)."""
_CONF = frozenset({"--conf", "-c"})
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?P<key>(?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u(?P<code>.{0,4})|(?P<letter>.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


@dataclass(frozen=True, kw_only=True, slots=True)
class Typed:
    """A command line of ``spark-submit``, taken apart."""

    program: str
    options: tuple[tuple[str, ...], ...] = ()
    """In the order in which they were typed: an option with its value, or a flag alone."""
    job: tuple[str, ...] = ()
    """The application's file or jar, and its own arguments."""
    conf: Mapping[str, str] = field(default_factory=dict)

    def value(self, *names: str) -> str | None:
        """The last value of an option."""
        found = [each[1] for each in self.options if each[0] in names and len(each) > 1]
        return found[-1] if found else None

    @property
    def application(self) -> str | None:
        """The name that the command line gives; None where the code gives it."""
        return self.value("--name") or self.conf.get("spark.app.name")

    def is_cluster(self, defaults: Mapping[str, str], environment: Mapping[str, str]) -> bool:
        """Whether the driver runs on another host than the command; ``defaults``: the settings of the files."""
        named = self.value("--deploy-mode")
        settings = {**defaults, **self.conf}
        return (named or settings.get("spark.submit.deployMode") or environment.get("DEPLOY_MODE")) == "cluster"


def parse_submit(command: Sequence[str]) -> Typed:
    """Take a command line apart. Raises ``ValueError`` with a sentence."""
    if not command:
        raise ValueError("no command to start")
    options: list[tuple[str, ...]] = []
    rest = list(command[1:])
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if equals and name.startswith("--"):
            options.append((name, value))
        elif name in _FLAGS:
            options.append((name,))
        elif not rest:
            raise ValueError(f"{name} has no value")
        else:
            options.append((name + equals + value, rest.pop(0)))
    if not rest:
        raise ValueError("no application after the options: name its file or its jar")
    settings = [each[1] for each in options if each[0] in _CONF and len(each) > 1]
    conf = {key: value for key, equals, value in (each.partition("=") for each in settings) if equals}
    return Typed(program=command[0], options=tuple(options), job=tuple(rest), conf=conf)


def read_properties(text: str) -> Mapping[str, str]:
    """The settings of a file of defaults (``spark-defaults.conf``), as Spark reads it by ``java.util.Properties``.

    A line that ends with an odd number of backslashes continues on the next one, whose leading blanks do not count.
    The last line of a key counts, an empty value too. Raises ``ValueError`` with a sentence where Java would refuse the
    file.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        if match is not None:
            found[_unescaped(match["key"], number)] = _unescaped(match["value"], number).strip(" \t\f\v")
    return {key: value for key, value in found.items() if key}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines put together where they continue, without comments and blank ones, each with its number."""
    whole, begun = "", 0
    for number, line in enumerate(_LINE_ENDS.split(text), 1):
        rest = line.lstrip(_BLANKS)
        if not whole and (not rest or rest[0] in "#!"):
            continue
        begun = begun if whole else number
        continues = (len(rest) - len(rest.rstrip("\\"))) % 2 == 1
        whole += rest[:-1] if continues else rest
        if not continues:
            yield begun, whole
            whole = ""
    if whole:
        yield begun, whole


def _unescaped(text: str, number: int) -> str:
    def one(match: re.Match[str]) -> str:
        code = match["code"]
        if code is None:
            return _LETTERS.get(match["letter"], match["letter"])
        if not re.fullmatch(r"[0-9A-Fa-f]{4}", code):
            raise ValueError(f"line {number}: \\u{code} is no character: four hexadecimal digits follow \\u")
        return chr(int(code, 16))

    return _ESCAPE.sub(one, text)


def defaults_of(typed: Typed, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files of settings that ``spark-submit`` will read, as far as that is known: what the first one has counts."""
    named = typed.value("--properties-file")
    found = [] if named is None else [Path(named)]
    if named is None or ("--load-spark-defaults",) in typed.options:
        home = environment.get("SPARK_HOME")
        folder = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
        found += [Path(folder) / "spark-defaults.conf"] if folder else []
    return tuple(found)


def with_attachment(
    typed: Typed, *, jar: Path, settings: Mapping[str, str], defaults: Mapping[str, str]
) -> tuple[str, ...]:
    """The same command line, its driver attended: our jar, plugin and ``settings`` beside what the user has."""
    theirs, named = {**defaults, **typed.conf}, typed.value("--jars")
    jars = theirs.get("spark.jars", "") if named is None else named
    plugins = theirs.get("spark.plugins", "")
    ours = {**settings, "spark.plugins": _joined(plugins, PLUGIN)}
    kept = [each for each in typed.options if not _is_replaced(each, ours)]
    added = [("--jars", _joined(jars, str(jar))), *(("--conf", f"{key}={value}") for key, value in ours.items())]
    return (typed.program, *(word for each in (*kept, *added) for word in each), *typed.job)


def _joined(listed: str, ours: str) -> str:
    names = [name for name in (each.strip() for each in listed.split(",")) if name]
    return ",".join(names if ours in names else [*names, ours])


def _is_replaced(option: tuple[str, ...], ours: Mapping[str, str]) -> bool:
    return option[0] == "--jars" or (option[0] in _CONF and option[-1].partition("=")[0] in ours)
