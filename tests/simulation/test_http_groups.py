"""Many queries are planned and moved together: by one form, and by one call."""

import contextlib
import re
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from orchestrator.errors import Refused
from orchestrator.http.application import GROUPS_AT_ONCE
from orchestrator.http.auth import Principal, Role
from orchestrator.http.requests.bodies import MOST_QUERIES, MovesBody
from orchestrator.http.requests.group_moves import GroupMoves
from orchestrator.http.requests.writes import Writes
from state.model.cluster_status import Verdict
from streaming.clocks import SystemClock
from streaming.cluster_log import ClusterLog, Logs
from tests.contract import samples
from tests.desk_scene import judge
from tests.served import OPERATOR, VIEWER, Answer, Served, serving
from tests.simulation.many import config_of, serving_many
from tests.simulation.test_http_pages import look, text_of
from tests.simulation.test_http_writes import leading
from tests.simulation.world import QUERY, World
from tests.waiting import THREAD_SECONDS, until

NAMES = ("clicks", QUERY, "search")


@contextlib.contextmanager
def serving_them(world: World, folder: Path, more: str = "") -> Iterator[Served]:
    """The desk, once the runner has reported each query: a plan that is made before is refused."""
    with serving_many(world, folder, NAMES, more) as made:
        until(lambda: {fact.query for fact in world.store.query_facts()} >= set(NAMES), "each query is reported")
        yield made


@pytest.fixture
def served(world: World, folder: Path) -> Iterator[Served]:
    with serving_them(world, folder) as made:
        yield made


def send(served: Served, path: str, fields: list[tuple[str, str]], token: str = OPERATOR) -> Answer:
    kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    return served.call(path, token=token, method="POST", headers=kind, body=urlencode(fields).encode())


def planned(served: Served, *names: str) -> Answer:
    answer = send(served, "/plans", [("kind", "failover"), *(("query", name) for name in names)])
    assert answer.code == 200, answer.body
    return answer


def button(answer: Answer) -> list[tuple[str, str]]:
    """What a browser sends for the one button, with every box that is ticked."""
    form = re.search(r'<form method="post" action="/moves".*?</form>', answer.body.decode(), re.DOTALL)
    assert form is not None
    found = re.findall(r'<input type="(?:hidden|checkbox)" name="(\w+)" value="([^"]*)"', form[0])
    return [(str(name), str(value)) for name, value in found]


def placed(world: World) -> dict[str, str]:
    return {each.query: each.cluster for each in world.store.assignments()}


def test_one_page_plans_all_and_one_button_moves_those_that_are_ticked(world: World, served: Served) -> None:
    page = planned(served, *NAMES)
    text = text_of(page)
    assert "Plan: failover of 3 queries from east to west Reads 0 records twice, leaves" in text
    assert "takes an unknown time. 3 of 3 can move. Nothing has been requested yet." in text
    assert re.search(r"clicks east → west ready 0 \d+ unknown", text)
    assert world.store.open_requests() == []
    fields = [each for each in button(page) if not each[1].endswith(" search")]
    with leading(world.store):
        answer = send(served, "/moves", [*fields, ("reason", "east is down")])
        again = send(served, "/moves", [*fields, ("reason", "east is down")])
    assert (answer.code, answer.headers["Location"]) == (303, again.headers["Location"]), "pressed twice, it is one"
    requests = world.store.open_requests()
    assert [(each.query, each.target, each.expect_active) for each in requests] == [
        ("clicks", "west", "east"), (QUERY, "west", "east"),
    ]  # fmt: skip
    assert len({each.group for each in requests}) == 1
    group = answer.headers["Location"]
    assert "0 of 2 have ended" in text_of(look(served, group))
    for each in requests:
        assert world.carry_out(each) is not None
    found = text_of(look(served, group, VIEWER))
    assert "2 of 2 have ended" in found
    assert found.count(" done ") == 2
    assert placed(world) == {"clicks": "west", QUERY: "west", "search": "east"}


