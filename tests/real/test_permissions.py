"""Brokers that allow no one anything: what is missing is said, what is given or changed counts without a restart."""

import shutil
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lab.delivery import Delivery
from orchestrator.facts.source_cluster import new_topic_wants
from state.model.cluster_status import Fault, Layer, ProbeReport
from state.model.entities import TopicPartition
from state.settings.keys import Cluster, Detection, MethodName, Tideover
from state.settings.security import Security
from streaming.cluster_log import Spec
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.link import Link
from streaming.kafka.probe import Probe
from streaming.probe.heartbeats import Heartbeats
from streaming.probe.probe_result import ProbeResult
from streaming.resolve.resolver import resolve
from streaming.resume.model import Rules, Target, Want
from tests.certificates import make_certificates
from tests.guarded import Guarded, behind_scram, behind_tls, documented
from tests.streams import Cluster as Written
from tests.waiting import until

pytestmark = pytest.mark.real

FIRST, SECOND = "correct-horse", "battery-staple"
ZERO = TopicPartition("t", 0)
SYNCS = "mm2-offset-syncs.east.internal"
HEARTBEATS = "east.heartbeats"
SYNCED_AT = (5, 9)
"""Offset on the old cluster, and here."""
READ_TO_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"), FIRST)


@pytest.fixture(scope="module")
def scram(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Users have to say their password again every three seconds."""
    users = dict.fromkeys(("ann", "bob", "eve", "kim", "pat"), FIRST)
    folder = tmp_path_factory.mktemp("scram")
    with behind_scram(folder, files, users, connections_max_reauth_ms="3000") as broker:
        topic = Written(broker.address, security=dict(broker.security))
        topic.make("t", foreign=True)
        topic.make(SYNCS, foreign=False)
        topic.make(HEARTBEATS, foreign=False)
        producer = Delivery({"bootstrap.servers": broker.address, "log_level": 0, **broker.security})
        key = struct.pack(">h", 1) + b"t" + struct.pack(">i", 0)
        producer.produce(SYNCS, key=key, value=struct.pack(">qq", *SYNCED_AT), partition=0)
        producer.confirm()
        yield broker


def login(broker: Guarded, user: str, password: str) -> Cluster:
    sasl = {"mechanism": "SCRAM-SHA-512", "username": user, "password": password}
    security = {"protocol": "SASL_SSL", "ca": broker.files / "ca.pem", "sasl": sasl}
    return Cluster(bootstrap=(broker.address,), security=Security.model_validate(security))


@contextmanager
def looking(cluster: Cluster, *topics: str) -> Iterator[Callable[[], ProbeResult]]:
    probe = Probe(cluster, name="east", topics=topics, memory=ProbeMemory())
    try:
        yield lambda: probe.run(60.0)
    finally:
        probe.close()


def refused(sight: ProbeResult) -> str:
    """What a look says that was refused."""
    assert sight.trouble is not None
    assert (sight.trouble.fault, sight.trouble.retriable) == (Fault.OURS, False), sight.trouble
    return sight.trouble.text


def test_a_rotated_password_is_refused_until_its_file_changes(scram: Guarded, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{FIRST}\n", encoding="utf-8")
    with looking(login(scram, "ann", f"file:{secret}")) as look:
        sight = look()
        assert sight.ok, sight.trouble
        scram.set_password("ann", SECOND)
        seen = [look()]

        def is_requested_again() -> bool:
            seen.append(look())
            return (trouble := seen[-1].trouble) is not None and trouble.kind == "credential"

        until(is_requested_again, "the broker never asked for the password again")
        assert "SASL" in refused(seen[-1])
        secret.write_text(f"{SECOND}\n", encoding="utf-8")
        sight = look()
        assert sight.ok, sight.trouble
    assert FIRST not in repr(sight)


def test_a_refused_certificate_is_named_and_its_successor_counts(files: Path, tmp_path: Path) -> None:
    for name in ("ca.pem", "client.key"):
        shutil.copy(files / name, tmp_path / name)
    ours = {"ca": tmp_path / "ca.pem", "cert": tmp_path / "client.pem", "key": tmp_path / "client.key"}
    security = Security.model_validate({"protocol": "SSL", "key_password": FIRST, **ours})
    with (
        behind_tls(tmp_path / "broker", files) as broker,
        looking(Cluster(bootstrap=(broker.address,), security=security)) as look,
    ):
        for wrong in ("expired", "strange"):  # the broker says the same of both
            shutil.copy(files / f"{wrong}.pem", tmp_path / "client.pem")
            found = refused(look())
            taken = "name one that has not expired, of an authority in the"
            assert f"refuses our own certificate (security.cert), or misses it: {taken}" in found
        shutil.copy(files / "client.pem", tmp_path / "client.pem")
        sight = look()
        assert sight.ok, sight.trouble


def test_each_missing_acl_is_named_and_counts_as_soon_as_it_is_there(scram: Guarded) -> None:
    bob = login(scram, "bob", FIRST)
    with Link(bob, name="west") as link, looking(bob, "t") as look:
        denied = link.describe(["t"], timeout=60)["t"].error
        assert denied is not None
        assert denied.text == "our user has no ACL that allows Describe on topic t"
        assert denied.text in refused(look())

        scram.allow("bob", "t", "Describe")
        end = link.offsets({ZERO: Spec.LATEST}, timeout=60)[ZERO]
        assert (end.offset, end.error) == (17, None)
        unread = link.fetch({ZERO: (0, 1 << 16)}, timeout=60)[ZERO].error
        assert unread is not None
        assert unread.text == "our user has no ACL that allows Read on topic t"
        assert look().ok
        scram.revoke("bob", "t", "Describe")

        given = documented("controller", "topics")
        assert set(given) == {"Read", "DescribeConfigs"}
        scram.allow("bob", "t", "Read")
        assert look().ok
        assert link.describe(["t"], timeout=60)["t"].timestamp_type is None, "that takes DescribeConfigs"
        scram.allow("bob", "t", "DescribeConfigs")
        assert link.describe(["t"], timeout=60)["t"].timestamp_type == "CreateTime"
        assert len(link.fetch({ZERO: (0, 1 << 16)}, timeout=60)[ZERO].records) == 17
        assert look().ok
        scram.revoke("bob", "t", *given)
        gone = link.offsets({ZERO: Spec.LATEST}, timeout=60)[ZERO].error
        assert gone is not None
        assert gone.text == "our user has no ACL that allows Describe on topic t"


def test_acls_on_a_prefix_show_a_pattern_only_the_topics_of_that_prefix(scram: Guarded) -> None:
    topics = Written(scram.address, security=dict(scram.security))
    for name in ("shop.a", "shop.b", "shopping"):
        topics.make(name, foreign=True)
    pat = login(scram, "pat", FIRST)
    query = {
        "pipeline": "a:b", "sources": {"s": {"pattern": ".*"}}, "clusters": ["east", "west"], "runners": ["a"],
        "checkpoint": "/c",
    }  # fmt: skip
    settings = Tideover.model_validate(
        {
            "store": "sqlite:///never.db",
            "clusters": {"east": {"bootstrap": ["east:1"]}, "west": {"bootstrap": [scram.address]}},
            "routes": [{"from": "east", "to": "west"}],
            "runners": {"a": {}},
            "queries": {"q": query},
        }
    )
    with Link(pat, name="west") as link:

        def seen() -> set[str]:
            wants = new_topic_wants(link, settings, settings.queries["q"], source="east", target="west", wants=())
            return {want.target_topic for want in wants}

        assert seen() == set()
        scram.allow("pat", "shop.", *documented("controller", "topics"), prefixed=True)
        assert seen() == {"shop.a", "shop.b"}
        first = TopicPartition("shop.a", 0)
        assert len(link.fetch({first: (0, 1 << 16)}, timeout=60)[first].records) == 17
        assert link.describe(["shop.a"], timeout=60)["shop.a"].timestamp_type == "CreateTime"
        topics.make("shop.c", foreign=False)
        assert seen() == {"shop.a", "shop.b", "shop.c"}, "made later, and allowed already"


def placed(link: Link, *methods: MethodName) -> Target:
    """Where a query that had read one record more than the sync's resumes."""
    want = Want(
        source="t", topic="t", partition=0, target_topic="t", offset=SYNCED_AT[0] + 1, ring=(), ring_offset=None,
        dense=None, begin_known=None, timestamp_ms=READ_TO_MS,
    )  # fmt: skip
    other = replace(want, partition=1)
    rules = Rules(methods=methods, buffer_ms=0, offset_syncs=SYNCS)
    return resolve(link, [want, other], rules, old_ends={}, now=datetime.now(UTC), timeout=60).targets[0]


def test_without_its_acl_the_offset_syncs_method_alone_fails(
    scram: Guarded,
) -> None:
    eve = login(scram, "eve", FIRST)
    scram.allow("eve", "t", *documented("controller", "topics"))
    with Link(eve, name="west") as link, looking(eve, "t") as look:
        for given, missing in (((), "Describe"), (("Describe",), "Read")):
            if given:
                scram.allow("eve", SYNCS, *given)
            target = placed(link, MethodName.SYNCED)
            assert (target.target_offset, target.error) == (None, None)
            assert f"our user has no ACL that allows {missing} on topic {SYNCS}" in target.note
            target = placed(link, MethodName.SYNCED, MethodName.TIMESTAMP)
            assert (target.method, target.error) == ("timestamp", None)
            assert look().ok
        scram.revoke("eve", SYNCS, "Describe")

        scram.allow("eve", SYNCS, *documented("controller", "`offset_syncs`"))
        target = placed(link, MethodName.SYNCED)
        assert (target.method, target.target_offset, target.note) == ("synced", SYNCED_AT[1] + 1, "")


def test_heartbeats_need_the_documented_acls_and_a_missing_one_is_named(scram: Guarded) -> None:
    kim = login(scram, "kim", FIRST)
    quick = Detection.model_validate({"interval": "200ms", "timeout": "5s"})
    with Link(kim, name="west") as link, reading(Heartbeats("east", "west", HEARTBEATS, lambda _: link, quick)) as seen:
        beat(scram)
        for given, missing in (((), "Describe"), (("Describe",), "Read")):
            if given:
                scram.allow("kim", HEARTBEATS, *given)
            seen(
                lambda probe_report, it=missing: (  # type: ignore[misc] # a lambda's own name in a loop
                    f"has no ACL that allows {it} on topic {HEARTBEATS}" in probe_report.text
                )
            )
        scram.revoke("kim", HEARTBEATS, "Describe")

        scram.allow("kim", HEARTBEATS, *documented("controller", "`heartbeats`"))
        seen(lambda probe_report: (probe_report.layer, probe_report.fault) == (Layer.READ, None))
        beat(scram)
        seen(lambda probe_report: probe_report.last_ok_at is not None)


@contextmanager
def reading(heartbeats: Heartbeats) -> Iterator[Callable[[Callable[[ProbeReport], bool]], None]]:
    """Yields what waits until the heartbeats' word is so."""
    began, since = datetime.now(UTC), time.monotonic()
    heartbeats.begin()

    def await_word(holds: Callable[[ProbeReport], bool]) -> None:
        def is_so() -> bool:
            word = heartbeats.probe_report("1", lambda at: began + timedelta(seconds=at - since))
            return word is not None and holds(word)

        until(is_so, "the heartbeats' word")

    try:
        yield await_word
    finally:
        heartbeats.close()
        heartbeats._thread.join()  # it would send through a link that is closed


def beat(broker: Guarded) -> None:
    """One heartbeat has come over."""
    producer = Delivery({"bootstrap.servers": broker.address, "log_level": 0, **broker.security})
    producer.produce(HEARTBEATS, value=b"alive", partition=0)
    producer.confirm()
