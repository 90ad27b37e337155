"""The page: what it shows, that it is for those who may look, and that nothing in it becomes markup."""

import html
import re
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import pytest

from orchestrator.http import auth
from orchestrator.http.auth import GUESSES, SESSION_SECONDS, Principal, Role, Sessions, cookie_name
from orchestrator.http.pages.markup import PAGE_HEADERS, STATIC
from orchestrator.http.pages.routes import is_inside
from state.model.cluster_status import Verdict
from state.model.entities import RunState
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from tests.contract import samples
from tests.desk_scene import config_of, fill, judge, place, sample
from tests.served import OPERATOR, VIEWER, Answer, Served, serving

QUERIES = ("revenue", "sums")
EVIL = "<script>alert(1)</script>"
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControllerStore]:
    made = open_store(f"sqlite:///{tmp_path}/t.db")
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Where all is well, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("served")
    made = open_store(f"sqlite:///{folder}/t.db")
    fill(made, QUERIES)
    with serving(folder, config=config_of(QUERIES)) as served:
        yield served
    made.close()


@pytest.fixture
def fresh(tmp_path: Path, store: ControllerStore) -> Iterator[Served]:
    """For a test that changes the store, or is locked out."""
    fill(store, QUERIES)
    with serving(tmp_path, config=config_of(QUERIES)) as made:
        yield made


def look(served: Served, path: str = "/", *, token: str | None = VIEWER, cookie: str = "") -> Answer:
    headers = {**BROWSER, "Cookie": cookie} if cookie else BROWSER
    return served.call(path, token=token, headers=headers)


def send(served: Served, path: str, fields: dict[str, str], **headers: str) -> Answer:
    kind = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    body = urlencode(fields).encode()
    return served.call(path, method="POST", headers={**BROWSER, **kind, **own}, body=body)


def text_of(answer: Answer) -> str:
    """What a reader sees."""
    bare = re.sub(r"<[^>]*>", " ", answer.body.decode())
    return re.sub(r"\s+", " ", html.unescape(bare))


