"""Another cluster behind a name: a verdict, a gate, and nothing that moves, until a person accepts it."""

from dataclasses import replace

import pytest

from orchestrator.cli.act.accept_cluster import accept, successor_of
from orchestrator.cli.context import Context as CliWorld
from orchestrator.decide.move_facts import MoveFacts, NamedCluster
from orchestrator.errors import Refused, UnknownName
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.resume_offsets import ResumeOffsets
from state.messages import CheckpointReport
from state.model.cluster_status import Verdict
from state.model.entities import Operation, OperationKind, Phase
from state.model.pins import Pin, Placement
from state.settings.keys import Tideover
from streaming.probe.identities import Identities
from tests.contract import samples
from tests.contract.samples import EAST_ID, OTHER_ID, SECOND, plan_of
from tests.simulation.clusters import Through
from tests.simulation.control import Site, controller, pass_time
from tests.simulation.test_cli import run, run_json
from tests.simulation.world import QUERY, World, settings

WEST_ID = "wqdOq6wzRZ-2n0jlXKGl6g"


def watched(changes: Tideover | None = None) -> tuple[World, Site]:
    """A world whose controller has seen both clusters."""
    world = World(changes or settings())
    world.clusters["east"].cluster_id, world.clusters["west"].cluster_id = EAST_ID, WEST_ID
    site = controller(world)
    pass_time(world, 3, site)
    assert {pin.cluster: pin.id for pin in world.store.pins()} == {"east": EAST_ID, "west": WEST_ID}
    return world, site


def verdicts(world: World) -> dict[str, Verdict]:
    return {status.cluster: status.verdict for status in world.store.cluster_statuses()}


def requested(world: World, site: Site) -> Operation | str:
    """What became of a failover that a person requested: the operation, or the sentence that turned it down."""
    request = world.request()

    def answered() -> bool:
        operation = world.store.operation(request.id)
        known = world.store.request(request.id)
        return (operation is not None and not operation.is_open) or (known is not None and known.refused is not None)

    pass_time(world, 60, site, until=answered)
    operation, known = world.store.operation(request.id), world.store.request(request.id)
    return operation or (known.refused if known is not None and known.refused is not None else "")


def place(world: World) -> str:
    row = world.store.assignment(QUERY)
    assert row is not None
    return row.cluster


def test_another_cluster_is_our_mistake_and_moves_nothing_automatically() -> None:
    world, site = watched(settings(policy={"automatic": True}))
    seen: set[Verdict] = set()
    world.clusters["east"].cluster_id = OTHER_ID
    pass_time(world, 60, site, until=lambda: bool(seen.add(verdicts(world)["east"])))
    assert seen == {Verdict.UP, Verdict.CONFIG_ERROR}
    (status,) = [each for each in world.store.cluster_statuses() if each.cluster == "east"]
    assert status.reasons[0].startswith(f"east leads to cluster {OTHER_ID}, but was cluster {EAST_ID} until now")
    assert "tideover accept-cluster east" in status.reasons[0]
    assert (place(world), world.store.operations()) == ("east", [])


def test_a_dead_cluster_is_left_but_not_for_a_standby_that_is_another() -> None:
    world, site = watched(settings(policy={"automatic": True}))
    world.clusters["west"].cluster_id = OTHER_ID
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert verdicts(world) == {"east": Verdict.DOWN, "west": Verdict.CONFIG_ERROR}
    assert (place(world), world.store.operations()) == ("east", [])
    world.clusters["west"].cluster_id = WEST_ID
    pass_time(world, 60, site, until=lambda: place(world) == "west")
    assert place(world) == "west"


@pytest.mark.parametrize("cluster", ["east", "west"])
def test_a_person_is_refused_whichever_of_the_two_it_is(cluster: str) -> None:
    world, site = watched()
    world.clusters[cluster].cluster_id = OTHER_ID
    pass_time(world, 2, site)
    refused = requested(world, site)
    assert isinstance(refused, str)
    assert refused.startswith(f"cluster-identity: {cluster} leads to cluster {OTHER_ID}")
    assert f"tideover accept-cluster {cluster}" in refused
    assert place(world) == "east"


