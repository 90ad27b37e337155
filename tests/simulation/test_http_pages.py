"""The pages of a query and of an operation, behind a move that a simulated world has really made."""

import hashlib
import html
import re
from datetime import timedelta

import pytest

from orchestrator.facts.evidence.keeping import keep_evidence
from orchestrator.http.pages import details
from orchestrator.new_requests import RequestSpec, submit
from state.model.entities import Operation, OperationKind
from tests.contract.samples import plan_of
from tests.served import OPERATOR, VIEWER, Answer, Served
from tests.simulation.test_housekeeping import lead
from tests.simulation.test_http_writes import served
from tests.simulation.world import QUERY, World

__all__ = ["served"]
BROWSER = {"Accept": "text/html"}
EVIL = "<b>east</b> is down"


@pytest.fixture
def moved(world: World) -> Operation:
    wish = RequestSpec(
        kind=OperationKind.FAILOVER, targets={QUERY: "west"}, expect_active={}, actor="ann", reason=EVIL, consents=()
    )  # fmt: skip
    done = world.carry_out(submit(world.store, wish)[0])
    assert done is not None
    assert done.outcome == "done"
    return done


def look(served: Served, path: str, token: str = VIEWER) -> Answer:
    return served.call(path, token=token, headers=BROWSER)


def text_of(answer: Answer) -> str:
    assert answer.code == 200, answer.body
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", answer.body.decode())))


def test_the_page_of_an_operation_shows_its_steps_gates_and_costs(
    world: World, served: Served, moved: Operation
) -> None:
    answer = look(served, f"/operations/{moved.id}")
    text = text_of(answer)
    assert f"failover of {QUERY} from east to west done SETTLED" in text
    steps = [step.name for step in world.store.steps(moved.id)]
    assert re.findall(r'<th scope="row">([\w#-]+)</th><td data-label="Began">', answer.body.decode()) == steps
    assert answer.body.count(b'<rect class="rail"') == len(steps) > 5
    assert EVIL in text
    assert b"<b>" not in answer.body
    plan = plan_of(moved)
    gates = plan["gates"]
    assert isinstance(gates, list)
    assert all(f"{gate['name']} passes {gate['measured']} {gate['limit']}" in text for gate in gates)
    assert re.search(r"records read twice \d+ \S+ records read twice once", text)
    assert "Partitions, the worst first" in text
    assert "none yet: the leading controller writes it within a minute" in text


def test_evidence_is_given_as_the_bytes_whose_hash_is_kept(world: World, served: Served, moved: Operation) -> None:
    path = f"/operations/{moved.id}/evidence"
    assert [look(served, each).code for each in (path, f"{path}.json", "/operations/none/evidence")] == [404] * 3
    term = lead(world)
    keep_evidence(
        world.store, world.clusters.__getitem__, term=lambda: term, actor="controller:one", patience=timedelta(0)
    )
    file, page = look(served, f"{path}.json"), look(served, path)
    kept = world.store.evidence(moved.id)
    assert kept is not None
    assert hashlib.sha256(file.body).hexdigest() == kept.sha256
    assert file.headers["Content-Disposition"] == f'attachment; filename="{moved.id}.json"'
    assert "script-src" not in page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert b"<b>" not in page.body
    shown = look(served, f"/operations/{moved.id}").body.decode()
    assert f'href="{path}.json"' in shown
    assert kept.sha256 in shown


def test_the_page_of_a_query_shows_where_it_is_and_its_moves(world: World, served: Served, moved: Operation) -> None:
    text = text_of(look(served, f"/queries/{QUERY}"))
    assert re.search(r"Cluster west away from east since \S+ \(may run on east, west\)", text)
    assert f"{moved.id} failover east → west" in text
    assert "orders 0 " in text
    assert "Runners" in text


def test_the_rest_of_the_partitions_comes_on_demand(
    served: Served, moved: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "WORST", 1)
    monkeypatch.setattr(details, "PER_PAGE", 1)
    for folder, name in (("queries", QUERY), ("operations", moved.id)):
        shown = look(served, f"/{folder}/{name}").body.decode()
        assert f'href="/{folder}/{name}/partitions"' in shown
        path, seen = f"/{folder}/{name}/partitions", []
        while path:
            body = look(served, path).body.decode()
            seen += re.findall(r'<tr><td>(\S+)</td><td class="number">(\d+)</td>', body)
            following = re.search(r'href="([^"]+)">Next<', body)
            path = following[1] if following else ""
        assert len(seen) == len(set(seen)) == 2, folder


def test_a_timeline_shows_where_a_query_was_and_refuses_what_is_no_time(served: Served, moved: Operation) -> None:
    path = f"/queries/{QUERY}/timeline"
    assert "The last six hours" in text_of(look(served, path))
    assert "Nothing is known of that time." in text_of(look(served, f"{path}?at=1000"))
    wrong = look(served, f"{path}?at=%3Cb%3Eyesterday")
    assert "is not a time" in text_of(wrong)
    assert b"<b>" not in wrong.body


@pytest.mark.parametrize("first", ["-1", "x", "99999999", "1.5"])
def test_a_row_that_is_none_is_refused(served: Served, moved: Operation, first: str) -> None:
    assert look(served, f"/queries/{QUERY}/partitions?first={first}").code == 400
    assert look(served, f"/operations/{moved.id}/partitions?first={first}").code == 400


@pytest.mark.parametrize(
    "path", ["/queries/none", "/queries/none/timeline", "/queries/none/partitions", "/operations/none"]
)
def test_an_unknown_name_has_a_page_that_says_so(served: Served, path: str) -> None:
    answer = look(served, path, OPERATOR)
    assert (answer.code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
