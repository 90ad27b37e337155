"""YARN's ResourceManager, by its REST interface, and the NodeManager of a driver's container.

In cluster mode a driver is the application master of one *attempt*, so each attempt is a driver of its own. That an
attempt is over is not enough: YARN begins the next one also where a node is lost, whose processes may run on. So an
end counts only as seen by the node on which the container was (``RMAppAttemptImpl``, ``ContainerExitStatus``):

- the attempt has the exit code of its container, and it is none that a ResourceManager makes up;
- or the NodeManager that started the container answers that it is done, or has forgotten it.

One attempt is read as XML: a ResourceManager 3.5.0 has no JSON of it, and answers 503.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from streaming.errors import ServiceTrouble
from streaming.rest import Service
from streaming.spark.masters.ending import SECONDS, Ending
from streaming.spark.masters.listing import LIST_SECONDS, ListedApplication, rows_of

ATTEMPT = re.compile(r"appattempt_(?P<application>\d+_\d+)_\d+\Z")
_OVER = frozenset({"FINISHED", "FAILED", "KILLED"})
_ABORTED, _PREEMPTED, _KILLED_BY_RESOURCEMANAGER, _INVALID = -100, -102, -107, -1000
_MADE_UP = frozenset({_ABORTED, _PREEMPTED, _KILLED_BY_RESOURCEMANAGER, _INVALID})
"""Exit codes that a ResourceManager gives a container of which its node has not reported an end."""
_CLOCK_MS = 60_000
"""By how much the clocks of two nodes may differ: a NodeManager that began later may be another one."""
_MOST_BYTES = 1_000_000
_WHAT = "a ResourceManager"
_OTHERS = "&deSelects=resourceRequests"

Answer = TypeVar("Answer")


def attempt_of(application: str, number: str) -> str:
    """The id of an attempt, as YARN writes it (``ApplicationAttemptId.toString``)."""
    return f"{application.replace('application', 'appattempt', 1)}_{int(number):06d}"


def attempt_ended(addresses: str, attempt: str) -> Ending:
    """Whether the driver of an attempt has ended. ``addresses``: of the ResourceManagers, separated by commas."""
    match = ATTEMPT.match(attempt)
    if match is None:
        return Ending(False, f"{attempt} is no attempt of an application on YARN")
    path = f"/ws/v1/cluster/apps/application_{match['application']}/appattempts"
    try:
        known = _first(addresses, lambda each: _attempt(each, f"{path}/{attempt}"))
    except ServiceTrouble as error:
        if error.status == 404:
            return Ending(False, f"YARN does not know {attempt}")
        return Ending(False, f"YARN did not answer: {error}")
    state, seen = known.get("appAttemptState"), str(known.get("diagnosticsInfo") or "")
    if state not in _OVER:
        return Ending(False, f"YARN says that {attempt} is {state}")
    code = re.search(rf"AM Container for {attempt} exited with\s+exitCode: (-?\d+)", seen)
    if code is not None and int(code[1]) not in _MADE_UP:
        return Ending(True, f"YARN says that {attempt} ended with exit code {code[1]}")
    return _by_node(addresses, path, attempt, f"YARN says that {attempt} is {state}")


def application_over(addresses: str, application: str) -> Ending:
    """Whether an application is over for YARN. With a driver outside of YARN that says nothing of the driver."""
    try:
        known = _first(addresses, lambda each: _object(each, f"/ws/v1/cluster/apps/{application}", "app"))
    except ServiceTrouble as error:
        if error.status == 404:
            return Ending(False, f"YARN does not know {application}")
        return Ending(False, f"YARN did not answer: {error}")
    return Ending(known.get("state") in _OVER, f"YARN says that {application} is {known.get('state')}")


def _by_node(addresses: str, path: str, attempt: str, so_far: str) -> Ending:
    """What the node says on which the attempt's container was."""
    try:
        listed = _first(addresses, lambda each: _object(each, path, "appAttempts"))
        row = next(each for each in rows_of(listed.get("appAttempt")) if each.get("appAttemptId") == attempt)
        node, name, container = row["nodeHttpAddress"], row["nodeId"], row["containerId"]
        began = int(row["startTime"])
    except (ServiceTrouble, StopIteration, KeyError, TypeError, ValueError):
        return Ending(False, f"{so_far}, and does not give its node")
    if not node or not container:
        return Ending(False, f"{so_far}, and does not show its node to this user")
    try:
        is_same, state = _container_on(Service(f"http://{node}", what="a NodeManager"), name, container, began)
    except ServiceTrouble as error:
        return Ending(False, f"{so_far}, and its node cannot confirm that: {error}")
    if state is None and is_same:
        return Ending(True, f"{so_far}, and its node {node}, which started its container, has it no longer")
    if state is None:
        return Ending(False, f"{so_far}, and its node {node} was started again since and does not know its container")
    return Ending(state == "DONE", f"{so_far}, and its node {node} says that its container is {state}")