def test_a_dead_source_is_no_other_one() -> None:
    world, site = watched()
    world.clusters["east"].reachable = False
    pass_time(world, 3, site)
    operation = requested(world, site)
    assert isinstance(operation, Operation)
    assert (operation.outcome, place(world)) == ("done", "west")


def test_a_standby_that_proves_another_behind_the_fence_takes_nothing_over() -> None:
    world, site = watched()

    def swap() -> None:
        if any(each.phase in {Phase.FENCING, Phase.RESOLVING} for each in world.store.operations(only_open=True)):
            world.clusters["west"].cluster_id = OTHER_ID

    world.clock.lives.insert(0, swap)
    operation = requested(world, site)
    assert isinstance(operation, Operation)
    assert operation.outcome == "refused"
    assert operation.sentence.startswith(f"cluster-identity: west leads to cluster {OTHER_ID}")
    assert place(world) == "east"
    assert world.checkpoints[f"/cp/{QUERY}"].planted == set()


def test_a_query_leaves_a_replaced_cluster_without_reading_its_successor() -> None:
    world, site = watched()
    ends = world.store.ends("east").values()
    world.clusters["east"].cluster_id = OTHER_ID
    world.clusters["east"].create("orders", 2)  # it is empty: if queried, it would say that what was read is gone
    pass_time(world, 1, site)
    # A cluster that answered a moment ago is queried whether its log was cut; but this is another one since.
    world.store.save_ends(replace(each, sampled_at=world.store.now()) for each in ends)
    world.clock.wait(0.1)
    found = successor_of(world.store, world.settings, site.looks.log("east"), "east")
    assert found is not None
    assert (found.id, found.queries) == (OTHER_ID, (QUERY,))
    pin = accept(world.store, found, actor="ann", reason="rebuilt")
    assert pin.former == (Placement(QUERY, 1, EAST_ID),)
    assert world.store.history()[-1].text == f"east is cluster {OTHER_ID}, no longer {EAST_ID}: rebuilt"
    site.looks.identities.learn(world.store)
    operation = requested(world, site)
    assert isinstance(operation, Operation)
    assert (operation.outcome, place(world)) == ("done", "west")
    pass_time(world, 3, site)
    assert verdicts(world)["east"] is Verdict.UP
    gates = {gate["name"]: gate for gate in plan_of(operation)["gates"]}
    assert gates["cluster-identity"]["text"].startswith(f"{QUERY} last ran on the former east, cluster {EAST_ID}")
    assert "log-truncation" not in gates, "nobody was asked whether the log was cut"


def test_who_is_accepted_must_be_seen_and_agree_with_the_setting() -> None:
    world, site = watched()
    log = site.looks.log("east")
    assert successor_of(world.store, world.settings, log, "east") is None
    with pytest.raises(UnknownName, match="no runner or controller has reached south yet"):
        successor_of(world.store, world.settings, log, "south")
    raw = world.settings.model_dump(by_alias=True)
    raw["clusters"]["east"]["id"] = EAST_ID
    declared, site = Tideover.model_validate(raw), controller(world, "two")
    world.clusters["east"].cluster_id = OTHER_ID
    site.looks.identities.learn(world.store)
    with pytest.raises(Refused, match=f"clusters.east.id says {EAST_ID}") as refused:
        successor_of(world.store, declared, site.looks.log("east"), "east")
    assert f"id: {OTHER_ID}" in refused.value.hint


