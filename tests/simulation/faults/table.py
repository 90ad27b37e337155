"""``@fault`` makes a scenario of a fault: a row of ``docs/faults.md``, and a test that the row is true.

A scenario returns its world. Whatever it asserts itself, the rules of the world must have held at every moment, the
verdict of the row must have been given, nothing may be lost, and nothing repeated unless the row says so.
"""

import functools
import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from state.model.cluster_status import Verdict
from tests.simulation.live import LiveWorld

Scenario = Callable[..., LiveWorld]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
MODULES = ("clusters", "networks", "processes", "clocks", "store", "records", "operators")
BEGIN, END = "<!-- the table begins: make docs -->\n", "<!-- the table ends -->\n"


class Row(NamedTuple):
    """One line of the table."""

    number: int
    injected: str
    verdict: Verdict | None
    then: str
    scenario: str


ROWS: dict[int, Row] = {}
NOT_BUILT = {
    30: ("a hook fails or hangs", "Tideover runs no hooks: nothing of yours can hold a move up"),
}

REAL = {
    1: "tests/long/test_watch_faults.py::test_one_broker_of_three_moves_nothing",
    2: "tests/long/test_many_automatic.py::test_automatic_failovers_lose_nothing_and_repeat_nothing[kill]",
    3: "tests/long/test_many_automatic.py::test_automatic_failovers_lose_nothing_and_repeat_nothing[freeze]",
    4: "tests/long/test_watch_faults.py::test_a_cut_of_one_controller_moves_nothing_and_a_dead_primary_still_does",
    6: "tests/long/test_watch_faults.py::test_a_cluster_in_use_that_flaps_is_left_once_and_the_rest_is_refused",
    7: "tests/real/test_standalone.py::test_a_revoked_acl_is_named_everywhere_until_it_is_given_back",
    9: "tests/long/test_watch_crashes.py::test_with_both_clusters_killed_the_move_waits_for_the_standby",
    10: "tests/long/test_watch_faults.py::test_a_dead_replicator_stops_automatic_mode_until_the_loss_is_accepted",
    15: "tests/real/test_faults.py::test_retention_past_the_resume_offset_refuses_until_gap_consent",
    16: "tests/long/test_watch_crashes.py::test_a_leader_killed_among_its_moves_is_succeeded_by_one_that_ends_them",
    17: "tests/long/test_watch_faults.py::test_a_frozen_leader_is_succeeded_and_writes_nothing_when_it_wakes_up",
    18: "tests/real/test_store_gone.py::test_positions_spooled_without_a_store_lead_to_the_exact_resume_offset",
    19: "tests/long/test_watch_faults.py::test_a_store_that_stops_during_operations_only_delays_them",
    20: "tests/real/test_put_back.py::test_a_query_runs_on_under_a_restored_row_and_restarts_once_reconciled",
    23: "tests/real/test_carry_spark.py::test_a_fenced_checkpoint_stops_its_query_until_it_is_released",
    25: "tests/long/test_watch_crashes.py::test_a_standby_killed_among_the_moves_makes_no_query_go_to_and_fro",
    26: "tests/long/test_watch_faults.py::test_a_primary_that_returns_in_the_middle_of_a_move_does_not_stop_it",
    27: "tests/long/test_watch_crashes.py::test_a_primary_that_returns_after_the_move_changes_nothing",
    28: "tests/real/test_chain.py::test_a_chain_moves_upstream_first_and_loses_and_repeats_nothing",
    31: "tests/real/test_notices.py::test_a_down_cluster_is_notified_once_by_whichever_controller_leads",
    33: "tests/real/test_faults.py::test_the_same_failover_typed_twice_at_once_is_one_operation_and_one_move",
    36: "tests/real/test_replicator_returns.py::test_records_of_a_returning_replicator_are_forecast_and_counted",
    41: "tests/long/test_watch_crashes.py::test_a_runner_killed_with_its_cluster_is_proven_gone_by_its_successor",
    42: "tests/long/test_watch_faults.py::test_a_runner_on_an_unreachable_host_is_waited_for",
    43: "tests/real/test_takeover.py::test_a_runner_killed_behind_the_commit_is_followed_and_all_is_read_once",
    53: "tests/real/test_endpoint.py::test_queries_follow_an_endpoint_under_load_and_read_each_record_once",
}
"""Faults that a test injects into real brokers, drivers and stores, too: its file and name, or one case of it."""
IN_PART = {
    20: "the query's row is put back, not the whole store",
    23: "the checkpoint only, without a supervisor",
    31: "one receiver is down for good, and no query is moved",
    53: "without a cool-down both turns are followed",
}
"""What the real test of a row leaves out."""


