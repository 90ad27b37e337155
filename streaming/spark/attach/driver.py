"""The driver of an application that is not ours, as far as a runner needs it: its JVM, its context and its queries.

The plugin in that driver (``AttachPlugin.java``) starts this process and hands over the port and the secret of a door
in the environment. No ``SparkContext`` of pyspark's is made: that would register things of ours in the application.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.process import Identity, boot_id, host_name, started_at
from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.errors import SparkMissing
from streaming.spark.jvm import JavaObject, joined_view
from streaming.spark.masters.yarn import attempt_of

DRIVER = "TIDEOVER_DRIVER_PID"
_DOOR, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""Spark's own names for them."""
_CONTEXT_SECONDS = 60.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """As what a query runs that was admitted before this process began."""

    epoch: int
    follower: str
    cluster: str
    placed: int
    """The epoch of the move by which it came to its cluster."""


class ApplicationDriver:
    """The plugin's side of the door."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Raises ``SparkMissing`` where no application has started this process, or it has ended since."""
        if not all(environment.get(each, "").isdigit() for each in (_DOOR, DRIVER)) or _SECRET not in environment:
            raise SparkMissing(
                "no application has started this process",
                hint="tideover attend is started by tideover.AttachPlugin in the driver of an application: "
                "docs/adopt.md says how",
            )
        self.pid = int(environment[DRIVER])
        self._pid_started = started_at(self.pid)
        self._jvm: JavaObject = joined_view(
            int(environment[_DOOR]), environment[_SECRET],
            is_pinned=environment.get("PYSPARK_PIN_THREAD", "true").lower() == "true",
        )  # fmt: skip
        self._attached: JavaObject = self._jvm.tideover.Attached
        self.session = self._joined()

    def _joined(self) -> SparkSession:
        """What the runner's modules want of a session: the view of the JVM, the context, one setting."""
        deadline = time.monotonic() + _CONTEXT_SECONDS
        try:
            while (context := self._attached.context()) is None:
                if time.monotonic() >= deadline or self.has_ended():
                    raise SparkMissing("the application did not begin")
                time.sleep(_LOOK_SECONDS)
            settings = {MANAGER: str(context.conf().get(MANAGER, ""))}
            spark = SimpleNamespace(
                _jvm=self._jvm,
                _jsc=SimpleNamespace(sc=lambda: context),
                master=str(context.master()),
                applicationId=_application_id(context),
            )
            named = SimpleNamespace(get=lambda key, default=None: settings.get(key, default))
            joined = SimpleNamespace(sparkContext=spark, conf=named, version=str(context.version()))
        except Py4JError as error:
            raise SparkMissing(f"the application does not answer: {error}") from None
        return cast("SparkSession", joined)

    @property
    def identity(self) -> Identity:
        """The driver, not this process: what counts is whether the queries' JVM is gone."""
        return Identity(host=host_name(), boot_id=boot_id(), pid=self.pid, pid_started=self._pid_started or 0)

    def has_ended(self) -> bool:
        """Whether the driver's process is gone."""
        return self._pid_started is None or started_at(self.pid) != self._pid_started

    def is_closing(self) -> bool:
        """Whether the application ends. Raises py4j's errors."""
        return bool(self._attached.isClosing())

    def key(self, checkpoint: str) -> str:
        """One name for a checkpoint's folder, however it is written. Raises py4j's errors."""
        return str(self._attached.key(checkpoint))

    def requests(self) -> list[str]:
        """The keys of the checkpoints for which a start waits. Raises py4j's errors."""
        return str(self._attached.requests()).splitlines()

    def batches(self) -> int:
        """The number of the newest batch that waits for ``declare``; 0: none waits. Raises py4j's errors."""
        return int(self._attached.batches())

    def declare(self, queries: Sequence[Mapping[str, object]], answers: int = 0) -> None:
        """Publish what the application's queries declare beside their sources. Raises py4j's errors.

        ``answers``: the batch of ``batches`` that this answers, with all before it.
        """
        self._attached.declare(json.dumps(queries), answers)

    def show(self, queries: Sequence[Mapping[str, str]]) -> None:
        """Publish what the tab in Spark's UI shows of each query. Raises py4j's errors."""
        self._attached.show(json.dumps(queries))

    def admit(self, key: str, answer: Mapping[str, object]) -> None:
        """Admit a start: its query is ours."""
        self._attached.answer(key, json.dumps({"ours": True, **answer}))

    def leave_alone(self, key: str) -> None:
        """Let a start continue as its application says: its query is not ours."""
        self._attached.answer(key, json.dumps({"ours": False}))

    def refuse(self, key: str, why: str) -> None:
        """Let a start fail with a sentence."""
        self._attached.answer(key, json.dumps({"refused": why}))

    def delay(self, key: str, why: str) -> None:
        """Let a start wait on, and say why in the application's log."""
        self._attached.delay(key, why)

    def query(self, key: str) -> StreamingQuery | None:
        """The query that runs on a checkpoint."""
        found = self._attached.query(key)
        return None if found is None else StreamingQuery(found)

    def is_plain(self, key: str) -> bool:
        """Whether the query of a checkpoint runs without an admission."""
        return bool(self._attached.isPlain(key))

    def running(self, key: str) -> RunningQuery | None:
        """As what the query of a checkpoint was admitted that runs; None where none does."""
        running = None if self.query(key) is None else self._attached.running(key)
        if running is None:
            return None
        known = json.loads(str(running))
        return RunningQuery(int(known["epoch"]), known["follower"], known["cluster"], int(known["placed"]))

    def condemn(self, code: int, why: str) -> None:
        """However the application ends from now on, its exit code is this one. Raises py4j's errors."""
        self._attached.condemn(code, why)

    def exit(self) -> None:
        """End the application. Raises py4j's errors."""
        self._attached.exit()


def _application_id(context: JavaObject) -> str:
    """The application's id; in YARN's cluster mode that of its attempt, for each attempt is a driver of its own.

    Raises py4j's errors.
    """
    application, attempt = str(context.applicationId()), context.applicationAttemptId()
    return attempt_of(application, str(attempt.get())) if attempt.isDefined() else application
