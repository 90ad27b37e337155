"""The gate about records that were read and that their own cluster has lost since."""

from orchestrator.decide.gates.gate import Gate, answer
from orchestrator.decide.move_facts import MoveFacts
from state.plain_text import amount
from streaming.resume.truncation import Finding, Goto, truncation_of


def log_truncation(facts: MoveFacts) -> Gate | None:
    """What was read must still be in the log that it was read from, or be found on the standby, or policy decides."""
    if facts.standings is None:
        return None
    here, there, resets = facts.source, facts.target, facts.resets
    met = None if resets is None else {(reset.source, reset.partition) for reset in resets}
    error = truncation_of(
        here, (each for each in facts.standings if met is None or (each.source, each.partition) in met)
    )
    goes = sorted({reset.goto for reset in resets or () if reset.goto is not None})
    unproven = sum(each.finding is Finding.UNPROVEN for each in facts.standings)
    good = f"{here} still holds what was read from it" + (
        f"; {amount(unproven, 'position')} cannot be verified" if unproven else ""
    )
    if error is not None:
        good = f"{error}: " + (
            f"the query resumes at {', '.join(goes)}"
            if goes
            else f"{there} holds what was read, and the query resumes after it"
        )
    return answer(
        "log-truncation",
        error is None or (resets is not None and Goto.NOWHERE not in goes),
        amount(len(error.divergent_offsets) if error else 0, "partition"),
        "0 partitions, or what was read is found on the standby",
        good,
        f"{error}: records that were read are gone there, after an unclean leader election or because the topic was "
        f"recreated. {there} may lack them too. --consent gap (or policy.on_no_match) resumes where the logs diverge",
    )
