"""Whole operations in a world of one process: the straight way, each way out, and a crash after every write."""

from dataclasses import replace
from typing import Any, cast

import pytest

from orchestrator.decide.gates.checks import judge_move
from orchestrator.facts.gather import FactGatherer
from orchestrator.operation.wait import RequestWait, outcome_of
from state.errors import StoreUnavailable, TideoverError
from state.messages import Failure, Planned, PrepareReport, PrepareRequest, SinkState, StateOperator
from state.model.entities import Desired, Intent, IntentKind, OperationKind, Phase, RunState
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from state.store.sql.schema import requests
from streaming.spark.errors import AccessDenied, FileSystemError, FileVanished, HalfWritten
from tests.contract.samples import plan_of
from tests.simulation.stores import force
from tests.simulation.world import QUERY, Checkpoint, Crash, CrashingStore, World, settings

PLACE = 33 + 100


LACKS_TOO_MUCH = (
    "exposure: the standby lacks 10.0 s of records, as east was last seen 0.0 s before; "
    "what was written there since is unknown; --consent loss accepts it"
)


def test_a_failover_resumes_at_the_exact_place_and_settles() -> None:
    world = World()
    operation = world.carry_out(world.request())
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.SETTLED, "done")
    (start,) = world.starts
    assert (start.cluster, start.epoch, start.desired) == ("west", 2, Desired.RUNNING)
    assert start.checkpoint == f"/cp/{QUERY}/epoch-2-{operation.id}"
    assert world.checkpoints[start.checkpoint].offsets == {"orders": {"orders": {"0": PLACE, "1": PLACE}}}
    plan: Any = plan_of(operation)
    assert plan is not None
    assert plan["refused"] is False
    assert plan["totals"] == {
        "replay_records": 0,
        "possible_replay_records": 0,
        "replay_later_records": 0,
        "exposure_records": 20,
        "exposure_seconds": pytest.approx(10.0),
        "exposure_sampled_at": "2026-01-31T12:00:00.000Z",
        "first_batch_records": 20,
        "usual_batch_records": None,
    }
    assert {partition["method"] for partition in plan["partitions"]} == {"exact"}
    assert operation.measured.switch_seconds == pytest.approx(0.2, abs=0.2)


def test_every_step_is_recorded_in_its_order_and_ended() -> None:
    world = World()
    operation = world.carry_out(world.request())
    assert operation is not None
    steps = world.store.steps(operation.id)
    assert [step.name for step in steps] == ["hold", "fence", "resolve", "prepare", "commit", "start", "verify"]
    assert all(step.outcome == "done" and step.ended_at for step in steps)
    kinds = [event.kind for event in world.store.history(operation=operation.id)]
    assert kinds[0] == "hold"
    assert kinds[-1] == "settled"


def test_chosen_offsets_stay_when_the_standby_changes_before_the_commit() -> None:
    world = World()
    request = world.request()
    for count in range(1, 20):
        crashing = CrashingStore(world.store, count)
        try:
            world.carry_out(request, store=cast(ControllerStore, crashing))
        except Crash:
            operation = world.store.operations()[0] if world.store.operations() else None
            if operation is not None and operation.phase is Phase.PREPARING:
                break
            world = World()
            request = world.request()
    world.clusters["west"].create("orders", 2)
    operation = world.carry_out(request)
    assert operation is not None
    assert operation.outcome == "done"
    assert world.checkpoints[world.starts[0].checkpoint].offsets["orders"]["orders"] == {"0": PLACE, "1": PLACE}


def test_a_second_request_of_a_query_joins_the_open_operation() -> None:
    world = World()
    world.runner.answers = False
    first = world.request()
    operation = world.carry_out(first, seconds=2)
    assert operation is not None
    assert operation.is_open
    world.runner.answers = True
    second = world.carry_out(world.request())
    assert second is not None
    assert (second.id, second.outcome) == (operation.id, "done")
    assert len(world.store.operations()) == 1


def test_the_same_verb_again_finds_the_query_there_and_does_nothing() -> None:
    world = World()
    world.carry_out(world.request())
    again = world.request()
    assert world.carry_out(again) is None
    answered = world.store.request(again.id)
    assert answered is not None
    assert answered.refused == f"not-already-there: {QUERY} is already on west"
    assert len(world.starts) == 1