def log_in(served: Served, token: str) -> str:
    """The cookie that a browser would send from then on."""
    answer = send(served, "/login", {"token": token})
    assert (answer.code, answer.headers["Location"]) == (303, "/")
    (morsel,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    return f"{morsel.key}={morsel.value}"


def test_the_overview_says_that_nothing_is_wrong(fresh: Served) -> None:
    answer = look(fresh)
    assert (answer.code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    text = text_of(answer)
    assert "Nothing is wrong" in text
    assert "every query runs. Each one that was checked could be moved." in text
    trend = "throughput unknown; lag 12, at most 12 unknown"
    assert re.search(rf"revenue east a running \d s ago – 0.4 s of 60 s 0.4 s {trend} ready off", text)
    assert re.search(r"east → west 0.4 s orders-4 of \w+ \d s ago west is 0.4 s behind east at most", text)
    assert "2 off" in text


@pytest.fixture
def labelled(tmp_path: Path, store: ControllerStore) -> Iterator[Served]:
    """Sums belongs to a team, revenue to none."""
    term = fill(store, QUERIES)
    sample(store, term, "revenue", refused=True)
    with serving(tmp_path, config=config_of(QUERIES) + "    labels: {team: billing, tier: gold}\n") as made:
        yield made


def test_a_label_narrows_the_overview_and_what_is_wrong(labelled: Served) -> None:
    assert "revenue could not fail over" in text_of(look(labelled))
    assert b'href="/?label=team%3Dbilling"' in look(labelled).body
    for label in ("team%3Dbilling", "team=billing", "team=billing,tier=gold"):
        narrow = text_of(look(labelled, f"/?label={label}"))
        assert "Only the 1 of 2 queries with team=billing" in narrow
        assert "Nothing is wrong" in narrow
        assert not re.search(r"revenue east a running", narrow)
    for wrong in ("team=shop", "team", "team=billing,tier=tin", "<script>"):
        answer = look(labelled, f"/?label={wrong}")
        assert (answer.code, b"<script>" in answer.body) == (400, False)


def test_a_label_narrows_what_programs_get(labelled: Served) -> None:
    for path in ("/api/queries", "/api/status"):
        found = labelled.call(f"{path}?label=team=billing,tier=gold", token=VIEWER).json
        rows = found if path == "/api/queries" else found["queries"]
        assert [each["query"] for each in rows] == ["sums"]
        wrong = labelled.call(f"{path}?label=team=shop", token=VIEWER)
        assert (wrong.code, wrong.json["error"]["hint"]) == (400, "labels of queries: team=billing, tier=gold")


def test_samples_are_what_the_checks_measured(store: ControllerStore, fresh: Served) -> None:
    sample(store, fill(store, QUERIES), "sums", age_ms=1_500)
    found = fresh.call("/api/queries/sums/samples", token=VIEWER).json
    assert found["limit_seconds"] == 60.0
    assert [each["copy_age_seconds"] for each in found["samples"]][-1] == 1.5
    assert set(found["samples"][0]) == {
        "at", "source", "target", "ready", "exposure_records", "exposure_seconds", "copy_age_seconds",
        "records_per_second", "lag_records",
    }  # fmt: skip
    assert fresh.call("/api/queries/sums/samples?since=-0s", token=VIEWER).json["samples"] == []
    assert fresh.call("/api/queries/sums/samples?since=soon", token=VIEWER).code == 400
    assert fresh.call("/api/queries/none/samples", token=VIEWER).code == 404


def test_a_wrong_thing_comes_first_with_its_reason_and_the_way_out(store: ControllerStore, fresh: Served) -> None:
    term = fill(store, QUERIES)
    judge(store, term, east=Verdict.DOWN)
    sample(store, term, "sums", refused=True)
    text = text_of(look(fresh))
    assert re.search(r"Needs action east is DOWN since \S+ \S+ UTC \(\d s ago\) 2 queries wait Plan a failover", text)
    assert "Why 6 probes in a row failed, and nobody else sees it sums could not fail over to west: " in text
    assert "tideover plan failover --all --expect-active east" in text
    assert text.startswith(" east is DOWN · Overview · Tideover "), "the tab of the browser shows it, too"
    assert text.count("east is DOWN") == 3, "one outage is one concern, and a line of the history"
    assert b'<link rel="icon" href="/static/icon-bad.svg"' in look(fresh).body


def test_every_hint_leads_to_a_heading_of_the_runbook_that_is_served(store: ControllerStore, fresh: Served) -> None:
    term = fill(store, QUERIES)
    judge(store, term, east=Verdict.DOWN)
    sample(store, term, "sums", refused=True)
    anchors = re.findall(r'href="/runbook#([\w-]+)"', look(fresh).body.decode())
    runbook = look(fresh, "/runbook").body.decode()
    assert len(anchors) == 1
    assert [each for each in anchors if f'id="{each}"' not in runbook] == []


def test_names_and_sentences_of_others_are_text_and_never_markup(store: ControllerStore, fresh: Served) -> None:
    term = fill(store, QUERIES)
    place(store, EVIL, state=RunState.FAILED, error=f"{EVIL}\nmore")
    sample(store, term, EVIL)
    store.record_status(
        samples.status(reasons=(EVIL,), verdict=Verdict.DOWN, since=store.now(), decided_at=store.now(), term=term),
        term=term, event=samples.event(kind=EVIL, text=EVIL, query=EVIL),
    )  # fmt: skip
    for path in ("/", "/history"):
        body = look(fresh, path).body
        assert b"<script>alert" not in body
        assert b"&lt;script&gt;alert(1)&lt;/script&gt;" in body


def test_a_path_that_there_is_not_is_a_page_too_and_repeats_nothing(served: Served) -> None:
    answer = look(served, "/nowhere/<script>alert(1)</script>".replace("<", "%3C"))
    assert (answer.code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert b"nowhere" not in answer.body
    assert served.call("/nowhere", token=VIEWER).kind == "usage"


@pytest.mark.parametrize("path", ["/", "/history", "/runbook", "/nowhere", "/login"])
def test_every_page_allows_its_own_files_and_no_script_inside(served: Served, path: str) -> None:
    answer = look(served, path)
    assert all(answer.headers[name] == value for name, value in PAGE_HEADERS.items())
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "same-origin")
    body = answer.body.decode()
    assert re.findall(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=|<style|javascript:|https?://", body) == []


def test_a_stranger_with_a_browser_is_led_to_the_login_from_any_path(served: Served) -> None:
    assert (look(served, token=None).code, look(served, token=None).headers["Location"]) == (303, "/login")
    for path in ("/history", "/nowhere", "/queries/revenue"):
        answer = look(served, path, token=None)
        assert (answer.code, answer.headers["Location"]) == (303, f"/login?next={path}")
    assert look(served, "/api/status", token=None).code == 401
    assert look(served, "/events", token=None).code == 401


def test_a_token_becomes_a_session_that_ends_when_its_user_says_so(served: Served) -> None:
    cookie = log_in(served, OPERATOR)
    assert OPERATOR not in cookie
    assert "anna, operator" in text_of(look(served, token=None, cookie=cookie))
    assert served.call("/api/status", headers={"Cookie": f"other=1; {cookie}"}).code == 200
    gone = send(served, "/logout", {}, Cookie=cookie)
    assert (gone.code, "Max-Age=0" in gone.headers["Set-Cookie"]) == (303, True)
    assert look(served, token=None, cookie=cookie).code == 303


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(served: Served) -> None:
    cookie = send(served, "/login", {"token": VIEWER}).headers["Set-Cookie"]
    assert re.fullmatch(rf"tideover-{served.port}=[\w-]{{43}}; Path=/; HttpOnly; SameSite=Strict", cookie)
    assert Sessions(lambda: 0.0, cookie_name(1, is_secure=True), True).begin(ANNA).endswith("; Secure")
    assert cookie_name(1, is_secure=True) == "__Host-tideover-1"


def test_a_wrong_token_does_not_log_in(fresh: Served) -> None:
    for token in ("", " ", "wrong", f"{VIEWER}x", f"{VIEWER} {OPERATOR}", EVIL):
        answer = send(fresh, "/login", {"token": token})
        assert (answer.code, answer.headers["Set-Cookie"]) == (401, None)
        assert "This is not a valid token." in text_of(answer)
        assert b"<script>alert" not in answer.body


@pytest.mark.parametrize("token", ["", "guess"])
def test_the_login_counts_guesses_like_every_other_path(fresh: Served, token: str) -> None:
    assert [send(fresh, "/login", {"token": token}).code for _ in range(GUESSES)] == [401] * GUESSES
    locked = send(fresh, "/login", {"token": "guess"})
    assert (locked.code, locked.headers["Set-Cookie"]) == (429, None)
    assert fresh.call("/api/status", token="guess").code == 429
    assert send(fresh, "/login", {"token": VIEWER}).code == 303


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=lambda given: "-".join(given.values()),
)
def test_a_page_from_elsewhere_neither_logs_in_nor_out(served: Served, headers: dict[str, str]) -> None:
    assert send(served, "/login", {"token": VIEWER}, **headers).code == 403
    assert send(served, "/logout", {}, Cookie=log_in(served, VIEWER), **headers).code == 403


def test_a_session_cannot_write_without_the_origin_of_the_browser(served: Served) -> None:
    cookie = log_in(served, OPERATOR)
    sent = {"Cookie": cookie, "Content-Type": "application/json"}
    answer = served.call("/api/pause", method="POST", headers=sent, body=b"{}")
    assert (answer.code, answer.kind) == (403, "other-origin")


def test_a_cookie_that_is_none_of_ours_is_no_login(fresh: Served) -> None:
    cookie = log_in(fresh, OPERATOR)
    name = cookie.partition("=")[0]
    for given in ("", "x", "a b", "=", "\xe9"):
        assert look(fresh, token=None, cookie=f"{name}={given}").code == 303
        assert look(fresh, token=None, cookie=f"{cookie}; {name}={given}").code == 303
    assert look(fresh, token=VIEWER + "x", cookie=cookie).code == 303


def test_a_body_that_is_no_form_is_refused(served: Served) -> None:
    assert send(served, "/login", {"token": VIEWER}, Content_Type="application/json").code == 415
    doubled = f"token={VIEWER}&token={OPERATOR}".encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert served.call("/login", method="POST", headers={**BROWSER, **kind}, body=doubled).code == 400
    many = "&".join(f"a{index}=1" for index in range(500)).encode()
    assert served.call("/login", method="POST", headers={**BROWSER, **kind}, body=many).code == 400


@pytest.mark.parametrize(
    "path", ["//evil.example", "/\\evil.example", "https://evil.example", "/a?b", "/a\nb", "", "x"]
)
def test_the_way_back_from_the_login_never_leads_elsewhere(served: Served, path: str) -> None:
    assert not is_inside(path)
    answer = send(served, "/login", {"token": VIEWER, "next": path})
    assert (answer.code, answer.headers["Location"]) == (303, "/")
    assert b"evil" not in look(served, f"/login?{urlencode({'next': path})}").body


def test_after_the_login_one_is_where_one_wanted_to_go(served: Served) -> None:
    assert b'name="next" value="/history"' in look(served, "/login?next=/history").body
    answer = send(served, "/login", {"token": VIEWER, "next": "/history"})
    assert answer.headers["Location"] == "/history"


ANNA = Principal("anna", Role.OPERATOR)


def kept(now: list[float]) -> Sessions:
    return Sessions(lambda: now[0], "tideover-1", False)


def test_a_session_ends_after_a_shift() -> None:
    now = [0.0]
    made = kept(now)
    cookie = made.begin(ANNA).partition(";")[0]
    now[0] = SESSION_SECONDS
    assert made.holder(cookie) == ANNA
    now[0] += 1
    assert made.holder(cookie) is None


def test_sessions_do_not_fill_the_memory_and_are_kept_as_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "SESSIONS", 3)
    made = kept([0.0])
    cookies = [made.begin(ANNA).partition(";")[0] for _ in range(5)]
    assert [made.holder(each) for each in cookies] == [None, None, ANNA, ANNA, ANNA]
    assert all(each.partition("=")[2] not in repr(made) for each in cookies)


def test_without_tokens_there_is_no_login(tmp_path: Path, store: ControllerStore) -> None:
    fill(store, QUERIES)
    with serving(tmp_path, config=config_of(QUERIES), tokens="\n") as served:
        text = text_of(look(served, token=None))
        assert "everybody on this host, viewer" in text
        assert "Log out" not in text
        assert look(served, "/login", token=None).headers["Location"] == "/"


@pytest.mark.parametrize("name", sorted(STATIC))
def test_files_of_the_page_are_given_to_everybody_and_kept(served: Served, name: str) -> None:
    answer = served.call(f"/static/{name}")
    assert (answer.code, answer.headers["Content-Type"]) == (200, STATIC[name])
    assert answer.headers["Cache-Control"].startswith("max-age=")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert served.call(f"/static/../{name}").code == 401


def test_a_store_that_is_away_is_said_on_the_page(tmp_path: Path, fresh: Served) -> None:
    for file in tmp_path.glob("t.db*"):
        file.unlink()
    (tmp_path / "t.db").mkdir()
    fresh.server._store.close()  # type: ignore[union-attr] # it listens, so it has one
    answer = look(fresh, "/history")
    assert answer.code == 503
    assert "The store does not answer" in text_of(answer)
    assert b'href="/runbook#the-store-is-down"' in answer.body


def test_the_history_is_narrowed_by_its_address_and_an_operation_is_one_row(
    store: ControllerStore, fresh: Served
) -> None:
    place(store, "revenue", state=RunState.FAILED, error=EVIL)
    page = look(fresh, "/history")
    assert EVIL.encode() not in page.body
    assert re.search(r"revenue runner:a query-failed revenue failed: ", text_of(page))
    assert "1 earlier line of this operation" in text_of(page)
    one = text_of(look(fresh, "/history?query=revenue&kind=query-failed"))
    assert "1 line, newest first" in one
    assert "all lines" in one
    assert "No line matches." in text_of(look(fresh, "/history?kind=nothing"))
    assert "earlier line" not in text_of(look(fresh, "/history?operation=op-1"))
    assert "more" in text_of(look(fresh, "/history?limit=1"))
    assert text_of(look(fresh, "/history?since=-1h")).count("was checked") == 0
    for wrong in ("?limit=0", "?limit=x", "?nothing=1"):
        assert look(fresh, f"/history{wrong}").code == 400


def test_the_history_says_below_its_fields_that_a_time_cannot_be_read(served: Served) -> None:
    page = look(served, "/history?query=revenue&since=-1%3Cb%3E")
    lines = re.search(r'<section id="lines" data-live[^>]*>(.*?)</section>', page.body.decode(), re.DOTALL)
    assert lines is not None, "the part that is fetched again while a time is typed"
    assert re.search(r'role="alert">[^<]*1&lt;b&gt;[^<]* is not a duration', lines[1])
    assert "<table" not in lines[1]
    assert 'name="query" value="revenue"' in page.body.decode()


@pytest.mark.parametrize("given", ["only=<b>", "sort=size", "cluster=%3Cb%3E", "nothing=1", "view=x"])
def test_the_overview_refuses_a_choice_that_it_does_not_know(served: Served, given: str) -> None:
    answer = look(served, f"/?{given}")
    assert (answer.code, b"<b>" in answer.body) == (400, False)


def test_the_overview_keeps_its_choices_in_its_links(served: Served) -> None:
    page = look(served, "/?find=rev&view=cards&sort=query").body.decode()
    assert "1 of 2 shown" in page
    assert 'href="/?find=rev&amp;sort=query&amp;view=table"' in page
    assert '<option value="query" selected>' in page
    assert re.search(r'<li class="good"><svg class="trend".*</svg><a href="/queries/revenue">revenue</a>', page)
