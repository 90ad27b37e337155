"""A runner's name: one live process has it at a time, a dead one loses it at once.

The store's heartbeat alone would make a killed runner's successor wait until it is stale; on the same host the process
table knows better. It also knows of a frozen process, whose heartbeat is stale although it may thaw any moment.
"""

from datetime import timedelta

from state.model import RunnerFact
from state.ports import Store
from streaming.spark.hosting import Hosting
from streaming.spark.identity import Identity, end_orphans, is_gone
from streaming.spark.run_errors import NameTaken

STALE_AFTER = timedelta(seconds=10)


def clear_name(store: Store, runner: str, here: Identity) -> int | None:
    """Make room under a name before Spark is started for it, and return the pid of the dead process that had it.

    What the dead process left running of its JVM is killed, so that no batch of it goes on beside ours. Raises
    ``NameTaken`` and ``StoreError``.
    """
    other = next((fact for fact in store.runners() if fact.runner == runner), None)
    if other is None:
        return None
    gone = is_gone(other, here)
    if gone is False and (other.pid, other.pid_started) != (here.pid, here.pid_started):
        raise _taken(other)
    if not gone:
        return None
    if other.boot_id == here.boot_id:
        end_orphans(other.instance)
    store.unregister(other.runner, other.instance)
    return other.pid


class Registration:
    """This process under its name."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._master = str(hosting.session.sparkContext.master)
        self._application = str(hosting.session.sparkContext.applicationId)
        self._started_at = hosting.now()
        self._warm = False

    def renew(self) -> None:
        """Register, or beat the heart. Raises ``NameTaken`` when another live instance stands, and ``StoreError``."""
        standing = self._hosting.store.register(self._fact(), stale_after=STALE_AFTER)
        if standing is not None:
            raise _taken(standing)

    def give_back(self) -> None:
        """Leave the name to the next. Raises ``StoreError``."""
        self._hosting.store.unregister(self._hosting.runner, self._hosting.instance)

    def set_warm(self) -> None:
        """A throw-away query has been through this JVM; told with the next heartbeat."""
        self._warm = True

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
            spark_master=self._master,
            application_id=self._application,
            warm=self._warm,
            started_at=self._started_at,
            seen_at=hosting.now(),
        )


def _taken(other: RunnerFact) -> NameTaken:
    return NameTaken(
        f"runner {other.runner} is already running as pid {other.pid} on {other.host}, "
        f"last seen {other.seen_at:%H:%M:%S} UTC",
        hint="end that process first, or run this one under another name",
    )