def test_a_request_carried_out_but_not_answered_is_not_done_again() -> None:
    world = World()
    request = world.request()
    world.carry_out(request)
    force(world.store, requests, request)  # as if the answer had been lost
    operation = world.carry_out(request)
    assert operation is not None
    answered = world.store.request(request.id)
    assert answered is not None
    assert (answered.operation, answered.refused) == (operation.id, None)
    assert len(world.starts) == 1


def test_a_query_that_finds_nothing_left_to_read_has_moved_all_the_same() -> None:
    world = World()
    world.clusters["west"].cut("orders", 133)
    world.runner.commits, world.runner.idle = False, True
    operation = world.carry_out(world.request(), seconds=5)
    assert operation is not None
    plan: Any = plan_of(operation)
    assert plan["totals"]["first_batch_records"] == 0
    assert (operation.phase, operation.outcome) == (Phase.SETTLED, "done")
    assert "nothing was there to read, so no batch has proven it yet" in operation.sentence
    assert operation.measured.first_commit_at is None
    assert operation.measured.switch_seconds is not None


def test_nothing_to_read_proves_no_move_where_records_wait() -> None:
    """The plan saw 20 of them behind the resume offsets: a run that found none has not looked there yet."""
    world = World()
    world.runner.commits, world.runner.idle = False, True
    operation = world.carry_out(world.request(), seconds=5)
    assert operation is not None
    assert operation.phase is Phase.VERIFYING
    assert (
        "it found nothing to read yet, and the plan saw 20 records there: waiting for its first batch"
        in operation.sentence
    )


def test_only_the_first_batch_with_data_proves_the_move() -> None:
    world = World()
    world.runner.commits = False
    request = world.request()
    operation = world.carry_out(request, seconds=5)
    assert operation is not None
    assert operation.phase is Phase.VERIFYING
    assert "waiting for its first batch" in operation.sentence
    world.runner.commits = True
    operation = world.carry_out(request)
    assert operation is not None
    assert operation.outcome == "done"


def test_without_evidence_the_operation_is_blocked_until_a_consent_joins_it() -> None:
    world = World()
    world.runner.proof = None
    operation = world.carry_out(world.request(), seconds=10)
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.BLOCKED, None)
    assert "nothing proves that the old run has stopped" in operation.sentence
    assert world.starts == []
    assert world.runner.handled.count("fence#2") == 1
    settled = world.carry_out(world.request(consents=("unfenced",)))
    assert settled is not None
    assert (settled.id, settled.outcome) == (operation.id, "done")
    assert plan_of(settled)["fence"] == "consent"


def on_another_host(world: World) -> World:
    """Runner b can look at nothing of runner a's host."""
    world.other.host, world.other.instance, world.other.proof = "elsewhere", "two", None
    world.other.alive = True
    return world


def test_a_clean_stop_is_proof_enough_for_a_runner_on_another_host() -> None:
    world = on_another_host(World())
    world.runner.stop()
    operation = world.carry_out(world.request())
    assert operation is not None
    assert (operation.outcome, operation.consents) == ("done", ())
    assert [start.runner for start in world.starts] == ["b"]


def test_a_runner_stopped_and_started_elsewhere_needs_no_consent() -> None:
    world = World()
    world.runner.stop()
    world.runner.alive, world.runner.instance, world.runner.host, world.runner.proof = True, "two", "h2", None
    world.runner._obey = lambda assignment: None  # type: ignore[method-assign] # it is still starting Spark
    request = world.request()
    operation = world.carry_out(request, seconds=2)
    del world.runner._obey
    operation = world.carry_out(request)
    assert operation is not None
    assert operation.outcome == "done"
    fence = next(intent for intent in world.store.intents(operation.id) if intent.kind is IntentKind.FENCE)
    assert fence.request["hosting"]["instance"] == "one"  # type: ignore[index] # plain JSON


def test_a_runner_that_obeys_the_hold_proves_it_to_one_that_could_not() -> None:
    world = on_another_host(World())
    world.runner.answers = False
    fenced = world.other._do

    def say_it_late(intent: Intent) -> object:
        report = fenced(intent)
        world.runner.stop()
        return report

    world.runner.alive = False  # its heartbeat is lost, its store is not
    world.clock.wait(6)
    world.other._do = say_it_late  # type: ignore[method-assign, assignment] # passed through
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"
    fences = [intent for intent in world.store.intents(operation.id) if intent.kind is IntentKind.FENCE]
    hosting = [cast(dict[str, Any], intent.request["hosting"]) for intent in fences]
    assert [each["stopped"] for each in hosting] == [False, True]


