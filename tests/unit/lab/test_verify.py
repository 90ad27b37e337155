"""What the verifier reads before it judges: every topic of a query, by its name on each cluster; what it refuses."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from lab import verify
from lab.errors import ClusterSilent, LabError, NoSink, Unjudgeable
from lab.judge import QueryVerdict, judge_by_id, weigh
from lab.ledger import IDS_PER_RUN
from lab.truth import Held, Truth
from lab.verify import Verifier

PREFIX: Any = {"prefix": "east."}
MAP: Any = {"orders": "copies", "returns": "back"}


@dataclass
class Clusters:
    """Two clusters of which everything is known: by cluster and topic, the ids in its one partition."""

    folder: Path
    held: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)

    @property
    def acked(self) -> Path:
        return self.folder / "acked"

    def bootstrap(self, cluster: str) -> list[str]:
        return [cluster]

    def may_answer(self, cluster: str) -> bool:
        return cluster not in self.dead

    def names(self, bootstrap: list[str]) -> set[str]:
        self.request(bootstrap[0])
        return {topic for cluster, topic in self.held if cluster == bootstrap[0]}

    def request(self, cluster: str) -> None:
        if cluster in self.dead:
            raise ClusterSilent(f"{cluster} does not answer")

    def send(self, cluster: str, topic: str, *ids: int) -> None:
        """Write them down as acknowledged, and hold them."""
        self.held[cluster, topic] = [*self.held.get((cluster, topic), ()), *ids]
        run = ids[0] // IDS_PER_RUN
        lines = "".join(f"{each} 0 {offset} 0\n" for offset, each in enumerate(ids))
        (self.acked / f"{topic}.{run}.{cluster}.ids").write_text(lines, encoding="ascii")


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clusters:
    """A log reads what they hold."""
    made = Clusters(tmp_path)
    made.acked.mkdir()

    class Log:
        def __init__(self, bootstrap: list[str], topic: str) -> None:
            self._at = bootstrap[0], topic
            self.held: list[Held] = []

        def advance(self) -> None:
            made.request(self._at[0])
            self.held = [Held(each, 0, 40 + number, 0) for number, each in enumerate(made.held[self._at])]

    monkeypatch.setattr(verify, "TopicReader", Log)
    monkeypatch.setattr("lab.topics.names", made.names)
    return made


def query(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "pipeline": "examples.orders:orders_per_minute", "clusters": ["east", "west"],
        "settings": {"sink": str(folder / "sink")}, "sources": {"orders": {"topics": ["orders"]}}, **changes,
    }  # fmt: skip


def verifier(world: Clusters, *, routes: Any = "identity", **changes: Any) -> Verifier:
    declared = {
        "clusters": {"east": {}, "west": {}},
        "routes": [{"from": "east", "to": "west", "topics": routes}],
        "queries": {"q": query(world.folder, **changes)},
    }
    path = world.folder / "tideover.yaml"
    path.write_text(json.dumps(declared), encoding="utf-8")
    return Verifier(cast(Any, world), path, lambda _: None)


def sink(clusters: Clusters, delivered: Mapping[str, Iterable[int]]) -> None:
    """A sink by windows, by the names of the topics that the records were read from."""
    columns = 'start_ms INTEGER, topic TEXT, "partition" INTEGER, orders INTEGER, hash_high INTEGER, hash_low INTEGER'
    (clusters.folder / "sink").unlink(missing_ok=True)
    with closing(sqlite3.connect(clusters.folder / "sink")) as database, database:
        database.execute(f"CREATE TABLE windows ({columns})")
        for topic, ids in delivered.items():
            total = sum(map(weigh, ids))
            row = (0, topic, 0, total >> 128, total >> 64 & (1 << 64) - 1, total & (1 << 64) - 1)
            database.execute("INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?)", row)


ONE, TWO, THREE, FOUR = (run * IDS_PER_RUN for run in (1, 2, 3, 4))


def found(verdict: QueryVerdict) -> tuple[int, int, int]:
    return verdict.acked, verdict.lost, verdict.duplicated


@pytest.mark.parametrize("sources", [
    {"orders": {"topics": ["orders", "returns"]}},
    {"orders": {"topics": ["orders"]}, "others": {"topics": ["returns"]}},
    {"orders": {"pattern": "orders|ret.*"}},
    {"orders": {"topics": ["orders"]}, "others": {"pattern": "ret.*"}},
])  # fmt: skip
@pytest.mark.parametrize(
    ("routes", "there"),
    [
        ("identity", {"orders": "orders", "returns": "returns"}),
        (PREFIX, {"orders": "east.orders", "returns": "east.returns"}),
        (MAP, {"orders": "copies", "returns": "back"}),
    ],
)
def test_every_topic_of_a_query_is_judged_under_its_own_name(
    clusters: Clusters, sources: Any, routes: Any, there: dict[str, str]
) -> None:
    clusters.send("east", "orders", ONE, ONE + 1)
    clusters.send("east", "returns", TWO, TWO + 1)
    clusters.held["west", there["orders"]] = [ONE, ONE + 1]
    clusters.held["west", there["returns"]] = [TWO, TWO + 1]
    checked = verifier(clusters, routes=routes, sources=sources)
    read = {"orders": [ONE], "returns": [TWO]}
    sink(clusters, {**read, there["orders"]: [ONE, ONE + 1], there["returns"]: [TWO, TWO + 1]})
    if routes == "identity":
        assert found(checked.verdicts(0)["q"]) == (4, 0, 0)
        sink(clusters, {"orders": [ONE, ONE + 1], "returns": [TWO]})
        assert found(checked.verdicts(0)["q"]) == (4, 1, 0)
        return
    assert found(checked.verdicts(0)["q"]) == (4, 0, 2), "read on the primary, and again on the standby"
    sink(clusters, {**read, there["orders"]: [ONE + 1], there["returns"]: [TWO + 1]})
    assert found(checked.verdicts(0)["q"]) == (4, 0, 0)
    sink(clusters, {**read, there["orders"]: [ONE + 1]})
    assert found(checked.verdicts(0)["q"]) == (4, 1, 0)


def test_records_sent_to_the_standby_count_under_their_name_there(clusters: Clusters) -> None:
    clusters.send("east", "orders", ONE)
    clusters.send("west", "east.orders", TWO)
    clusters.held["west", "east.orders"] = [ONE, TWO]
    clusters.send("west", "orders", THREE)
    checked = verifier(clusters, routes=PREFIX)
    sink(clusters, {"orders": [ONE], "east.orders": [TWO]})
    assert found(checked.verdicts(0)["q"]) == (2, 0, 0)
    assert checked.counts()["q"] == {"acked": 2, "delivered": 2}


def test_a_route_back_is_read_the_other_way_round(clusters: Clusters) -> None:
    clusters.send("west", "orders", ONE)
    clusters.held["east", "east.orders"] = [ONE]
    checked = verifier(clusters, routes=PREFIX, clusters=["west", "east"], sources={"orders": {"topics": ["orders"]}})
    sink(clusters, {"orders": [ONE]})
    with pytest.raises(Unjudgeable, match="topic orders does not exist on east"):
        checked.verdicts(0)
    home = verifier(clusters, routes=PREFIX, clusters=["west", "east"], sources={"o": {"topics": ["east.orders"]}})
    clusters.held = {("west", "east.orders"): [ONE], ("east", "orders"): [ONE]}
    sink(clusters, {"orders": [ONE]})
    assert found(home.verdicts(0)["q"])[1:] == (0, 0)


def test_a_pattern_finds_topics_that_only_one_cluster_has(clusters: Clusters) -> None:
    clusters.send("east", "orders.a", ONE)
    clusters.send("west", "orders.b", TWO)
    clusters.dead.add("east")
    checked = verifier(clusters, sources={"orders": {"pattern": r"orders\..*"}})
    sink(clusters, {"orders.a": [ONE], "orders.b": [TWO]})
    assert found(checked.verdicts(0)["q"]) == (2, 0, 0)
    assert checked.verdicts(0)["q"].exposed == 1
    sink(clusters, {"orders.a": [ONE]})
    assert found(checked.verdicts(0)["q"]) == (2, 1, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pipeline": "elsewhere:unknown"}, "query q: the sink of pipeline elsewhere:unknown cannot be judged"),
        ({"pipeline": None}, "query q: the sink of pipeline None cannot be judged"),
        ({"clusters": []}, "query q names 0 clusters, and the judge compares two: primary, standby"),
        ({"clusters": ["east"]}, "query q names 1 clusters, and the judge compares two: primary, standby"),
        ({"clusters": ["east", "north"]}, "query q: cluster north is not among the clusters of the configuration"),
        ({"sources": {}}, "query q has no source, or one without topics and pattern"),
        ({"sources": {"orders": {"topics": []}}}, "query q has no source, or one without topics and pattern"),
        ({"settings": {}}, "query q: settings.sink does not say where its sink is"),
        ({"sources": {"orders": {"topics": ["no"]}}}, "query q: topic no does not exist on east"),
        ({"sources": {"orders": {"pattern": "no.*"}}}, "query q: no topic matches its pattern no.* on either cluster"),
        ({"routes": PREFIX}, "query q: topic east.orders does not exist on west"),
        ({"routes": MAP}, "query q: topic copies does not exist on west"),
    ],
)
def test_an_input_that_cannot_be_judged_is_an_error_of_one_sentence(
    clusters: Clusters, changes: dict[str, Any], said: str
) -> None:
    clusters.send("east", "orders", ONE)
    clusters.held["west", "orders"] = [ONE]
    sink(clusters, {"orders": [ONE]})
    with pytest.raises(LabError) as error:
        verifier(clusters, **changes).verdicts(0)
    assert str(error.value) == said


def kept(folder: Path, **files: Sequence[int]) -> None:
    """What a job of ``tests/jobs`` keeps: a file of numbers, and drafts of files."""
    folder.mkdir(exist_ok=True)
    for name, numbers in files.items():
        (folder / name.removeprefix("b")).write_text("".join(f"{each}\n" for each in numbers), encoding="ascii")
    (folder / ".draft").write_text("1\n7", encoding="ascii")


def parts(*ids: int) -> list[int]:
    """How many, and the two sums of their hashes."""
    total = sum(map(weigh, ids))
    return [total >> 128, total >> 64 & (1 << 64) - 1, total & (1 << 64) - 1]


def test_the_sinks_of_an_application_are_judged_by_batch_and_by_sums(clusters: Clusters) -> None:
    clusters.send("east", "orders", ONE, ONE + 1, ONE + 2)
    clusters.held["west", "orders"] = [ONE, ONE + 1, ONE + 2]
    settings = {"settings": {"sink": str(clusters.folder / "sink"), "topic": "orders"}}
    archive = verifier(clusters, pipeline="tests.jobs:archive", **settings)
    with pytest.raises(NoSink, match="there is no sink"):
        archive.verdicts(0)
    kept(clusters.folder / "sink", b0=[ONE], b1=[ONE + 1])
    assert found(archive.verdicts(0)["q"]) == (3, 1, 0)
    kept(clusters.folder / "sink", b1=[ONE + 1, ONE + 2])
    assert found(archive.verdicts(0)["q"]) == (3, 0, 0)
    kept(clusters.folder / "sink", b2=[ONE])
    assert found(archive.verdicts(0)["q"]) == (3, 0, 1)
    settings["settings"]["sink"] = str(clusters.folder / "sums")
    totals = verifier(clusters, pipeline="tests.jobs:totals", **settings)
    kept(clusters.folder / "sums", b0=parts(ONE, ONE + 1, ONE + 2))
    assert found(totals.verdicts(0)["q"]) == (3, 0, 0)
    assert totals.counts()["q"] == {"acked": 3, "delivered": 3}
    kept(clusters.folder / "sums", b0=parts(ONE, ONE + 1, ONE + 1))
    assert found(totals.verdicts(0)["q"]) == (3, 1, 1)


def test_a_sink_that_is_not_there_is_an_error_once_records_were_acknowledged(clusters: Clusters) -> None:
    clusters.held = {("east", "orders"): [], ("west", "orders"): []}
    checked = verifier(clusters)
    assert found(checked.verdicts(0)["q"]) == (0, 0, 0)
    clusters.send("east", "orders", ONE)
    with pytest.raises(NoSink, match="there is no sink"):
        checked.verdicts(0)


def test_records_written_during_the_reading_are_no_mistake(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is sent, copied and delivered between the sink and the clusters, in this order of reading."""
    clusters.send("east", "orders", ONE)
    clusters.held["west", "orders"] = [ONE]
    sink(clusters, {"orders": [ONE]})
    names = clusters.names

    def late(bootstrap: list[str]) -> set[str]:
        clusters.held |= {(cluster, "orders"): [ONE, ONE + 1] for cluster in ("east", "west")}
        sink(clusters, {"orders": [ONE, ONE + 1]})
        return names(bootstrap)

    monkeypatch.setattr("lab.topics.names", late)
    checked = verifier(clusters)
    assert found(checked.verdicts(0)["q"])[1:] == (1, 0), "it is not delivered yet, as far as the sink was read"
    assert found(checked.verdicts(0)["q"])[1:] == (0, 0)


class Clock:
    """Time passes by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("wait", "expected"), [(60.0, 3), (2.5, 3), (1.5, 3), (1.0, 2), (0.0, 1)])
def test_verify_settles_when_two_verdicts_agree_and_nothing_is_lost(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch, wait: float, expected: int
) -> None:
    """The first says that nothing is lost, and a moment later there is more."""
    clean = judge_by_id(Truth(), {1: 1})
    coming = [clean, replace(clean, delivered=2), replace(clean, delivered=3), replace(clean, delivered=3)]
    checked, clock = verifier(clusters), Clock()
    monkeypatch.setattr(verify, "time", clock)
    monkeypatch.setattr(checked, "_judge", lambda: {"q": coming.pop(0)})
    assert checked.verdicts(wait)["q"].delivered == expected
    assert clock.now <= wait


def test_a_loss_is_waited_for_though_two_verdicts_agree(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = judge_by_id(Truth(), {1: 1})
    coming = [*[replace(clean, lost=1)] * 3, clean, clean]
    checked = verifier(clusters)
    monkeypatch.setattr(verify, "time", Clock())
    monkeypatch.setattr(checked, "_judge", lambda: {"q": coming.pop(0)})
    assert checked.verdicts(60.0)["q"].lost == 0
