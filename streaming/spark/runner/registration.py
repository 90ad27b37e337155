"""A runner's name: one process has it at a time, and loses it only to proof.

A silent heartbeat proves nothing: a host that is merely cut off from the store continues its batches, and a second
driver on the same checkpoint would write them again. So the name stays with the process that registered it until that
gives it back. It is free, too, once the process is seen to be gone from the process table of its own host. The cluster
manager that ran it can prove its end as well, and a person can confirm it.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from state.model.entities import Event, RunnerFact
from state.settings.keys import Spark
from state.store.runner_store import RunnerStore
from streaming.process import Identity, end_orphans, is_gone, orphans
from streaming.spark.errors import NameTaken
from streaming.spark.hosting import Hosting, logger_about
from streaming.spark.masters.ending import Ending
from streaming.spark.masters.proof import driver_ended

STALE_AFTER = timedelta(seconds=10)
"""A heartbeat younger than this shows a live process, whatever a person says."""
_ORPHAN_SECONDS = 5.0
_NEIGHBOUR_SECONDS = 0.5
"""So long, and no longer, our own heartbeat waits for the JVM of a dead neighbour to end."""
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class NameTakeover:
    """A person's word that the process which has a runner's name has ended."""

    actor: str
    reason: str


def clear_name(
    store: RunnerStore, runner: str, here: Identity, consent: NameTakeover | None = None, spark: Spark | None = None
) -> RunnerFact | None:
    """Make room under a name before Spark is started for it, and return the registration that had it, if any.

    A dead process of this host leaves its JVM behind for a moment: that is killed, so that no batch of it runs beside
    ours. On another host the cluster manager of ``spark`` proves the end of a driver that it runs. Else a consent is
    recorded in the history and then believed, unless the heart still beats. Raises ``NameTaken`` and ``StoreError``.
    """
    other = next((fact for fact in store.runners() if fact.runner == runner), None)
    if other is None:
        return None
    gone = is_gone(other, here)
    if gone and not _has_no_jvm(other, here, _ORPHAN_SECONDS):
        raise NameTaken(
            f"runner {runner} has ended, but the JVM that it launched on {other.host} cannot be killed",
            hint="end that process first: it may still write",
        )
    ending = driver_ended(spark, other) if gone is None and spark is not None else Ending(False, "")
    if ending.is_proven:
        logger_about({"runner": runner}).info("earlier driver has ended", instance=other.instance, proof=ending.detail)
    elif not gone:
        now = store.now()
        if gone is not None or consent is None or abs(now - other.seen_at) < STALE_AFTER:
            raise _taken(other, now, alive=gone is False, seen=ending.detail)
        store.note(_taken_over(other, consent, now))
    store.unregister(other.runner, other.instance)
    return other


class Registration:
    """This process under its name."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._started_at = hosting.now()
        self._held_since: datetime | None = None
        """When the store first took this process under its name, by the store's own clock."""
        self._warm = False
        self._plans: dict[str, str] = {}
        self._log = logger_about({"runner": hosting.runner})

    def renew(self) -> None:
        """Register, or beat the heart. Raises ``NameTaken`` when another instance has the name, and ``StoreError``.

        A registration that was last seen before this process had the name is of an older store, which was restored: who
        takes a name away is seen after that. It goes, and the queries here run on.
        """
        store = self._hosting.store
        standing = store.register(self._fact())
        if standing is not None and self._held_since is not None and standing.seen_at < self._held_since:
            store.unregister(standing.runner, standing.instance)
            self._log.warning("the store was restored from an older backup", registered=standing.instance)
            standing = store.register(self._fact())
        if standing is not None:
            alive = is_gone(standing, self._hosting.here) is False
            raise _taken(standing, store.now(), alive=alive)
        self._held_since = self._held_since or store.now()

    def clear_dead(self) -> None:
        """Take their names from dead processes of this host, so that a move gives its orders to a living runner at
        once.

        A heartbeat passes for fresh for seconds after the process that made it; its neighbours need not wait for that.
        One with executors elsewhere keeps its name: whether they have ended is for a fence to find out. Raises
        ``StoreError``.
        """
        here = self._hosting.here
        for fact in self._hosting.store.runners():
            local = fact.instance != self._hosting.instance and fact.spark_master.startswith("local")
            if local and is_gone(fact, here) and _has_no_jvm(fact, here, _NEIGHBOUR_SECONDS):
                self._hosting.store.unregister(fact.runner, fact.instance)
                self._log.info("runner is gone", gone=fact.runner, pid=fact.pid, last_seen=fact.seen_at.isoformat())

    def give_back(self) -> None:
        """Leave the name to the next. Raises ``StoreError``."""
        self._hosting.store.unregister(self._hosting.runner, self._hosting.instance)

    def set_warm(self) -> None:
        """A throw-away query has been through this JVM; reported with the next heartbeat."""
        self._warm = True

    def set_plan(self, query: str, trouble: str) -> None:
        """The plan of a query was built and run here; reported likewise."""
        self._plans = self._plans | {query: trouble}

    def _fact(self) -> RunnerFact:
        hosting, here = self._hosting, self._hosting.here
        return RunnerFact(
            runner=hosting.runner,
            instance=hosting.instance,
            site=hosting.settings.runners[hosting.runner].site,
            host=here.host,
            boot_id=here.boot_id,
            pid=here.pid,
            pid_started=here.pid_started,
            spark_master=hosting.spark_master,
            application_id=hosting.application_id,
            pod=hosting.pod,
            companion=hosting.companion,
            companion_missing=hosting.companion_missing,
            warm=self._warm,
            plans=self._plans,
            started_at=self._started_at,
            seen_at=hosting.now(),
        )


def _has_no_jvm(dead: RunnerFact, here: Identity, seconds: float) -> bool:
    """Kill what a dead process of this host launched; whether it is gone within so long."""
    if dead.boot_id != here.boot_id:
        return True
    deadline = time.monotonic() + seconds
    end_orphans(dead.instance)
    while orphans(dead.instance):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _taken(other: RunnerFact, now: datetime, *, alive: bool, seen: str = "") -> NameTaken:
    silent = abs(now - other.seen_at)  # a time to come was written by a clock that was set back since
    who = f"pid {other.pid} on {other.host}, last seen {other.seen_at:%Y-%m-%d %H:%M:%S} UTC"
    if alive or silent < STALE_AFTER:
        return NameTaken(
            f"runner {other.runner} is already running as {who}",
            hint="end that process first, or run this one under another name",
        )
    return NameTaken(
        f"runner {other.runner} may still be running as {who}, {silent.total_seconds():.0f} s ago: "
        f"its host cannot be checked from here{seen and '; '}{seen}",
        hint="start it on that host, or end it there; if you know that it has ended: "
        f'tideover take-over {other.runner} --reason "why", then start it here',
    )


def _taken_over(other: RunnerFact, consent: NameTakeover, now: datetime) -> Event:
    return Event(
        sequence=None,
        at=now,
        kind="take-over",
        query=None,
        operation=None,
        epoch=None,
        actor=consent.actor,
        text=f"{consent.actor} confirms that the process named {other.runner}, pid {other.pid} on {other.host}, "
        f"has ended: {consent.reason}",
        detail={
            "runner": other.runner,
            "instance": other.instance,
            "host": other.host,
            "boot_id": other.boot_id,
            "pid": other.pid,
            "seen_at": other.seen_at.isoformat(),
            "reason": consent.reason,
        },
    )