def test_a_killed_runner_without_registration_is_named_in_full() -> None:
    world = on_another_host(World())
    world.runner.alive = False
    world.store.unregister("a", "one")
    operation = world.carry_out(world.request(), seconds=10)
    assert operation is not None
    assert operation.phase is Phase.BLOCKED
    fence = next(intent for intent in world.store.intents(operation.id) if intent.kind is IntentKind.FENCE)
    hosting = cast(dict[str, Any], fence.request["hosting"])
    assert (hosting["host"], hosting["boot_id"], hosting["pid"], hosting["stopped"]) == ("h", "b", 1, False)


def test_evidence_that_turns_up_later_unblocks() -> None:
    world = World()
    world.runner.proof = None
    world.carry_out(world.request(), seconds=5)
    world.runner.proof = world.other.proof
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"


def test_without_a_runner_the_operation_waits_and_says_how_to_start_one() -> None:
    world = World()
    world.runner.alive = False
    world.clock.wait(6)
    operation = world.carry_out(world.request(), seconds=3)
    assert operation is not None
    assert operation.phase is Phase.BLOCKED
    assert "tideover run --name a" in operation.sentence
    world.other.alive = True
    world.clock.wait(1)
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"
    assert [start.runner for start in world.starts] == ["b"]


def test_a_runner_that_dies_right_after_its_fence_is_waited_for() -> None:
    world = World()
    original = world.runner._answer

    def die_after_fence(intent: Intent) -> None:
        original(intent)
        world.runner.alive = False
        world.clusters["west"].reachable = False

    world.runner._answer = die_after_fence  # type: ignore[method-assign] # the fault
    request = world.request()
    world.carry_out(request, seconds=12)
    world.clusters["west"].reachable = True
    operation = world.carry_out(request, seconds=5)
    assert operation is not None
    assert operation.phase is Phase.BLOCKED
    world.runner._answer = original  # type: ignore[method-assign] # a new process
    world.runner.alive = True
    operation = world.carry_out(request)
    assert operation is not None
    assert operation.outcome == "done"


@pytest.mark.parametrize("kind", [IntentKind.FENCE, IntentKind.PREPARE])
def test_a_runner_that_dies_with_an_intent_is_replaced_by_another(kind: IntentKind) -> None:
    world = World()
    world.other.alive = True
    original = world.runner._answer

    def die_on(intent: Intent) -> None:
        if intent.kind is kind:
            world.runner.alive = False
        else:
            original(intent)

    world.runner._answer = die_on  # type: ignore[method-assign] # the fault
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"
    assert [start.runner for start in world.starts] == ["b"]
    assert f"{kind.value}#2" in world.other.handled
    first = next(intent for intent in world.store.intents(operation.id) if intent.name == kind.value)
    assert first.result == {"kind": "withdrawn", "text": "runner b got the order instead", "hint": ""}
    assert world.store.pending_intents("a") == []


def test_a_checkpoint_that_moved_on_is_read_and_resolved_again() -> None:
    world = World()
    original = world.runner._prepare
    checkpoint = world.checkpoints[f"/cp/{QUERY}"]

    def move_on_once(request: PrepareRequest, old: Checkpoint) -> PrepareReport | Failure:
        if checkpoint.batch == 7:
            checkpoint.batch = 8
            checkpoint.offsets = {"orders": {"orders": {"0": 105, "1": 100}}}
            world.track(QUERY, 8, 105)
        return original(request, old)

    world.runner._prepare = move_on_once  # type: ignore[method-assign] # the fault
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"
    assert "inspect" in world.runner.handled
    assert "prepare#2" in world.runner.handled
    assert world.starts[0].checkpoint.endswith(f"{operation.id}-2")
    assert world.checkpoints[world.starts[0].checkpoint].offsets["orders"]["orders"] == {"0": PLACE + 5, "1": PLACE}


