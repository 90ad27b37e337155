"""Credentials for clusters in containers: what is made, who may read it, and that the lab finds it again."""

import stat
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import cli
from lab.lifecycle import permit
from lab.mirror import heartbeats, offset_syncs
from lab.world import PRIMARY, STANDBY
from tests.guarded import documented, in_capitals

CLUSTERS = ("east=mtls:east-1,link", "west=scram:west-1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    assert cli.main(("secrets", "--dir", str(folder), *CLUSTERS)) == 0
    return folder


def settings_in(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_both_listeners_of_a_broker_need_credentials_and_allow_no_other(made: Path) -> None:
    for cluster, protocol in (("east", "SSL"), ("west", "SASL_SSL")):
        settings = settings_in(made / "secrets" / cluster / "broker.properties")
        assert settings["listener.security.protocol.map"] == f"LOCAL:{protocol},LINK:{protocol},CONTROLLER:PLAINTEXT"
        assert "security.inter.broker.protocol" not in settings, "the listener is named, and both are refused"
        assert "authorizer.class.name" in settings
        assert "allow.everyone.if.no.acl.found" not in settings
        assert "tideover" not in settings["super.users"]
    assert settings_in(made / "secrets/east/broker.properties")["ssl.client.auth"] == "required"
    for listener in ("local", "link"):
        assert f"listener.name.{listener}.scram-sha-512.sasl.jaas.config" in settings


def test_secrets_are_readable_by_their_group_only(made: Path) -> None:
    found = list((made / "secrets").rglob("*"))
    assert len(found) > 10
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path


def test_tideover_may_do_in_a_secured_world_only_what_is_documented() -> None:
    given: dict[str, dict[str, Sequence[str]]] = {}

    def access_to(cluster: str) -> Any:
        return SimpleNamespace(permit=lambda bootstrap, acls: given.update({bootstrap[0]: acls}))

    world: Any = SimpleNamespace(bootstrap=lambda cluster: [cluster], access_to=access_to)
    permit(world, "orders")

    def wanted(role: str, what: str) -> tuple[str, ...]:
        return tuple(map(in_capitals, documented(role, what)))

    assert wanted("runner", "topics") == wanted("controller", "topics")
    source = {"orders": wanted("controller", "topics")}
    for there, other in ((PRIMARY, STANDBY), (STANDBY, PRIMARY)):
        assert given[there] == source | {
            heartbeats(other): wanted("controller", "`heartbeats`"),
            offset_syncs(other): wanted("controller", "`offset_syncs`"),
        }