def test_samples_of_a_cluster_do_not_count_for_its_replacement() -> None:
    world = World()
    store, lead = world.store, world.lead()
    assert lead.take()
    gatherer = FactGatherer(store=store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock)
    offsets = ResumeOffsets(store, world.settings, world.clusters.__getitem__, world.clock)
    (old, new), at = store.ends("east").values(), store.now() + SECOND
    pin = replace(samples.pin(), replaced_at=at)
    store.save_ends([replace(old, sampled_at=at - SECOND), replace(new, sampled_at=at)])

    def facts(pin: Pin, source: str, target: str) -> MoveFacts:
        names = (NamedCluster(cluster="east", configured=None, pin=pin, seen={}),)
        return replace(gatherer.before(OperationKind.FAILOVER, QUERY, target, look=False), source=source, names=names)

    read = CheckpointReport(checkpoint="/cp", batch=1, offsets={"orders": {"orders": {"0": 1}}})
    left = replace(pin, former=(Placement(QUERY, 1, OTHER_ID),))
    assert [each.sampled_at for each in offsets._ends(facts(pin, "east", "west"), read).values()] == [at]
    assert [each.sampled_at for each in offsets._ends(facts(left, "east", "west"), read).values()] == [at - SECOND]
    assert len(offsets._ends(facts(replace(pin, replaced_at=None), "east", "west"), read)) == 2

    def moved(epoch: int, source: str, target: str, seconds: float) -> Operation:
        operation = samples.operation(
            id=f"op-{epoch}", query=QUERY, source=source, target=target, epoch=epoch, outcome="done",
            phase=Phase.SETTLED, started_at=at + seconds * SECOND,
        )  # fmt: skip
        store.record(operation, term=lead.term)
        return operation

    back = facts(pin, "west", "east")
    away = moved(2, "east", "west", 5)
    assert offsets.departed(back) is None, "it stood in the cluster of before, until after the name was given away"
    assert offsets.departed(replace(back, names=None)) == away
    moved(3, "west", "east", 6)
    assert offsets.departed(back) is None
    assert offsets.departed(facts(pin, "west", "east")) is None
    away = moved(4, "east", "west", 7)
    assert offsets.departed(back) == away
    taken_in_between = replace(pin, replaced_at=at + 6.5 * SECOND)
    assert offsets.departed(facts(taken_in_between, "west", "east")) is None, "it had come to the cluster of before"


@pytest.fixture
def named(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world of the command line, whose clusters say who they are."""

    def log(self: CliWorld, name: str) -> Through:
        return Through(world.clusters[name], lambda: None, self.identities.of(name))

    monkeypatch.setattr(CliWorld, "log", log)
    for cluster, identity in (("east", EAST_ID), ("west", WEST_ID)):
        world.clusters[cluster].cluster_id = identity
    return world


def test_the_verb_shows_what_stays_behind_and_gives_the_name_away(
    named: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "accept-cluster", "east")[0] == 2, "nobody has seen it yet"
    known = Identities(named.settings)
    for cluster in ("east", "west"):
        known.check(cluster, named.clusters[cluster].cluster_id)
    known.keep(named.store, actor="runner:a")
    code, _, err = run(capsys, "accept-cluster", "east")
    assert (code, "nothing done" in err) == (0, True)
    named.clusters["west"].cluster_id = OTHER_ID
    code, plan = run_json(capsys, "plan", "failover", "revenue")
    assert isinstance(plan, dict)
    assert (code, plan["refused"]) == (1, True)
    (gate,) = [each for each in plan["gates"] if each["name"] == "cluster-identity"]
    assert not gate["ok"]
    assert gate["measured"] == f"east not seen; west {OTHER_ID}"
    assert gate["limit"] == f"east {EAST_ID}; west {WEST_ID}"
    code, _, err = run(capsys, "failover", "revenue", "--yes", "--to", "west", "--consent", "loss")
    assert code == 1
    assert f"west leads to cluster {OTHER_ID}, but was cluster {WEST_ID} until now" in err
    assert "tideover accept-cluster west" in err
    code, _, err = run(capsys, "accept-cluster", "west")
    assert (code, "without a terminal, this command needs --yes" in err) == (2, True)
    code, shown = run_json(capsys, "accept-cluster", "west", "--yes", "--reason", "rebuilt")
    assert code == 0
    assert shown == [{"cluster": "west", "id": OTHER_ID, "former": WEST_ID, "left_behind": []}]
    assert run(capsys, "failover", "revenue", "--yes", "--to", "west")[0] == 0
    assert place(named) == "west"
