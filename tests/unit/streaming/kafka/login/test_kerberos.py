"""What a login by Kerberos lacks before any KDC is requested."""

import errno
import sys
from pathlib import Path

import pytest

from state.settings.security import Kerberos
from streaming.errors import CredentialRefused
from streaming.kafka.login.kerberos import KerberosLogin


def settings(keytab: Path) -> Kerberos:
    return Kerberos.model_validate({"mechanism": "GSSAPI", "principal": "t@R", "keytab": keytab})


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


@pytest.mark.parametrize("principal", ["tideover", "a b@R", 'x"@R'])
def test_a_principal_without_a_realm_is_a_mistake(principal: str) -> None:
    with pytest.raises(ValueError, match="principal"):
        Kerberos.model_validate({"mechanism": "GSSAPI", "principal": principal, "keytab": "/k"})
