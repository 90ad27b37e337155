"""What every verb needs: the configuration, the store, and logs of clusters; made when first needed.

Flags that several verbs share, in one wording. And the person at the terminal: who it is, whether one is there, and
what to confirm before something is changed. What was begun and not answered ends with exit code 3, not 2, since the
store may have kept it.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from orchestrator.config.load import Loaded, load, names
from orchestrator.config.masks import without_password
from orchestrator.decide.times import parse_time
from orchestrator.errors import ConfigError, UnknownName, UsageError
from state.errors import StoreUnavailable
from state.plain_text import LONGEST, plain
from state.settings.keys import Controller, Query, Tideover
from state.settings.topics import Chains, chains_of
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore
from streaming.cluster_log import ClusterLog
from streaming.probe.identities import Identities
from streaming.secrets import Broken, reveal

if TYPE_CHECKING:
    from state.store.remote.remote_store import RemoteStore
    from streaming.kafka.link import Links
import getpass
import os
import socket
import sys

from orchestrator.errors import OutcomeUnknown, Refused

_NO_STORE = (
    "check the key store in the configuration, that the database runs and is not overloaded, "
    "and that this user may read and write it"
)


@dataclass(kw_only=True)
class Context:
    """The composition root: the only place that names concrete adapters."""

    config: str | None
    _loaded: Loaded | None = None
    _store: ControllerStore | None = None
    _runner_store: "RemoteStore | None" = None
    _identities: Identities | None = None
    _links: "Links | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def loaded(self) -> Loaded:
        if self._loaded is None:
            self._loaded = load(self.config)
        return self._loaded

    @property
    def settings(self) -> Tideover:
        return self.loaded.settings

    @property
    def base(self) -> Path:
        """The folder of the configuration file."""
        return self.loaded.path.parent

    @property
    def identities(self) -> Identities:
        """What the links call: ids as configured, and as pinned in the store once that was opened."""
        if self._identities is None:
            self._identities = Identities(self.settings)
        return self._identities

    @property
    def store(self) -> ControllerStore:
        if self._store is None:
            from state.store.sql.migrate import open_store  # imported when needed: help need not wait for SQLAlchemy

            with self.reaching_store():
                self._store = open_store(self.store_url)
                self.identities.learn(self._store)
        return self._store

    @contextmanager
    def reaching_store(self) -> Iterator[None]:
        """Around the first call of a store: where it fails, the configuration may be what is wrong."""
        try:
            yield
        except StoreUnavailable as error:
            raise StoreUnavailable(str(error), hint=_NO_STORE) from error

    @property
    def runner_store(self) -> RunnerStore:
        """The store as a runner needs it: the store itself, or behind a controller. Raises ``StoreError``."""
        known = self.settings.controller
        if known is None:
            return self.store
        if self._runner_store is None:
            from state.store.remote.remote_store import open_remote_store  # imported when needed, as the other one

            self._runner_store = open_remote_store(
                known.urls, partial(_token_of, known), ca=known.ca, cert=known.cert, key=known.key
            )
        return self._runner_store

    def store_url(self) -> str:
        """The store's URL, with the password that its file holds now. Raises ``ConfigError`` where there is none."""
        if self.settings.controller is not None:
            raise ConfigError(
                "this configuration has no store: it is for a runner or an application, by the key controller",
                hint="type the command with the configuration of a controller",
            )
        try:
            return reveal(self.settings.store)
        except Broken as broken:
            raise StoreUnavailable(
                f"the store's URL cannot be read: {broken.why}", hint="write the URL there again"
            ) from None

    @property
    def store_name(self) -> str:
        """The store's URL without its password."""
        return without_password(self.store_url())

    def log(self, cluster: str) -> ClusterLog:
        """The link to a cluster, shared by all threads; made when first needed. Raises ``ClusterUndeclared``."""
        with self._lock:
            if self._links is None:
                from streaming.kafka.link import Links  # imported when needed: it loads kafka-python

                self._links = Links(self.settings, self.identities)
        return self._links(cluster)

    def query(self, name: str) -> Query:
        """A declared query, or ``UnknownName``."""
        if name not in self.settings.queries:
            raise UnknownName(f"query {name!r} is not declared", hint=self._known("queries", name))
        return self.settings.queries[name]

    @cached_property
    def chains(self) -> Chains:
        """Which queries are upstream of which."""
        return chains_of(self.settings)

    def known_cluster(self, name: str) -> None:
        """``UnknownName`` unless the cluster is declared."""
        if name not in self.settings.clusters:
            raise UnknownName(f"cluster {name!r} is not declared", hint=self._known("clusters", name))

    def _known(self, group: str, typed: str) -> str:
        declared = sorted(getattr(self.settings, group))
        return f"declared {group}: {', '.join(declared) or 'none'}{did_you_mean(typed, declared)}"

    def close(self) -> None:
        """Let the store and the links go."""
        if self._links is not None:
            self._links.close()
        if self._store is not None:
            self._store.close()
        if self._runner_store is not None:
            self._runner_store.close()


