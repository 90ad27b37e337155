"""``check``: could every query be failed over now? For people, for cron, and for whatever reads exit codes."""

import re
from collections.abc import Sequence
from textwrap import wrap

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.inspect.list import say_gone
from orchestrator.cli.operation_text import GATE_COLUMNS, gates_table
from orchestrator.cli.selection import labels, select
from orchestrator.decide.desk.readiness_sampling import proven_text
from orchestrator.decide.desk.status import Label, Status
from orchestrator.decide.gates.readiness import Readiness
from orchestrator.decide.operation.drill import drill_text
from orchestrator.decide.replication_age import COPY_COLUMNS, replication_rows, replication_text, worst_of
from orchestrator.errors import READINESS, ExitCode, UsageError
from orchestrator.facts.preflight import check_queries
from orchestrator.facts.status import newest_drills, status_now
from orchestrator.shapes.operation_shapes import drill_row
from state.plain_text import few
from streaming.clocks import SystemClock


@click.command()
@click.argument("queries", nargs=-1, metavar="[QUERY]...", shell_complete=context.complete_query)
@labels
@click.option("--details", is_flag=True, help="In a table: show every gate, and how old the copy of each partition is.")
@context.output
@pass_context
def check(ctx: Context, queries: tuple[str, ...], labels: tuple[Label, ...], details: bool, output: str) -> int:
    """Check whether queries could fail over now. Changes nothing.

    Runs the gates of a failover, and checks what matters before a cluster is down. That is how far back the standby
    keeps records, how old its copy of each partition is, and whether timestamps can be compared. Ages are measured by
    the largest timestamps, which need not be those of the newest records. Without a QUERY: all queries. Exit 1: a gate
    refuses; 3: no gate refuses, but something could not be measured (ready is null). The table begins with a count and
    the queries that are not ready, and shows only the gates that refuse; --details and programs get all gates.

    Automatic failover is shown (on, off, paused, cooling-down) but not checked: exit 0 even if it is off or no
    controller leads. `tideover watch` shows that.

    \b
    Examples:
      tideover check
      tideover check revenue --details
      tideover check --label team=billing
      tideover check revenue -o json
    """
    names = select(ctx, queries, every=not queries and not labels, labels=labels)
    if not names:
        raise UsageError("no query is declared", hint="add it under queries in the configuration")
    found = list(check_queries(names, store=ctx.store, settings=ctx.settings, logs=ctx.log, clock=SystemClock()))
    if output in {"json", "yaml"}:
        now, drills = ctx.store.now(), newest_drills(ctx.store)
        rows = [{**each.as_json(now), "drill": drill_row(drills.get(each.query))} for each in found]
        render.document(rows, output)
    elif output == "tsv":
        gates = [{"query": each.query, **gate.as_json()} for each in found for gate in each.gates]
        render.show(gates, output, columns=("query", *GATE_COLUMNS))
    elif details:
        render.say("\n\n".join([*_counted(found), *(_in_detail(each) for each in _worst_first(found))]))
    else:
        status = status_now(ctx.store, ctx.settings)
        render.say(_in_short(found, status))
        say_gone(status)
    return max((READINESS[each.ready] for each in found), key=(ExitCode.DONE, ExitCode.UNKNOWN, ExitCode.REFUSED).index)


_ANSWERS = {True: "ready", False: "NOT READY", None: "UNKNOWN"}


def _worst_first(found: Sequence[Readiness]) -> list[Readiness]:
    return sorted(found, key=lambda readiness: (False, None, True).index(readiness.ready))


def _counted(found: Sequence[Readiness]) -> list[str]:
    """How many queries are what, in one line; none for a single query, whose own line says it."""
    if len(found) == 1:
        return []
    counts = [f"{sum(each.ready is ready for each in found)} {_ANSWERS[ready]}" for ready in (False, None, True)]
    return [f"{len(found)} queries: {', '.join(counts)}"]


ALIKE = 3
"""Of more queries than these that are not ready in the same words, the words are shown once."""
_NUMBER = re.compile(r"(?<![\w.-])\d+(\.\d+)?(?![\w.])")
READY_WHOLE = 10
"""Of more ready queries than these the names are shown."""


def _in_short(found: Sequence[Readiness], status: Status) -> str:
    """One line a query, those first that are not ready, and below each of them the gates that refuse."""
    lines, alike = _counted(found), {why: each for why, each in _by_why(found).items() if len(each) > ALIKE}
    for (ready, _), those in alike.items():
        differ = len({_why(each) for each in those}) > 1
        of = f" (with the numbers of {those[0].query})" if differ else ""
        lines += [f"{few([each.query for each in those])}: {_ANSWERS[ready]}{of}", *_why(those[0])[1]]
    shown = {each.query: each for each in status.queries}
    able = [each for each in found if each.ready]
    has_names = len(able) > READY_WHOLE
    for each in _worst_first(found):
        if (has_names and each.ready) or (not each.ready and _in_words(each) in alike):
            continue
        refused = _why(each)[1]
        age = f"; {replication_text(each.replication, status.at)}" if each.replication is not None else ""
        passed = f"{len(each.gates) - len(refused)} of {len(each.gates)} gates pass"
        alone, drill = f"; automatic failover: {shown[each.query].automatic}", shown[each.query].drill
        rehearsed = f"; last drill: {drill_text(drill)}" if drill is not None else ""
        exact = f"; {said}" if (said := proven_text(each)) is not None else ""
        lines.append(f"{each.query}: {_ANSWERS[each.ready]} ({passed}){exact}{age}{alone}{rehearsed}")
        lines += refused
    if has_names:
        width = tables.terminal_width() or 100
        lines += wrap(f"ready: {', '.join(each.query for each in able)}", width, subsequent_indent="  ")
        lines.append(f"{_oldest(able)}--details shows every gate and copy")
    return "\n".join(lines)


Why = tuple[bool | None, tuple[str, ...]]


def _why(found: Readiness) -> Why:
    """Whether it is ready, and a line for each gate that refuses."""
    refused = (gate for gate in found.gates if not gate.ok)
    lines = (f"  {gate.name}: {gate.text} (measured {gate.measured}, limit {gate.limit})" for gate in refused)
    return found.ready, tuple(lines)


def _in_words(found: Readiness) -> Why:
    """The same without its numbers: the ages of a hundred queries differ by a tenth of a second."""
    ready, lines = _why(found)
    return ready, tuple(_NUMBER.sub("0", line) for line in lines)


def _by_why(found: Sequence[Readiness]) -> dict[Why, list[Readiness]]:
    """Queries that are not ready in the same words, the worst first."""
    alike: dict[Why, list[Readiness]] = {}
    for each in _worst_first(found):
        if not each.ready:
            alike.setdefault(_in_words(each), []).append(each)
    return alike


def _oldest(found: Sequence[Readiness]) -> str:
    """The oldest copy of all of them, in words; empty where no age is known."""
    worst = ((worst_of(each.replication), each.query) for each in found if each.replication is not None)
    aged = [(copy.age_ms, copy.name, query) for copy, query in worst if copy is not None and copy.age_ms is not None]
    if not aged:
        return ""
    age_ms, name, query = max(aged)
    return f"oldest copy: {age_ms / 1000:.1f} s ({name} of {query}); "


def _in_detail(readiness: Readiness) -> str:
    reported = f"{readiness.query}: {_ANSWERS[readiness.ready]}\n\n{gates_table(readiness.gates)}"
    if readiness.replication is None or not readiness.replication.copies:
        return reported
    return reported + "\n\n" + tables.table(replication_rows(readiness.replication), COPY_COLUMNS, indent="  ")
