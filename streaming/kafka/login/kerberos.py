"""Logs in by Kerberos with a key table: tickets are requested before the login, away from the connections' thread.

kafka-python itself requests a ticket on the thread that serves all connections, and from the user's cache alone.
Here the KDC is requested beforehand, by MIT's library, which gets a new ticket where one is over. The library for
Python is optional (``pip install tideover[kerberos]``): it is compiled where it is installed.
"""

import contextlib
import importlib
import threading
import time
import uuid
import weakref
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from state.settings.security import Kerberos
from streaming.errors import CredentialRefused
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.login.prepared import Settings, one_at_a_time

_CONTEXT, _FIRST, _PRINCIPAL = "tideover_context", "tideover_first_token", "tideover_principal"


_REFUSED_SECONDS = 60.0
"""How old the tickets must be that a broker refused, so that new ones are requested."""


class _Tickets:
    """A cache in this process's memory, of one principal and key table."""

    def __init__(self) -> None:
        self.requesting = threading.Lock()
        self.renew()

    def renew(self) -> None:
        self.cache, self.made_at = f"MEMORY:tideover-{uuid.uuid4().hex}", time.monotonic()


_unused: defaultdict[tuple[str, Path], list[_Tickets]] = defaultdict(list)
"""By principal and key table: of logins that are gone. MIT's library frees a cache only with the process."""


def _tickets(settings: Kerberos) -> _Tickets:
    """For one login alone: the KDC of one cluster that hangs shall keep no login at another one up."""
    with contextlib.suppress(IndexError):
        return _unused[settings.principal, settings.keytab].pop()
    return _Tickets()


class KerberosLogin:
    """The tickets of one principal: a ``Login``."""

    def __init__(self, settings: Kerberos) -> None:
        self._settings = settings
        self._tickets = _tickets(settings)
        weakref.finalize(self, _unused[settings.principal, settings.keytab].append, self._tickets).atexit = False

    def prepare(self, host: str, until: float | None = None) -> Settings:
        """A security context for a broker, with its first message. One thread talks to the KDC at a time."""
        gssapi = _library()
        settings = self._settings
        _require_file(settings.keytab)
        try:
            left = None if until is None else max(0.0, until - time.monotonic())
            with one_at_a_time(self._tickets.requesting, host, left):
                context = self._context(gssapi, host)
                return {_CONTEXT: context, _FIRST: context.step(None), _PRINCIPAL: settings.principal}
        except gssapi.exceptions.GSSError as error:
            said = _sentence(error)
            raise LoginFailed(f"no ticket for {settings.principal} by {settings.keytab}: {said}", judged=said) from None

    def was_refused(self) -> None:
        """Use these tickets no longer: the key of the broker may be another one since they were given out."""
        if time.monotonic() - self._tickets.made_at >= _REFUSED_SECONDS:
            self._tickets.renew()

    def _context(self, gssapi: ModuleType, host: str) -> Any:
        principal = gssapi.Name(self._settings.principal, gssapi.NameType.kerberos_principal)
        store = {"client_keytab": str(self._settings.keytab), "ccache": self._tickets.cache}
        mine = gssapi.Credentials(name=principal, usage="initiate", store=store)
        broker = gssapi.Name(f"{self._settings.service}@{host}", gssapi.NameType.hostbased_service)
        kerberos = gssapi.MechType.kerberos
        return gssapi.SecurityContext(name=broker.canonicalize(kerberos), creds=mine, usage="initiate", mech=kerberos)


class _Prepared(SaslMechanismGSSAPI):  # type: ignore[misc]  # the library ships no types for it
    """The library's mechanism, from the context that was made beforehand."""

    def __init__(self, **config: Any) -> None:
        """The library's own constructor would request a ticket."""
        self._is_done = self._is_authenticated = False
        self._client_ctx, self._next_token = config[_CONTEXT], config[_FIRST]
        self.auth_id = config[_PRINCIPAL]

    def receive(self, auth_bytes: bytes) -> None:
        """As the library does; what the broker sent wrongly is a failed login, and no fault of the connection."""
        try:
            super().receive(auth_bytes)
        except _library().exceptions.GSSError as error:
            said = _sentence(error)
            raise LoginFailed(f"the broker's answer to {self.auth_id} is refused: {said}", judged=said) from None


register_sasl_mechanism("GSSAPI", _Prepared, overwrite=True)


def _require_file(keytab: Path) -> None:
    hint = "check security.sasl.keytab"
    try:
        is_file = keytab.is_file()
    except OSError as error:  # a folder that may not be entered
        raise CredentialRefused(f"the key table {keytab} cannot be read: {error.strerror}", hint=hint) from None
    if not is_file:
        raise CredentialRefused(f"the key table {keytab} is not a file", hint=hint)


def _library() -> ModuleType:
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError):
        raise CredentialRefused(
            "GSSAPI needs a library that is not installed",
            hint="install libkrb5-dev and a C compiler, then: pip install tideover[kerberos]",
        ) from None


def _sentence(error: Any) -> str:
    """What the KDC or the library says; the general part of each such error is the same."""
    said = (
        error.get_all_statuses(error.min_code, False)
        if error.min_code
        else error.get_all_statuses(error.maj_code, True)
    )
    return "; ".join(each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in said)
