"""An application is quiet when its status says so, whatever its supervisor has begun, and starts behind its rewrite."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from state.checkpoint_folders import mapping_name
from state.model.entities import Assignment, Desired, QueryFact, RunState
from state.settings.keys import Tideover
from state.store.sql.schema import assignments
from streaming.process import Identity
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.mapping import MAPPINGS, Left, Move, Place
from streaming.spark.errors import RunError
from streaming.spark.external import application_commands, application_state, external_supervisor, shared_start
from streaming.spark.external.external_supervisor import (
    ExternalSupervisor,
    end_application,
    supervisor_of,
    unrest_of_application,
)
from streaming.spark.external.start_notes import STARTED
from streaming.spark.handback import hand_back, plan_handback, rewrite_in_place
from streaming.spark.hosting import Hosting, NoListener, Shared
from streaming.spark.runner import supervisor as module
from tests.checkpoints import CheckpointFolder
from tests.contract import samples
from tests.memory_store import MemoryStore
from tests.waiting import until

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AT_EAST, AT_WEST = {"orders": {"0": 20, "1": 20}}, {"orders": {"0": 37, "1": 43}}
NAME = mapping_name(2, "op")


class Folder:
    """A folder with an application whose commands are ``touch`` and ``rm``, its checkpoint, and a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.others: tuple[str, ...] = ()
        """Further queries of the same application."""
        self.shared = Shared()
        self.store = MemoryStore(lambda: NOW)
        self.store.register(samples.runner(runner="tender", instance="one"))
        self.checkpoint = CheckpointFolder(folder / "cp")
        self.made: list[ExternalSupervisor] = []

    @property
    def runs(self) -> bool:
        return (self.folder / "running").exists()

    def hosting(self, **commands: Any) -> Hosting:
        application = {
            "start": ["bash", "-c", "echo {bootstrap} >> started; touch running"],
            "stop": ["rm", "-f", "running"],
            "status": ["bash", "-c", "[ -e running ] || exit 3"],
        } | commands
        query = {"sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"], "runners": ["tender"]}
        named = {name: {**query, "application": "shop", "checkpoint": name} for name in self.others}
        own: object = "shop" if self.others else application
        settings = Tideover.model_validate({
            "store": "sqlite://",
            "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
            "runners": {"tender": {}},
            "queries": {
                "q": {**query, "application": own, "checkpoint": "cp"},
                "hosted": {**query, "pipeline": "m:f", "checkpoint": "other"},
                **named,
            },
            "applications": {"shop": application} if self.others else {},
        })  # fmt: skip
        return Hosting(
            settings=settings, runner="tender", instance="one", spark_master="local[1]", application_id="app",
            base=self.folder, here=Identity(host="h", boot_id="b", pid=7, pid_started=9), session=cast(Any, None),
            files=LocalFiles(), store=self.store, listener=NoListener(), stranger=lambda row: None,
            cluster_id=lambda _: None, now=lambda: datetime.now(UTC), shared=self.shared,
        )  # fmt: skip

    def row(self, **change: Any) -> Assignment:
        row = Assignment.first(
            "q", cluster="east", runner="tender", checkpoint=str(self.checkpoint.path), now=NOW
        )  # fmt: skip
        return replace(row, **change)

    def moved(self) -> Assignment:
        """It has committed batch 0 on east, and was moved to west behind it."""
        self.checkpoint.commit(0, AT_EAST)
        places: dict[str, tuple[Place, ...]] = {"0": (Place(there=AT_EAST, here=AT_WEST),)}
        move = Move(epoch=2, operation="op", left=Left(cluster="east", epoch=0), to="west", places=places)
        self.checkpoint.write(f"{MAPPINGS}/{NAME}", move.content().decode())
        return self.row(epoch=2, placed_epoch=2, cluster="west", operation="op", mapping=NAME)

    def tended(self, row: Assignment, **commands: Any) -> ExternalSupervisor:
        self.store.force(assignments, row)
        made = supervisor_of(self.hosting(**commands), row)
        assert isinstance(made, ExternalSupervisor)
        self.made.append(made)
        return made

    def fact(self) -> QueryFact:
        until(self.store.query_facts)
        (fact,) = self.store.query_facts()
        return fact

    def begun(self) -> None:
        """It has run before: its query has an id, and a batch."""
        self.checkpoint.commit(0, AT_EAST)
        self.checkpoint.write("metadata", json.dumps({"id": "11111111-1111-1111-1111-111111111111"}))

    def ups(self) -> int:
        """How often the application came up."""
        file = self.folder / "ups"
        return len(file.read_text().split()) if file.exists() else 0

    def started(self) -> list[str]:
        file = self.folder / "started"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    for each, names in (
        (application_state, ("STATUS_SECONDS", "LOOK_SECONDS")), (shared_start, ("LOOK_SECONDS",)),
        (external_supervisor, ("LOOK_SECONDS",)),
        (module, ("_LOOK_SECONDS", "_STORE_PAUSE_SECONDS")),
    ):  # fmt: skip
        for name in names:
            monkeypatch.setattr(each, name, 0.01)
    monkeypatch.setattr(application_state, "STOP_AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(external_supervisor, "EFFECT_SECONDS", 1.0)
    monkeypatch.setattr(external_supervisor, "COMMAND_SECONDS", 0.0)
    made = Folder(tmp_path)
    yield made
    (tmp_path / "running").unlink(missing_ok=True)
    for tended in made.made:
        tended.close()
    until(lambda: all(tended.is_quiet for tended in made.made if tended._thread.ident is not None))


def test_only_a_query_with_commands_is_tended_so(place: Folder) -> None:
    hosted = supervisor_of(place.hosting(), place.row(query="hosted"))
    assert not isinstance(hosted, ExternalSupervisor)


def test_an_application_that_runs_is_not_quiet_before_its_status_says_so(place: Folder) -> None:
    """It was started by another process, and this one has begun nothing yet."""
    (place.folder / "running").touch()
    tended = place.tended(place.row(), stop=["bash", "-c", "[ -e allowed ] && rm running"])
    tended.close()
    assert tended.unrest() is not None
    (place.folder / "allowed").touch()
    until(lambda: tended.unrest() is None)
    assert not place.runs


def test_an_application_starts_on_its_first_cluster_and_is_stopped(place: Folder) -> None:
    place.checkpoint.commit(0, AT_EAST)
    tended = place.tended(place.row())
    tended.begin()
    until(lambda: place.fact().state is RunState.RUNNING)
    assert (place.started(), place.runs) == (["e:1"], True)
    tended.close()
    until(lambda: place.fact().state is RunState.STOPPED)
    assert not place.runs


def test_offsets_are_rewritten_before_an_application_starts_behind_a_move(place: Folder) -> None:
    row, offsets = place.moved(), place.checkpoint.path / "offsets" / "0"
    copied = ["bash", "-c", f"echo {{bootstrap}} >> started; cp {offsets} at_start; touch running"]
    place.tended(row, start=copied).begin()
    until(lambda: place.fact().state is RunState.RUNNING)
    assert json.loads((place.folder / "at_start").read_text().splitlines()[2]) == AT_WEST
    assert (place.started(), (place.checkpoint.path / STARTED / NAME).exists()) == (["w:1"], True)


def test_an_application_started_behind_the_move_is_joined(place: Folder) -> None:
    row = place.moved()
    first = place.tended(row)
    first.begin()
    until(lambda: place.fact().state is RunState.RUNNING)
    place.tended(row).begin()
    until(lambda: len(place.made) == 2 and place.made[1]._runs)
    assert place.started() == ["w:1"]


def test_an_application_that_others_started_behind_a_move_is_refused(place: Folder) -> None:
    row = place.moved()
    (place.folder / "running").touch()
    place.tended(row).begin()
    until(lambda: place.fact().state is RunState.FAILED)
    assert "Tideover did not start it on west" in str(place.fact().error)
    assert place.started() == []


def test_of_an_unknown_status_nothing_is_started(place: Folder) -> None:
    place.tended(place.row(), status=["bash", "-c", "[ -e over ] && exit 3; exit 1"]).begin()
    until(lambda: place.fact().state is RunState.FAILED)
    assert "it is unknown whether the application of q runs: status ended with code 1" in str(place.fact().error)
    assert place.started() == []
    (place.folder / "over").touch()


def test_an_application_of_another_process_is_ended(place: Folder) -> None:
    (place.folder / "running").touch()
    end_application(place.hosting(), place.row(), 60.0)
    assert not place.runs
    (place.folder / "running").touch()
    with pytest.raises(RunError, match="the application of q has not ended: its application"):
        end_application(place.hosting(stop=["true"]), place.row(), 0.1)


@pytest.mark.parametrize("runs", [False, True])
def test_a_released_checkpoint_is_not_read_on_another_cluster(place: Folder, runs: bool) -> None:
    row = place.moved()
    hand_back(LocalFiles(), plan_handback(LocalFiles(), row))
    if runs:
        (place.folder / "running").touch()
    place.tended(place.row()).begin()
    until(lambda: place.fact().state is RunState.FAILED)
    assert "was released on west, so its offsets are not of east" in str(place.fact().error)
    assert place.started() == []


def test_an_application_that_comes_up_behind_the_stop_is_stopped_too(place: Folder) -> None:
    place.begun()
    tended = place.tended(place.row(), start=["bash", "-c", "touch begun; sleep 1; touch running", "{bootstrap}"])
    tended.begin()
    until(lambda: (place.folder / "begun").exists())
    tended.close()
    assert tended.unrest() is not None
    until(lambda: place.fact().state is RunState.STOPPED)
    assert (place.runs, tended.unrest()) == (False, None)


def test_a_start_of_another_process_under_way_is_waited_for(place: Folder) -> None:
    place.begun()
    place.tended(place.row(), start=["bash", "-c", "touch begun; sleep 1; touch running", "{bootstrap}"]).begin()
    until(lambda: (place.folder / "begun").exists())
    place.made[0]._notes.begin(20.0)
    end_application(place.hosting(), place.row(), 60.0)
    assert not place.runs


def test_a_start_that_takes_effect_late_is_not_run_again(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_supervisor, "EFFECT_SECONDS", 60.0)
    place.begun()
    late = ["bash", "-c", "echo {bootstrap} >> started; (sleep 2; echo up >> ups; touch running) &"]
    place.tended(place.row(), start=late).begin()
    until(lambda: place.ups() > 0 and place.fact().state is RunState.RUNNING)
    assert (place.started(), place.ups()) == (["e:1"], 1)


def test_a_start_that_is_killed_for_its_time_brings_nothing_up(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application_commands, "COMMAND_SECONDS", 0.3)
    place.begun()
    slow = ["bash", "-c", "echo {bootstrap} >> started; (sleep 1; echo up >> ups; touch running) & wait"]
    tended = place.tended(place.row(), start=slow)
    tended.begin()
    until(lambda: len(place.started()) > 1)
    assert place.ups() == 0
    tended.close()
    until(lambda: tended.is_quiet)


def test_a_start_of_a_process_that_is_gone_is_taken_back_first(place: Folder) -> None:
    place.begun()
    tended = place.tended(place.row(), stop=["bash", "-c", "echo stop >> stops; rm -f running"])
    tended._notes.begin(0.5)
    tended.begin()
    until(lambda: place.fact().state is RunState.RUNNING)
    assert ((place.folder / "stops").exists(), place.started()) == (True, ["e:1"])


def test_one_that_ended_and_that_a_scheduler_started_again_is_refused(place: Folder) -> None:
    row = place.moved()
    place.checkpoint.write("metadata", json.dumps({"id": "11111111-1111-1111-1111-111111111111"}))
    place.tended(row).begin()
    until(lambda: place.fact().state is RunState.RUNNING)
    (place.folder / "running").unlink()
    until(lambda: place.fact().state is RunState.FAILED)
    (place.folder / "running").touch()
    until(lambda: "Tideover did not start it on west" in str(place.fact().error))
    assert place.started() == ["w:1"]


def test_one_that_was_started_a_moment_before_ours_is_not_joined(place: Folder) -> None:
    place.begun()
    row = place.moved()
    taken = [
        "bash",
        "-c",
        "[ -e s ] || { touch s running; echo already running; exit 1; }; touch ours running {bootstrap}",
    ]
    place.tended(row, start=taken, stop=["bash", "-c", "echo stop >> stops; rm -f running"]).begin()
    until(lambda: place.fact().state is RunState.FAILED)
    assert "start ended with code 1: already running" in str(place.fact().error)
    until(lambda: place.fact().state is RunState.RUNNING)
    assert ((place.folder / "stops").exists(), (place.folder / "ours").exists()) == (True, True)


def test_nothing_starts_once_the_row_has_moved_on(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    row, real, done = place.moved(), rewrite_in_place, []

    def moved_in_between(*args: Any) -> int:
        count = real(*args)
        place.store.force(assignments, replace(row, epoch=3, placed_epoch=3, cluster="east"))
        done.append(count)
        return count

    monkeypatch.setattr(external_supervisor, "rewrite_in_place", moved_in_between)
    tended = place.tended(row)
    tended.begin()
    until(lambda: bool(done))
    tended.close()
    until(lambda: tended.is_quiet)
    assert place.started() == []


def test_offsets_that_change_during_the_start_stop_the_application(place: Folder) -> None:
    row, offsets = place.moved(), place.checkpoint.path / "offsets" / "0"
    other = ["bash", "-c", f"echo {{bootstrap}} >> started; sed -i 's/37/24/' {offsets}; touch running"]
    place.tended(row, start=other).begin()
    until(lambda: place.fact().state is RunState.FAILED)
    assert "is neither the entry that was to be released" in str(place.fact().error)
    until(lambda: not place.runs)


def test_a_look_for_a_fence_is_one_of_now(place: Folder) -> None:
    row = place.row()
    end_application(place.hosting(), row, 60.0)
    (place.folder / "running").touch()
    assert unrest_of_application(place.hosting(), row) == "its application still runs"


def test_a_start_behind_which_the_status_has_no_answer_is_reported(place: Folder) -> None:
    place.begun()
    tended = place.tended(place.row(), status=["bash", "-c", "[ -e over ] && exit 3; [ -e running ] && exit 1; exit 3"])
    tended.begin()
    until(lambda: place.fact().state is RunState.FAILED)
    assert "status did not say that it runs: status ended with code 1" in str(place.fact().error)
    (place.folder / "over").touch()
    tended.close()
    until(lambda: tended.is_quiet)


NAMED = ["bash", "-c", "[ -e running ] || exit 3; echo identity=$(cat id)"]
STARTED_AS_1 = ["bash", "-c", "echo {bootstrap} >> started; echo 1 > id; touch running"]


def test_another_identity_is_another_start_though_no_end_was_seen(place: Folder) -> None:
    """Its scheduler was faster than the next look."""
    row = place.moved()
    place.checkpoint.write("metadata", json.dumps({"id": "11111111-1111-1111-1111-111111111111"}))
    place.tended(row, start=STARTED_AS_1, status=NAMED).begin()
    until(lambda: place.fact().state is RunState.RUNNING)
    (place.folder / "id").write_text("2")
    until(lambda: place.fact().state is RunState.FAILED)
    assert "was started again, and not by Tideover: it was 1, and 2 runs now" in str(place.fact().error)
    until(lambda: "Tideover did not start it on west" in str(place.fact().error))
    assert (place.started(), place.runs) == (["w:1"], True)


@pytest.mark.parametrize(("identity", "joined"), [("1", True), ("2", False)])
def test_an_application_with_another_identity_is_not_joined(place: Folder, identity: str, joined: bool) -> None:
    """It was started again while no runner lived."""
    row = place.moved()
    place.checkpoint.write("metadata", json.dumps({"id": "11111111-1111-1111-1111-111111111111"}))
    place.tended(row, start=STARTED_AS_1, status=NAMED).begin()
    until(lambda: place.fact().state is RunState.RUNNING)
    (place.folder / "id").write_text(identity)
    place.shared = Shared()
    later = place.tended(row, start=STARTED_AS_1, status=NAMED)
    later.begin()
    until(lambda: bool(later._runs) if joined else "did not start it on west" in str(place.fact().error))
    assert (place.started(), bool(later._runs)) == (["w:1"], joined)


def test_an_application_is_stopped_whichever_identity_it_has(place: Folder) -> None:
    place.begun()
    restarted = ["bash", "-c", "[ -e again ] && rm -f running || { touch again; echo 2 > id; }"]
    tended = place.tended(place.row(), start=STARTED_AS_1, status=NAMED, stop=restarted)
    tended.begin()
    until(lambda: place.fact().state is RunState.RUNNING)
    tended.close()
    until(lambda: tended.is_quiet)
    assert not place.runs


class Two(Folder):
    """The same with a second query ``p``, whose checkpoint has a batch."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.others = ("p",)
        self.begun()
        self.second = CheckpointFolder(folder / "p")
        self.second.commit(0, AT_EAST)
        self.second.write("metadata", json.dumps({"id": "22222222-2222-2222-2222-222222222222"}))

    def row_of(self, query: str, **change: Any) -> Assignment:
        path = {"q": self.checkpoint.path, "p": self.second.path}[query]
        return replace(self.row(), query=query, checkpoint=str(path), **change)

    def moved_both(self) -> tuple[Assignment, Assignment]:
        rows = [self.row_of(query, **change) for query, change in (("q", self._moved(self.checkpoint)),
                                                                     ("p", self._moved(self.second)))]  # fmt: skip
        return rows[0], rows[1]

    def _moved(self, checkpoint: CheckpointFolder) -> dict[str, Any]:
        places: dict[str, tuple[Place, ...]] = {"0": (Place(there=AT_EAST, here=AT_WEST),)}
        move = Move(epoch=2, operation="op", left=Left(cluster="east", epoch=0), to="west", places=places)
        checkpoint.write(f"{MAPPINGS}/{NAME}", move.content().decode())
        return {"epoch": 2, "placed_epoch": 2, "cluster": "west", "operation": "op", "mapping": NAME}

    def states(self) -> dict[str, RunState]:
        return {fact.query: fact.state for fact in self.store.query_facts()}


RUN = {"q": RunState.RUNNING, "p": RunState.RUNNING}


@pytest.fixture
def two(place: Folder) -> Iterator[Two]:
    made = Two(place.folder)
    yield made
    place.made += made.made


def test_an_application_of_two_queries_is_started_once_both_are_ready(two: Two) -> None:
    rows, offsets = two.moved_both(), [each.path / "offsets" / "0" for each in (two.checkpoint, two.second)]
    copied = f"echo {{bootstrap}} >> started; cat {offsets[0]} {offsets[1]} | grep -c 37 > rewritten; touch running"
    two.tended(rows[0], start=["bash", "-c", copied]).begin()
    time.sleep(0.3)
    assert (two.started(), two.runs) == ([], False)
    two.tended(rows[1], start=["bash", "-c", copied]).begin()
    until(lambda: two.states() == RUN)
    assert (two.started(), (two.folder / "rewritten").read_text().split()) == (["w:1"], ["2"])


def test_a_query_that_is_to_stop_stops_its_application_and_keeps_it_stopped(two: Two) -> None:
    stop = {"stop": ["bash", "-c", "echo stop >> stops; rm -f running"]}
    first, second = (two.tended(two.row_of(query), **stop) for query in ("q", "p"))
    first.begin()
    second.begin()
    until(lambda: two.states() == RUN)
    two.store.force(assignments, two.row_of("q", epoch=2, desired=Desired.HELD))
    first.close()
    until(lambda: first.is_quiet)
    end_application(two.hosting(**stop), two.row_of("q"), 60.0)
    until(lambda: two.states()["p"] is not RunState.RUNNING)
    time.sleep(1.2)
    assert (two.runs, two.started(), (two.folder / "stops").read_text().split()) == (False, ["e:1"], ["stop"])
    again = two.tended(two.row_of("q", epoch=3), **stop)
    again.begin()
    until(lambda: two.states() == RUN and two.runs)
    assert two.started() == ["e:1", "e:1"]


def test_queries_with_offsets_of_two_clusters_are_not_started(two: Two) -> None:
    row = two.moved_both()[0]
    two.tended(row).begin()
    two.tended(two.row_of("p")).begin()
    until(lambda: RunState.FAILED in two.states().values())
    errors = " ".join(str(fact.error) for fact in two.store.query_facts())
    assert "its queries have offsets of several clusters: q is on west and p is on east" in errors
    assert two.started() == []


def test_a_query_whose_companion_does_not_come_says_so(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_start, "MATES_SECONDS", 0.1)
    two.tended(two.row_of("q")).begin()
    until(lambda: two.fact().state is RunState.FAILED)
    assert "started for all of its queries, and p cannot begin yet" in str(two.fact().error)


def test_a_checkpoint_that_cannot_be_rewritten_keeps_the_application_stopped(two: Two) -> None:
    rows = two.moved_both()
    two.second.write("offsets/0", "v1\nnonsense")
    for row in rows:
        two.tended(row).begin()
    until(lambda: two.states().get("p") is RunState.FAILED)
    assert (two.started(), two.states().get("q")) == ([], RunState.STARTING)


def test_the_next_runner_joins_all_queries_of_an_application(two: Two) -> None:
    rows = two.moved_both()
    for row in rows:
        two.tended(row).begin()
    until(lambda: two.states() == RUN)
    two.shared = Shared()
    later = [two.tended(row) for row in rows]
    for each in later:
        each.begin()
    until(lambda: all(each._runs for each in later))
    assert two.started() == ["w:1"]