def _token_of(known: Controller) -> str:
    try:
        return reveal(known.token)
    except Broken as broken:
        raise StoreUnavailable(
            f"the token of the controller cannot be read: {broken.why}", hint="write the token there again"
        ) from None


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """``; did you mean ...?`` where a known name is close to what was typed, else nothing."""
    close = get_close_matches(typed, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


pass_context = click.make_pass_decorator(Context)


Command = TypeVar("Command", bound=Callable[..., Any])


def gathered(name: str, form: type) -> Callable[[Command], Command]:
    """Give a command one value of this dataclass as ``name``, instead of the options that its fields are named after.

    Options that the command lacks have the default of their field.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def gathering(*args: Any, **options: Any) -> Any:
            value = form(**{each.name: options.pop(each.name) for each in fields(form) if each.name in options})
            return command(*args, **{name: value}, **options)

        return cast(Command, gathering)

    return decorate


def _names(group: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What the shell offers for an argument: the names that the configuration declares in one group."""

    def begun(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        given = ctx.find_root().params.get("config")
        return [name for name in names(group, given) if name.startswith(incomplete)]

    return begun


complete_query, complete_cluster, complete_runner = _names("queries"), _names("clusters"), _names("runners")


class Seconds(click.FloatRange):
    """A length of time to wait. Nothing is before or after ``nan``: a wait for it would never end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


output: Callable[[Command], Command] = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml", "tsv"]),
    default="table",
    show_default=True,
    help="table fits the terminal, wide shows every column; the others are for programs.",
)


class PersonText(click.ParamType[str]):
    """A sentence of a person, cleaned as the API cleans it."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = plain(str(value))
        if len(text) > LONGEST:
            self.fail(f"the text has {len(text)} letters, and {LONGEST} are the most", param, ctx)
        return text


reason: Callable[[Command], Command] = click.option(
    "--reason", default="", metavar="TEXT", type=PersonText(), help="Why you do this. Saved in the history."
)


log: Callable[[Command], Command] = click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="TIDEOVER_LOG",
    show_envvar=True,
    help="Log format on stderr: lines for people, or one JSON object per line.",
)


def parsed_time(ctx: Context, text: str) -> int:
    """Milliseconds since the epoch; what counts back from now does so by the store's clock. Raises ``UsageError``."""
    try:
        return parse_time(text, ctx.store.now())
    except ValueError as error:
        raise UsageError(str(error)) from None


_NO_ANSWER = "the question was not answered: nothing was changed"


def this_person() -> str:
    """``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid-{os.getuid()}"
    return plain(f"{user}@{socket.gethostname()}")


def is_attended() -> bool:
    """Whether a person can answer a question; not where stdin is closed."""
    return sys.stdin is not None and sys.stdin.isatty()


def require_person(*, hint: str) -> None:
    """Return where a person can answer a question. Raises ``UsageError``."""
    if not is_attended():
        raise UsageError("without a terminal, this command needs --yes", hint=hint)


def confirm(question: str) -> None:
    """Return when the answer is yes. Raises ``Refused``."""
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort:
        raise Refused(_NO_ANSWER) from None
    raise Refused("you answered no: nothing was changed")


def confirm_by_typing(word: str, question: str) -> None:
    """Return when the person types the word, so that it is not given in passing. Raises ``Refused``."""
    try:
        typed = click.prompt(f"{question} Type {word!r} to accept", err=True)
    except click.Abort:
        raise Refused(_NO_ANSWER) from None
    if typed != word:
        raise Refused(f"you did not type {word!r}: nothing was changed")


@contextmanager
def unknown_if_lost(begun: str, *, hint: str) -> Iterator[None]:
    """Around a write and what is read after it. Raises ``OutcomeUnknown`` when the store is lost in it.

    Not for questions before it: a store that was away then has got nothing, which is a failure like any other.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise OutcomeUnknown(
            f"the store went away: {begun} may or may not have been saved: {error}", hint=hint
        ) from error