def test_a_query_that_has_moved_keeps_no_other_from_moving(world: World, served: Served) -> None:
    fields = button(planned(served, *NAMES))
    assert world.carry_out(world.request("search")) is not None
    with leading(world.store):
        answer = send(served, "/moves", fields)
    text = text_of(answer)
    assert "2 were requested, 1 were not search : search is on west, not on east" in text
    assert {each.query for each in world.store.open_requests()} == {"clicks", QUERY}
    group = re.search(r'href="(/groups/[^"]+)"', answer.body.decode())
    assert group is not None
    assert "0 of 2 have ended" in text_of(look(served, group[1]))


def test_a_query_that_a_gate_refuses_has_its_reason_and_no_box(world: World, served: Served) -> None:
    assert world.carry_out(world.request("search")) is not None
    answer = send(served, "/plans", [("kind", "failover"), ("to", "west"), *(("query", name) for name in NAMES)])
    text = text_of(answer)
    assert "2 of 3 can move" in text
    assert "search west → west already there" in text
    assert [value.split(" ")[-1] for name, value in button(answer) if name == "seen"] == ["clicks", QUERY]


def test_the_concern_of_a_dead_cluster_has_a_button_for_an_operator(world: World, served: Served) -> None:
    with leading(world.store):
        judge(world.store, samples.term_of(world.store), east=Verdict.DOWN, west=Verdict.UP)
        page = look(served, "/", OPERATOR).body.decode()
        form = re.search(r'<form method="post" action="/plans">.*?</form>', page, re.DOTALL)
        assert form is not None
        assert "Plan failover of these 3" in form[0]
        assert re.findall(r'name="query" value="(\w+)"', form[0]) == sorted(NAMES)
        assert b'action="/plans"' not in look(served, "/", VIEWER).body


def test_queries_away_from_a_cluster_that_is_up_can_be_planned_home(world: World, served: Served) -> None:
    for name in ("clicks", QUERY):
        assert world.carry_out(world.request(name)) is not None
    with leading(world.store):
        judge(world.store, samples.term_of(world.store), east=Verdict.UP, west=Verdict.UP)
        text = text_of(look(served, "/", OPERATOR))
        assert re.search(
            r"2 queries are away from east , which is up, since \S+ \S+ UTC .* First reverse replication .* "
            r"Plan failback of these 2",
            text,
        )
        assert "tideover plan failback --all" in text


@pytest.mark.parametrize("fields", [[], [("query", "none")], [("query", QUERY), ("query", QUERY)],
                                    [("query", QUERY), ("to", "north")], [("query", QUERY), ("kind", "rewind")],
                                    [("query", "<script>")]])  # fmt: skip
def test_a_plan_of_nothing_that_can_be_moved_is_refused(served: Served, fields: list[tuple[str, str]]) -> None:
    kind = [] if any(name == "kind" for name, _ in fields) else [("kind", "failover")]
    answer = send(served, "/plans", [*kind, *fields])
    assert answer.code in {400, 404}
    assert b"<script>" not in answer.body


def test_a_viewer_plans_and_moves_nothing(world: World, served: Served) -> None:
    fields = button(planned(served, QUERY))
    assert send(served, "/plans", [("kind", "failover"), ("query", QUERY)], VIEWER).code == 403
    with leading(world.store):
        assert send(served, "/moves", fields, VIEWER).code == 403
        assert served.post("/api/moves", moves(QUERY), token=VIEWER).code == 403
    assert world.store.open_requests() == []


def test_a_button_without_its_plan_or_without_a_box_is_refused(world: World, served: Served) -> None:
    fields = button(planned(served, QUERY))
    with leading(world.store):
        assert send(served, "/moves", [each for each in fields if each[0] != "seen"]).code == 400
        assert send(served, "/moves", [each for each in fields if each[0] != "key"]).code == 400
    assert world.store.open_requests() == []


def moves(*names: str, **more: Any) -> dict[str, Any]:
    return {"kind": "failover", "moves": [{"query": name, "expect_active": "east", **more} for name in names]}


def test_one_call_moves_many_and_counts_once_for_its_key(world: World, served: Served) -> None:
    assert served.post("/api/moves", moves(*NAMES)).code == 409, "no controller leads"
    with leading(world.store):
        sent = {"Idempotency-Key": "night-1"}
        first = served.post("/api/moves", {**moves(*NAMES), "reason": "east is down"}, headers=sent)
        again = served.post("/api/moves", {**moves(*NAMES), "reason": "east is down"}, headers=sent)
        other = served.post("/api/moves", {**moves(*NAMES), "reason": "no"}, headers=sent)
    assert (first.code, again.json, other.code) == (202, first.json, 400)
    assert [each["query"] for each in first.json["requests"]] == list(NAMES)
    assert first.json["refused"] == []
    assert {each.group for each in world.store.open_requests()} == {first.json["group"]}
    assert len(world.store.open_requests()) == 3


