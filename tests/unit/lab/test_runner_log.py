"""What a runner's log tells somebody who waits for its queries."""

from pathlib import Path

from lab.runner_log import STARTED, UP, WARM, RunnerLog, in_words, parsed

AT = "2026-11-29T07:36:38.336054Z"
LINES = {
    UP: f"{AT} [info     ] runner is up                   master=local[32] pid=15779 runner=a spark=4.2.0",
    "adopted": f"{AT} [info     ] query adopted                  cluster=east epoch=1 query=orders runner=a",
    STARTED: f"{AT} [info     ] query started                  checkpoint=/w/orders cluster=east epoch=1 query=orders",
    WARM: f"{AT} [info     ] warmed up                failures=0 queries={{}} records=(38, 38) runner=a seconds=5.7",
    "spark": "26/11/29 07:18:02 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1",
}


def test_a_line_of_the_product_is_its_event_and_its_values() -> None:
    warm = parsed(LINES[WARM])
    assert warm is not None
    assert warm.event == WARM
    assert warm.values == {"failures": "0", "queries": "{}", "records": "(38, 38)", "runner": "a", "seconds": "5.7"}


def test_a_line_of_spark_says_nothing() -> None:
    assert parsed(LINES["spark"]) is None


def test_a_line_counts_once_and_as_soon_as_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "runner-a.log"
    log = RunnerLog(path)
    assert log.news() == []  # the process has not opened it yet
    path.write_text(f"{LINES['spark']}\n{LINES[UP]}\n{LINES[STARTED][:60]}")
    assert [entry.event for entry in log.news()] == [UP]
    with path.open("a") as file:
        file.write(f"{LINES[STARTED][60:]}\n")
    assert [(entry.event, entry.values["query"]) for entry in log.news()] == [(STARTED, "orders")]
    assert log.news() == []
    assert log.said == {UP, STARTED}


def test_the_words_of_an_earlier_runner_of_that_name_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "runner-a.log"
    path.write_text(f"{LINES[STARTED]}\n{LINES[WARM]}\n")
    log = RunnerLog(path)
    with path.open("a") as file:
        file.write(f"{LINES[UP]}\n")
    assert [entry.event for entry in log.news()] == [UP]
    assert log.said == {UP}


WARMED = (
    "warmed up, in 5.7 s: a throw-away query with state read 38 and 38 records of the standby, stopped in between, "
    "as in a move"
)


def test_queries_that_start_together_are_named_in_one_sentence() -> None:
    other = LINES[STARTED].replace("query=orders", "query=archive")
    news = [parsed(line) for line in (LINES[UP], LINES["adopted"], LINES[STARTED], other, LINES[WARM])]
    assert in_words([entry for entry in news if entry is not None]) == [
        "runner a is up, with Spark 4.2.0",
        "started on east: orders, archive",
        WARMED,
    ]
