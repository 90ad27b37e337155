"""``check``: could every query be failed over now? For people, for cron, and for whatever reads exit codes."""

import click

from orchestrator.cli import options, render
from orchestrator.cli.world import World, pass_world
from orchestrator.clock import SystemClock
from orchestrator.decide.readiness import Readiness
from orchestrator.decide.replication import replication_rows
from orchestrator.errors import ExitCode, UsageError
from orchestrator.planning import check_queries

GATE_COLUMNS = ("query", "name", "ok", "measured", "limit", "text")
CODES = {True: ExitCode.DONE, False: ExitCode.REFUSED, None: ExitCode.UNKNOWN}


@click.command()
@click.argument("queries", nargs=-1, metavar="[QUERY]...")
@options.output
@pass_world
def check(world: World, queries: tuple[str, ...], output: str) -> int:
    """Tell whether the standby is ready: the gates of a failover without the failover. Changes nothing.

    Also looks at what matters before anything is down: how far back the standby keeps records, how old its
    copy of each partition is, and whether times could be compared. Ages go by the largest timestamps, which
    need not be those of the records produced last. Without a QUERY: all of them. Exit 1: a gate refuses;
    3: nothing refuses, but something could not be measured (ready is null).

    Whether automatic mode would act is not judged: exit 0 also while it is off, paused or cooling down, or
    while nobody leads. `list` tells the first three of each query; `watch` also who leads.

    \b
    Examples:
      tideover check
      tideover check revenue -o json
    """
    names = tuple(dict.fromkeys(queries)) or tuple(world.settings.queries)
    if not names:
        raise UsageError("no query is declared")
    for name in names:
        world.query(name)
    found = list(check_queries(names, store=world.store, settings=world.settings, logs=world.log, clock=SystemClock()))
    if output in {"json", "yaml"}:
        now = world.store.now()
        render.document([readiness.as_json(now) for readiness in found], output)
    elif output == "tsv":
        rows = [{"query": each.query, **gate.as_json()} for each in found for gate in each.gates]
        render.show(rows, output, columns=GATE_COLUMNS)
    else:
        render.say("\n\n".join(_for_people(readiness) for readiness in found))
    return max((CODES[each.ready] for each in found), key=(ExitCode.DONE, ExitCode.UNKNOWN, ExitCode.REFUSED).index)


def _for_people(readiness: Readiness) -> str:
    answer = {True: "ready", False: "NOT READY", None: "not known to be ready"}[readiness.ready]
    gates = [gate.as_json() for gate in readiness.gates]
    told = f"{readiness.query}: {answer}\n\n" + render.table(gates, GATE_COLUMNS[1:], indent="  ")
    if readiness.replication is None or not readiness.replication.copies:
        return told
    return told + "\n\n" + render.table(replication_rows(readiness.replication), render.COPY_COLUMNS, indent="  ")
