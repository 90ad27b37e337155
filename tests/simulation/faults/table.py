"""``@fault`` makes a scenario of a fault: a row of ``docs/faults.md``, and a test that the row is true.

A scenario returns its world. Whatever it asserts itself, the rules of the world must have held at every moment, the
verdict of the row must have been given, nothing may be lost, and nothing repeated unless the row says so.
"""

import functools
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from state.sighting import Verdict
from tests.simulation.live import LiveWorld

Scenario = Callable[[], LiveWorld]
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
    31: ("the endpoint for notices is down", "Tideover sends no notices: `history -f` and exit codes are there"),
}


def fault(
    number: int, injected: str, *, verdict: Verdict | None, then: str, repeats: bool = False
) -> Callable[[Scenario], Callable[[], None]]:
    """``verdict`` on the cluster that the query ran on at first; None where the fault is no matter of clusters."""

    def decorate(scenario: Scenario) -> Callable[[], None]:
        ROWS[number] = Row(number, injected, verdict, then, f"{scenario.__module__}.{scenario.__name__}")

        @functools.wraps(scenario)
        def checked() -> None:
            world = scenario()
            given = {
                e.detail["verdict"] for e in world.store.history(limit=10_000) if e.detail.get("cluster") == "east"
            }
            assert verdict is None or verdict.value in given
            assert world.broken == []
            accounts = [world.account(query) for query in world.settings.queries]
            assert [account.lost for account in accounts] == [0] * len(accounts)
            assert repeats or [account.repeated for account in accounts] == [0] * len(accounts)

        del checked.__wrapped__  # type: ignore[attr-defined] # pytest would follow it to the scenario
        return checked

    return decorate


def rows() -> list[Row]:
    """All of them, in the order of their numbers."""
    for module in MODULES:
        importlib.import_module(f"tests.simulation.faults.test_{module}")
    return [ROWS[number] for number in sorted(ROWS)]


def printed() -> str:
    """The table as Markdown."""
    lines = ["| | Fault | Verdict | What happens | Scenario |", "|---|---|---|---|---|"]
    told = {row.number: _line(row) for row in rows()}
    told |= {number: f"| {number} | {what} | - | {then} | - |" for number, (what, then) in NOT_BUILT.items()}
    return "\n".join([*lines, *(told[number] for number in sorted(told))]) + "\n"


def with_table(page: str) -> str:
    """The page with the table as it is now. Raises ``ValueError`` for a page without a place for it."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError("there must be one place for the table of faults")
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + printed() + END + rest.partition(END)[2]


def _line(row: Row) -> str:
    module, _, name = row.scenario.rpartition(".")
    sentence = re.sub("_", " ", name.removeprefix("test_"))
    file = "../" + module.replace(".", "/") + ".py"
    verdict = f"`{row.verdict}`" if row.verdict else "-"
    return f"| {row.number} | {row.injected} | {verdict} | {row.then} | [{sentence}]({file}) |"


if __name__ == "__main__":
    from tests.simulation.faults import table

    table.PAGE.write_text(table.with_table(table.PAGE.read_text(encoding="utf-8")), encoding="utf-8")
