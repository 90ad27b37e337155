"""``verify-op``: the evidence of an operation, checked again."""

from collections import Counter
from collections.abc import Sequence

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.inspect.history import SEE_HISTORY
from orchestrator.decide.evidence.claims import Claim, Verdict, verdict_of
from orchestrator.errors import ExitCode, NoEvidence, UnknownName, UsageError
from state.model.evidence import Evidence
from state.plain_text import amount
from state.store.controller_store import ControllerStore

_COLUMNS = ("name", "topic", "partition", "verdict", "expected", "found", "text")
_FLAWS = ("sequence", "operation", "text")
_CODES = {
    Verdict.HOLDS: ExitCode.DONE,
    Verdict.DOES_NOT_HOLD: ExitCode.REFUSED,
    Verdict.CANNOT_BE_CHECKED: ExitCode.UNKNOWN,
}


@click.command("verify-op")
@click.argument("operation_id", metavar="[ID]", required=False)
@click.option("--chain", is_flag=True, help="Check the chain of all documents instead; reads no cluster.")
@context.output
@pass_context
def verify_operation(ctx: Context, operation_id: str | None, chain: bool, output: str) -> int:
    """Check the evidence of one operation against the store and both clusters as they are now.

    Checks that the document is unchanged and in its place, and that no record before a resume offset was skipped.
    Checks that the forecast of replay and exposure agrees with the logs. Reads at most 200,000 offsets of a partition
    and changes nothing. What retention has deleted can no longer be checked, nor what a dead cluster held.

    \b
    Exit codes: 0 all claims hold, 1 a claim does not hold, 3 none is wrong but some cannot be checked.

    \b
    Examples:
      tideover verify-op 261121-083525-3fa92c71
      tideover verify-op 261121-083525-3fa92c71 -o json
      tideover verify-op --chain
    """
    if (operation_id is None) is not chain:
        raise UsageError("name one operation, or use --chain")
    if operation_id is None:
        return _chain(ctx, output)
    from orchestrator.facts.evidence.verification import verify  # imported when needed: it reads clusters

    kept = kept_of(ctx.store, operation_id)
    claims = verify(kept, ctx.store, ctx.log, render.talk)
    verdict = verdict_of(claims)
    if output in {"json", "yaml"}:
        place = {"operation": operation_id, "query": kept.query, "sequence": kept.sequence, "sha256": kept.sha256}
        rows = [{**claim._asdict(), "verdict": claim.verdict.value} for claim in claims]
        render.document({**place, "verdict": verdict.value, "claims": rows}, output)
    elif output == "tsv":
        render.show([claim._asdict() for claim in claims], output, columns=_COLUMNS)
    else:
        _say(claims, verdict)
    return _CODES[verdict]


def kept_of(store: ControllerStore, operation_id: str) -> Evidence:
    """The link of an operation. Raises ``UnknownName``, or ``NoEvidence`` while there is none."""
    kept = store.evidence(operation_id)
    if kept is not None:
        return kept
    operation = store.operation(operation_id)
    if operation is None:
        raise UnknownName(f"the store knows no operation {operation_id!r}", hint=SEE_HISTORY)
    if operation.is_open:
        raise NoEvidence(
            f"operation {operation_id} is still open: its evidence is written when it has closed",
            hint=f"tideover show-op {operation_id} shows how far it is",
        )
    raise NoEvidence(
        f"operation {operation_id} has no evidence yet",
        hint="the controller that leads writes it within a minute; if none runs, start one: tideover control",
    )


def document_of(store: ControllerStore, operation_id: str) -> tuple[Evidence, str]:
    """The link with its document. Raises as ``kept_of``, and ``NoEvidence`` where retention has deleted it."""
    kept = kept_of(store, operation_id)
    if kept.document is None:
        raise NoEvidence(
            f"the evidence of operation {operation_id} was deleted by retention; its sha256 was {kept.sha256}",
            hint="look for a copy in the folder that evidence.folder names, or in a backup of the store",
        )
    return kept, kept.document


def _say(claims: Sequence[Claim], verdict: Verdict) -> None:
    """What does not hold in full, then what cannot be checked, then how much holds."""
    for wanted in (Verdict.DOES_NOT_HOLD, Verdict.CANNOT_BE_CHECKED):
        if rows := [claim._asdict() for claim in claims if claim.verdict is wanted]:
            render.say(f"{wanted.value}:\n{tables.table(rows, [c for c in _COLUMNS if c != 'verdict'], indent='  ')}\n")
    holding = Counter(claim.name for claim in claims if claim.verdict is Verdict.HOLDS)
    if holding:
        counted = [{"claim": name, "holds": number} for name, number in holding.items()]
        render.say(f"{Verdict.HOLDS.value}:\n{tables.table(counted, ('claim', 'holds'), indent='  ')}\n")
    of_all = Counter(claim.verdict for claim in claims)
    numbers = ", ".join(f"{of_all[each]} {_OF_SEVERAL[each]}" for each in Verdict)
    render.say(f"{len(claims)} claims: {numbers}")


_OF_SEVERAL = {
    Verdict.HOLDS: "hold",
    Verdict.DOES_NOT_HOLD: "do not hold",
    Verdict.CANNOT_BE_CHECKED: "cannot be checked",
}


def _chain(ctx: Context, output: str) -> int:
    from orchestrator.facts.evidence.chain import check_chain

    chain, flaws = check_chain(ctx.store)
    rows = [flaw._asdict() for flaw in flaws]
    verdict = Verdict.DOES_NOT_HOLD if flaws else Verdict.HOLDS
    if output in {"json", "yaml"}:
        value = {"verdict": verdict.value, "links": chain.links, "documents": chain.documents, "flaws": rows}
        render.document(value, output)
    elif output == "tsv":
        render.show(rows, output, columns=_FLAWS)
    else:
        if rows:
            render.say(tables.table(rows, _FLAWS) + "\n")
        gone = chain.links - chain.documents
        kept = amount(chain.documents, "document") + (f", {gone} deleted by retention" if gone else "")
        render.say(f"the chain {verdict.value}: {amount(chain.links, 'link')}, {kept}, {amount(len(flaws), 'flaw')}")
    return _CODES[verdict]
