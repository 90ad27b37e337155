"""Runs the table on one commit, publishes what is whole, and continues where it was interrupted on the same commit."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from reports import index
from reports.entries import Entry
from reports.errors import DirtyTree, NoResult
from reports.origin import ROOT, Origin, origin, unchanged
from reports.result import Result, read, write

Execute = Callable[[Entry, Path, int | None], int]
"""Makes one report in a folder, with so many runs; returns the exit code of its command."""
Say = Callable[[str], None]
_GRACE_SECONDS = 120.0


def run(root: Path, entries: Sequence[Entry], runs: int | None, *, execute: Execute, say: Say) -> int:
    """Make each report that is not done on this commit, publish it, and write the index; 1 where one failed.

    Raises DirtyTree and NoCommit before anything is run, and DirtyTree where files change during the run.
    """
    on = origin(root, draft=False)
    folder = on.folder(root)
    exit_code = 0
    for entry in entries:
        planned = entry.planned(runs)
        ends = _ends(folder, entry)
        if ends[-1:] == [(planned, "")]:
            say(f"{entry.name}: done on this commit before")
        else:
            say(f"{entry.name}: about {entry.minutes} minutes on two cores; log: {_log(entry)} in {folder}")
            began = time.monotonic()
            problem = _make(root, on, entry, planned, execute)
            say(f"{entry.name}: {problem or 'done'} ({time.monotonic() - began:.0f} s)")
            exit_code = 1 if problem else exit_code
        if unfit(entry, folder, on, planned) is None:
            _publish(root, folder / entry.result, sum(bool(problem) for _, problem in _ends(folder, entry)))
    index.write(root)
    return exit_code


def _make(root: Path, on: Origin, entry: Entry, planned: int | None, execute: Execute) -> str:
    """Run one report, and note how that ended; returns what went wrong, empty where nothing did."""
    folder = on.folder(root)
    code = execute(entry, folder, planned)
    problem = unfit(entry, folder, on, planned) or ""
    if not problem and code:
        problem = f"{entry.name}: the command ended with {code}: its page or {_log(entry)} says why"
    try:
        unchanged(on, root)
    except DirtyTree as error:
        _note(folder, entry, planned, str(error))
        raise
    _note(folder, entry, planned, problem)
    return problem


def _note(folder: Path, entry: Entry, planned: int | None, problem: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with _journal(folder, entry).open("a", encoding="utf-8") as file:
        file.write(json.dumps([planned, problem]) + "\n")


def _ends(folder: Path, entry: Entry) -> list[tuple[int | None, str]]:
    """How attempts on this commit ended: how many runs, and what went wrong. An interrupted one is not noted."""
    path = _journal(folder, entry)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(runs, problem) for runs, problem in map(json.loads, lines)]


def _journal(folder: Path, entry: Entry) -> Path:
    return folder / f"{entry.name}.ends"


def unfit(entry: Entry, folder: Path, on: Origin, planned: int | None) -> str | None:
    """Why a result may not be published, in a sentence; None where it may. One that reports a failure may."""
    try:
        found = read(folder / entry.result)
    except NoResult as error:
        return f"{entry.name}: {error}; {_log(entry)} says why"
    if found.report != entry.name or found.commits != (on.commit,):
        return f"{entry.name}: the result is report {found.report} of {', '.join(found.commits)}, not of {on.commit}"
    if found.missing:
        return f"{entry.name}: not run: {', '.join(found.missing)}; a report has all of them"
    if planned is not None and found.count < planned:
        return f"{entry.name}: the result has {found.count} of {planned} runs"
    return None


def _publish(root: Path, path: Path, failed: int) -> None:
    found: Result = read(path)
    write(replace(found, failed_before=failed), index.folder(root) / f"{found.report}.json")
    for section in found.sections:
        if section.picture:
            shutil.copyfile(path.with_name(section.picture), index.folder(root) / section.picture)


def execute(entry: Entry, folder: Path, planned: int | None) -> int:
    """Run the command of an entry, its output into a log in the folder."""
    words = [word.format(folder=folder) for word in entry.command]
    settings = {key: value.format(runs=planned) for key, value in entry.settings.items()}
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
