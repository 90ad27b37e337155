"""What a login by Kerberos lacks before any KDC is requested."""

import errno
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from state.settings.security import Kerberos
from streaming.errors import CredentialRefused
from streaming.kafka.login import kerberos as module
from streaming.kafka.login.kerberos import KerberosLogin
from streaming.kafka.login.login_failed import LoginFailed


def settings(keytab: Path, principal: str = "t@R") -> Kerberos:
    return Kerberos.model_validate({"mechanism": "GSSAPI", "principal": principal, "keytab": keytab})


def test_a_missing_library_is_named_with_its_install_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(CredentialRefused, match="not installed") as refused:
        KerberosLogin(settings(tmp_path)).prepare("e")
    assert refused.value.hint.endswith("pip install tideover[kerberos]")


def test_a_missing_key_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", object())
    with pytest.raises(CredentialRefused, match="gone is not a file"):
        KerberosLogin(settings(tmp_path / "gone")).prepare("e")


def test_a_key_table_in_a_closed_folder_is_ours_to_correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setitem(sys.modules, "gssapi", object())
    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(CredentialRefused, match="cannot be read: Permission denied"):
        KerberosLogin(settings(tmp_path / "k")).prepare("e")


class Library(ModuleType):
    """Stands in for gssapi: notes which cache each principal's tickets are in."""

    def __init__(self) -> None:
        super().__init__("gssapi")
        self.caches: dict[str, set[str]] = defaultdict(set)
        self.NameType = self.MechType = self.exceptions = SimpleNamespace(
            kerberos_principal=1, hostbased_service=2, kerberos=3, GSSError=OSError
        )
        self.Name = lambda name, _: SimpleNamespace(name=name, canonicalize=lambda _: name)
        self.Credentials = lambda name, usage, store: self.caches[name.name].add(store["ccache"])
        self.SecurityContext = lambda **_: SimpleNamespace(step=lambda _: b"")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setitem(sys.modules, "gssapi", library)
    (tmp_path / "k").touch()
    return library


def test_no_principal_gets_the_tickets_of_another(tmp_path: Path, library: Library) -> None:
    for _ in range(100):
        for principal in ("east@E", "west@W"):
            KerberosLogin(settings(tmp_path / "k", principal)).prepare("e")
    assert [len(caches) for caches in library.caches.values()] == [1, 1], "a cache is used again by its principal"
    assert library.caches["east@E"].isdisjoint(library.caches["west@W"])


def test_a_kdc_that_hangs_for_one_cluster_keeps_no_login_at_another_up(tmp_path: Path, library: Library) -> None:
    east, west = (KerberosLogin(settings(tmp_path / "k", "both@E")) for _ in range(2))
    with east._tickets.requesting:
        west.prepare("w", 0.0)
    assert len(library.caches["both@E"]) == 1


def test_tickets_that_a_broker_refused_are_replaced_but_not_at_once(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    login = KerberosLogin(settings(tmp_path / "k"))
    for now[0], count in ((0.0, 1), (59.0, 1), (60.0, 2), (61.0, 2)):
        login.was_refused()
        login.prepare("e")
        assert len(library.caches["t@R"]) == count


def test_a_login_whose_time_is_over_requests_no_ticket(tmp_path: Path, library: Library) -> None:
    login = KerberosLogin(settings(tmp_path / "k"))
    with login._tickets.requesting, pytest.raises(LoginFailed, match="does not answer"):
        login.prepare("e", 0.0)
    assert not library.caches


@pytest.mark.parametrize("principal", ["tideover", "a b@R", 'x"@R'])
def test_a_principal_without_a_realm_is_a_mistake(principal: str) -> None:
    with pytest.raises(ValueError, match="principal"):
        Kerberos.model_validate({"mechanism": "GSSAPI", "principal": principal, "keytab": "/k"})
