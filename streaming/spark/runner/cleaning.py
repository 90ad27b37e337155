"""What a runner was ordered to clean: looked at once more, done on a thread of its own, and answered.

Of a checkpoint that its query has left, state and old log entries go. What shows the move stays, a few small files:
``metadata``, the last committed batch of both logs, the entries that a fence planted after it, and our marks. A store
that is restored from an older backup may send a runner here once more. The fence makes any start fail then, and names
its operation; in an empty folder Spark would begin the query again, at its starting offsets. Checkpoints of later moves
may lie inside the folder; nothing is touched but Spark's own names.

A mark comes first, which shows every reader that the checkpoint is no longer whole. Killed at any moment and ordered
again, it continues; ordered once more when all is done, it answers the same.
"""

import threading
from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict

from state.checkpoint_folders import belongs_to
from state.errors import StoreError, TideoverError
from state.model.entities import Desired, Event
from state.model.maintenance import CleanedFiles, FormerCheckpoint
from state.plain_text import amount
from state.settings.canonical import are_one_folder
from state.settings.checkpoint_schemes import scheme_refusal
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_fence import holder
from streaming.spark.checkpoint.read import CLEANED, is_cleaned, newest_commit
from streaming.spark.errors import LinkedElsewhere, NotFenced
from streaming.spark.hosting import Hosting, absolute, logger_about
from streaming.spark.jvm import cause_of
from streaming.spark.runner.supervisor import QuerySupervisor

_TREES = ("state", "sources")
_LOGS = ("offsets", "commits")


class _Mark(BaseModel):
    """What there was to clean when it began."""

    model_config = ConfigDict(frozen=True)

    files: int
    bytes: int


def clean(files: CheckpointFiles, checkpoint: str) -> CleanedFiles:
    """Delete what is not needed of it; what went, since the first try.

    Raises ``NotFenced`` where a start would not fail, for then the query may run from it; ``LinkedElsewhere`` where the
    folder, or one in it, is a link; and other ``CheckpointError``.
    """
    names = files.list_names(checkpoint)
    if not names:
        return CleanedFiles(0, 0)
    _refuse_links(files, checkpoint)
    if holder(files, checkpoint) is None:
        raise NotFenced(f"{checkpoint} has no fence: a query may be using it")
    entries = _old_entries(files, checkpoint)
    mark = _mark(files, checkpoint, entries)
    for tree in _TREES:
        files.delete(join(checkpoint, tree), recursive=True)
    for entry in entries:
        files.delete(entry)
    return CleanedFiles(mark.files, mark.bytes)


def _refuse_links(files: CheckpointFiles, checkpoint: str) -> None:
    for path in (checkpoint.rstrip("/"), *(join(checkpoint, name) for name in (*_TREES, *_LOGS))):
        if files.is_link(path):
            raise LinkedElsewhere(f"{path} is a link: Tideover does not delete what it points to")


def _old_entries(files: CheckpointFiles, checkpoint: str) -> list[str]:
    """Entries of both logs before the last committed batch, and what a writer left unfinished."""
    committed = newest_commit(files, checkpoint)
    first = 0 if committed is None else committed
    return [
        join(checkpoint, log, name)
        for log in _LOGS
        for name in files.list_names(join(checkpoint, log))
        if not name.isdigit() or int(name) < first
    ]


def _mark(files: CheckpointFiles, checkpoint: str, entries: list[str]) -> _Mark:
    """The mark that exists, or a new one with what is there."""
    path = join(checkpoint, CLEANED)
    if not is_cleaned(files, checkpoint):
        sizes = [size for tree in _TREES for size in files.walk(join(checkpoint, tree)).values()]
        sizes += [files.size(entry) for entry in entries]
        files.create_atomically(path, _Mark(files=len(sizes), bytes=sum(sizes)).model_dump_json().encode())
    return _Mark.model_validate_json(files.read_bytes(path))


HostedOf = Callable[[str], Sequence[QuerySupervisor]]


class CheckpointCleaner:
    """One checkpoint after the other. What hangs in a file system holds up no query, only those after it."""

    def __init__(self, hosting: Hosting, hosted_of: HostedOf) -> None:
        self._hosting = hosting
        self._hosted_of = hosted_of
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def take(self, former: Sequence[FormerCheckpoint]) -> None:
        """Begin with these, unless some are under way; an order that still counts is taken the next time."""
        if not former or self._over.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        # A daemon: what hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._clean_all, args=(former,), name="clean", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Begin no more of them; the order still counts when a process of this name is back."""
        self._over.set()

    def _clean_all(self, formers: Sequence[FormerCheckpoint]) -> None:
        for former in formers:
            if self._over.is_set():
                return
            log = logger_about({"query": former.query, "checkpoint": former.checkpoint})
            try:
                outcome = self._outcome(former)
                event = self._event(former, outcome)
                if not self._hosting.store.report_cleaned(former, outcome, event=event):
                    continue  # another runner got the order since
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
        """The controller that gave the order saw the store; here it is seen what this process runs, and what its
        configuration says.
        """
        query = former.query
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
        if any(are_one_folder(former.checkpoint, each) for each in (row.checkpoint, *here)):
            return f"{query} uses it, or did until now"
        return scheme_refusal(former.checkpoint)

    def _event(self, former: FormerCheckpoint, outcome: CleanedFiles | str) -> Event:
        where = f"{former.checkpoint}, which {former.query} left with epoch {former.left_epoch},"
        if isinstance(outcome, str):
            text, more = f"{where} was not cleaned: {outcome}", {}
        else:
            text, more = (
                f"{where} is cleaned: {amount(outcome.files, 'file')}, {outcome.bytes} bytes",
                outcome._asdict(),
            )
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
