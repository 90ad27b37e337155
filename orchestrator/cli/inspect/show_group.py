"""``show-group``: what became of all moves of one command, and their report in one file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.inspect.history import SEE_HISTORY
from orchestrator.errors import ExitCode, Refused, UnknownName, UsageError
from orchestrator.shapes.group_report import group_report, is_open
from state.model.entities import Operation
from state.model.evidence import Evidence, canonical
from state.store.controller_store import ControllerStore

_MOST = 10_000
"""Operations of one group."""
_COLUMNS = (
    "query", "from", "to", "outcome", "pause_seconds", "exposure_records", "replay_records", "replay_later_records",
    "dropped_late_rows",
)  # fmt: skip


@click.command("show-group")
@click.argument("group", metavar="ID")
@click.option(
    "--report",
    metavar="FILE",
    help="Write the report to a new FILE instead: .json, or .html for people. Only when all of it is over.",
)
@context.output
@pass_context
def show_group(ctx: Context, group: str, report: str | None, output: str) -> int:
    """Show what became of all moves of one command: a migration in one table.

    ID is that of any of its operations, or the group that -o json of a move and of show-op names. The report has what
    moved and when, and how long each query paused. It counts the records that the new cluster lacked, those that were
    read twice, and the rows that the watermark dropped. A number that is not known of one query is unknown in the sum,
    too. A move that failed counts if its query was placed on the new cluster. The report names the evidence of each
    operation by its hash.

    \b
    Examples:
      tideover show-group 261121-083525-3fa92c71
      tideover show-group 261121-083525-3fa92c71 --report migration.html
    """
    found = _report(ctx.store, group)
    rows = found["queries"]
    if not isinstance(rows, list):
        raise TypeError("a report has rows")
    if report is not None:
        if is_open(rows):
            raise Refused(f"group {group} is not over yet", hint=f"tideover show-group {group} shows what is open")
        _write(Path(report), found)
        return ExitCode.DONE
    if output not in tables.PEOPLE | {"tsv"}:
        render.document(found, output)
        return ExitCode.DONE
    render.show(rows, output, columns=_COLUMNS)
    if output in tables.PEOPLE:
        known = {key: value for key, value in found.items() if key not in {"queries", "group", "kind", "outcomes"}}
        render.say("\n" + tables.table([known], list(known)))
        for line in _unknown(rows):
            render.talk(line)
    return ExitCode.DONE


_LATER = {
    "exposure_records": "the old cluster answers",
    "replay_records": "they have read what the new cluster held at the move",
}


def _unknown(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Why numbers of moves that are done are not known yet."""
    done = [row for row in rows if row["outcome"] == "done"]
    counts = {name: sum(row[name] is None for row in done) for name in _LATER}
    return [
        f"{name.replace('_', ' ')}: unknown for {count} of {len(done)} moves, until {_LATER[name]}"
        for name, count in counts.items()
        if count
    ]


def _report(store: ControllerStore, named: str) -> dict[str, object]:
    operation = store.operation(named)
    group = named if operation is None else operation.group
    requests, operations = store.requests_of(group), list[Operation]()
    operations += store.operations(group=group, limit=_MOST)
    known = {each.id for each in operations}
    for request in requests:  # one that joined an open operation has another group's
        if request.operation is not None and request.operation not in known:
            operations += [each for each in (store.operation(request.operation),) if each is not None]
    kept: dict[str, Evidence] = {}
    for each in operations:
        evidence = store.evidence(each.id)
        if evidence is not None:
            kept[each.id] = evidence
    try:
        return group_report(group, requests, operations, kept, store.now())
    except ValueError as error:
        raise UnknownName(str(error), hint=SEE_HISTORY) from None


def _write(target: Path, report: dict[str, object]) -> None:
    from orchestrator.facts.evidence.folder import write_once
    from orchestrator.facts.evidence.group_page import group_page  # imported when needed: it loads jinja2

    if target.suffix not in {".json", ".html"}:
        raise UsageError(f"{target} ends neither with .json nor with .html", hint="the end of the name says which")
    if not write_once(target, canonical(report) if target.suffix == ".json" else group_page(report)):
        raise UsageError(f"{target} is there already", hint="name a file that is not: a report overwrites nothing")
    render.talk(f"{target}: report of group {report['group']}")
