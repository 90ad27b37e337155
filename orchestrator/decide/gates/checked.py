"""Gates of a move that go by the last check of its query: what both clusters said while both of them answered.

A failover has one cluster left to read from, and little time. The controller checks each query all day, so the
answer is there when it is needed, and a cluster that is away leaves it as it was.
"""

from dataclasses import replace

from orchestrator.decide.gates.gate import UNKNOWN, Gate
from orchestrator.decide.gates.meaning import COLUMNS
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.places import lets_unknown_pass

GAP = "gap"


def answers_consistent(facts: MoveFacts) -> Gate | None:
    """A cluster that contradicted itself may answer a look-up too late: records would be skipped (consent ``gap``)."""
    return _as_checked(facts, "answers-consistent", GAP, "the records that may be skipped")


def schemas_agree(facts: MoveFacts) -> Gate | None:
    """Ids that mean other schemas: the query would decode other records than were written (consent ``columns``)."""
    return _as_checked(facts, "schemas-agree", COLUMNS, "the other schemas")


def _as_checked(facts: MoveFacts, name: str, consent: str, risk: str) -> Gate | None:
    """The gate as the last check said it; None where there was no check, or it did not speak of that."""
    found = facts.checked
    said = None if found is None else next((each for each in found.gates if each["name"] == name), None)
    if said is None:
        return None
    accepts = f"--consent {consent} accepts {risk}"
    gate = Gate(
        name=name, ok=bool(said["ok"]), measured=str(said["measured"]), limit=str(said["limit"]), text=str(said["text"])
    )
    if gate.ok:
        return gate
    if consent in facts.consents:
        return replace(gate, ok=True, text=f"consent {consent} is given")
    text = gate.text if accepts in gate.text else f"{gate.text}; {accepts}"
    passes = gate.measured == UNKNOWN and lets_unknown_pass(facts)
    return replace(gate, ok=passes, text=text)
