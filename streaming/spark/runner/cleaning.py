"""What a runner was asked to clean: looked at once more, done on a thread of its own, and answered."""

import threading
from collections.abc import Callable, Sequence

from state.errors import StoreError, TideoverError
from state.model.checkpoint_folders import belongs_to, plain_path
from state.model.entities import Desired, Event
from state.model.maintenance import CleanedFiles, FormerCheckpoint
from state.settings.values import scheme_refusal
from streaming.spark.checkpoint.former import clean
from streaming.spark.query.jvm import cause_of
from streaming.spark.runner.hosting import Hosting, absolute
from streaming.spark.runner.query_report import logger_about
from streaming.spark.runner.supervisor import QuerySupervisor

HostedOf = Callable[[str], Sequence[QuerySupervisor]]


class CheckpointCleaner:
    """One checkpoint after the other. What hangs in a file system holds up no query, only those after it."""

    def __init__(self, hosting: Hosting, hosted_of: HostedOf) -> None:
        self._hosting = hosting
        self._hosted_of = hosted_of
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def take(self, asked: Sequence[FormerCheckpoint]) -> None:
        """Begin with these, unless some are under way; whatever is asked still is taken the next time."""
        if not asked or self._over.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        # A daemon: what hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._clean_all, args=(asked,), name="clean", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Begin no more of them; who was asked is asked still when a process of this name is back."""
        self._over.set()

    def _clean_all(self, asked: Sequence[FormerCheckpoint]) -> None:
        for former in asked:
            if self._over.is_set():
                return
            log = logger_about({"query": former.query, "checkpoint": former.checkpoint})
            try:
                outcome = self._outcome(former)
                event = self._event(former, outcome)
                if not self._hosting.store.report_cleaned(former, outcome, event=event):
                    continue  # another runner was asked meanwhile
                if isinstance(outcome, str):
                    log.warning("checkpoint not cleaned", why=outcome)
                else:
                    log.info("checkpoint cleaned", **outcome._asdict())
            except StoreError as error:
                log.warning("not reported yet", error=str(error))
                return

    def _outcome(self, former: FormerCheckpoint) -> CleanedFiles | str:
        """What went, or why nothing did. Raises ``StoreError``."""
        refused = self._refusal(former)
        if refused is not None:
            return refused
        try:
            return clean(self._hosting.files, former.checkpoint)
        except TideoverError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - a thread's edge: Spark and py4j raise what they like
            return cause_of(error)

    def _refusal(self, former: FormerCheckpoint) -> str | None:
        """Whoever asked saw the store; here it is seen what this process runs, and what its configuration says."""
        query, path = former.query, plain_path(former.checkpoint)
        declared = self._hosting.settings.queries.get(query)
        if declared is None:
            return f"query {query} is not in this runner's configuration"
        base = absolute(declared.checkpoint, self._hosting.base)
        if not belongs_to(former.checkpoint, base):
            return f"it is outside {base}"
        row = self._hosting.store.assignment(query)
        if row is None or row.desired is not Desired.RUNNING:
            return f"{query} is held or has no assignment"
        here = [each.subject.checkpoint for each in self._hosted_of(query)]
        if path in {plain_path(each) for each in (row.checkpoint, *here)}:
            return f"{query} uses it, or did until now"
        return scheme_refusal(former.checkpoint)

    def _event(self, former: FormerCheckpoint, outcome: CleanedFiles | str) -> Event:
        where = f"{former.checkpoint}, which {former.query} left with epoch {former.left_epoch},"
        if isinstance(outcome, str):
            text, more = f"{where} was not cleaned: {outcome}", {}
        else:
            text, more = f"{where} is cleaned: {outcome.files} files, {outcome.bytes} bytes", outcome._asdict()
        return Event(
            sequence=None,
            at=self._hosting.now(),
            kind="cleaned" if more else "not-cleaned",
            query=former.query,
            operation=None,
            epoch=former.left_epoch,
            actor=f"runner {self._hosting.runner}",
            text=text,
            detail={"checkpoint": former.checkpoint, **more},
        )