def _container_on(node: Service, name: str, container: str, began: int) -> tuple[bool, str | None]:
    """Whether a NodeManager is the one of before a time in ms, and the state of a container there; None: unknown.

    Raises ``ServiceTrouble``.
    """
    info = _object(node, "/ws/v1/node/info", "nodeInfo")
    if info.get("id") != name:
        raise node.odd(f"it is {info.get('id')}, and the container was on {name}")
    up = info.get("nmStartupTime")
    is_same = isinstance(up, int) and up < began - _CLOCK_MS
    try:
        return is_same, str(_object(node, f"/ws/v1/node/containers/{container}", "container").get("state"))
    except ServiceTrouble as error:
        if error.status != 404:
            raise
        return is_same, None


def applications(addresses: str) -> Iterator[ListedApplication]:
    """Spark's applications that YARN knows. Raises ``ServiceTrouble``."""
    path = f"/ws/v1/cluster/apps?applicationTypes=SPARK{_OTHERS}"
    listed = _first(addresses, lambda each: _object(each, path, "apps", LIST_SECONDS))
    for each in rows_of(listed.get("app")):
        state = str(each.get("state"))
        yield ListedApplication(
            source=f"yarn:{addresses}",
            id=str(each.get("id")),
            name=each.get("name"),
            state=state if state not in _OVER else f"{state} ({each.get('finalStatus')})",
            is_running=state == "RUNNING",
            tracking_url=each.get("trackingUrl") or None,
        )


def _first(addresses: str, query: Callable[[Service], Answer]) -> Answer:
    """The answer of the first that is active: a standby refers to that by a redirect. Raises ``ServiceTrouble``."""
    trouble: ServiceTrouble | None = None
    for address in addresses.split(","):
        try:
            return query(Service(address.strip().rstrip("/"), what=_WHAT))
        except ServiceTrouble as error:
            if error.status == 404:
                raise
            trouble = error
    assert trouble is not None  # a text has one part at least
    raise trouble


def _attempt(service: Service, path: str) -> Mapping[str, str]:
    """The fields of one attempt. Raises ``ServiceTrouble``."""
    text = service.fetch(path, timeout=SECONDS, accept="application/xml", most=_MOST_BYTES)
    try:
        if b"<!" in text:  # a document of its own types, which could grow without end
            raise ValueError("it declares types")
        found = ET.fromstring(text)
    except (ET.ParseError, ValueError) as error:
        raise service.odd(error) from None
    if found.tag != "appAttempt":
        raise service.odd(f"its answer is a {found.tag}")
    return {each.tag: each.text or "" for each in found}


def _object(service: Service, path: str, key: str, seconds: float = SECONDS) -> Mapping[str, Any]:
    """The object under a key of an answer; older versions give the object alone, and null is none at all."""
    found = service.query(path, timeout=seconds)
    if not isinstance(found, dict):
        raise service.odd("its answer is no object")
    inner = found.get(key, found)
    if inner is None:
        return {}
    if not isinstance(inner, dict):
        raise service.odd(f"{key} is no object")
    return inner
