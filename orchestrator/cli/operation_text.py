"""A plan and a drill's result, for people."""

from collections.abc import Iterable
from dataclasses import replace

from orchestrator.cli.tables import Row, cell, table
from orchestrator.decide.gates.gate import UNKNOWN
from state.model.measured import DrillResult
from state.model.plan import Gate, Plan

PARTITION_COLUMNS = (
    "topic", "partition", "offset", "target_offset", "method", "replay_records", "replay_later_records",
    "exposure_records", "note",
)  # fmt: skip
GATE_COLUMNS = ("name", "ok", "measured", "limit", "text")
_CUT_COLUMNS = ("topic", "partition", "offset", "divergent_offset", "resumes_at")


def plan_text(plan: Plan, cost: str = "", *, details: bool = True) -> str:
    """What moves and what it costs, the gates, the partitions, the sums; without details only gates that matter."""
    parts = [_heading(plan) + (f"\n{cost}" if cost else ""), f"  {plan.resume}: {plan.resume_text}"]
    if plan.after:
        parts.append(f"  begins after {', '.join(plan.after)} is committed, and stays if that goes back")
    parts += _gates(plan, details=details)
    if plan.partitions:
        several = len({row.source for row in plan.partitions}) > 1
        rows = [row.as_json() for row in plan.partitions]
        columns = [name for name in PARTITION_COLUMNS if name != "note" or any(row[name] for row in rows)]
        parts.append(table(rows, ["source", *columns] if several else columns, indent="  "))
        parts += [
            f"  tideover show-op {name} counts what {name} left behind while both clusters answer"
            for name in dict.fromkeys(each.operation for each in plan.unread_before if each.records is None)
        ]
    if plan.buffers:
        parts.append("\n".join(f"  buffer of {each.topic}: {each.text}" for each in plan.buffers))
    if plan.log_truncation:
        parts.append(table([row.as_json() for row in plan.log_truncation], _CUT_COLUMNS, indent="  "))
    parts.append("  " + _sums(replace(plan.totals, at_most=None).as_json()))
    if plan.totals.at_most is not None:
        parts.append("  at most: " + _sums(plan.totals.at_most.as_json()))
    if plan.refused:
        parts.append(f"  REFUSED: {', '.join(gate.name for gate in plan.refusing)}")
    return "\n\n".join(parts)


def _gates(plan: Plan, *, details: bool) -> list[str]:
    if details:
        return [gates_table(plan.gates)]
    shown = [gate for gate in plan.gates if not gate.ok or gate.measured == UNKNOWN]
    passed = len(plan.gates) - len(shown)
    table_of = [gates_table(shown)] if shown else []
    return [*table_of, f"  {passed} {'other ' if shown else ''}gates pass; --details shows them"]


def _sums(totals: Row) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {cell(total, blank='unknown')}" for name, total in totals.items())


def _heading(plan: Plan) -> str:
    way = f"from {plan.source} to {plan.target}"
    if plan.rewind is not None:
        way = f"on {plan.source} to {plan.rewind.to_time}"
    return (
        f"{plan.kind} of {plan.query} {way}: {plan.resume}, epoch {cell(plan.epoch, blank='-')}, "
        f"uncommitted batch {plan.uncommitted_batch}, fence {plan.fence}"
    )


def gates_table(gates: Iterable[Gate]) -> str:
    """Gates that refuse at the top, then those that pass although they know nothing."""
    first = sorted(gates, key=lambda gate: (gate.ok, gate.measured != UNKNOWN))
    return table([gate.as_json() for gate in first], GATE_COLUMNS, indent="  ")


def refusals(plans: Iterable[Plan]) -> list[str]:
    """One line for each gate that refuses."""
    return [f"{plan.query}: refused: {gate.name}: {gate.text}" for plan in plans for gate in plan.refusing]


def drill_text(found: DrillResult | None) -> str:
    """What a drill measured, and what it could not prove; empty where it measured nothing."""
    if found is None:
        return ""
    took = table([{"step": name, "seconds": value} for name, value in found.seconds.items()], ("step", "seconds"))
    read = f"{found.rows} rows of {found.rows_expected} expected; copied {found.files} files"
    unproven = "\n".join(f"  {sentence}" for sentence in found.not_proven)
    return f"{took}\n\n{read}, {found.bytes} bytes\n\nnot proven by this drill:\n{unproven}"
