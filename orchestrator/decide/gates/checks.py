"""The gates: named checks that can refuse an operation, each a small function of the facts.

A gate measures, names its limit and says one sentence; it is shown whether it holds or not, in the same words in
plan, operation, history and error. A gate whose facts are not known yet says nothing (None): the same list serves the
look before anything is stopped, the plan, the operation, and a standing readiness check.
"""

from collections.abc import Callable, Iterable

from orchestrator.decide.gates import checked, copies, log_truncation, loss, meaning, preconditions, rewind, sinks
from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.move_facts import MoveFacts
from state.model.entities import OperationKind

GATES: tuple[Callable[[MoveFacts], Gate | None], ...] = (
    preconditions.store_current,
    preconditions.checkpoint_whole,
    preconditions.assigned,
    preconditions.not_already_there,
    preconditions.expect_active,
    preconditions.no_operation_open,
    preconditions.route_declared,
    preconditions.moves_together,
    preconditions.runner_alive,
    preconditions.pipeline_fits,
    preconditions.cluster_identity,
    preconditions.active_reachable,
    preconditions.standby_reachable,
    preconditions.replication_alive,
    preconditions.one_direction,
    preconditions.topics_present,
    preconditions.partitions_present,
    preconditions.position_known,
    preconditions.fence,
    log_truncation.log_truncation,
    loss.place_found,
    copies.mirror_stopped,
    copies.not_beyond_mirrored,
    copies.caught_up,
    copies.output_copied,
    copies.upstream_output,
    loss.retention,
    loss.timestamp_type,
    loss.partitions_match,
    loss.exposure,
    loss.replay,
    loss.repeats_into_state,
    sinks.sink_declared,
    sinks.sink_follows,
    sinks.fresh_allowed,
    checked.answers_consistent,
    checked.schemas_agree,
    meaning.home_offsets,
    meaning.offset_in_logic,
    meaning.topic_in_logic,
    meaning.headers_in_logic,
    meaning.event_time,
)


REWIND_GATES: tuple[Callable[[MoveFacts], Gate | None], ...] = (
    preconditions.store_current,
    preconditions.checkpoint_whole,
    preconditions.assigned,
    rewind.time_past,
    rewind.expect_active,
    preconditions.no_operation_open,
    preconditions.runner_alive,
    preconditions.pipeline_fits,
    preconditions.cluster_identity,
    rewind.active_reachable,
    preconditions.topics_present,
    preconditions.position_known,
    preconditions.fence,
    rewind.batch_retained,
    loss.place_found,
    rewind.retention,
    rewind.goes_back,
    loss.replay,
    sinks.sink_takes_batches,
    sinks.fresh_allowed,
)
"""No route, no other cluster, no exposure; state goes back as well, so that no repeat is counted in it. Records keep
their offsets, topics and times."""


def judge_move(facts: MoveFacts) -> tuple[Gate, ...]:
    """Every gate that can be judged on these facts, in order."""
    gates = REWIND_GATES if facts.kind is OperationKind.REWIND else GATES
    return tuple(gate for check in gates if (gate := check(facts)) is not None)


def refusal(gates: Iterable[Gate]) -> Gate | None:
    """The first gate that refuses."""
    return next((gate for gate in gates if not gate.ok), None)
