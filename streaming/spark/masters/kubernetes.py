"""Kubernetes, by its API: which pod this process is in, and whether the pod of a driver has ended.

Only the kubelet of a pod's node sees its containers. The control plane gives a lost node up without it. It deletes the
pods, and its collector of garbage calls them ``Failed`` first (``gc_controller.go``). Their processes may run on. So an
end counts only where the pod is over and the kubelet has reported the end of each container:

- a kubelet that does not find a container makes up its end (``ContainerStatusUnknown``), and so does a runtime that was
  started again (``Unknown``): neither has seen it;
- a pod whose object is gone may have been deleted by force, so that proves nothing, nor does a new pod of its name.

A pod is named by its uid, for names return. Pod and credentials are those of the service account that Kubernetes puts
into each container (``automountServiceAccountToken``); its token is read for each request, because it rotates.
"""

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from streaming.errors import ServiceTrouble
from streaming.rest import Service
from streaming.spark.masters.ending import SECONDS, Ending
from streaming.spark.masters.listing import rows_of

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a container has its service account: ``token``, and ``ca.crt`` of the API's authority."""
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_WORD = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
_POD = re.compile(rf"(?P<namespace>{_WORD})/(?P<name>{_WORD})/(?P<uid>[A-Za-z0-9-]+)\Z")
_OVER = frozenset({"Succeeded", "Failed"})
_MADE_UP = frozenset({"ContainerStatusUnknown", "Unknown"})


def own_pod() -> str | None:
    """The pod of this process as namespace/name/uid, as its token names it; None where that cannot be known."""
    if not os.environ.get(_HOST):
        return None
    try:
        payload = (ACCOUNT / "token").read_text(encoding="ascii").split(".")[1]
        named = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["kubernetes.io"]
        pod = f"{named['namespace']}/{named['pod']['name']}/{named['pod']['uid']}"
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None  # there is none, or it is an old one that names no pod
    return pod if _POD.match(pod) else None


def pod_ended(pod: str) -> Ending:
    """Whether all containers of a pod, given as namespace/name/uid, have ended."""
    match = _POD.match(pod)
    if match is None:
        return Ending(False, f"{pod} is no pod of Kubernetes")
    who = f"pod {match['namespace']}/{match['name']}"
    if not os.environ.get(_HOST):
        return Ending(False, f"{who} cannot be looked up from outside of Kubernetes")
    service = _api()
    try:
        found = service.query(f"/api/v1/namespaces/{match['namespace']}/pods/{match['name']}", timeout=SECONDS)
        return _judged(found, match, who)
    except ServiceTrouble as error:
        return Ending(False, _without_answer(error, match["namespace"], who))
    except (LookupError, TypeError, AttributeError):
        return Ending(False, f"Kubernetes did not answer: {service.odd('its answer is no pod')}")


def _api() -> Service:
    host, port = os.environ[_HOST], os.environ.get(_PORT) or "443"
    return Service(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        token=SecretStr(f"file:{ACCOUNT / 'token'}"),
        ca=str(ACCOUNT / "ca.crt"),
        what="the API of Kubernetes",
    )


def _judged(found: Any, pod: re.Match[str], who: str) -> Ending:
    """What an answer proves. Raises ``LookupError``, ``TypeError`` or ``AttributeError`` where it is no pod."""
    known = found["metadata"]
    if found["kind"] != "Pod" or (known["namespace"], known["name"]) != (pod["namespace"], pod["name"]):
        raise LookupError
    if known["uid"] != pod["uid"]:
        return Ending(False, f"{who} is another one now, which does not prove that the earlier one ended")
    phase, seen = found["status"].get("phase"), f"Kubernetes says that {who} is {found['status'].get('phase')}"
    if phase not in _OVER:
        return Ending(False, f"{seen}{' and is being deleted' if known.get('deletionTimestamp') else ''}")
    ended = {name: _exit_code(status) for name, status in _containers(found)}
    if not ended:
        raise LookupError
    unseen = sorted(name for name, code in ended.items() if code is None)
    if unseen:
        return Ending(False, f"{seen}, but its node has not seen the end of container {', '.join(unseen)}")
    codes = ", ".join(f"container {name} ended with exit code {code}" for name, code in sorted(ended.items()))
    return Ending(True, f"{seen}: {codes}")


def _containers(found: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The containers that run beside each other in a pod, each with its status, which may be missing."""
    spec, status = found["spec"], found["status"]
    kinds = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))
    for declared, reported in kinds:
        states = {each["name"]: each for each in rows_of(status.get(reported))}
        for each in rows_of(spec.get(declared)):
            if declared == "containers" or each.get("restartPolicy") == "Always":  # others ended before these began
                yield each["name"], states.get(each["name"], {})


def _exit_code(status: Mapping[str, Any]) -> int | None:
    """With which exit code the kubelet has seen a container end; None where it has not."""
    ended = (status.get("state") or {}).get("terminated") or {}
    code = ended.get("exitCode")
    is_seen = bool(ended.get("containerID")) and ended.get("reason") not in _MADE_UP and isinstance(code, int)
    return code if is_seen else None


def _without_answer(error: ServiceTrouble, namespace: str, who: str) -> str:
    if error.status == 401:
        return "Kubernetes does not accept the token of this service account"
    if error.status == 403:
        return f"this service account may not get pods in namespace {namespace}: add that to its Role"
    if error.status == 404:
        return f"Kubernetes no longer has {who}, which proves no end: it may have been deleted by force"
    return f"Kubernetes did not answer: {error}"
