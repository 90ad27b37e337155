"""Who reads the metrics: never without a token, and something is there without the store."""

from pathlib import Path

import pytest

from tests.metric_text import parsed
from tests.served import VIEWER, serving
from tests.waiting import until


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator.http import application

    monkeypatch.setattr(application, "METRICS_SECONDS", 0.5)


def test_who_has_no_token_reads_no_metrics(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.call("/metrics").code == 401
        answer = served.call("/metrics", token=VIEWER)
        assert answer.code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert parsed(answer.body)["tideover_leader"] == 0


def test_on_loopback_without_tokens_everybody_reads_them(tmp_path: Path) -> None:
    with serving(tmp_path, tokens="") as served:
        assert served.call("/metrics", headers={"Host": "localhost"}).code == 200
        assert served.call("/metrics", headers={"Host": "evil.example"}).code == 421


@pytest.mark.usefixtures("quick")
def test_without_the_store_the_time_of_its_last_answer_is_exported(tmp_path: Path) -> None:
    with serving(tmp_path) as served:

        def answered_at() -> float:
            """0 while the store has not answered within its half second, as on a busy machine."""
            known = parsed(served.call("/metrics", token=VIEWER).body)
            return known["tideover_store_last_success_timestamp_seconds"]

        until(lambda: answered_at() > 1_700_000_000)
        at = answered_at()
        for file in tmp_path.glob("t.db*"):
            file.unlink()
        (tmp_path / "t.db").mkdir()
        served.server._store.close()  # type: ignore[union-attr] # it listens, so it has one
        until(lambda: b"tideover_query_epoch{" not in served.call("/metrics", token=VIEWER).body)
        answer = served.call("/metrics", token=VIEWER)
        metrics = parsed(answer.body)
        assert answer.code == 200
        assert metrics["tideover_store_last_success_timestamp_seconds"] >= at
        assert metrics["tideover_leader"] == 0
        assert not [name for name in metrics if name.startswith("tideover_cluster_verdict")]
