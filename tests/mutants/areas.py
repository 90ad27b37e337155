"""What is mutated, and the tests that are asked first: those that are about it. The rest is asked when they pass."""

from dataclasses import dataclass

FAST = ("tests/unit", "tests/contract", "tests/simulation")
"""Every test that needs no real broker, Spark or PostgreSQL."""


@dataclass(frozen=True)
class Area:
    """A part of the program that a promise rests on."""

    name: str
    modules: tuple[str, ...]
    """Paths below the root; a glob is resolved there."""
    tests: tuple[str, ...]
    """Asked first; together a matter of seconds."""


AREAS = (
    Area("verdict", ("orchestrator/decide/verdict.py",), ("tests/unit/test_verdict.py",)),
    Area(
        "gates",
        ("orchestrator/decide/gates/loss.py", "orchestrator/decide/gates/preconditions.py",
         "orchestrator/decide/replication_age.py"),
        ("tests/unit/test_gates.py", "tests/unit/test_replication_decided.py"),
    ),
    Area(
        "automatic",
        ("orchestrator/decide/gates/automatic.py",),
        ("tests/unit/test_automatic.py", "tests/unit/test_cooldown.py"),
    ),
    Area(
        "steps",
        ("orchestrator/decide/operation/step.py", "orchestrator/decide/operation/intents.py",
         "orchestrator/decide/operation/post_commit.py", "orchestrator/decide/operation/snapshot.py",
         "orchestrator/decide/operation/uncommitted_batch.py",
         "orchestrator/decide/gates/gate.py", "orchestrator/decide/move_facts.py"),
        ("tests/unit/test_phases_decided.py", "tests/unit/test_situation.py", "tests/unit/test_treatment.py",
         "tests/simulation/test_landing.py", "tests/simulation/test_consents.py"),
    ),
    Area("lease", ("orchestrator/lease.py",), ("tests/unit/test_lease.py",)),
    Area(
        "requests",
        ("orchestrator/operation/requests.py",),
        ("tests/simulation/test_requests.py", "tests/simulation/test_turns.py"),
    ),
    Area(
        "fence",
        ("streaming/spark/runner/fence.py", "streaming/spark/runner/supervisor.py",
         "streaming/spark/checkpoint/log_fence.py", "streaming/spark/query/query_run.py",
         "streaming/spark/runner/permission.py", "streaming/spark/query/run_monitor.py",
         "streaming/spark/query/callbacks.py"),
        ("tests/unit/test_fence.py", "tests/unit/test_plant.py", "tests/unit/test_hosted.py",
         "tests/unit/test_run.py", "tests/unit/test_run_pieces.py"),
    ),
    Area(
        "carry",
        tuple(f"streaming/spark/checkpoint/{name}.py" for name in ("carry", "mapping", "log_text", "state_files")),
        ("tests/unit/test_carry.py", "tests/unit/test_mapping.py",
         "tests/unit/test_checkpoint_text.py", "tests/unit/test_state_files.py"),
    ),
    Area(
        "resume",
        ("streaming/resume/*.py", "streaming/resume/methods/*.py", "streaming/resolve/scan.py",
         "streaming/resolve/sent_again_scan.py", "streaming/spark/tracking/track.py",
         "state/model/fingerprints.py", "orchestrator/decide/lookup_wants.py"),
        ("tests/unit/resume", "tests/unit/test_wants.py", "tests/unit/test_ring.py", "tests/unit/test_track.py"),
    ),
    Area(
        "store",
        ("state/store/write_checks.py", "state/store/sql/operations.py", "state/store/sql/store.py",
         "state/store/sql/reports.py"),
        ("tests/contract",),
    ),
    Area(
        "judges",
        ("lab/judge.py", "lab/verify.py", "chaos/outcome.py"),
        ("tests/unit/test_lab_judge.py", "tests/unit/test_lab_planted.py", "tests/unit/test_lab_verify.py",
         "tests/unit/test_lab_load.py", "tests/unit/chaos"),
    ),
)  # fmt: skip
