"""Mutants that survive, and why each is equivalent to the program: by ``Mutant.key``."""

EXPLAINED: dict[str, str] = {
    "orchestrator/operation/requests.py RequestHandler._refusal: 0 -> 1": (
        "where a query without a row is at home decides nothing: gate `assigned` refuses it whatever its target is"
    ),
    "streaming/resume/sent_again.py _spread: <= -> <": "of just as many as are looked at, the same are counted",
    "streaming/resolve/sent_again_scan.py _behind: 1 -> 2": (
        "copies are found by single records, so how many of the last ones are compared in a row plays no part"
    ),
    "orchestrator/lease.py is_gone: 3 -> 4": "no host's name has a colon",
    "state/store/write_checks.py term_step: 1 -> 2": "a term lies above the last one by any number but 0",
    "lab/judge.py Mistakes: 0 -> 1 #2": "each maker gives both numbers",
    "streaming/spark/runner/fence.py _fence: < -> <=": "two readings of the machine's clock are never the same",
}