def assert_went_back(world: World, outcome: str) -> None:
    (operation,) = world.store.operations()
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, outcome)
    assignment = world.store.assignment(QUERY)
    assert assignment is not None
    assert (assignment.cluster, assignment.epoch, assignment.desired) == ("east", 3, Desired.RUNNING)
    assert assignment.checkpoint == f"/cp/{QUERY}"
    assert world.checkpoints[f"/cp/{QUERY}"].planted == set()
    world.clock.wait(1)
    assert [start.cluster for start in world.starts] == ["east"]


def test_a_gate_that_refuses_after_the_fence_returns_the_query() -> None:
    world = World(settings(policy={"max_exposure": "5s"}))
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.sentence == LACKS_TOO_MUCH
    assert plan_of(operation)["refused"] is True
    assert_went_back(world, "refused")


def test_the_reason_of_a_refusal_outlasts_the_wait_for_a_runner() -> None:
    world = World(settings(policy={"max_exposure": "5s"}))
    request = world.request()

    def leave() -> None:
        world.runner.alive = "resolve" not in {step.name for step in world.store.steps(request.id)}

    world.clock.lives.insert(0, leave)
    operation = world.carry_out(request, seconds=30)
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, None)
    assert "; no runner of revenue is alive" in operation.sentence
    del world.clock.lives[0]
    world.runner.alive = True
    operation = world.carry_out(request)
    assert operation is not None
    assert operation.sentence == LACKS_TOO_MUCH
    assert_went_back(world, "refused")


def test_a_consent_lets_the_same_gate_pass() -> None:
    world = World(settings(policy={"max_exposure": "5s"}))
    operation = world.carry_out(world.request(consents=("loss",)))
    assert operation is not None
    assert operation.outcome == "done"


def test_a_full_disk_while_preparing_gives_the_query_back() -> None:
    world = World()
    world.runner.failures = {IntentKind.PREPARE: [Failure(kind="no-space", text="no space left on device")]}
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.sentence == "the new checkpoint cannot be made: no space left on device"
    assert_went_back(world, "failed")


def test_a_passing_fault_of_the_runner_is_tried_again() -> None:
    world = World()
    fault = Failure(kind="internal", text="py4j went away")
    world.runner.failures = {kind: [fault] for kind in (IntentKind.FENCE, IntentKind.PREPARE)}
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"


HICCUP = Failure(kind=FileSystemError.kind, text="/cp: the name node is in safe mode")


@pytest.mark.parametrize("kind", [IntentKind.FENCE, IntentKind.PREPARE])
@pytest.mark.parametrize("error", [FileSystemError, FileVanished, StoreUnavailable])
def test_storage_that_is_away_for_a_while_is_tried_until_it_is_back(
    kind: IntentKind, error: type[TideoverError]
) -> None:
    world = World()
    world.runner.failures = {kind: [Failure(kind=error.kind, text="away")] * 5}
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"
    assert 10 < world.clock.passed < 20, "there is a pause before each try"


def test_storage_lost_before_the_commit_ends_the_operation_and_returns_it() -> None:
    world = World()
    world.runner.failures = {IntentKind.PREPARE: [HICCUP] * 1000}
    operation = world.carry_out(world.request(), seconds=200)
    assert operation is not None
    assert "name node is in safe mode" in operation.sentence
    assert 90 < world.clock.passed < 110
    assert_went_back(world, "failed")


def test_a_checkpoint_still_written_to_is_given_up_and_stays_with_its_runner() -> None:
    """A person consented that the silent runner's run was over, and it was not."""
    world = World()
    world.clock.wait(1)
    world.runner.alive, world.other.alive, world.other.proof = False, True, None
    world.clock.wait(6)
    prepare, checkpoint = world.other._prepare, world.checkpoints[f"/cp/{QUERY}"]

    def move_on(request: PrepareRequest, old: Checkpoint) -> PrepareReport | Failure:
        checkpoint.batch += 1
        return prepare(request, old)

    world.other._prepare = move_on  # type: ignore[method-assign] # the fault
    operation = world.carry_out(world.request(consents=("unfenced",)), seconds=60)
    assert operation is not None
    assert operation.outcome == "failed"
    assert operation.sentence.endswith("for the 11th time: something still writes to the checkpoint")
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.desired, row.cluster, row.runner) == (Desired.RUNNING, "east", "a")


