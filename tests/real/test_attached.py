"""An ordinary job, attached: its second driver, its attendant that dies, its move, and its start without an attendant.

``examples/plain_job.py`` knows nothing of Tideover and is started by plain ``spark-submit``. One application runs for
all tests of this page; which cluster it is on depends on the tests that came before.
"""

import json
import os
import re
import signal
import socket
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import faults
from lab.world import CLUSTERS, TOPIC, World
from streaming.companion.jar import companion_jar
from tests.applications import EXACT, MOVED, QUERIES, Application
from tests.ports import free_port
from tests.scene import Controller
from tests.streams import Cluster
from tests.topics import read_whole
from tests.world import running_clusters

pytestmark = [pytest.mark.real, pytest.mark.shared, pytest.mark.timeout(1800)]
NOWHERE = ("spark.tideover.command=/opt/nowhere/tideover", "spark.tideover.admission.timeout=2s")
"""An attendant that cannot be started."""
TOKEN = "2f6c1e0b9d8a7c5e4f3b2a190817263544556677"


@dataclass
class Sites:
    """Two clusters with the same orders, behind foreign records on the second."""

    world: World
    clusters: dict[str, Cluster]

    @property
    def end(self) -> int:
        """How many orders there are on any of them."""
        return max(each.ends[TOPIC] for each in self.clusters.values())

    def more(self, *names: str, count: int = 100) -> None:
        """Write the next orders to the clusters named, or to both."""
        end = self.end + count
        for name in names or CLUSTERS:
            self.clusters[name].extend(TOPIC, end)

    def application(self, folder: Path, name: str = "shop", **more: Any) -> Application:
        """One that is configured, and not started."""
        folder.mkdir(exist_ok=True)
        made = Application(folder, self.world.bootstrap(CLUSTERS[0])[0], name, **more)
        made.configure({
            "store": f"sqlite:///{folder / 'tideover.db'}",
            "clusters": {name: {"bootstrap": list(self.world.bootstrap(name))} for name in CLUSTERS},
            "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
        })  # fmt: skip
        return made

    def ids(self, name: str, topic: str) -> list[int]:
        """What a topic of a cluster holds, in order."""
        found = read_whole(self.clusters[name].bootstrap, topic)
        return sorted(json.loads(value)["id"] for *_, value in found)

    def await_exact(self, application: Application, what: str) -> None:
        """Wait until both queries have each order once, and have committed it.

        A driver that is killed between the two appends its last batch to the file again, as plain Spark does.
        """
        application.until(lambda: application.judge(set(range(self.end))) == EXACT, what)
        application.until(application.has_rested, f"{what}, and committed")


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with running_clusters(tmp_path_factory.mktemp("sites")) as world:
        made = Sites(world, {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS})
        for name, cluster in made.clusters.items():
            cluster.make(TOPIC, foreign=name != CLUSTERS[0])
        made.more()
        yield made


