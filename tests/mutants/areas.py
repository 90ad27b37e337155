"""What is mutated, and the tests that run first: those that are about it. The rest runs when they pass."""

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
    """They run first; together a matter of seconds."""


AREAS = (
    Area("verdict", ("orchestrator/decide/verdict.py",), ("tests/unit/orchestrator/decide/test_verdict.py",)),
    Area(
        "gates",
        ("orchestrator/decide/gates/loss.py", "orchestrator/decide/gates/preconditions.py",
         "orchestrator/decide/replication_age.py"),
        ("tests/unit/orchestrator/decide/gates/test_checks.py", "tests/unit/orchestrator/decide/gates/test_loss.py",
         "tests/unit/orchestrator/decide/test_replication_age.py"),
    ),
    Area(
        "automatic",
        ("orchestrator/decide/gates/automatic.py",),
        ("tests/unit/orchestrator/decide/gates/test_automatic.py",
         "tests/unit/orchestrator/decide/gates/test_automatic_cooldown.py"),
    ),
    Area(
        "steps",
        ("orchestrator/decide/operation/step.py", "orchestrator/decide/operation/intents.py",
         "orchestrator/decide/operation/post_commit.py", "orchestrator/decide/operation/snapshot.py",
         "orchestrator/decide/uncommitted_batch.py",
         "orchestrator/decide/gates/gate.py", "orchestrator/decide/move_facts.py"),
        ("tests/unit/orchestrator/decide/operation/test_step.py", "tests/unit/orchestrator/decide/desk/test_status.py",
         "tests/unit/orchestrator/decide/gates/test_gate.py",
         "tests/unit/orchestrator/decide/test_uncommitted_batch.py",
         "tests/simulation/test_landing.py", "tests/simulation/test_consents.py"),
    ),
    Area("lease", ("orchestrator/lease.py",), ("tests/unit/orchestrator/test_lease.py",)),
    Area(
        "requests",
        ("orchestrator/operation/requests.py", "orchestrator/new_requests.py"),
        ("tests/simulation/test_requests.py", "tests/simulation/test_turns.py"),
    ),
    Area(
        "fence",
        ("streaming/spark/runner/fence.py", "streaming/spark/runner/supervisor.py",
         "streaming/spark/checkpoint/log_fence.py", "streaming/spark/query/query_run.py",
         "streaming/spark/runner/permission.py", "streaming/spark/query/run_monitor.py",
         "streaming/spark/query/callbacks.py"),
        ("tests/unit/streaming/spark/runner/test_fence.py",
         "tests/unit/streaming/spark/checkpoint/test_log_fence.py",
         "tests/unit/streaming/spark/runner/test_supervisor.py",
         "tests/unit/streaming/spark/query/test_query_run.py",
         "tests/unit/streaming/spark/query/test_query_run_pieces.py"),
    ),
    Area(
        "carry",
        tuple(f"streaming/spark/checkpoint/{name}.py" for name in ("carry", "mapping", "log_text", "state_files")),
        ("tests/unit/streaming/spark/checkpoint/test_carry.py", "tests/unit/streaming/spark/checkpoint/test_mapping.py",
         "tests/unit/streaming/spark/checkpoint/test_log_text.py",
         "tests/unit/streaming/spark/checkpoint/test_state_files.py"),
    ),
    Area(
        "resume",
        ("streaming/resume/*.py", "streaming/resume/methods/*.py", "streaming/resolve/scan.py",
         "streaming/resolve/sent_again_scan.py", "streaming/spark/tracking/track.py",
         "state/model/fingerprints.py", "orchestrator/decide/lookup_wants.py"),
        ("tests/unit/streaming/resolve", "tests/unit/streaming/resume",
         "tests/unit/orchestrator/decide/test_lookup_wants.py", "tests/unit/state/model/test_fingerprints.py",
         "tests/unit/streaming/spark/tracking/test_track.py"),
    ),
    Area(
        "store",
        ("state/store/write_checks.py", "state/store/sql/operations.py", "state/store/sql/store.py",
         "state/store/sql/reports.py"),
        ("tests/contract",),
    ),
    Area(
        "judges",
        ("lab/judge.py", "lab/verify.py", "chaos/scenario_outcome.py"),
        ("tests/unit/lab/test_judge.py", "tests/unit/lab/test_judge_planted.py", "tests/unit/lab/test_verify.py",
         "tests/unit/lab/test_verify_load.py", "tests/unit/chaos"),
    ),
)  # fmt: skip
