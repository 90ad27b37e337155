"""Notices on their real way: to a mail server and to a web server on loopback."""

import email
import json
from asyncio import Server
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from orchestrator.errors import ConfigError
from orchestrator.notify import teller
from orchestrator.notify.apprise_channel import AppriseChannel
from orchestrator.notify.incidents import Notice, Severity, State
from orchestrator.notify.teller import Notices
from state.model.cluster_status import Verdict
from tests.contract.samples import AT, term_of
from tests.memory_store import MemoryStore
from tests.notified import target, verdict
from tests.waiting import until

SECRET = "xoxb-0123456789"
NOTICE = Notice(
    incident="cluster:east", state=State.OPENED, severity=Severity.CRITICAL, title="east is DOWN",
    text="3 probes failed in a row", sequence=7, incidents={},
)  # fmt: skip


@dataclass
class Mailbox:
    """What a mail server was handed."""

    mails: list[email.message.Message] = field(default_factory=list)
    port: int = 0

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 # aiosmtpd's
        self.mails.append(email.message_from_bytes(envelope.original_content or b""))
        return "250 OK"


class OnAnyPort(Controller):
    """Listens where there is room."""

    def _trigger_server(self) -> None:
        """The port is known only now; aiosmtpd looks at it before it says that it is up."""
        assert isinstance(self.server, Server)
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    controller = OnAnyPort(made, hostname="127.0.0.1", port=0)
    controller.start()
    made.port = controller.port
    yield made
    controller.stop()


@dataclass
class Hook:
    """What a web server was sent, and what it answers."""

    code: int = 200
    sent: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            made.sent.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(made.code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_mail_says_what_happened_and_which_incident_it_is(mailbox: Mailbox) -> None:
    url = f"mailto://127.0.0.1:{mailbox.port}?from=tideover@example.com&to=oncall@example.com&format=text"
    assert AppriseChannel(target(url=url)).send(NOTICE) == ""
    (mail,) = mailbox.mails
    assert (
        str(email.header.make_header(email.header.decode_header(mail["Subject"]))) == "[CRITICAL opened] east is DOWN"
    )
    assert mail["To"] == "oncall@example.com"
    parts = [part.get_payload(decode=True) for part in mail.walk() if part.get_content_type() == "text/plain"]
    assert b"3 probes failed in a row" in b"".join(part for part in parts if isinstance(part, bytes))
    assert b"incident cluster:east, line 7" in b"".join(part for part in parts if isinstance(part, bytes))


def test_a_webhook_gets_the_notice_with_its_type(hook: Hook) -> None:
    channel = AppriseChannel(target(url=f"json://127.0.0.1:{hook.port}/in/{SECRET}"))
    assert channel.send(NOTICE) == ""
    assert channel.send(replace(NOTICE, state=State.CLOSED)) == ""
    assert hook.sent[0]["title"] == "[CRITICAL opened] east is DOWN"
    assert "incident cluster:east, line 7" in hook.sent[0]["message"]
    assert [sent["type"] for sent in hook.sent] == ["failure", "success"]


@pytest.mark.parametrize("code", [401, 500])
def test_a_refusal_is_reported_without_the_secret_in_the_url(hook: Hook, code: int) -> None:
    hook.code = code
    error = AppriseChannel(target(url=f"json://user:{SECRET}@127.0.0.1:{hook.port}/in/{SECRET}")).send(NOTICE)
    assert str(code) in error
    assert SECRET not in error


def test_an_absent_service_is_an_error_and_nothing_worse(caplog: pytest.LogCaptureFixture) -> None:
    error = AppriseChannel(target(url=f"json://127.0.0.1:9/{SECRET}")).send(NOTICE)
    assert error
    assert SECRET not in error
    assert SECRET not in caplog.text


def test_a_url_of_no_service_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="cannot read the url of oncall"):
        AppriseChannel(target(url=f"nowhere://{SECRET}"))


def test_a_cluster_that_dies_reaches_both_a_mailbox_and_a_webhook(
    mailbox: Mailbox, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apprise.plugins.base.NotifyBase.request_rate_per_sec", 0)  # 5.5 s between two mails
    monkeypatch.setattr(teller, "LOOK_SECONDS", 0.05)
    store = MemoryStore(lambda: AT)
    term = term_of(store)
    targets = [
        target(name="mail", url=f"mailto://127.0.0.1:{mailbox.port}?from=t@example.com&to=o@example.com"),
        target(name="hook", url=f"json://127.0.0.1:{hook.port}/"),
    ]
    notices = Notices(store, targets, {each.name: AppriseChannel(each) for each in targets}, lambda: term)
    notices.begin()
    try:
        until(lambda: len(store.notice_cursors()) == 2)
        store.note(verdict(Verdict.DOWN))
        until(lambda: len(mailbox.mails) == 1 and len(hook.sent) == 1)
        store.note(verdict(Verdict.UP))
        until(lambda: len(mailbox.mails) == 2 and len(hook.sent) == 2)
        assert [sent["type"] for sent in hook.sent] == ["failure", "success"]
    finally:
        notices.close()
