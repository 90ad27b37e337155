"""The architecture as a test: which files may know which foreign library, and what pure modules may not know at all."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("orchestrator", "streaming", "state")

# One seam per foreign library: the folder or file that may import it.
SEAMS = {
    "kafka": ("streaming/kafka/",),
    "gssapi": ("streaming/kafka/login/kerberos.py",),
    "aws_msk_iam_sasl_signer": ("streaming/kafka/login/msk_iam.py",),
    "crc32c": ("streaming/kafka/",),
    "pyspark": ("streaming/spark/", "streaming/jarsets/ivy.py", "streaming/jars.py"),
    "py4j": ("streaming/spark/",),
    "sqlalchemy": ("state/store/sql/", "state/store/migrations/"),
    "alembic": ("state/store/sql/", "state/store/migrations/"),
    "psycopg": ("state/store/sql/",),
    "sqlite3": ("state/store/sql/",),
    "yaml": ("orchestrator/config/load.py", "orchestrator/cli/"),
    "starlette": ("orchestrator/http/",),
    "jinja2": ("orchestrator/http/pages/", "orchestrator/facts/evidence/"),
    "markupsafe": ("orchestrator/http/pages/",),
    "uvicorn": ("orchestrator/http/server.py",),
    "anyio": ("orchestrator/http/",),
    "h11": ("orchestrator/http/server.py",),
    "prometheus_client": ("orchestrator/http/metrics.py",),
    "apprise": ("orchestrator/notify/apprise_channel.py",),
    "opentelemetry": ("orchestrator/traces/otlp.py",),
    "click": ("orchestrator/cli/",),
    "rich": ("orchestrator/cli/tables.py",),
    "apscheduler": ("orchestrator/housekeeping.py", "orchestrator/schedules.py"),
}

PURE = (
    *(
        f"state/model/{name}.py"
        for name in (
            "automation",
            "cluster_status",
            "column_uses",
            "entities",
            "evidence",
            "fingerprints",
            "maintenance",
            "notices",
            "plan",
            "schedule",
        )
    ),
    *("state/settings/", "state/messages.py", "state/checkpoint_folders.py", "state/json_object.py"),
    *(
        "streaming/resume/",
        "streaming/meaning/",
        "streaming/probe/probe_result.py",
        "streaming/probe/answers.py",
        "streaming/registry/wire.py",
        "orchestrator/decide/",
    ),
    *("orchestrator/notify/incidents.py", "orchestrator/traces/spans.py"),
)

# What pure code may import: data types and arithmetic. Clocks, sockets, files, threads, logs and randomness are absent.
PURE_STDLIB = {
    "abc", "bisect", "collections", "dataclasses", "datetime", "enum", "functools", "graphlib", "hashlib", "heapq",
    "html", "ipaddress", "itertools", "json", "math", "operator", "re", "statistics", "string", "struct",
    "types", "typing",
}  # fmt: skip


def modules() -> Iterator[Path]:
    for package in PRODUCT:
        yield from sorted((ROOT / package).rglob("*.py"))


@cache
def imported(path: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return frozenset(names)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", list(modules()), ids=relative)
def test_a_foreign_library_is_imported_only_by_its_seam(path: Path) -> None:
    strangers = [
        name
        for name in imported(path)
        if (seam := SEAMS.get(name.split(".")[0])) and not relative(path).startswith(seam)
    ]
    assert strangers == [], f"{relative(path)} reaches past a seam"


@pytest.mark.parametrize("path", [path for path in modules() if relative(path).startswith(PURE)], ids=relative)
def test_pure_modules_know_values_only(path: Path) -> None:
    allowed_own = (
        "state.model", "state.settings", "state.messages", "state.drill_messages", "state.errors",
        "state.checkpoint_folders", "state.json_object", "state.plain_text", "streaming.resume",
        "streaming.cluster_log", "streaming.meaning", "streaming.registry.wire",
        "streaming.probe.probe_result", "streaming.probe.answers", "orchestrator.decide",
    )  # fmt: skip
    strangers = {
        name
        for name in imported(path)
        if not (name.split(".")[0] in PURE_STDLIB or name == "pydantic" or name.startswith(allowed_own))
        and not (relative(path) in {"state/settings/keys.py", "state/settings/security.py"} and name == "pathlib")
    }
    assert strangers == set(), f"{relative(path)} is not pure"


def test_every_product_package_is_looked_at() -> None:
    assert {relative(path).split("/")[0] for path in modules()} == set(PRODUCT)
