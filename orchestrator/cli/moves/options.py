"""The options that verbs which move queries have in common, and the flags that they make."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import click

from orchestrator.cli import context
from orchestrator.cli.plan_summary import MOST_WHOLE
from orchestrator.cli.selection import labels, said
from orchestrator.decide.desk.status import Label
from orchestrator.errors import UsageError
from state.settings.keys import Query

CONSENTS = {
    "unfenced": "start the query although the old run may still be running and writing to the sink",
    "repeats": "some records may be read twice",
    "loss": "records that never reached the standby are lost to this query",
    "replication": "nothing proves that the replicator runs",
    "gap": "records that the standby no longer holds, or that lie before the resume offset, are skipped",
    "fresh": "the state is lost, or batches that the sink drops because it knows their ids",
    "dropped": "the sink drops batches of a rewound query whose ids it still has",
    "columns": "the query's logic uses columns (offset, topic, timestamp) whose values are others on the target",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Which:
    """Which queries a move is about, and what is believed and accepted, as typed."""

    queries: tuple[str, ...]
    every: bool = False
    labels: tuple[Label, ...] = ()
    details: bool = False
    expect_active: str | None = None
    consents: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The option that names a group of queries, as typed; empty where each is named."""
        return "--all" if self.every else f"--label {said(self.labels)}" if self.labels else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class How:
    """Whether to wait for a confirmation, how long to follow, and how to print, as typed."""

    reason: str
    output: str
    yes: bool = False
    wait: bool = True
    timeout: float = 0.0
    """Seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """The common flags of a move, as given."""

    queries: tuple[str, ...]
    to: str | None
    expect_active: str | None
    reason: str
    consents: tuple[str, ...]
    home: bool = False
    """Each query goes to the first of its clusters."""
    details: bool = False
    """Plans are shown whole, also those of many queries."""
    waves: tuple[int, ...] = ()
    """How many of the queries move in each wave; none: all at once."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What the kind needs beside the target."""

    def wanted(self, query: Query) -> str | None:
        """Where a query shall go; None leaves it to what is under way, or to its next cluster."""
        return query.clusters[0] if self.home else self.to

    @property
    def names_target(self) -> bool:
        """Whether the same command typed twice means the same target."""
        return self.home or self.to is not None


def to(command: context.Command) -> context.Command:
    """The target."""
    return click.option(
        "--to", metavar="CLUSTER", shell_complete=context.complete_cluster,
        help="Target cluster. Default: the next in the query's clusters.",
    )(command)  # fmt: skip


def home(command: context.Command) -> context.Command:
    """A failback names no target; who types one reads where it goes."""
    return click.option("--to", metavar="CLUSTER", hidden=True, expose_value=False, callback=_goes_home)(command)


def _goes_home(_context: click.Context, _option: click.Parameter, typed: str | None) -> None:
    if typed is not None:
        raise UsageError(
            "failback takes queries home, to the first of their clusters, and has no --to",
            hint="leave --to out; tideover switchover goes to any cluster",
        )


def consents(command: context.Command) -> context.Command:
    """Risks that a person accepts."""
    return click.option(
        "--consent", "consents", type=click.Choice(list(CONSENTS)), multiple=True,
        help="Accept a risk that a gate names. May be repeated.",
    )(command)  # fmt: skip


def which(command: context.Command) -> context.Command:
    """The queries or all, what is believed now, and consents: a ``Which``."""
    for decorate in (
        context.gathered("which", Which),
        consents,
        click.option("--details", is_flag=True,
                     help=f"Show every plan whole, also if there are more than {MOST_WHOLE}."),
        click.option("--expect-active", metavar="CLUSTER", shell_complete=context.complete_cluster,
                     help="Refuse unless the query is on CLUSTER now. With --all or --label: move only those there."),
        labels,
        click.option("--all", "every", is_flag=True, help="Every declared query."),
        click.argument("queries", nargs=-1, metavar="[QUERY]...", shell_complete=context.complete_query),
    ):  # fmt: skip
        command = decorate(command)
    return command


def _sizes(ctx: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    if text is None or text == "off":
        return None if text is None else ()
    try:
        sizes = tuple(int(each) for each in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise click.BadParameter(f"{text!r} is not a list of sizes of waves: write 1,10 or off", ctx, option)
    return sizes


def waves(command: context.Command) -> context.Command:
    """Which of many queries move first."""
    return click.option(
        "--waves", metavar="SIZES", callback=_sizes,
        help="Of several queries move some first: 1,10 is one, then ten, then the rest. A wave begins when all moves "
        "before it are done; if one is not, later waves stay. off: all at once.  [default: operations.waves]",
    )(command)  # fmt: skip


def how(command: context.Command) -> context.Command:
    """Whether to wait for a confirmation, and how long to follow: a ``How``."""
    for decorate in (
        context.gathered("how", How),
        context.output,
        click.option("--timeout", type=context.Seconds(1, 86_400), default=120.0, show_default=True, metavar="SECONDS",
                     help="How long to wait. What has begun by then continues; nothing begins later."),
        click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the operation has ended."),
        click.option("--yes", is_flag=True, help="Skip the confirmation."),
        context.reason,
    ):  # fmt: skip
        command = decorate(command)
    return command
