"""Runs the table on one commit, publishes what is whole, and goes on where it was interrupted on the same commit."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from reports import index, stamp
from reports.attempt_log import Attempt, AttemptLog
from reports.entries import Entry
from reports.errors import DirtyTree, NotStamped
from reports.origin import ROOT, Origin, origin, unchanged

Execute = Callable[[Entry, Path, int | None], int]
"""Makes one report in a folder, with this many stories; returns the exit code of its command."""
Say = Callable[[str], None]
_GRACE_SECONDS = 120.0


def run(root: Path, entries: Sequence[Entry], stories: int | None, *, execute: Execute, say: Say) -> int:
    """Make each report that is not done on this commit, publish it, and write the index; 1 where one failed.

    Raises DirtyTree and NoCommit before anything is run, and DirtyTree where files change meanwhile.
    """
    on = origin(root, draft=False)
    folder = on.folder(root)
    journal = AttemptLog(folder)
    problems = []
    for entry in entries:
        told = entry.told(stories)
        if journal.is_done(entry.name, told):
            say(f"{entry.name}: done on this commit before")
        else:
            say(f"{entry.name}: about {entry.minutes} minutes on two cores; log: {_log(entry)} in {folder}")
            attempt = _make(root, on, entry, told, journal, execute)
            say(f"{entry.name}: {attempt.problem or 'done'} ({attempt.seconds:.0f} s)")
            problems += [attempt.problem] if attempt.problem else []
        if unfit(entry, folder / entry.page, on, told) is None:
            _publish(root, folder / entry.page, journal.failures(entry.name))
    index.write(root)
    return 1 if problems else 0


def _make(root: Path, on: Origin, entry: Entry, told: int | None, journal: AttemptLog, execute: Execute) -> Attempt:
    """Run one report; it is in the journal before it begins."""
    folder = on.folder(root)
    attempt = Attempt(report=entry.name, stories=told, begun=datetime.now(UTC).isoformat())
    journal.write(attempt)
    began = time.monotonic()
    code = execute(entry, folder, told)
    problem = unfit(entry, folder / entry.page, on, told)
    if problem is None and code:
        problem = f"{entry.name}: the command ended with {code}: its page or {_log(entry)} says why"
    done = replace(attempt, seconds=round(time.monotonic() - began, 1), problem=problem or "")
    try:
        unchanged(on, root)
    except DirtyTree as error:
        journal.write(replace(done, problem=str(error)))
        raise
    journal.write(done)
    return done


def unfit(entry: Entry, page: Path, on: Origin, told: int | None) -> str | None:
    """Why a page may not be published, in a sentence; None where it may. A page that tells of a failure may."""
    if not page.exists():
        return f"{entry.name}: no page was written; {_log(entry)} says why"
    try:
        facts = stamp.read(page.read_text(encoding="utf-8"))[1]
    except NotStamped as error:
        return f"{entry.name}: {error}"
    if facts.report != entry.name or facts.commits != (on.commit,):
        return f"{entry.name}: the page is report {facts.report} of {', '.join(facts.commits)}, not of {on.commit}"
    if facts.missing:
        return f"{entry.name}: not run: {', '.join(facts.missing)}; a report has all of them"
    if told is not None and facts.stories < told:
        return f"{entry.name}: the page has {facts.stories} of {told} stories"
    return None


def _publish(root: Path, page: Path, failed: int) -> None:
    body, facts = stamp.read(page.read_text(encoding="utf-8"))
    published = root / "docs" / "reports" / f"{facts.report}.md"
    published.parent.mkdir(parents=True, exist_ok=True)
    published.write_text(stamp.stamped(body, replace(facts, failed_before=failed)), encoding="utf-8")
    picture = page.with_name(f"{facts.report}.svg")
    if picture.exists():
        shutil.copyfile(picture, published.with_suffix(".svg"))


def execute(entry: Entry, folder: Path, told: int | None) -> int:
    """Run the command of an entry, its output into a log in the folder."""
    words = [word.format(folder=folder) for word in entry.command]
    settings = {key: value.format(stories=told) for key, value in entry.settings.items()}
    environment = {key: value for key, value in os.environ.items() if key != "DRAFT"}
    (folder / "worlds").mkdir(parents=True, exist_ok=True)
    with (folder / _log(entry)).open("ab") as log:
        command = [sys.executable, "-m", *words]
        with subprocess.Popen(command, cwd=ROOT, env=environment | settings, stdout=log, stderr=log) as made:
            try:
                return made.wait()
            except KeyboardInterrupt:
                made.send_signal(signal.SIGINT)  # it has brokers and a Spark to end
                with contextlib.suppress(subprocess.TimeoutExpired):
                    made.wait(_GRACE_SECONDS)
                made.kill()
                raise


def _log(entry: Entry) -> str:
    return f"{entry.name}.log"
