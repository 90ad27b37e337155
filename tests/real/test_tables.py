"""Queries that write to Delta, to Iceberg, to Hudi or through Spark's file sink move with a batch in flight.

Delta knows by ``txnVersion`` what it has of an application; the formats' own sinks know it by query id and batch id,
and the file sink by its batch id alone.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from lab.world import CLUSTERS, World
from state.messages import SinkMemory, SinkState

pytestmark = [pytest.mark.real, pytest.mark.matrix]

Reports = Mapping[str, Mapping[str, Any]]
Outcomes = Callable[[str], Reports]

DELTA = pytest.mark.jars("delta")
HUDI = pytest.mark.jars("hudi")
BY_FORMAT = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.jars(kind)) for kind in ("delta", "iceberg")]
)
ALL_FORMATS = pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.jars(kind)) for kind in ("delta", "iceberg")), "parquet"]
)
IN_FLIGHT = list(range(80, 120))


@pytest.fixture(scope="module")
def outcomes(pair: World, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What the tables of a format held at the end, per case; each format is played once."""

    @cache
    def play(kind: str) -> Reports:
        bootstraps = [pair.bootstrap(name)[0] for name in CLUSTERS]
        done = subprocess.run(
            [sys.executable, "-m", "tests.real.table_outcomes", kind, *bootstraps, str(tmp_path_factory.mktemp(kind))],
            capture_output=True, text=True, timeout=540, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        held: Reports = json.loads(done.stdout.splitlines()[-1])
        return held

    return play


@DELTA
@pytest.mark.parametrize("case", ["replan-has", "replan-has-not", "bridge-has-not"])
def test_a_batch_in_flight_reaches_delta_exactly_once(outcomes: Outcomes, case: str) -> None:
    held = outcomes("delta")[case]
    assert (held["missing"], held["repeated"], held["foreign"]) == ([], [], [])


@DELTA
def test_a_replanned_batch_keeps_its_id_so_that_delta_recognises_it(outcomes: Outcomes) -> None:
    held = outcomes("delta")["replan-has"]
    assert held["planned"] == held["batch"] + 1


@DELTA
def test_a_bridge_repeats_exactly_the_batch_that_delta_already_had(outcomes: Outcomes) -> None:
    """The price that the forecast names, and why a batch that can be replanned is never bridged."""
    held = outcomes("delta")["bridge-has"]
    assert (held["missing"], held["repeated"]) == ([], IN_FLIGHT)


@ALL_FORMATS
@pytest.mark.parametrize("moment", ["has", "has-not"])
def test_a_formats_own_sink_knows_the_batch_of_a_query_that_switches(
    outcomes: Outcomes, kind: str, moment: str
) -> None:
    """The checkpoint is kept, and with it the query id: the batch whose writing broke off is written, once."""
    held = outcomes(kind)[f"replan-{moment}-by-format-switch"]
    assert (held["missing"], held["repeated"], held["foreign"]) == ([], [], [])
    assert held["planned"] == held["batch"] + 1


@BY_FORMAT
def test_a_formats_own_sink_takes_the_batch_of_a_carry_twice(outcomes: Outcomes, kind: str) -> None:
    """It goes by query id and batch id, and a carried checkpoint has a new query id: the forecast counts the batch."""
    held = outcomes(kind)["replan-has-by-format"]
    assert (held["missing"], held["repeated"]) == ([], IN_FLIGHT)
    assert held["memory"] == SinkMemory.QUERY_AND_BATCH


def test_the_file_sink_knows_the_batch_of_a_carry_too(outcomes: Outcomes) -> None:
    """It goes by the batch id alone, which a carry keeps."""
    held = outcomes("parquet")["replan-has-by-format"]
    assert (held["missing"], held["repeated"], held["foreign"]) == ([], [], [])
    assert held["memory"] == SinkMemory.BATCH


@HUDI
@pytest.mark.parametrize("way", ["", "-switch"])
def test_hudis_sink_knows_the_batch_by_its_id_alone(outcomes: Outcomes, way: str) -> None:
    """Carried or not: its checkpoint identifier is the same for every query that sets none."""
    held = outcomes("hudi")[f"replan-has-by-format{way}"]
    assert (held["missing"], held["repeated"], held["foreign"]) == ([], [], [])
    assert (held["memory"], held["sink"]) == (SinkMemory.BATCH, SinkState.UNKNOWN), "its table is not read"


@DELTA
def test_a_callbacks_batch_is_not_known_by_the_query_id(outcomes: Outcomes) -> None:
    assert outcomes("delta")["replan-has"]["memory"] == SinkMemory.OWN_CODE


@ALL_FORMATS
@pytest.mark.parametrize(("moment", "state"), [("has", SinkState.HAS), ("has-not", SinkState.HAS_NOT)])
def test_the_table_itself_says_whether_it_has_the_batch_in_flight(
    outcomes: Outcomes, kind: str, moment: str, state: SinkState
) -> None:
    held = outcomes(kind)[f"replan-{moment}-by-format-switch"]
    assert held["sink"] == state
    assert held["took"] is True, "it holds the first batch after the move"


@BY_FORMAT
def test_a_table_that_forgot_the_batch_takes_it_twice_and_the_report_says_so(outcomes: Outcomes, kind: str) -> None:
    """Delta's transaction ids and Iceberg's snapshots expire (delta#1167)."""
    held = outcomes(kind)["replan-forgot-by-format-switch"]
    assert held["sink"] == SinkState.FORGOT
    assert (held["missing"], held["repeated"]) == ([], IN_FLIGHT)


@ALL_FORMATS
def test_a_batch_that_its_table_lacks_is_cut_and_read_once(outcomes: Outcomes, kind: str) -> None:
    held = outcomes(kind)["replan-has-not-by-format-cut"]
    assert (held["missing"], held["repeated"], held["foreign"]) == ([], [], [])
    assert (held["reason"], held["records"], held["read"]) == (None, len(IN_FLIGHT), 10)


@ALL_FORMATS
def test_a_batch_that_its_table_has_keeps_its_ends(outcomes: Outcomes, kind: str) -> None:
    """A smaller one would be dropped as the one that is there, and the records that were cut off would come twice."""
    held = outcomes(kind)["replan-has-by-format-cut"]
    assert (held["missing"], held["repeated"], held["foreign"]) == ([], [], [])
    assert held["reason"] == f"{kind} has that batch already"