def fault(
    number: int, injected: str, *, verdict: Verdict | None, then: str, repeats: bool = False
) -> Callable[[Scenario], Callable[..., None]]:
    """``verdict`` on the cluster that the query ran on at first; None where the fault is no matter of clusters."""

    def decorate(scenario: Scenario) -> Callable[..., None]:
        ROWS[number] = Row(number, injected, verdict, then, f"{scenario.__module__}.{scenario.__name__}")

        @functools.wraps(scenario)
        def checked(**given: Any) -> None:
            world = scenario(**given)
            verdicts = {
                e.detail["verdict"]
                for e in world.store.history(limit=10_000)
                if e.kind == "verdict" and e.detail["cluster"] == "east"
            }
            assert verdict is None or verdict.value in verdicts
            assert world.broken == []
            accounts = [world.account(query) for query in world.settings.queries]
            assert [account.lost for account in accounts] == [0] * len(accounts)
            assert repeats or [account.repeated for account in accounts] == [0] * len(accounts)

        del checked.__wrapped__  # pytest would follow it to the scenario
        checked.__signature__ = inspect.signature(scenario)  # type: ignore[attr-defined] # and takes its parameters
        return checked

    return decorate


def rows() -> list[Row]:
    """All of them, in the order of their numbers."""
    for module in MODULES:
        importlib.import_module(f"tests.simulation.faults.test_{module}")
    return [ROWS[number] for number in sorted(ROWS)]


def printed() -> str:
    """The table as Markdown."""
    lines = ["| | Fault | Verdict | What happens | Scenario | On real parts |", "|---|---|---|---|---|---|"]
    reported = {row.number: _line(row) for row in rows()}
    reported |= {number: f"| {number} | {what} | - | {then} | - | - |" for number, (what, then) in NOT_BUILT.items()}
    return "\n".join([*lines, *(reported[number] for number in sorted(reported))]) + "\n"


def with_table(page: str) -> str:
    """The page with the table as it is now. Raises ``ValueError`` for a page without a place for it."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError("there must be one place for the table of faults")
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + printed() + END + rest.partition(END)[2]


def _line(row: Row) -> str:
    module, _, name = row.scenario.rpartition(".")
    scenario = link(f"{module.replace('.', '/')}.py::{name}")
    real = link(REAL[row.number]) if row.number in REAL else "-"
    real += f", in part: {IN_PART[row.number]}" if row.number in IN_PART else ""
    verdict = f"`{row.verdict}`" if row.verdict else "-"
    return f"| {row.number} | {row.injected} | {verdict} | {row.then} | {scenario} | {real} |"


def link(test: str, root: str = "..") -> str:
    """A test's name as a sentence that leads to its file; ``root`` leads from the page to the checkout."""
    file, _, name = test.partition("[")[0].partition("::")
    return f"[{re.sub('_', ' ', name.removeprefix('test_'))}]({root}/{file})"


if __name__ == "__main__":
    from tests.simulation.faults import table

    table.PAGE.write_text(table.with_table(table.PAGE.read_text(encoding="utf-8")), encoding="utf-8")
