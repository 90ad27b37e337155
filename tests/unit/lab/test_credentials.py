"""Credentials for clusters in containers: what is made, who may read it, and that the lab finds it again."""

import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import cli
from lab.access import Access
from lab.credentials import Wanted, parse
from lab.errors import LabError
from lab.external_clusters import ExternalClusters
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


def told(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_each_cluster_is_written_with_its_kind_and_its_hosts() -> None:
    assert parse(CLUSTERS) == {"east": Wanted("mtls", ("east-1", "link")), "west": Wanted("scram", ("west-1",))}
    for wrong in ("east", "east=tls:a", "east=mtls", "east=mtls:", "=mtls:a"):
        with pytest.raises(LabError, match="is not CLUSTER=KIND:HOST"):
            parse([wrong])


def test_a_broker_is_certified_for_every_name_that_it_is_reached_by(made: Path) -> None:
    shown = subprocess.run(
        ["openssl", "x509", "-in", "broker.pem", "-noout", "-ext", "subjectAltName"],
        cwd=made / "secrets" / "east", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "DNS:east-1, DNS:link" in shown.stdout


def test_both_listeners_of_a_broker_need_credentials_and_allow_no_other(made: Path) -> None:
    for cluster, protocol in (("east", "SSL"), ("west", "SASL_SSL")):
        settings = told(made / "secrets" / cluster / "broker.properties")
        assert settings["listener.security.protocol.map"] == f"LOCAL:{protocol},LINK:{protocol},CONTROLLER:PLAINTEXT"
        assert "security.inter.broker.protocol" not in settings, "the listener is named, and both are refused"
        assert "authorizer.class.name" in settings
        assert "allow.everyone.if.no.acl.found" not in settings
        assert "tideover" not in settings["super.users"]
    assert told(made / "secrets/east/broker.properties")["ssl.client.auth"] == "required"
    for listener in ("local", "link"):
        assert f"listener.name.{listener}.scram-sha-512.sasl.jaas.config" in settings


def test_the_standbys_users_are_made_with_its_storage(made: Path) -> None:
    users = (made / "secrets/west/storage.arguments").read_text().splitlines()
    assert users[::2] == ["--add-scram"] * 3
    assert (made / "secrets/east/storage.arguments").read_text() == ""
    replicator = told(made / "secrets/replicator.properties")
    assert (replicator["east.security.protocol"], replicator["west.security.protocol"]) == ("SSL", "SASL_SSL")
    assert 'username="replicator"' in replicator["west.sasl.jaas.config"]


def test_secrets_are_readable_by_their_group_only(made: Path) -> None:
    found = list((made / "secrets").rglob("*"))
    assert len(found) > 10
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path


def test_the_lab_says_what_lets_it_in_where_credentials_were_made(made: Path, tmp_path: Path) -> None:
    configuration = tmp_path / "tideover.yaml"
    configuration.write_text("clusters: {east: {bootstrap: ['a:1']}, west: {bootstrap: ['b:1']}}")
    secured, plain = ExternalClusters(made, configuration), ExternalClusters(tmp_path, configuration)
    assert secured.bootstrap("west") == ["b:1"]
    assert settings(secured, "east")["ssl.certificate.location"] == str(made / "secrets/east/admin.pem")
    assert settings(secured, "west")["sasl.username"] == "admin"
    assert settings(plain, "west") == {}
    assert plain.access_to("west") is None
    assert [getattr(secured.access_to(cluster), "kind", None) for cluster in ("east", "west")] == ["mtls", "scram"]


def test_made_again_they_stay_what_they_are(made: Path) -> None:
    before = (made / "secrets/west/admin.password").read_text()
    assert cli.main(("secrets", "--dir", str(made), *CLUSTERS)) == 0
    assert (made / "secrets/west/admin.password").read_text() == before
    assert isinstance(Access.found(made / "secrets/west"), Access)


def settings(external: ExternalClusters, cluster: str) -> Any:
    return external.bootstrap(cluster).security  # type: ignore[attr-defined]


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
