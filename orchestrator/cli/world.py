"""What every verb needs: the configuration, the store, and logs of clusters; made when first asked for."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import click

from orchestrator.config import Loaded, load
from orchestrator.errors import UnknownName
from state.errors import StoreUnavailable
from state.ports import Store
from state.settings import Query, Tideover
from streaming.log import Log
from streaming.secrets import Broken, reveal

_NO_STORE = "check the key store: that the database runs, and that this user may read and write it; it may be busy, too"


@dataclass(kw_only=True)
class World:
    """The composition root: the only place that names concrete adapters."""

    config: str | None
    _loaded: Loaded | None = None
    _store: Store | None = None
    _logs: dict[str, Log] = field(default_factory=dict)
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
    def store(self) -> Store:
        if self._store is None:
            from state.sql.migrate import open_store  # imported when needed: help need not wait for SQLAlchemy

            try:
                self._store = open_store(self._tell_store)
            except StoreUnavailable as error:
                raise StoreUnavailable(str(error), hint=_NO_STORE) from error
        return self._store

    def _tell_store(self) -> str:
        """The store's URL, with the password that stands in its file now."""
        try:
            return reveal(self.settings.store)
        except Broken as broken:
            raise StoreUnavailable(
                f"the store's URL cannot be had: {broken.why}", hint="write it there again"
            ) from None

    def log(self, cluster: str) -> Log:
        """The link to a cluster, shared by all threads; made when first asked for."""
        self.known_cluster(cluster)
        with self._lock:
            if cluster not in self._logs:
                from streaming.kafka.link import Link  # imported when needed

                self._logs[cluster] = Link(self.settings.clusters[cluster], name=cluster)
            return self._logs[cluster]

    def query(self, name: str) -> Query:
        """A declared query, or ``UnknownName``."""
        if name not in self.settings.queries:
            raise UnknownName(f"query {name!r} is not declared", hint=self._known("queries"))
        return self.settings.queries[name]

    def known_cluster(self, name: str) -> None:
        """``UnknownName`` unless the cluster is declared."""
        if name not in self.settings.clusters:
            raise UnknownName(f"cluster {name!r} is not declared", hint=self._known("clusters"))

    def _known(self, group: str) -> str:
        return f"declared {group}: " + (", ".join(sorted(getattr(self.settings, group))) or "none")

    def close(self) -> None:
        """Let the store and the links go."""
        for log in self._logs.values():
            close = getattr(log, "close", None)
            if close is not None:
                close()
        if self._store is not None:
            self._store.close()


pass_world = click.make_pass_decorator(World)
