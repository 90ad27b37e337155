"""What is scheduled becomes requests when it is due, once, whoever leads then."""

from collections.abc import Callable

import structlog

from orchestrator.cron import next_time
from orchestrator.decide.operation.schedule import GRACE, Due, due
from orchestrator.operation.requests import RequestSpec, requests_of
from state.errors import Conflict
from state.model.automation import Schedule
from state.model.entities import Event, Request
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore

log = structlog.get_logger()


def ask_for_due(store: ControllerStore, settings: Tideover, *, term: Callable[[], int | None]) -> int:
    """Write the requests of every schedule that is due; of how many. Raises ``StoreError`` and ``StaleTerm``.

    The requests and the next time are one transaction: a leader that dies before it leaves both to the next one.
    """
    asked = 0
    for schedule in store.schedules():
        leading, now = term(), store.now()
        if leading is None or schedule.is_over:
            return asked
        following = next_time(schedule.cron, schedule.zone, now) if schedule.cron is not None else None
        found = due(schedule, now, following)
        if found is None:
            continue
        requests = _requests(store, settings, schedule) if found.asks else ()
        event = _event(store, schedule, found)
        try:
            fired = store.fire(
                schedule, next_at=found.next_at, outcome=found.text, asked=requests, event=event, term=leading
            )
        except Conflict as error:  # ids are drawn anew in the next round
            log.warning("a schedule is tried again", schedule=schedule.id, error=str(error))
            continue
        if fired:
            log.info("schedule due", schedule=schedule.id, text=found.text, requests=[each.id for each in requests])
            asked += 1
    return asked


def _requests(store: ControllerStore, settings: Tideover, schedule: Schedule) -> tuple[Request, ...]:
    spec = RequestSpec(
        kind=schedule.kind,
        targets=dict.fromkeys(schedule.queries or settings.queries, schedule.target),
        expect_active={},
        actor=schedule.actor,
        reason=f"{schedule.reason} (schedule {schedule.id})".strip(),
        consents=schedule.consents,
        within=GRACE[schedule.kind],
    )
    return requests_of(store, spec)


def _event(store: ControllerStore, schedule: Schedule, found: Due) -> Event:
    only = schedule.queries[0] if len(schedule.queries) == 1 else None
    return Event(
        sequence=None, at=store.now(), kind="schedule", query=only, operation=None, epoch=None, actor=schedule.actor,
        text=f"schedule {schedule.id}: {found.text}", detail={"schedule": schedule.id},
    )  # fmt: skip
