"""One attendant runs beside the driver of each application, so it loads what a runner needs and nothing else.

What drives a move is a tenth of its memory: it is loaded where the attendant has one to drive.
"""

import subprocess
import sys

LOADED = """
import sys
import orchestrator.cli.app, orchestrator.cli.serve.attend, state.store.sql.migrate
import streaming.kafka.link, streaming.logging_setup, streaming.spark.attach.attendant
print(*sys.modules)
"""
"""As ``tideover attend`` does before its first call into the driver."""

NOT_ITS_OWN = (
    "alembic", "anyio", "apprise", "apscheduler", "confluent_kafka", "google", "jinja2", "mako", "numpy",
    "opentelemetry", "pandas", "prometheus_client", "psycopg", "pyarrow", "pyspark.testing", "starlette", "unittest",
    "uvicorn",
    "orchestrator.controller", "orchestrator.decide.evidence", "orchestrator.decide.gates", "orchestrator.decide.move",
    "orchestrator.decide.operation", "orchestrator.facts", "orchestrator.http", "orchestrator.operation",
    "streaming.resolve", "streaming.resume",
)  # fmt: skip


def test_an_attendant_loads_nothing_that_decides_serves_or_migrates() -> None:
    printed = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=300)
    loaded = printed.stdout.split()
    assert "streaming.spark.runner.runner" in loaded
    assert [each for each in loaded if f"{each}.".startswith(tuple(f"{name}." for name in NOT_ITS_OWN))] == []
