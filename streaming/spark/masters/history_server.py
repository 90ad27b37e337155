"""Spark's history server, by its REST interface: the applications whose event logs it reads, and these logs."""

from collections.abc import Iterator

from streaming.rest import Service
from streaming.spark.masters.listing import LIST_SECONDS, ListedApplication, rows_of

_WHAT = "Spark's history server"
_LOG_SECONDS = 60.0
MOST_BYTES = 256 * 1024 * 1024
"""Of one application's logs, as a ZIP archive; longer ones are read from their directory."""


def applications(address: str) -> Iterator[ListedApplication]:
    """All that the server knows, each with its newest attempt. Raises ``ServiceTrouble``."""
    service = _service(address)
    found = service.query("/api/v1/applications", timeout=LIST_SECONDS)
    if not isinstance(found, list):
        raise service.odd("it lists no applications")
    for each in rows_of(found):
        attempts = rows_of(each.get("attempts"))
        newest = max(attempts, key=lambda one: int(one.get("startTimeEpoch") or 0), default={})
        is_running = newest.get("completed") is False
        yield ListedApplication(
            source=f"history:{address}",
            id=str(each.get("id")),
            name=each.get("name"),
            state="incomplete" if is_running else "completed" if newest.get("completed") is True else "unknown",
            is_running=is_running,
            tracking_url=f"{service.address}/history/{each.get('id')}/",
            spark=newest.get("appSparkVersion"),
            attempt=newest.get("attemptId"),
        )


def event_logs(address: str, listed: ListedApplication) -> bytes:
    """The logs of an application's newest attempt, as a ZIP archive of their files. Raises ``ServiceTrouble``."""
    attempt = "" if listed.attempt is None else f"/{listed.attempt}"
    path = f"/api/v1/applications/{listed.id}{attempt}/logs"
    return _service(address).fetch(path, timeout=_LOG_SECONDS, accept="*/*", most=MOST_BYTES)


def _service(address: str) -> Service:
    return Service(address.rstrip("/"), what=_WHAT)
