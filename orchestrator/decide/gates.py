"""The gates: named checks that can refuse an operation, each a small function of the facts.

A gate measures, names its limit and says one sentence; it is shown whether it holds or not, in the same words in
plan, operation, history and error. A gate whose facts are not known yet says nothing (None): the same list serves the
look before anything is stopped, the plan, the operation, and a standing readiness check.
"""

from collections.abc import Callable, Iterable

from orchestrator.decide import costs, standing, truncation
from orchestrator.decide.facts import Facts
from orchestrator.decide.gate import Gate

GATES: tuple[Callable[[Facts], Gate | None], ...] = (
    standing.store_current,
    standing.assigned,
    standing.not_already_there,
    standing.expect_active,
    standing.no_operation_open,
    standing.route_declared,
    standing.runner_alive,
    standing.standby_reachable,
    standing.topics_present,
    standing.partitions_present,
    standing.position_known,
    standing.fence,
    truncation.log_truncation,
    costs.place_found,
    costs.retention,
    costs.timestamp_type,
    costs.partitions_match,
    costs.exposure,
    costs.replay,
    costs.repeats_into_state,
    costs.fresh_allowed,
)


def judge(facts: Facts) -> tuple[Gate, ...]:
    """Every gate that can be judged on these facts, in order."""
    return tuple(gate for check in GATES if (gate := check(facts)) is not None)


def refusal(gates: Iterable[Gate]) -> Gate | None:
    """The first gate that refuses."""
    return next((gate for gate in gates if not gate.ok), None)