def test_one_call_plans_many_and_moves_what_was_seen(world: World, served: Served) -> None:
    seen = served.post("/api/plans", {"kind": "failover", "queries": list(NAMES)}).json
    assert [each["plan"]["query"] for each in seen] == list(NAMES)
    requested = moves(*NAMES)
    for move, plan in zip(requested["moves"], seen, strict=True):
        move["plan"] = plan["hash"]
    requested["moves"][0]["plan"] = "0" * 64
    requested["moves"][1]["expect_active"] = "west"
    with leading(world.store):
        answer = served.post("/api/moves", requested).json
    assert [each["query"] for each in answer["requests"]] == ["search"]
    assert [each["query"] for each in answer["refused"]] == ["clicks", QUERY]
    assert "the plan has changed" in answer["refused"][0]["text"]


@pytest.mark.usefixtures("world")
def test_a_wrong_call_for_many_is_refused_before_anything_is_written(world: World, served: Served) -> None:
    with leading(world.store):
        for wrong in (
            {**moves(QUERY), "kind": "rewind"}, moves(QUERY, "none"), moves(QUERY, QUERY), {**moves(), "moves": []},
            moves(QUERY, to="north"), moves(*(f"q{number}" for number in range(MOST_QUERIES + 1))),
        ):  # fmt: skip
            assert served.post("/api/moves", wrong).code in {400, 404}, wrong
        assert served.post("/api/moves", moves(QUERY, expect_active="west")).code == 409
    assert world.store.open_requests() == []


def test_waves_of_the_configuration_order_a_group(world: World, folder: Path) -> None:
    with serving_them(world, folder, "operations: {waves: [1]}\n") as served, leading(world.store):
        assert served.post("/api/moves", moves(*NAMES)).code == 202
    assert [each.parameters.get("wave") for each in world.store.open_requests()] == [1, 2, 2]


def test_later_waves_get_no_request_where_the_first_query_is_refused(world: World, folder: Path) -> None:
    requested = moves(*NAMES)
    requested["moves"][0]["plan"] = "0" * 64
    with serving_them(world, folder, "operations: {waves: [1]}\n") as served, leading(world.store):
        answer = served.post("/api/moves", requested)
    assert (answer.code, world.store.open_requests()) == (409, [])
    assert "none of 3 was requested: the plan has changed since you saw it" in answer.json["error"]["text"]


def test_a_first_wave_that_has_moved_already_holds_no_later_one(world: World, folder: Path) -> None:
    with serving_them(world, folder, "operations: {waves: [1]}\n") as served:
        assert world.carry_out(world.request("clicks")) is not None
        with leading(world.store):
            answer = served.post("/api/moves", moves(*NAMES)).json
    assert [each["query"] for each in answer["requests"]] == [QUERY, "search"]
    assert answer["refused"] == [{"query": "clicks", "text": "clicks is on west, not on east"}]


def test_a_query_gets_no_request_where_one_upstream_of_it_is_refused(world: World, folder: Path) -> None:
    requested = {**moves(*NAMES), "kind": "switchover"}
    requested["moves"][0]["plan"] = "0" * 64
    with serving_them(world, folder, "    after: [clicks]\n") as served, leading(world.store):
        answer = served.post("/api/moves", requested).json
        failover = served.post("/api/moves", {**requested, "kind": "failover"}).json
    assert [each["query"] for each in answer["requests"]] == [QUERY]
    assert [each["query"] for each in answer["refused"]] == ["clicks", "search"]
    text = "upstream-moved: search is not moved, because clicks, which is upstream of it, was not: the plan has changed"
    assert answer["refused"][1]["text"].startswith(text)
    assert [each["query"] for each in failover["requests"]] == [QUERY, "search"], "it waits for no other query"


