"""``inventory``: which streaming queries there are, and what it takes to attach them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from orchestrator.cli import context, render, tables
from orchestrator.errors import READINESS, UsageError
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.errors import CheckpointError, FileVanished

if TYPE_CHECKING:
    from streaming.spark.inventory.candidates import Candidate, Managed

_COLUMNS = ("query", "application", "ready", "spark", "topics", "batch", "state", "checkpoint")
_MANAGED = ("query", "application", "application_id", "application_state", "ready", "spark", "topics", "checkpoint")


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH...]", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="KIND:URL",
    help="A cluster manager or a history server: yarn:URL, standalone:URL or history:URL. May be repeated.",
)
@click.option("--application", metavar="NAME", help="The application of checkpoints that no event log is about.")
@click.option("--clusters", default="east,west", show_default=True, metavar="NAMES", help="For --write: home first.")
@click.option("--write", "file", type=click.Path(path_type=Path), help="Write runners and queries of a configuration.")
@context.output
def inventory(
    paths: tuple[Path, ...],
    sources: tuple[str, ...],
    application: str | None,
    clusters: str,
    file: Path | None,
    output: str,
) -> int:
    """List streaming queries that could be attached. Needs no configuration and changes nothing.

    A PATH is a folder that holds checkpoints at any depth, on a local or mounted disk, or a directory of Spark's event
    logs. A checkpoint and a log are of one query if they have one query id. Option --from lists the applications of a
    cluster manager, and reads the event log of each where it can be reached. Of each query it shows whether it is
    ready, what to add, what prevents an adoption, and what is not known yet. Option --write leaves out what cannot be
    attached, and never overwrites a file. Exit 1: something prevents an adoption; 3: nothing does, but something is not
    known.

    \b
    Examples:
      tideover inventory /data/checkpoints /var/log/spark-events
      tideover inventory --from yarn:http://rm:8088 /data/checkpoints
      tideover inventory --from history:http://history:18080 -o json
      tideover inventory /data/shop/checkpoints --application shop --write queries.yaml
      tideover inventory /data/checkpoints -o json
    """
    names = [each.strip() for each in clusters.split(",") if each.strip()]
    if file is not None and len(names) < 2:
        raise UsageError("--clusters needs two names at least", hint="--clusters east,west")
    if not paths and not sources:
        raise UsageError("nothing to look at", hint="name a folder, or a cluster manager: --from yarn:http://rm:8088")
    found = found_below(paths, application, managed_by(sources))
    if not found:
        raise _nothing(sources)
    columns = _MANAGED if sources else _COLUMNS
    if output in tables.PEOPLE:
        render.show([_row(each) for each in found], output, columns=columns)
        for line in said(found):
            render.say(line)
    elif output == "tsv":
        render.show([_row(each) for each in found], output, columns=columns)
    else:
        render.document([json_of(each) for each in found], output)
    if file is not None:
        _write(file, found, names)
    verdicts = [each.ready for each in found]
    return READINESS[False if False in verdicts else None if None in verdicts else True]


def _nothing(sources: Sequence[str]) -> UsageError:
    if sources:
        return UsageError(
            "no streaming query is known there, and no application that may have one",
            hint="the event log of an application has a query from its start on",
        )
    return UsageError(
        "no checkpoint and no event log there",
        hint="a checkpoint is a folder with metadata, offsets and commits; an event log begins with an event",
    )


def managed_by(sources: Iterable[str]) -> Sequence["Managed"]:
    """The applications that these sources know. Raises ``UsageError`` for one that cannot be read."""
    from streaming.errors import ServiceTrouble  # imported when needed: what follows loads Spark's modules
    from streaming.spark.inventory.managed import parse_source, read_managed

    found: list[Managed] = []
    for source in sources:
        try:
            found += read_managed(*parse_source(source))
        except ValueError as error:
            raise UsageError(str(error), hint="--from yarn:http://rm:8088") from None
        except ServiceTrouble as error:
            raise UsageError(str(error), hint=f"is {source} what it should be, and may this user read it?") from None
    left = sum(not each.listed.is_running and each.logged is None for each in found)
    if left:
        render.talk(f"left out, as they have ended and no event log of them was read: {left}")
    return found


def found_below(
    paths: Iterable[Path], application: str | None, managed: Sequence["Managed"] = ()
) -> Sequence["Candidate"]:
    """What lies below these folders. Raises ``UsageError`` for one that cannot be read."""
    from streaming.spark.inventory.candidates import candidates_of  # imported when needed: other verbs read no log
    from streaming.spark.inventory.checkpoints import find_checkpoints
    from streaming.spark.inventory.event_logs import read_application
    from streaming.spark.inventory.log_files import lines_of, logs_below

    checkpoints, applications = [], []
    for path in paths:
        try:
            if path.is_dir():
                checkpoints += list(find_checkpoints(str(path.resolve())))
            folder = path if path.is_dir() else path.parent
            for log, files in logs_below(folder):
                if path.is_dir() or log == path:
                    applications.append(read_application(str(log), lines_of(files)))
        except OSError as error:
            raise UsageError(f"{error.filename or path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise UsageError(str(error), hint="decompress it, or leave it out") from None
    return candidates_of(checkpoints, applications, application, managed)


def json_of(each: "Candidate") -> dict[str, object]:
    return {
        "query": each.query,
        "application": each.application,
        "application_id": each.application_id,
        "application_state": each.application_state,
        "tracking_url": each.tracking_url,
        "ready": each.ready,
        "query_id": each.query_id,
        "checkpoint": each.checkpoint,
        "batch": each.batch,
        "topics": [list(topics) for topics in each.topics],
        "patterns": list(each.patterns),
        "state": list(each.operators),
        "sink": each.sink,
        "spark": each.spark,
        "add": list(each.add),
        "against": list(each.against),
        "unknown": list(each.unknown),
        "notes": list(each.notes),
    }


def _row(each: "Candidate") -> dict[str, object]:
    read = [*(",".join(topics) for topics in each.topics), *each.patterns]
    return {
        "query": each.query,
        "application": each.application,
        "application_id": each.application_id,
        "application_state": each.application_state,
        "ready": {True: "yes", False: "no", None: "unknown"}[each.ready],
        "spark": each.spark,
        "topics": " ".join(read) or None,
        "batch": each.batch,
        "state": ",".join(each.operators) or None,
        "checkpoint": each.checkpoint,
    }


def said(found: Iterable["Candidate"]) -> Iterable[str]:
    """What a table has no room for, a line each."""
    for each in found:
        for title, lines in (
            ("against it", each.against), ("not known", each.unknown), ("to add", each.add), ("note", each.notes)
        ):  # fmt: skip
            for line in lines:
                yield f"{each.query}: {title}: {line}"


def _write(file: Path, found: Sequence["Candidate"], clusters: Sequence[str]) -> None:
    from streaming.spark.inventory.candidates import configuration_of

    made = configuration_of(found, clusters)
    count = len(made["queries"])
    if not count:
        raise UsageError("nothing to write: no query can be attached yet", hint="the list says why")
    create(file, yaml.safe_dump(made, sort_keys=False, allow_unicode=True))
    render.talk(f"{file}: {count} of {len(found)} queries; add store, clusters and routes, or use tideover init")


def create(file: Path, text: str) -> None:
    """Write a new file, whole or not at all. Raises ``UsageError`` where it is there or cannot be written."""
    try:
        if not file.absolute().parent.is_dir():
            raise FileVanished(f"{file.parent} is no folder")
        is_new = LocalFiles().create_atomically(str(file.absolute()), text.encode())
    except CheckpointError as error:
        raise UsageError(f"{file} cannot be written: {error}") from None
    if not is_new:
        raise UsageError(f"{file} is there already", hint="name another file, or move that one away")
