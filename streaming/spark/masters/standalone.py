"""A Spark standalone master, by the JSON of its web page (``JsonProtocol.writeMasterState``).

It gives no address of a driver, and forgets ended applications after ``spark.deploy.retainedApplications``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from streaming.errors import ServiceTrouble
from streaming.rest import Service
from streaming.spark.masters.ending import SECONDS, Ending
from streaming.spark.masters.listing import LIST_SECONDS, ListedApplication, rows_of

_WHAT = "a standalone master"


def application_ended(address: str, application: str) -> Ending:
    """Whether an application has ended, and with it its executors; one that the master does not know proves nothing.

    The driver may run on: a lost connection ends an application, too.
    """
    try:
        known = _state(address, SECONDS)
    except ServiceTrouble as error:
        return Ending(False, f"the master at {address} did not answer: {error}")
    if any(each.get("id") == application for each in rows_of(known.get("activeapps"))):
        return Ending(False, f"the master says that {application} is active")
    for each in rows_of(known.get("completedapps")):
        if each.get("id") == application:
            return Ending(True, f"the master says that {application} ended ({each.get('state')})")
    return Ending(False, f"the master does not know {application}")


def applications(address: str) -> Iterator[ListedApplication]:
    """All that the master knows, those that run first. Raises ``ServiceTrouble``."""
    known = _state(address, LIST_SECONDS)
    if not {"activeapps", "completedapps"} <= known.keys():
        raise Service(address, what=_WHAT).odd("it lists no applications")
    for each in (*rows_of(known["activeapps"]), *rows_of(known["completedapps"])):
        yield ListedApplication(
            source=f"standalone:{address}",
            id=str(each.get("id")),
            name=each.get("name"),
            state=str(each.get("state")),
            is_running=each.get("state") in {"RUNNING", "WAITING"},
        )


def _state(address: str, seconds: float) -> Mapping[str, Any]:
    service = Service(address.rstrip("/"), what=_WHAT)
    known = service.query("/json/", timeout=seconds)
    if not isinstance(known, dict):
        raise service.odd("its answer is no object")
    return known
