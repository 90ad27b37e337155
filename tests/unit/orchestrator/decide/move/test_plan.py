"""The plan as programs read it."""

from dataclasses import replace

import pytest

from orchestrator.decide.move.plan import plan_of, target_offsets
from state.model.entities import OperationKind
from state.settings.keys import Policy
from streaming.resume.model import Target
from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import GOOD, RUNNER, query, resolution

UNKNOWN = place(partition=1, exposure_seconds=None, exposure_records=None)


@pytest.mark.parametrize(
    ("targets", "seconds"),
    [
        ((place(exposure_seconds=2.5), place(partition=1, exposure_seconds=0.5)), 2.5),
        ((place(),), 0.0),
        ((place(exposure_seconds=2.5), UNKNOWN), None),
        ((place(exposure_seconds=2.5), place(partition=1, exposure_seconds=None)), 2.5),
        ((UNKNOWN,), None),
        ((), None),
    ],
    ids=["largest", "nothing", "one-unknown", "no-records-no-seconds", "all-unknown", "no-place"],
)
def test_exposure_in_seconds_is_the_worst_of_all_partitions_or_unknown(
    targets: tuple[Target, ...], seconds: float | None
) -> None:
    place_of_all = replace(resolution(), targets=targets)
    totals = plan_of(replace(GOOD, resolution=place_of_all), ()).totals
    assert totals.exposure_seconds == seconds


@pytest.mark.parametrize(
    ("companion", "cap", "options", "records"),
    [
        (True, None, {}, 40),
        (True, 15, {}, 15),
        (True, 15, {"maxOffsetsPerTrigger": "9"}, 9),
        (True, 100, {}, 40),
        (False, 15, {}, 40),
    ],
    ids=["no cap", "capped", "the smaller cap", "a cap that is not reached", "a copied checkpoint"],
)
def test_the_first_batch_is_forecast_as_the_companion_caps_it(
    companion: bool, cap: int | None, options: dict[str, str], records: int
) -> None:
    settings = query(sources={"s": {"topics": ["t"], "options": options}})
    facts = replace(
        GOOD, settings=settings, policy=Policy(catch_up_batch=cap), runners=(replace(RUNNER, companion=companion),),
        resolution=resolution(place(target_offset=60, end=100)),
    )  # fmt: skip
    totals = plan_of(facts, ()).totals
    assert totals.first_batch_records == records


def test_two_topics_in_one_log_skip_no_record_of_either() -> None:
    both = (
        place(target_offset=58),
        place(topic="refunds", target_offset=79),
        place(topic="u", target_offset=60),
    )
    assert target_offsets(both) == {"s": {"t": {"0": 58}}}
    two_sources = (place(target_offset=58), place(source="again", target_offset=40))
    plan = plan_of(replace(GOOD, resolution=replace(resolution(), targets=two_sources)), ())
    assert plan.starting_offsets == {"t": {"0": 40}}


A = replace(RUNNER, companion=True)
B = replace(RUNNER, runner="b", companion=False)
C = replace(B, runner="c", companion_missing="this Spark lacks x")
STAYS = "the checkpoint stays, and from now on only a Spark with the companion can continue from it"
EXTERNAL = query(pipeline=None, application={"start": ["s", "{cluster}"], "stop": ["x"], "status": ["y"]})
NEW = "a new checkpoint, from which any Spark can continue"


@pytest.mark.parametrize(
    ("changes", "resume", "text"),
    [
        ({"runners": (A,)}, "switch", STAYS),
        ({"runners": (B,), "settings": EXTERNAL}, "switch", "the checkpoint stays: its offsets are rewritten in place"),
        ({"runners": (A, B)}, "carry", f"{NEW}; switch cannot be: no companion in the Spark of b"),
        ({"runners": (C,)}, "carry", f"{NEW}; switch cannot be: no companion in the Spark of c (this Spark lacks x)"),
        ({"runners": ()}, "carry", f"{NEW}; switch cannot be: no runner is alive that could report whether it has the"),
        (
            {"runners": None},
            "carry",
            f"{NEW}; switch cannot be: no runner is alive that could report whether it has the",
        ),
        ({"runners": (A,), "settings": query(resume="carry")}, "carry", NEW),
        ({"runners": (B,), "settings": query(resume="switch")}, "switch", STAYS),
        ({"runners": (A,), "settings": query(resume="fresh")}, "fresh", "a new checkpoint, without the state"),
        ({"runners": (A,), "kind": OperationKind.REWIND}, "carry", NEW),
        ({"runners": (B,), "kind": OperationKind.DRILL}, "carry", NEW),
    ],
)
def test_a_plan_says_how_the_query_resumes_and_why_not_by_switch(
    changes: dict[str, object], resume: str, text: str
) -> None:
    plan = plan_of(replace(GOOD, **changes), ())  # type: ignore[arg-type]
    assert (plan.resume, plan.resume_text[: len(text)]) == (resume, text)