@pytest.fixture(scope="module")
def shop(sites: Sites, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    application = sites.application(tmp_path_factory.mktemp("shop"))
    application.submit()
    try:
        sites.await_exact(application, "both queries have read all")
        yield application
    finally:
        application.kill()


def sides(application: Application) -> tuple[str, str]:
    """Where the queries of an application are, and where they are not."""
    (here,) = {row["cluster"] for row in json.loads(application.type("list", "-o", "json").out)}
    return here, next(name for name in CLUSTERS if name != here)


def could_move(application: Application) -> bool:
    return application.type("check").code == 0


def test_a_second_driver_is_refused_while_the_first_one_reads_on(sites: Sites, shop: Application) -> None:
    sites.await_exact(shop, "the first driver has read all")
    refused = shop.type("release", "archive", "--yes")
    assert (refused.code, f"shop may still run as pid {shop.job.pid}" in refused.err) == (1, True)
    second = sites.application(shop.folder)
    second.jobs = [shop.job]
    second.submit()
    assert second.end() not in (0, MOVED)
    assert f"runner shop is already running as pid {shop.job.pid}" in second.log()
    assert second.judge(set(range(sites.end))) == EXACT
    sites.more()
    sites.await_exact(shop, "the first driver reads on")


def test_a_stranger_at_the_port_of_an_attendant_gets_no_answer(shop: Application) -> None:
    """As a user without rights on the host, who knows the port and py4j's protocol, and not the secret."""
    (attendant,) = shop.attendants()
    variables = Path(f"/proc/{attendant}/environ").read_bytes().decode().split("\0")
    known = dict(each.split("=", 1) for each in variables if "=" in each)

    def answer(lines: str) -> bytes:
        with socket.create_connection(("127.0.0.1", int(known["PYSPARK_GATEWAY_PORT"])), timeout=60) as stranger:
            stranger.sendall(lines.encode())
            try:
                return stranger.recv(4096)
            except ConnectionError:
                return b""

    find = "r\nu\njava.lang.System\nrj\ne\n"
    for lines in (find, "c\nt\ntoString\ne\n", "m\nd\no0\ne\n", "A\nwrong\ne\n", f"A\nwrong\ne\n{find}"):
        assert b"!y" not in answer(lines), lines
    assert answer(f"A\n{known['PYSPARK_GATEWAY_SECRET']}\ne\n").startswith(b"!y"), "with the secret it answers"


def test_a_killed_attendant_comes_back_and_moves_the_run(sites: Sites, shop: Application) -> None:
    shop.until(partial(could_move, shop), "both queries could be moved")
    (killed,) = shop.attendants()
    os.kill(killed, signal.SIGKILL)
    sites.more()
    sites.await_exact(shop, "the queries read on without an attendant")
    shop.until(lambda: shop.attendants() not in ([], [killed]), "another attendant is there")
    shop.until(partial(could_move, shop), "both queries could be moved again")
    here, there = sides(shop)
    known = ("--consent", "replication", "--yes", "--reason", "both clusters are written to", "-o", "json")
    moved = shop.type("switchover", "--all", "--to", there, *known)
    assert moved.code == 0, moved.err + moved.out
    sites.more(there)
    sites.await_exact(shop, f"the run reads {there}")
    assert shop.job.poll() is None
    sites.clusters[here].extend(TOPIC, sites.end)
    assert shop.log().count("query continues") >= len(QUERIES)


def test_a_moved_job_is_on_the_right_cluster_after_a_kill(sites: Sites, shop: Application) -> None:
    shop.until(partial(could_move, shop), "both queries could be moved")
    here, there = sides(shop)
    faults.kill(sites.world, here, print)
    try:
        moved = shop.type("failover", "--all", "--to", there, "--yes", "--reason", "test", "-o", "json")
        assert moved.code == 0, moved.err + moved.out
        sites.more(there)
        sites.await_exact(shop, "every order once, in the same run")
        assert shop.job.poll() is None
        shop.kill()
        shop.submit(conf=NOWHERE)
        assert shop.end() not in (0, MOVED)
        assert "so it is unknown which cluster it has to read: it is not started" in shop.log()
        assert "the attendant cannot be started" in shop.log()
        shop.submit()
        sites.more(there)
        sites.await_exact(shop, "every order once behind the restart")
        assert f"archive reads source orders on {there}" in shop.log()
    finally:
        faults.start(sites.world, here, print)
        sites.clusters[here].extend(TOPIC, sites.end)


def test_a_scheduled_job_is_configured_and_moved_between_its_runs(sites: Sites, tmp_path: Path) -> None:
    """Its first run has no attendant, and leaves a checkpoint and a log that Tideover has never seen."""
    hourly = Application(tmp_path, sites.world.bootstrap("east")[0], "hourly")
    named, events = "spark.tideover.application=hourly", tmp_path / "events"
    events.mkdir()
    logged = ("spark.eventLog.enabled=true", f"spark.eventLog.dir=file://{events}")
    hourly.submit("once", conf=(*NOWHERE, *logged, named))
    try:
        assert hourly.end() == 0, hourly.log()[-5000:]
        assert hourly.judge(set(range(sites.end))) == EXACT
        assert hourly.log().count("It was never moved, so it runs as its application says") == len(QUERIES)
        assert "spark.tideover.command names the program tideover" in hourly.log()
        configure(sites, hourly, events)
        sites.more()
        hourly.submit("once", conf=[named])
        assert hourly.end() == 0, hourly.log()[-5000:]
        assert hourly.judge(set(range(sites.end))) == EXACT
        assert {row["state"] for row in json.loads(hourly.type("list", "-o", "json").out)} == {"awaited"}
        ready = hourly.type("check")
        assert ready.code == 0, ready.out + ready.err
        faults.kill(sites.world, "east", print)
        try:
            moved = hourly.type("failover", "--all", "--to", "west", "--yes", "--reason", "test")
            assert moved.code == 0, moved.err + moved.out
            assert "awaits the next start of hourly" in moved.out
            sites.more("west")
            hourly.submit("once", conf=[named])
            assert hourly.end() == 0, hourly.log()[-5000:]
        finally:
            faults.start(sites.world, "east", print)
            sites.clusters["east"].extend(TOPIC, sites.end)
        assert hourly.judge(set(range(sites.end))) == EXACT
        assert "archive reads source orders on west" in hourly.log()
        closed = json.loads(hourly.type("list", "-o", "json").out)
        assert {(row["cluster"], row["state"], row["operation"]) for row in closed} == {("west", "awaited", None)}
        release(sites, hourly)
    finally:
        hourly.kill()


WRITING = {
    "copies": {"output": {"topic": "copies"}},
    "notes": {"output": {"topic": "notes"}, "batch_reads": ["prices"]},
    "aside": {},
}
"""The queries of ``kafka_job.py``; nothing is declared of what ``aside`` writes."""


def test_kafka_sinks_and_batches_follow_where_they_are_declared(sites: Sites, tmp_path: Path) -> None:
    for name, prices in zip(CLUSTERS, (3, 5), strict=True):
        for topic in (*WRITING, "prices"):
            sites.clusters[name].make(topic, foreign=False, partitions=1)
        sites.clusters[name].append("prices", 0, range(prices))
    sites.more()
    job = Path(__file__).parent / "kafka_job.py"
    notary = sites.application(tmp_path / "notary", "notary", script=job, queries=WRITING, ui_port=free_port())
    before = list(range(sites.end))
    named = ("spark.tideover.application=notary",)
    notary.submit(conf=(*named, "spark.tideover.desk=http://127.0.0.1:8340"))
    try:
        notary.until(lambda: all(sites.ids("east", each) == before for each in WRITING), "all is written to east")
        notary.until(lambda: notary.type("check", "copies", "notes").code == 0, "both queries could be moved")
        aside = notary.type("check", "aside")
        assert (aside.code, "sink-follows" in aside.out) == (3, True), aside.out + aside.err
        await_tab(notary, copies=["east", "east", "1"], aside=["east", "", "1"])
        assert 'href="/tideover/"' in notary.page("jobs"), "Spark's own pages lead there"
        moved = notary.type("switchover", "--all", "--to", "west", "--consent", "replication", "--yes", "--reason", "x")
        assert moved.code == 0, moved.err + moved.out
        sites.more("west")
        new = list(range(before[-1] + 1, sites.end))
        notary.until(lambda: sites.ids("west", "copies") == sites.ids("west", "notes") == new, "both write to west")
        assert sites.ids("east", "copies") == sites.ids("east", "notes") == before
        notary.until(lambda: sites.ids("east", "aside") == before + new, "aside is on east, as its code says")
        assert sites.ids("west", "aside") == []
        assert "aside writes to the Kafka that its code names, whichever cluster it reads" in notary.log()
        assert "copies writes copies to west" in notary.log()
        await_tab(notary, copies=["west", "west", "2"], notes=["west", "west", "2"], aside=["west", "", "2"])
        assert "switchover from east to west: done" in notary.page("tideover")
        assert notary.job.poll() is None
        notary.kill()
        notary.submit(conf=named, jar=without_tab(tmp_path))
        sites.more("west")
        last = set(range(new[0], sites.end))
        written = lambda: all(set(sites.ids("west", each)) == last for each in ("copies", "notes"))  # noqa: E731
        notary.until(written, "both write to west behind the restart")
        assert sites.ids("east", "copies") == sites.ids("east", "notes") == before
        assert "no tab in Spark's UI, as it does not fit: java.lang.ClassNotFoundException" in notary.log()
        assert "Tideover" not in notary.page("jobs")
    finally:
        notary.kill()
        sites.clusters["east"].extend(TOPIC, sites.end)
    reads = list(dict.fromkeys((notary.out / "prices.txt").read_text(encoding="utf-8").splitlines()))
    assert reads == ["start 3", "batch 3", "numbers 3", "batch 5", "numbers refused", "start 5"]


def test_an_application_without_the_store_moves_by_its_controller(sites: Sites, tmp_path: Path) -> None:
    """Its configuration has a token in place of the store. A controller that is away is a store that is away."""
    keyless, operator = by_controller(sites, tmp_path)
    first, named = Controller(operator, "first"), "spark.tideover.application=keyless"
    try:
        keyless.submit(conf=[named])
        sites.await_exact(keyless, "both queries have read all")
        (attendant,) = keyless.attendants()
        for file in ("cmdline", "environ"):
            known = Path(f"/proc/{attendant}/{file}").read_bytes()
            assert TOKEN.encode() not in known
            assert b"sqlite" not in known
        assert "this configuration has no store" in keyless.type("list").err
        keyless.operator = operator
        keyless.until(partial(could_move, keyless), "both queries could be moved")
        first.kill()
        sites.more()
        sites.await_exact(keyless, "the queries read on without a controller")
        first = Controller(operator, "second")
        keyless.until(partial(could_move, keyless), "both queries could be moved again")
        faults.kill(sites.world, "east", print)
        try:
            moved = keyless.type("failover", "--all", "--to", "west", "--yes", "--reason", "test", "-o", "json")
            assert moved.code == 0, moved.err + moved.out
            sites.more("west")
            sites.await_exact(keyless, "every order once, in the same run")
            assert keyless.job.poll() is None
            keyless.kill()
            first.kill()
            keyless.submit(conf=[named])
            keyless.until(lambda: "no controller answers" in keyless.log(), "the start waits for a controller")
            assert keyless.judge(set(range(sites.end))) == EXACT
            first = Controller(operator, "third")
            sites.more("west")
            sites.await_exact(keyless, "every order once behind the restart")
            assert "archive reads source orders on west" in keyless.log()
        finally:
            faults.start(sites.world, "east", print)
            sites.clusters["east"].extend(TOPIC, sites.end)
        logs = [*tmp_path.glob("*.log"), *tmp_path.glob("tideover.db*")]
        assert not [each for each in logs if TOKEN.encode() in each.read_bytes()]
    finally:
        first.kill()
        keyless.kill()


def by_controller(sites: Sites, folder: Path) -> tuple[Application, Path]:
    """An application that knows the controllers alone, and the configuration of these, with the store."""
    listen = f"127.0.0.1:{free_port()}"
    application = sites.application(folder, "keyless")
    (folder / "token").write_text(TOKEN, encoding="utf-8")
    (folder / "token").chmod(0o600)
    known = yaml.safe_load(application.config.read_text(encoding="utf-8"))
    token = {"name": "keyless", "role": "runner", "runner": "keyless", "token": "file:token"}
    (folder / "operator.yaml").write_text(
        yaml.safe_dump(known | {"http": {"listen": listen, "tokens": [token]}}), encoding="utf-8"
    )
    del known["store"]
    controller = {"urls": [f"http://{listen}"], "token": "file:token"}
    application.config.write_text(yaml.safe_dump(known | {"controller": controller}), encoding="utf-8")
    return application, folder / "operator.yaml"


def await_tab(application: Application, **rows: list[str]) -> None:
    """Wait until the tab in Spark's UI shows where each of these queries reads and writes, and its epoch."""

    def shows() -> bool:
        page = application.page("tideover")
        cells = (re.findall(r"<td>(.*?)</td>", row) for row in page.split("<tr>"))
        found = {re.sub(r"<.*?>", "", row[0]): row for row in cells if row}
        return all(found.get(name, [])[1:4] == row and "unknown" not in found[name] for name, row in rows.items())

    application.until(shows, f"the tab shows {rows}")
    for name in rows:
        link = f'<a href="http://127.0.0.1:8340/queries/{name}">{name}</a>'
        assert link in application.page("tideover")


def without_tab(folder: Path) -> Path:
    """Our jar without the classes of the tab, as on a Spark whose UI they do not fit."""
    made = folder / "companion.jar"
    with zipfile.ZipFile(companion_jar()) as whole, zipfile.ZipFile(made, "w") as jar:
        for name in whole.namelist():
            if not name.startswith("tideover/ui"):
                jar.writestr(name, whole.read(name))
    return made


def release(sites: Sites, application: Application) -> None:
    """Plain Spark continues both queries, their state included, on the cluster to which they were moved."""
    for query in QUERIES:
        for _ in ("once", "and again"):
            done = application.type("release", query, "--yes", "-o", "json")
            assert done.code == 0, done.out + done.err
            assert json.loads(done.out)["cluster"] == "west"
    sites.more()
    application.submit("once", plain_on=sites.world.bootstrap("west")[0])
    assert application.end() == 0, application.log()[-5000:]
    assert "tideover: " not in application.log(), "nothing of Tideover's was in that driver"
    assert application.judge(set(range(sites.end))) == EXACT


def configure(sites: Sites, application: Application, events: Path) -> None:
    """By what is found of the application, and by querying the clusters."""
    found = application.type("inventory", str(application.out), str(events), "-o", "json")
    assert found.code == 0, found.out + found.err
    known = {row["query"]: (row["application"], row["ready"], row["topics"]) for row in json.loads(found.out)}
    assert known == dict.fromkeys(QUERIES, ("hourly", True, [["orders"]]))
    clusters = [word for name in CLUSTERS for word in ("--cluster", f"{name}={sites.world.bootstrap(name)[0]}")]
    paths = ["--checkpoints", str(application.out), "--checkpoints", str(events)]
    made = application.type("init", *clusters, *paths, "--write", str(application.config))
    assert made.code == 0, made.out + made.err
    checked = application.type("config", "check")
    assert "2 clusters, 2 routes, 1 runners, 2 queries" in checked.out, checked.err
    assert application.type("init", *clusters, "--write", str(application.config)).code == 2, "nothing is overwritten"
