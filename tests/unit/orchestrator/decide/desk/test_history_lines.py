"""All lines of one operation are one row of the history."""

from dataclasses import replace

from orchestrator.decide.desk.history_lines import folded, unfolded
from tests.contract import samples


def test_lines_of_an_operation_are_one_row_at_the_place_of_its_newest() -> None:
    one, other = (samples.event(operation=name) for name in ("op-1", "op-2"))
    alone = samples.event(operation=None)
    lines = [replace(each, sequence=number) for number, each in enumerate([one, alone, other, one, alone, other])]
    rows = [(row.event.sequence, [each.sequence for each in row.earlier]) for row in folded(lines)]
    assert rows == [(5, [2]), (4, []), (3, [0]), (1, [])]
    assert [row.event.sequence for row in unfolded(lines)] == [5, 4, 3, 2, 1, 0]
    assert folded([]) == []
