"""Whether a secret is where others may read it: the secured environment is searched for them.

Those of the clusters are read from the volume that they were made in, the store's from the variable that names it. What
a container is to look for comes to it on standard input, and what comes back from there is kept in no log. A search
that finds nothing proves something only if it finds what is there. These are each secret where it is from, and in every
place a word that must stand in it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chaos import secret_scanner
from chaos.docker import Environment
from chaos.errors import DockerFailed, ScenarioFailed
from chaos.faults import WORKERS
from chaos.scenario_outcome import Outcome
from chaos.watcher import TOOLS

STORE_PASSWORD = "STORE_PASSWORD"
"""The variable of the compose files for the other secret, which has to be one if it is to be searched for."""

_MADE = "/var/lib/lab/secrets"
_STORE = "the store's password"
_ADDRESS = ("printenv", "TIDEOVER_STORE")
_PASSWORD, _KEY = ".password", ".key"
_SHORTEST = 16
"""Characters: a text shorter than this is found by chance."""
_SHARED, _IN_SHARED = "/var/lib/tideover", "/offsets/"
"""What drivers and executors share; a checkpoint is among it."""
_WORK, _IN_WORK = "/tmp/work", "/stderr"
"""Where a Spark worker keeps what its executors say."""
_SAID = {"secrets": "credentials of ", "west-1": "KafkaRaftServer", "runner-a": "warm"}
"""What the log of a service must say, where that is known."""
_ARGUMENTS = ("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null || true")  # one that ends during the search is no error
_SHOW = ("sh", "-c", "tideover config show 2>&1")
_DUMP = ("pg_dump", "--no-password", "--username", "tideover", "--dbname", "tideover")
_DUMPED = "COPY public.assignments "
_SECONDS = 240.0
"""For one question: a dozen JVMs on two cores leave little for it."""


@dataclass(frozen=True)
class Place:
    """Something that was read, to be searched here."""

    name: str
    text: bytes
    known: str = ""
    """What must stand there, else it was not read."""


def searched(outcome: Outcome, environment: Environment, log: Path) -> Outcome:
    """The outcome with every place in which a secret was found, or why that cannot be known.

    ``log`` is what the environment keeps of all commands and their answers.
    """
    leaks = []
    try:
        for leak in search(environment, log):
            leaks.append(leak)  # noqa: PERF402  what was found before the search failed counts as well
    except (ScenarioFailed, DockerFailed) as error:
        leaks.append(f"not everything could be searched for secrets: {error}")
    return replace(outcome, leaks=tuple(leaks))


def search(environment: Environment, log: Path) -> Iterator[str]:
    """Look everywhere; a sentence for each place in which a secret is, without the secret.

    Raises StoryFailed when the search could not have found one, and DockerFailed.
    """
    environment.thaw()  # a frozen container answers nothing
    files: dict[str, str] = json.loads(_sift(environment, TOOLS, "gather", _MADE, _PASSWORD, _KEY))
    address = environment.run_in(TOOLS, *_ADDRESS, timeout=_SECONDS).decode().strip()
    secrets = secrets_of({**files, _STORE: urlsplit(address).password or ""})
    yield from leaks_in(secrets, {**files, _STORE: address}, _places(environment, log))
    yield from _leaks_in_folders(secrets, files, environment)


def secrets_of(files: Mapping[str, str]) -> dict[str, str]:
    """By the name of what it is from: a password, or of a private key in PEM the first line. Raises StoryFailed."""
    found = {}
    for name, text in files.items():
        lines = [line for line in text.splitlines() if line and not line.startswith("-----")]
        if not lines or len(lines[0]) < _SHORTEST:
            raise ScenarioFailed(f"{name} contains no secret to search for")
        found[name] = lines[0]
    for suffix in (_PASSWORD, _KEY):
        if not any(name.endswith(suffix) for name in found):
            raise ScenarioFailed(f"no file *{suffix} was made, so there is nothing to search for")
    return found


def leaks_in(secrets: Mapping[str, str], files: Mapping[str, str], places: Iterable[Place]) -> Iterator[str]:
    """Which secret is in which place. Raises StoryFailed when a place is not what it should be.

    ``files`` are the texts that the secrets are from, to show that they can be found.
    """
    for name, secret in secrets.items():
        if not _holds(secret, files[name].encode()):
            raise ScenarioFailed(f"the search does not find {name} in its own source")
    for place in places:
        if place.known.encode() not in place.text:
            raise ScenarioFailed(f"{place.name} was not read: it does not contain {place.known!r}")
        yield from (
            f"{name} was found in {place.name}" for name, secret in secrets.items() if _holds(secret, place.text)
        )


def leaks_in_folder(folder: str, service: str, known: str, reported: Mapping[str, Sequence[Any]]) -> list[str]:
    """The same of what was searched in a container. Raises StoryFailed when it did not look into the files at stake."""
    where = f"{folder} of {service}"
    if reported["unread"]:
        raise ScenarioFailed(
            f"{len(reported['unread'])} files in {where} could not be read, {reported['unread'][0]} for one"
        )
    if not any(known in path for path in reported["read"] if path.startswith(f"{folder}/")):
        raise ScenarioFailed(f"{where} was not read: there is no file *{known}* among {len(reported['read'])}")
    return [
        f"{name} was found in {path} of {service}" for path, name in reported["hits"] if path.startswith(f"{folder}/")
    ]


def _holds(secret: str, text: bytes) -> bool:
    """Also as hexadecimal digits, in which a dump of the store has binary columns."""
    return secret.encode() in text or secret.encode().hex().encode() in text


def _places(environment: Environment, log: Path) -> Iterator[Place]:
    for service in sorted({*environment.services()} | {*_SAID}):
        yield Place(f"the log of {service}", environment.log_of(service).encode(), _SAID.get(service, ""))
    for service in environment.running():
        try:
            arguments = environment.run_in(service, *_ARGUMENTS, timeout=_SECONDS)
        except DockerFailed:
            if service in environment.running():
                raise
            continue  # it has ended, and its processes with it
        yield Place(f"the arguments of a process in {service}", arguments, "cmdline")  # for one: of this question
    yield Place("what `config show` says", environment.run_in(TOOLS, *_SHOW, timeout=_SECONDS), "SASL_SSL")
    yield Place("the store", environment.run_in("postgres", *_DUMP, timeout=_SECONDS), _DUMPED)
    yield Place("what verbs said", log.read_bytes(), "tideover list")


def _leaks_in_folders(secrets: Mapping[str, str], files: Iterable[str], environment: Environment) -> Iterator[str]:
    given = json.dumps(secrets)
    reported = json.loads(_sift(environment, TOOLS, "look", _SHARED, _MADE, given=given))
    for name in files:
        if [f"{_MADE}/{name}", name] not in reported["hits"]:
            raise ScenarioFailed(f"the search in {TOOLS} does not find {name} in its own file")
    yield from leaks_in_folder(_SHARED, TOOLS, _IN_SHARED, reported)
    workers = sorted({*environment.running()} & {*WORKERS})
    each = [json.loads(_sift(environment, worker, "look", _WORK, given=given)) for worker in workers]
    both = {key: [found for reported in each for found in reported[key]] for key in ("read", "unread", "hits")}
    yield from leaks_in_folder(_WORK, " or ".join(WORKERS), _IN_WORK, both)  # one that was restarted may have none


def _sift(environment: Environment, service: str, *words: str, given: str = "") -> bytes:
    text = Path(secret_scanner.__file__).read_text(encoding="utf-8")
    return environment.run_in(service, "python", "-c", text, *words, given=given, timeout=_SECONDS)