def test_a_key_that_was_used_for_another_reason_writes_nothing(world: World, served: Served) -> None:
    sent = {"Idempotency-Key": "night-1"}
    with leading(world.store):
        assert served.post("/api/moves", {**moves(QUERY), "reason": "one"}, headers=sent).code == 202
        for names in (("clicks", QUERY), ("clicks",)):
            assert served.post("/api/moves", {**moves(*names), "reason": "two"}, headers=sent).code == 400
    assert [each.query for each in world.store.open_requests()] == [QUERY]


def test_a_call_sent_again_is_answered_without_a_leader(world: World, served: Served) -> None:
    sent = {"Idempotency-Key": "night-1"}
    with leading(world.store):
        first = served.post("/api/moves", moves(*NAMES), headers=sent)
    again = served.post("/api/moves", moves(*NAMES), headers=sent)
    assert (first.code, again.code, again.json) == (202, 202, first.json)


def test_a_key_of_one_move_and_of_many_makes_two_groups(world: World, served: Served) -> None:
    sent = {"Idempotency-Key": "night-1"}
    hashed = served.post("/api/plan", {"kind": "failover", "query": QUERY}).json["hash"]
    one = {"query": QUERY, "to": "west", "expect_active": "east", "plan": hashed}
    with leading(world.store):
        assert served.post("/api/failover", one, headers=sent).code == 202
        group = served.post("/api/moves", moves("clicks", "search"), headers=sent).json["group"]
    assert [each.query for each in world.store.requests_of(group)] == ["clicks", "search"]


class Slow(SystemClock):
    """20 seconds pass with each look at it."""

    def __init__(self) -> None:
        self._looks = count(20, 20)

    def monotonic(self) -> float:
        return float(next(self._looks))


@pytest.mark.parametrize(
    ("until", "requested"),
    [
        pytest.param(200.0, ["clicks", QUERY, "search"], id="in time"),
        pytest.param(110.0, ["clicks", QUERY], id="one judged too late"),
        pytest.param(121.0, ["clicks", QUERY], id="one written too late"),
        pytest.param(80.0, [], id="all judged too late"),
    ],
)
def test_behind_the_time_for_an_answer_nothing_is_written(
    world: World, served: Served, until: float, requested: list[str]
) -> None:
    settings = served.server.settings
    writes = Writes(store=world.store, settings=settings, logs=world.clusters.__getitem__, clock=Slow())
    wanted, who = MovesBody.model_validate(moves(*NAMES)), Principal(name="anna", role=Role.OPERATOR)
    with leading(world.store):
        if requested:
            answer = GroupMoves(writes).move(wanted, who, None, until)
            assert len(list(answer["refused"])) == len(NAMES) - len(requested)  # type: ignore[call-overload]
        else:
            with pytest.raises(Refused, match="none of 3 was requested: the time for the answer was over"):
                GroupMoves(writes).move(wanted, who, None, until)
    assert [each.query for each in world.store.open_requests()] == requested


def test_a_request_that_joined_the_move_of_another_group_is_over_with_it(world: World, served: Served) -> None:
    first = world.request()
    with leading(world.store):
        group = served.post("/api/moves", moves("clicks", QUERY)).json["group"]
    joined = next(each for each in world.store.requests_of(group) if each.query == QUERY)
    operation = world.carry_out(first)
    assert operation is not None
    with leading(world.store):
        world.store.answer(joined.id, term=samples.term_of(world.store), operation=operation.id)
    assert operation.group != group
    assert "1 of 2 have ended" in text_of(look(served, f"/groups/{group}"))


def test_plans_of_groups_that_take_long_keep_no_other_request_waiting(world: World, folder: Path) -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def hang(cluster: str) -> ClusterLog:
        begun.release()
        go_on.wait(THREAD_SECONDS)
        return world.clusters[cluster]

    @contextlib.contextmanager
    def logs(*_: object) -> Iterator[Logs]:
        yield hang

    with serving(folder, config=config_of(NAMES), open_logs=logs) as served:
        requested = {"kind": "failover", "queries": [QUERY]}
        threads = [threading.Thread(target=served.post, args=("/api/plans", requested)) for _ in range(GROUPS_AT_ONCE)]
        try:
            for thread in threads:
                thread.start()
                assert begun.acquire(timeout=THREAD_SECONDS)
            assert served.post("/api/pause", {"reason": "night"}).code == 200
        finally:
            go_on.set()
            for thread in threads:
                thread.join()
