"""What every store promises about leading, requests, assignments and operations; in memory, SQLite and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from state.errors import Conflict, StaleTerm
from state.model.entities import EVERY_KIND, RESIGNED, Desired, OperationKind, Phase
from state.model.measured import Measured
from state.store.controller_store import ControllerStore
from state.store.write_checks import CONTROLLER
from tests.contract import samples
from tests.contract.samples import AT, SECOND, TTL, held, term_of


# -- leading ---------------------------------------------------------------------------------------------------------
def test_the_first_to_lead_has_a_term_and_keeps_it_while_renewing(store: ControllerStore) -> None:
    before = store.now()
    lease = store.lead(CONTROLLER, "one", TTL)
    assert lease is not None
    assert lease.holder == "one"
    assert lease.term >= 1
    assert before + TTL <= lease.expires_at <= store.now() + TTL
    renewed = store.lead(CONTROLLER, "one", TTL)
    assert renewed is not None
    assert renewed.term == lease.term
    assert renewed.expires_at >= lease.expires_at
    assert store.leader(CONTROLLER) == renewed


def test_no_other_controller_leads_while_a_lease_runs(store: ControllerStore) -> None:
    lease = store.lead(CONTROLLER, "one", TTL)
    assert store.lead(CONTROLLER, "two", TTL) is None
    assert store.leader(CONTROLLER) == lease
    assert store.lead("other", "two", TTL) is not None


def test_a_lapsed_lease_goes_to_the_next_with_a_higher_term(store: ControllerStore) -> None:
    assert term_of(store, "one") < term_of(store, "two") < term_of(store, "one")


def test_a_resigned_lease_is_free_at_once_but_only_its_holder_can_resign(store: ControllerStore) -> None:
    lease = store.lead(CONTROLLER, "one", TTL)
    assert lease is not None
    store.resign(replace(lease, holder="two"))
    store.resign(replace(lease, term=lease.term + 1))
    assert store.lead(CONTROLLER, "two", TTL) is None
    store.resign(lease)
    taken = store.lead(CONTROLLER, "two", TTL)
    assert taken is not None
    assert taken.term > lease.term


def test_a_resigned_lease_is_free_also_when_the_clock_was_set_back(store: ControllerStore) -> None:
    lease = store.lead(CONTROLLER, "one", TTL)
    assert lease is not None
    store.resign(lease)
    resigned = store.leader(CONTROLLER)
    assert resigned == replace(lease, expires_at=RESIGNED)
    assert resigned.expires_at < store.now() - timedelta(days=365)


def test_a_lease_from_before_the_clock_was_set_back_delays_no_controller(store: ControllerStore) -> None:
    ahead = store.lead(CONTROLLER, "one", 3 * TTL)
    assert ahead is not None
    taken = store.lead(CONTROLLER, "two", TTL)
    assert taken is not None
    assert (taken.holder, taken.term > ahead.term) == ("two", True)
    assert store.lead(CONTROLLER, "one", TTL) is None


def test_a_lease_that_may_end_as_late_as_it_does_is_left_to_its_holder(store: ControllerStore) -> None:
    assert store.lead(CONTROLLER, "one", 2 * TTL) is not None
    assert store.lead(CONTROLLER, "two", TTL) is None


def test_a_dead_holder_is_replaced_before_its_lease_ends(store: ControllerStore) -> None:
    assert store.seize(CONTROLLER, "two", "one", TTL) is None
    lease = store.lead(CONTROLLER, "one", TTL)
    assert lease is not None
    assert store.seize(CONTROLLER, "two", "somebody", TTL) is None
    taken = store.seize(CONTROLLER, "two", "one", TTL)
    assert taken is not None
    assert taken.holder == "two"
    assert taken.term > lease.term
    assert store.seize(CONTROLLER, "three", "one", TTL) is None


def test_a_stale_leader_can_write_nothing(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    store.add_request(samples.request())
    stale = term_of(store, "one")
    term = term_of(store, "two")
    with pytest.raises(StaleTerm):
        store.hold(samples.operation(), from_epoch=1, term=stale, step=samples.step(), event=samples.event())
    with pytest.raises(StaleTerm):
        store.record(samples.operation(), term=stale, events=[samples.event()])
    with pytest.raises(StaleTerm):
        store.answer("request-1", term=stale, refused="no", event=samples.event())
    with pytest.raises(StaleTerm):
        store.note(samples.event(), term=stale)
    store.hold(samples.operation(), from_epoch=1, term=term, step=samples.step(), event=samples.event())
    with pytest.raises(StaleTerm):
        store.place(
            samples.assignment(epoch=2, placed_epoch=2),
            operation=samples.operation(),
            from_epoch=2,
            term=stale,
            steps=[],
            event=samples.event(),
        )
    assert len(store.history()) == 1
    assert store.open_requests() == [samples.request()]
    assert store.assignments() == [samples.assignment(epoch=2, desired=Desired.HELD, operation="op-1")]


def test_a_write_before_anybody_led_is_refused(store: ControllerStore) -> None:
    with pytest.raises(StaleTerm, match="no controller leads yet, so a write with term 1 is refused"):
        store.record(samples.operation(), term=1)
    assert store.operation("op-1") is None


# -- requests --------------------------------------------------------------------------------------------------------
def test_the_requests_of_one_command_are_found_by_their_group(store: ControllerStore) -> None:
    later = samples.request(id="request-0", created_at=AT + SECOND)
    for each in (later, samples.request(), samples.request(id="other", group="group-2")):
        store.add_request(each)
    assert store.requests_of("group-1") == [samples.request(), later]


def test_a_request_waits_until_it_is_answered(store: ControllerStore) -> None:
    later = samples.request(id="request-2", created_at=AT + SECOND, target=None, expect_active="east", consents=())
    for request in (later, samples.request(), samples.request()):
        store.add_request(request)
    assert store.open_requests() == [samples.request(), later]
    term = term_of(store)
    store.answer("request-1", term=term, operation="op-1")
    store.answer("request-2", term=term, refused="west is down")
    assert store.open_requests() == []
    assert store.request("request-1") == samples.request(operation="op-1")
    assert store.request("request-2") == replace(later, refused="west is down")
    assert store.request("request-3") is None


@pytest.mark.parametrize("other", [{"query": "clicks"}, {"target": "north"}, {"reason": "typed by somebody else"}])
def test_two_requests_never_share_an_id(store: ControllerStore, other: dict[str, Any]) -> None:
    store.add_request(samples.request())
    with pytest.raises(Conflict, match="request-1 exists already"):
        store.add_request(samples.request(**other))
    store.answer("request-1", term=term_of(store), operation="op-1")
    store.add_request(samples.request())
    with pytest.raises(Conflict):
        store.add_request(samples.request(**other))
    assert store.request("request-1") == samples.request(operation="op-1")


def test_a_request_needs_the_leaders_term_and_a_time_that_is_not_over(store: ControllerStore) -> None:
    stale = term_of(store, "one")
    term = term_of(store, "two")
    with pytest.raises(StaleTerm):
        store.add_request(samples.request(), term=stale)
    with pytest.raises(ValueError, match="cannot end"):
        store.add_request(samples.request(expires_at=AT))
    assert store.open_requests() == []
    store.add_request(samples.request(), term=term)
    store.add_request(samples.request(id="request-2"))
    assert [request.id for request in store.open_requests()] == ["request-1", "request-2"]


def test_a_request_is_answered_once(store: ControllerStore) -> None:
    store.add_request(samples.request())
    term = term_of(store)
    store.answer("request-1", term=term, operation="op-1")
    store.answer("request-1", term=term, operation="op-1")
    with pytest.raises(Conflict):
        store.answer("request-1", term=term, refused="no")
    with pytest.raises(Conflict):
        store.answer("request-2", term=term, refused="no")
    with pytest.raises(ValueError, match="either"):
        store.answer("request-1", term=term)


def test_an_answer_and_its_line_of_history_are_one_write(store: ControllerStore) -> None:
    store.add_request(samples.request())
    term = term_of(store)
    for _ in range(2):
        store.answer("request-1", term=term, refused="no", event=samples.event(text="no"))
    with pytest.raises(Conflict):
        store.answer("request-1", term=term, operation="op-1", event=samples.event(text="yes"))
    with pytest.raises(Conflict):
        store.answer("request-2", term=term, refused="no", event=samples.event(text="no such request"))
    assert [event.text for event in store.history()] == ["no"]
    store.note(samples.event(text="by the way"), term=term)
    assert [event.text for event in store.history()] == ["no", "by the way"]


# -- assignments -----------------------------------------------------------------------------------------------------
def test_the_first_to_adopt_a_query_has_it(store: ControllerStore) -> None:
    assert store.adopt(samples.assignment(runner="a")) == samples.assignment(runner="a")
    assert store.adopt(samples.assignment(runner="b")).runner == "a"
    other = samples.assignment(query="late", starting_offsets=None)
    store.adopt(other)
    assert store.assignments() == [other, samples.assignment()]
    assert store.assignment("revenue") == samples.assignment()
    assert store.assignment("unknown") is None


def test_many_who_adopt_at_once_agree(store: ControllerStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        stored = set(pool.map(lambda i: store.adopt(samples.assignment(runner=f"r{i}")).runner, range(24)))
    assert len(stored) == 1


def test_a_hold_takes_the_next_epoch_and_opens_the_operation(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    term = term_of(store)
    held = store.hold(
        samples.operation(),
        from_epoch=1,
        term=term,
        step=samples.step(),
        event=samples.event(at=AT + SECOND),
    )
    assert held == samples.assignment(epoch=2, desired=Desired.HELD, operation="op-1", changed_at=AT + SECOND)
    assert store.assignment("revenue") == held
    assert store.operation("op-1") == samples.operation()
    assert store.steps("op-1") == [samples.step()]
    assert store.history() == [samples.event(sequence=1, at=AT + SECOND)]


def test_a_second_hold_of_a_query_writes_nothing(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    term = term_of(store)
    assert store.hold(samples.operation(), from_epoch=1, term=term, step=samples.step(), event=samples.event())
    other = samples.operation(id="op-2")
    step = samples.step(operation="op-2")
    assert store.hold(other, from_epoch=1, term=term, step=step, event=samples.event()) is None
    assert store.hold(replace(other, epoch=3), from_epoch=2, term=term, step=step, event=samples.event()) is None
    unknown = samples.operation(id="op-3", query="unknown")
    assert store.hold(unknown, from_epoch=1, term=term, step=samples.step(), event=samples.event()) is None
    assert [operation.id for operation in store.operations()] == ["op-1"]
    assert len(store.history()) == 1


def test_two_who_hold_at_once_open_one_operation(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    term = term_of(store)

    def hold(name: str) -> bool:
        operation = samples.operation(id=name)
        step = samples.step(operation=name)
        return store.hold(operation, from_epoch=1, term=term, step=step, event=samples.event()) is not None

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(hold, [f"op-{i}" for i in range(6)])) == 1
    assert len(store.operations()) == len(store.history()) == 1


def test_a_hold_that_names_the_wrong_epoch_is_a_mistake(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    operation = samples.operation(epoch=1)
    with pytest.raises(ValueError, match="epoch"):
        store.hold(operation, from_epoch=1, term=term_of(store), step=samples.step(), event=samples.event())


def test_a_commit_keeps_the_epoch_of_the_hold(store: ControllerStore) -> None:
    term = held(store)
    place = {"placed_epoch": 2, "cluster": "west", "checkpoint": "/c/2"}
    moved = samples.assignment(epoch=2, starting_offsets=None, operation="op-1", **place)
    starting = samples.operation(phase=Phase.STARTING)
    step = samples.step(sequence=2, name="commit", ended_at=AT, outcome="done", detail={"files": 3})
    done: dict[str, Any] = {
        "operation": starting,
        "from_epoch": 2,
        "term": term,
        "steps": [step],
        "event": samples.event(kind="moved"),
    }
    assert store.place(moved, **done)
    assert store.assignment("revenue") == moved
    assert store.operation("op-1") == starting
    assert store.steps("op-1") == [samples.step(), step]
    assert [event.kind for event in store.history()] == ["held", "moved"]


def test_an_abort_gives_back_with_the_next_epoch_and_happens_once(store: ControllerStore) -> None:
    term = held(store)
    back = samples.assignment(epoch=3)
    aborted = samples.operation(phase=Phase.ABORTED, outcome="refused", ended_at=AT)
    for expected in (True, False):
        placed = store.place(back, operation=aborted, from_epoch=2, term=term, steps=[], event=samples.event())
        assert placed is expected
    assert store.assignment("revenue") == back
    assert store.operations(only_open=True) == []
    assert len(store.history()) == 2
    with pytest.raises(ValueError, match="neither"):
        store.place(back, operation=aborted, from_epoch=4, term=term, steps=[], event=samples.event())


@pytest.mark.parametrize("change", [{"cluster": "west"}, {"checkpoint": "/c/2"}])
def test_a_query_moves_only_by_the_epoch_that_places_it(store: ControllerStore, change: dict[str, str]) -> None:
    term = held(store)
    stored = store.assignment("revenue")
    done: dict[str, Any] = {
        "operation": samples.operation(),
        "from_epoch": 2,
        "term": term,
        "steps": [],
        "event": samples.event(),
    }
    with pytest.raises(Conflict):
        store.place(samples.assignment(epoch=2, **change), **done)
    with pytest.raises(ValueError, match="no commit"):
        store.place(samples.assignment(epoch=3, placed_epoch=3, **change), **done)
    assert store.assignment("revenue") == stored
    assert store.place(samples.assignment(epoch=2, placed_epoch=2, **change), **done)
    assert store.place(samples.assignment(epoch=3, placed_epoch=2, **change), **done), "held again where it is"


def test_after_an_abort_the_query_can_be_held_again(store: ControllerStore) -> None:
    term = held(store)
    aborted = samples.operation(phase=Phase.ABORTED, outcome="aborted", ended_at=AT)
    store.place(
        samples.assignment(epoch=3), operation=aborted, from_epoch=2, term=term, steps=[], event=samples.event()
    )
    again = samples.operation(id="op-2", epoch=4)
    assert store.hold(again, from_epoch=3, term=term, step=samples.step(operation="op-2"), event=samples.event())


def test_a_place_that_conflicts_leaves_everything_as_it_was(store: ControllerStore) -> None:
    term = held(store)
    store.record(samples.operation(outcome="failed", ended_at=AT), term=term)
    before = (store.assignment("revenue"), store.operation("op-1"), store.steps("op-1"), store.history())
    with pytest.raises(Conflict):
        store.place(
            samples.assignment(epoch=2, placed_epoch=2),
            operation=samples.operation(),
            from_epoch=2,
            term=term,
            steps=[samples.step(sequence=2)],
            event=samples.event(),
        )
    assert (store.assignment("revenue"), store.operation("op-1"), store.steps("op-1"), store.history()) == before


# -- operations ------------------------------------------------------------------------------------------------------
def test_an_operation_is_recorded_with_its_steps_events_and_intents(store: ControllerStore) -> None:
    term = held(store)
    ended = samples.step(ended_at=AT + SECOND, outcome="done", detail={"epoch": 2})
    following = samples.step(sequence=2, name="fence")
    resolving = samples.operation(phase=Phase.RESOLVING, plan=None, measured=Measured(detect_seconds=1.5))
    store.record(
        resolving,
        term=term,
        steps=[following, ended],
        events=[samples.event(text="one"), samples.event(text="two", query=None, operation=None, epoch=None)],
        intents=[samples.intent()],
    )
    assert store.operation("op-1") == resolving
    assert store.steps("op-1") == [ended, following]
    assert [event.text for event in store.history(after=1)] == ["one", "two"]
    assert store.intents("op-1") == store.pending_intents("a") == [samples.intent()]
    assert store.pending_intents("b") == []
    assert store.operation("unknown") is None


@pytest.mark.parametrize("kind", OperationKind)
def test_an_operation_that_never_held_anything_can_be_recorded(store: ControllerStore, kind: OperationKind) -> None:
    refused = samples.operation(kind=kind, phase=Phase.BLOCKED, outcome="refused", ended_at=AT, consents=())
    store.record(refused, term=term_of(store))
    assert store.operations(kinds=EVERY_KIND) == [refused]


def test_a_closed_operation_is_never_opened_again_but_may_learn_more(store: ControllerStore) -> None:
    term = term_of(store)
    closed = samples.operation(phase=Phase.SETTLED, outcome="done", ended_at=AT)
    store.record(closed, term=term)
    for change in ({"outcome": None}, {"outcome": "failed"}):
        with pytest.raises(Conflict):
            store.record(replace(closed, **change), term=term, events=[samples.event()])
    store.record(replace(closed, measured=Measured(replay_later_records=3)), term=term)
    assert store.operation("op-1") == replace(closed, measured=Measured(replay_later_records=3))
    assert store.history() == []


def test_a_writer_that_saw_an_earlier_epoch_overwrites_no_later_row(store: ControllerStore) -> None:
    """A takeover has raised the epoch; who read the operation before that is late, be it by one."""
    term = held(store)
    placed: dict[str, Any] = {"from_epoch": 2, "term": term, "steps": [], "event": samples.event()}
    taken_over = samples.operation(phase=Phase.STARTING, epoch=3)
    assert store.place(samples.assignment(epoch=3, desired=Desired.HELD), operation=taken_over, **placed)
    with pytest.raises(Conflict):
        store.record(samples.operation(phase=Phase.VERIFYING, epoch=2), term=term, events=[samples.event()])
    assert store.operation("op-1") == taken_over


def test_consents_are_added_to_an_open_operation_and_recorded_once(store: ControllerStore) -> None:
    term = held(store)
    said = samples.event(kind="consent", text="operator consents")
    assert store.consent("op-1", ("unfenced", "loss"), term=term, event=said)
    assert store.consent("op-1", ("unfenced",), term=term, event=said)
    assert store.operation("op-1") == samples.operation(consents=("loss", "repeats", "unfenced"))
    assert [event.kind for event in store.history()] == ["held", "consent"]


def test_a_write_of_the_operation_never_undoes_a_consent(store: ControllerStore) -> None:
    term = held(store)
    store.consent("op-1", ("unfenced",), term=term, event=samples.event())
    everything = ("loss", "repeats", "unfenced")
    resolving = samples.operation(phase=Phase.RESOLVING, consents=())
    store.record(resolving, term=term)
    assert store.operation("op-1") == replace(resolving, consents=everything)
    starting = samples.operation(phase=Phase.STARTING, consents=("gap",))
    moved = samples.assignment(epoch=2, placed_epoch=2, cluster="west", operation="op-1")
    assert store.place(moved, operation=starting, from_epoch=2, term=term, steps=[], event=samples.event())
    assert store.operation("op-1") == replace(starting, consents=everything)


def test_a_closed_or_unknown_operation_takes_no_consent(store: ControllerStore) -> None:
    term = term_of(store)
    closed = samples.operation(phase=Phase.SETTLED, outcome="done", ended_at=AT)
    store.record(closed, term=term)
    for name in ("op-1", "op-2"):
        assert not store.consent(name, ("unfenced",), term=term, event=samples.event())
    assert store.operation("op-1") == closed
    assert store.history() == []
    with pytest.raises(StaleTerm):
        store.consent("op-1", ("unfenced",), term=term + 1, event=samples.event())


def test_an_operation_on_its_way_back_takes_no_new_consent(store: ControllerStore) -> None:
    term = held(store)
    aborted = samples.operation(phase=Phase.ABORTED)
    store.record(aborted, term=term)
    assert not store.consent("op-1", ("loss", "unfenced"), term=term, event=samples.event())
    assert store.consent("op-1", ("loss",), term=term, event=samples.event()), "it stands already"
    assert store.operation("op-1") == aborted
    assert [event.kind for event in store.history()] == ["held"]


def test_consents_given_while_an_operation_is_driven_are_all_kept(store: ControllerStore) -> None:
    term = held(store)
    names = [f"consent-{number}" for number in range(12)]

    def drive(number: int) -> None:
        standing = store.operation("op-1")
        assert standing is not None
        store.record(replace(standing, sentence=f"tick {number}"), term=term)

    with ThreadPoolExecutor(4) as pool:
        given = [pool.submit(store.consent, "op-1", (name,), term=term, event=samples.event()) for name in names]
        driven = [pool.submit(drive, number) for number in range(12)]
        assert all(future.result() for future in given)
        assert [future.result() for future in driven] == [None] * 12
    operation = store.operation("op-1")
    assert operation is not None
    assert set(operation.consents) == {"loss", "repeats", *names}


def test_a_query_has_at_most_one_open_operation(store: ControllerStore) -> None:
    term = term_of(store)
    store.record(samples.operation(), term=term)
    with pytest.raises(Conflict):
        store.record(samples.operation(id="op-2"), term=term, events=[samples.event()])
    store.record(samples.operation(id="op-3", query="other"), term=term)
    assert {operation.id for operation in store.operations()} == {"op-1", "op-3"}
    assert store.history() == []


def test_operations_of_a_query_are_ordered_by_epoch_not_by_clock(
    store: ControllerStore,
) -> None:
    term = term_of(store)
    for number in (1, 2, 3):
        store.record(
            samples.operation(id=f"op-{number}", epoch=number, outcome="done", started_at=AT - number * SECOND),
            term=term,
        )
    assert [operation.id for operation in store.operations(query="revenue")] == ["op-3", "op-2", "op-1"]
    assert [operation.id for operation in store.operations(query="revenue", limit=1)] == ["op-3"]
    assert [operation.id for operation in store.operations()] == ["op-1", "op-2", "op-3"]


def test_operations_are_listed_newest_first_and_can_be_narrowed(store: ControllerStore) -> None:
    term = term_of(store)
    for number in range(1, 6):
        outcome = None if number == 5 else "done"
        store.record(
            samples.operation(
                id=f"op-{number}",
                group=f"group-{number % 2}",
                query="late" if number == 3 else "revenue",
                outcome=outcome,
                started_at=AT + number * SECOND,
            ),
            term=term,
        )

    def ids(**narrow: Any) -> list[str]:
        return [operation.id for operation in store.operations(**narrow)]

    assert ids() == ["op-5", "op-4", "op-3", "op-2", "op-1"]
    assert ids(limit=2) == ["op-5", "op-4"]
    assert ids(group="group-1") == ["op-5", "op-3", "op-1"]
    assert ids(query="late") == ["op-3"]
    assert ids(query="revenue", only_open=True) == ["op-5"]
