"""What is scheduled becomes requests when it is due, once, whichever controller leads then. APScheduler's CronTrigger
computes when a cron expression comes next. An expression has cron's five fields: minute, hour, day of the month, month,
day of the week. APScheduler 3.11 reads it, with three differences from cron that are mended or refused here. It counts
days of the week from Monday. It wants both days to match where cron wants one. Around the end of summer time its
answers go back in time. So it is called with wall-clock time without a zone. A wall-clock time that comes twice counts
the first time; one that is left out in spring counts as much later as the clock was put forward.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog
from apscheduler.triggers.cron import CronTrigger

from orchestrator.new_requests import RequestSpec, requests_of
from orchestrator.rounds import apart
from state.errors import Conflict
from state.model.automation import Schedule
from state.model.entities import MOVES, Event, OperationKind, Request
from state.settings.keys import Tideover
from state.settings.topics import chains_of
from state.store.controller_store import ControllerStore

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_NUMBER = re.compile(r"(?<![/\w])\d+")
_FIELDS = 5
_MOST_TRIES = 10_000


def zone_of(name: str) -> tzinfo:
    """A time zone by its IANA name; UTC is known on hosts without a data base of zones, too. Raises ``ValueError``."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone: write UTC, or a name such as Europe/Zurich") from None


def next_time(cron: str, zone: str, after: datetime) -> datetime | None:
    """The first time behind ``after``, in UTC; None when there is none. Raises ``ValueError`` with a sentence."""
    trigger, place = _trigger(cron), zone_of(zone)
    wall = after.astimezone(place).replace(tzinfo=UTC, fold=0)
    for _ in range(_MOST_TRIES):
        found: datetime | None = trigger.get_next_fire_time(None, wall)
        if found is None:
            return None
        due = found.replace(tzinfo=place, fold=0).astimezone(UTC)
        if due > after:
            return due
        wall = found + timedelta(microseconds=1)
    return None


def _trigger(cron: str) -> CronTrigger:
    fields = cron.split()
    if len(fields) != _FIELDS:
        raise ValueError(
            f"{cron!r} has {len(fields)} fields, and cron has five: minute, hour, day of the month, month, day of the "
            "week; 0 3 * * 1 is each Monday at 03:00"
        )
    if fields[2] != "*" and fields[4] != "*":
        raise ValueError(f"{cron!r} names a day of the month and a day of the week: leave one of them *")
    fields[4] = _DAY_NUMBER.sub(_day, fields[4])
    try:
        return CronTrigger.from_crontab(" ".join(fields), timezone=UTC)
    except ValueError as error:
        raise ValueError(f"{cron!r} is not a cron expression: {error}") from None


def _day(number: re.Match[str]) -> str:
    if int(number[0]) >= len(_DAYS):
        raise ValueError(f"there is no day {number[0]} of the week: 0 and 7 are Sunday")
    return _DAYS[int(number[0])]


GRACE = {OperationKind.SWITCHOVER: timedelta(minutes=10), OperationKind.DRILL: timedelta(hours=1)}
"""How late it may begin. What was meant for the quiet of the night is not done in the morning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """What is done with a schedule whose time has come."""

    is_due: bool
    """Whether requests are written; else it came too late."""
    next_at: datetime | None
    text: str


def due(schedule: Schedule, now: datetime, following: datetime | None) -> Due | None:
    """What is done now; None while its time has not come. ``now`` is the store's time.

    ``following`` is when it comes next behind ``now``; None where it comes once.
    """
    if schedule.next_at is None or now < schedule.next_at:
        return None
    late, grace = now - schedule.next_at, GRACE[schedule.kind]
    if late <= grace:
        return Due(is_due=True, next_at=following, text=f"{schedule.kind.value} requested as scheduled")
    return Due(
        is_due=False,
        next_at=following,
        text=f"{schedule.kind.value} missed: no controller led for {late.total_seconds() / 60:.0f} minutes, "
        f"and it may begin at most {grace.total_seconds() / 60:.0f} minutes late",
    )


log = structlog.get_logger()


def request_due(store: ControllerStore, settings: Tideover, *, term: Callable[[], int | None]) -> int:
    """Write the requests of every schedule that is due; of how many. Raises ``StoreError`` and ``StaleTerm``.

    The requests and the next time are one transaction: a leader that dies before it leaves both to the next one. What
    is wrong with one schedule (a time zone that this host no longer has) is raised behind the others.
    """
    requested, wrong = 0, list[Exception]()
    for schedule in store.schedules():
        leading, now = term(), store.now()
        if leading is None or schedule.is_over:
            break
        with apart(wrong):
            requested += _requested(store, settings, schedule, now, term=leading)
    if wrong:
        raise wrong[0]
    return requested


def _requested(store: ControllerStore, settings: Tideover, schedule: Schedule, now: datetime, *, term: int) -> bool:
    """Whether the requests of one schedule were written now."""
    following = next_time(schedule.cron, schedule.zone, now) if schedule.cron is not None else None
    found = due(schedule, now, following)
    if found is None:
        return False
    requests = _requests(store, settings, schedule) if found.is_due else ()
    event = _event(store, schedule, found)
    try:
        fired = store.fire(
            schedule, next_at=found.next_at, outcome=found.text, requested=requests, event=event, term=term
        )
    except Conflict as error:  # ids are drawn again in the next round
        log.warning("a schedule is tried again", schedule=schedule.id, error=str(error))
        return False
    if fired:
        log.info("schedule due", schedule=schedule.id, text=found.text, requests=[each.id for each in requests])
    return fired


def _requests(store: ControllerStore, settings: Tideover, schedule: Schedule) -> tuple[Request, ...]:
    spec = RequestSpec(
        kind=schedule.kind,
        targets=dict.fromkeys(chains_of(settings).in_order(schedule.queries or settings.queries), schedule.target),
        expect_active={},
        actor=schedule.actor,
        reason=f"{schedule.reason} (schedule {schedule.id})".strip(),
        consents=schedule.consents,
        within=GRACE[schedule.kind],
        waves=settings.operations.waves if schedule.kind in MOVES else (),
    )
    return requests_of(store, spec)


def _event(store: ControllerStore, schedule: Schedule, found: Due) -> Event:
    only = schedule.queries[0] if len(schedule.queries) == 1 else None
    return Event(
        sequence=None, at=store.now(), kind="schedule", query=only, operation=None, epoch=None, actor=schedule.actor,
        text=f"schedule {schedule.id}: {found.text}", detail={"schedule": schedule.id},
    )  # fmt: skip
