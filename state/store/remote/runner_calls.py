"""The table of calls that a runner may send to a controller: ``RunnerStore`` without ``pin``, and nothing else.

Types and names come from ``RunnerStore`` itself, so a call cannot differ from what a store does. Client and controller
read the same table.
"""

import inspect
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, get_type_hints

from state.store.remote.call_values import Form, form_of
from state.store.runner_store import RunnerStore

PATH = "/api/runner"
"""A call is sent to ``PATH/name`` by POST."""
MAX_BODY_BYTES = 48 * 1024 * 1024
"""A batch of 3,500 partitions with 256 remembered records each: 38 MB, and it is one transaction."""
WAIT_SECONDS = 5.0
"""How long a controller holds the call ``await_change``, at the most."""


class Call(NamedTuple):
    """One call."""

    name: str
    arguments: Mapping[str, Form]
    result: Form
    is_repeatable: bool
    """Whether it may be sent again where its answer was lost: what it writes is the same then."""

    def write(self, given: Mapping[str, Any]) -> bytes:
        """The body of the request. Raises ``ValueError`` and ``TypeError`` for what no store takes."""
        return _dumps({name: form.write(given[name]) for name, form in self.arguments.items()})

    def read(self, body: bytes) -> dict[str, Any]:
        """The arguments in a body. Raises ``ValueError`` with the place of the first one that is wrong."""
        found = json.loads(body)
        if not isinstance(found, dict) or found.keys() != self.arguments.keys():
            raise ValueError(f"wants {', '.join(self.arguments) or 'no arguments'}")
        read = {}
        for name, form in self.arguments.items():
            try:
                read[name] = form.read(found[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return read

    def write_result(self, value: Any) -> bytes:
        """The body of the answer."""
        return _dumps({"result": self.result.write(value)})

    def read_result(self, body: bytes) -> Any:
        """What was answered. Raises ``ValueError``, and ``Damaged`` for a plan that cannot be read."""
        found = json.loads(body)
        if not isinstance(found, dict) or "result" not in found:
            raise ValueError("an answer has a result")
        return self.result.read(found["result"])


def _dumps(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


_LEFT_OUT = {"term"}
"""What a leading controller alone gives."""


def _call(name: str, *, is_repeatable: bool = True) -> Call:
    method = getattr(RunnerStore, name)
    hints = get_type_hints(method)
    taken = [each for each in inspect.signature(method).parameters if each not in {"self", *_LEFT_OUT}]
    return Call(name, {each: form_of(hints[each]) for each in taken}, form_of(hints["return"]), is_repeatable)


_SAME_TWICE = (
    "now", "assignments", "assignment", "adopt", "operation", "pending_intents", "report", "register", "unregister",
    "runners", "report_query", "query_facts", "readiness", "report_place", "found_place", "keep_mapping",
    "mappings", "save_positions", "save_ends", "save_timeline", "save_probe_reports", "pins", "to_clean",
    "report_cleaned",
)  # fmt: skip
CALLS: Mapping[str, Call] = {
    **{name: _call(name) for name in _SAME_TWICE},
    "note": _call("note", is_repeatable=False),
    "await_change": Call("await_change", {"mark": form_of(str), "seconds": form_of(float)}, form_of(str), True),
}
"""By name. ``await_change`` is the wake-up of a runner: it returns as soon as what a runner obeys is not ``mark``."""
