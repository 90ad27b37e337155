"""An application is quiet when its status says so, whatever its supervisor has begun, and starts behind its rewrite."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from state.checkpoint_folders import mapping_name
from state.model.entities import Assignment, QueryFact, RunState
from state.settings.keys import Tideover
from state.store.sql.schema import assignments
from streaming.process import Identity
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.mapping import MAPPINGS, Left, Move, Place
from streaming.spark.errors import RunError
from streaming.spark.external import external_run, external_supervisor
from streaming.spark.external.external_supervisor import (
    STARTED,
    ExternalSupervisor,
    end_application,
    supervisor_of,
)
from streaming.spark.hosting import Hosting, NoListener
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
        settings = Tideover.model_validate({
            "store": "sqlite://",
            "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
            "runners": {"tender": {}},
            "queries": {
                "q": {**query, "application": application, "checkpoint": "cp"},
                "hosted": {**query, "pipeline": "m:f", "checkpoint": "other"},
            },
        })  # fmt: skip
        return Hosting(
            settings=settings, runner="tender", instance="one", spark_master="local[1]", application_id="app",
            base=self.folder, here=Identity(host="h", boot_id="b", pid=7, pid_started=9), session=cast(Any, None),
            files=LocalFiles(), store=self.store, listener=NoListener(), stranger=lambda row: None,
            cluster_id=lambda _: None, now=lambda: NOW,
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

    def started(self) -> list[str]:
        file = self.folder / "started"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    for each, names in (
        (external_run, ("_STATUS_SECONDS", "_LOOK_SECONDS")), (external_supervisor, ("_LOOK_SECONDS",)),
        (module, ("_LOOK_SECONDS", "_STORE_PAUSE_SECONDS")),
    ):  # fmt: skip
        for name in names:
            monkeypatch.setattr(each, name, 0.01)
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