@pytest.mark.parametrize("failure", [HICCUP, Failure(kind="unreadable", text="commits/7 is cut short")])
def test_a_fence_is_taken_away_however_often_that_fails(failure: Failure) -> None:
    world = World(settings(policy={"max_exposure": "5s"}))
    world.runner.failures = {IntentKind.RELEASE: [failure] * 8}
    request = world.request()
    operation = world.carry_out(request, seconds=10)
    assert operation is not None
    assert operation.is_open
    assert operation.phase is Phase.ABORTED
    assert operation.sentence.startswith("exposure: the standby lacks 10.0 s of records")
    assert operation.sentence.endswith(failure.text)
    assert world.starts == []
    operation = world.carry_out(request)
    assert operation is not None
    assert operation.sentence == LACKS_TOO_MUCH
    assert_went_back(world, "refused")


@pytest.mark.parametrize("error", [HalfWritten, AccessDenied])
def test_an_unreadable_checkpoint_gives_the_query_back_at_once(error: type[TideoverError]) -> None:
    world = World()
    world.runner.failures = {IntentKind.FENCE: [Failure(kind=error.kind, text="commits/7")]}
    operation = world.carry_out(world.request())
    assert operation is not None
    assert world.clock.passed < 1
    assert_went_back(world, "failed")


def only_b_is_alive() -> World:
    world = World()
    world.runner.alive = False
    world.other.alive = True
    world.clock.wait(6)
    return world


def test_an_abort_without_proof_leaves_the_query_with_its_runner() -> None:
    world = only_b_is_alive()
    world.other.failures = {IntentKind.FENCE: [Failure(kind="unreadable", text="commits/7 is cut short")]}
    operation = world.carry_out(world.request())
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, "failed")
    assignment = world.store.assignment(QUERY)
    assert assignment is not None
    assert (assignment.runner, assignment.cluster, assignment.epoch) == ("a", "east", 3)
    world.clock.wait(1)
    assert world.starts == [], "b must not start what a may still be running"


def test_an_abort_with_proof_gives_the_query_to_a_runner_that_is_alive() -> None:
    world = only_b_is_alive()
    world.other.failures = {IntentKind.PREPARE: [Failure(kind="no-space", text="no space left on device")]}
    operation = world.carry_out(world.request())
    assert operation is not None
    assert_went_back(world, "failed")
    assert [start.runner for start in world.starts] == ["b"]


@pytest.mark.parametrize("gone", ["cluster", "topic", "partition"])
def test_a_standby_that_lacks_something_refuses_before_anything_stops(gone: str) -> None:
    world = World()
    west = world.clusters["west"]
    if gone == "cluster":
        west.reachable = False
    if gone == "topic":
        west.topics.clear()
    request = world.request()
    if gone == "partition":
        del west.topics["orders"].partitions[1]
        operation = world.carry_out(request)
        assert operation is not None
        assert "partitions-present" in operation.sentence
        assert_went_back(world, "refused")
        return
    assert world.carry_out(request) is None
    assert world.store.operations() == []
    assert world.store.history()[-1].kind == "refused"


def test_a_standby_that_dies_after_the_fence_is_retried_then_given_up() -> None:
    world = World()
    world.runner.answers = False
    request = world.request()
    world.carry_out(request, seconds=1)
    world.clusters["west"].reachable = False
    world.runner.answers = True
    operation = world.carry_out(request, seconds=300)
    assert operation is not None
    assert operation.sentence.startswith("west did not answer")
    assert world.clusters["west"].requested > 20
    assert_went_back(world, "failed")


def test_a_standby_that_comes_back_in_time_is_used() -> None:
    world = World()
    world.runner.answers = False
    request = world.request()
    world.carry_out(request, seconds=1)
    world.clusters["west"].reachable = False
    world.runner.answers = True
    operation = world.carry_out(request, seconds=20)
    assert operation is not None
    assert operation.phase is Phase.RESOLVING
    world.clusters["west"].reachable = True
    operation = world.carry_out(request)
    assert operation is not None
    assert operation.outcome == "done"


def test_a_query_that_fails_on_the_standby_stays_open_with_its_error() -> None:
    world = World()
    world.runner.start_error = "ModuleNotFoundError: no module named sink"
    request = world.request()
    operation = world.carry_out(request, seconds=20)
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.VERIFYING, None)
    assert "no module named sink" in operation.sentence
    world.runner.start_error = None
    operation = world.carry_out(request)
    assert operation is not None
    assert operation.outcome == "done"


def test_a_stateful_query_whose_place_is_not_exact_is_refused() -> None:
    world = World(settings(methods=["timestamp"], buffer="1s"))
    world.checkpoints[f"/cp/{QUERY}"].operators = (StateOperator(id=0, name="stateStoreSave", partitions=2),)
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.sentence.startswith("repeats-into-state: ")
    assert_went_back(world, "refused")


def test_a_planned_batch_whose_ends_are_both_exact_is_planned_again() -> None:
    world = World()
    checkpoint = world.checkpoints[f"/cp/{QUERY}"]
    checkpoint.planned = Planned(batch=8, offsets={"orders": {"orders": {"0": 104, "1": 101}}}, sink=SinkState.UNKNOWN)
    world.track(QUERY, 8, 104)
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"
    assert plan_of(operation)["uncommitted_batch"] == "replan"
    prepare = next(i for i in world.store.intents(operation.id) if i.kind is IntentKind.PREPARE)
    assert prepare.request["planned_target_offsets"] == {"orders": {"orders": {"0": PLACE + 4, "1": PLACE + 1}}}


def test_a_second_failover_goes_back_by_the_positions_read_on_the_standby() -> None:
    world = World()
    world.carry_out(world.request())
    world.clock.wait(5)
    placed = world.checkpoints[world.starts[0].checkpoint]
    placed.batch, placed.offsets = 10, {"orders": {"orders": {"0": PLACE + 5, "1": PLACE + 5}}}
    operation = world.carry_out(world.request(target="east"))
    assert operation is not None
    assert operation.source == "west"
    # What was tracked on east before the move says nothing about west's offsets.
    plan: Any = plan_of(operation)
    assert plan is not None
    assert all(partition["method"] != "exact" for partition in plan["partitions"])


def test_a_fresh_start_names_exactly_all_partitions() -> None:
    world = World(settings(resume="fresh", methods=["timestamp"], buffer="10s", sink="keyed"))
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done"
    (start,) = world.starts
    assert start.starting_offsets == {"orders": {"orders": {"0": PLACE - 11, "1": PLACE - 11}}}
    assert plan_of(operation)["starting_offsets"] == {"orders": {"0": PLACE - 11, "1": PLACE - 11}}
    assert replace(start, starting_offsets=None).cluster == "west"


def between_runs() -> World:
    """The query is one of an application, whose last run has read what was there, and which does not run now."""
    known = settings().model_dump(mode="json", exclude_unset=True)
    (query,) = known["queries"].values()
    query |= {"attach": "a"}
    del query["pipeline"], query["runners"]
    world = World(Tideover.model_validate({**known, "store": "sqlite://"}))
    (fact,) = world.store.query_facts()
    world.store.report_query(replace(fact, state=RunState.AWAITED))
    world.runner.alive = False
    world.clock.wait(6)
    return world


def test_between_two_runs_of_an_application_its_move_awaits_the_next_one() -> None:
    world = between_runs()
    facts = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    ).before(OperationKind.FAILOVER, QUERY, "west")
    gate = next(each for each in judge_move(facts) if each.name == "runner-alive")
    assert (gate.ok, gate.measured) == (True, "awaited")
    request = world.request()
    waiting = RequestWait(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock,
        lead=world.lead(), actor="ann",
    )  # fmt: skip
    began = world.clock.passed
    (standing,) = waiting.see_through([request], seconds=600)
    assert world.clock.passed - began < 60, "nothing is waited for that only the next start can do"
    operation = outcome_of(world.store, standing)
    assert operation is not None
    assert (operation.phase, operation.is_open) == (Phase.BLOCKED, True)
    assert operation.sentence == f"awaits the next start of a, which does not run now: {QUERY} is moved by that start"
    world.runner.alive = True
    world.clock.wait(1)
    done = world.carry_out(standing)
    assert done is not None
    assert done.outcome == "done"


def test_a_move_that_awaits_the_next_run_is_cancelled_without_it() -> None:
    world = between_runs()
    world.carry_out(world.request(), seconds=3)
    back = world.request(target="east")
    operation = world.carry_out(back, seconds=3)
    assert operation is None or not operation.is_open
    (closed,) = world.store.operations(query=QUERY)
    assert (closed.outcome, closed.is_open) == ("refused", False), closed.sentence
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.cluster, row.desired) == ("east", Desired.RUNNING)
