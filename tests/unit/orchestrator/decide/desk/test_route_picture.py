"""The picture of the routes: every cluster and route has its place and the colour of its state."""

import pytest

from orchestrator.decide.desk.lines import ClusterLine, CopyAge, RouteLine
from orchestrator.decide.desk.route_picture import BOX_WIDTH, GAP, RoutePicture, colour_of, picture_of
from state.model.cluster_status import Verdict
from tests.contract import samples
from tests.contract.samples import AT


def cluster(name: str, verdict: Verdict = Verdict.UP) -> ClusterLine:
    believed = samples.status(cluster=name, verdict=verdict)
    return ClusterLine(name=name, believed=believed, is_stale=False, queries=3, probe=None)


def copies(seconds: float | None, *, missing: bool = False) -> CopyAge:
    return CopyAge(
        query="revenue", source="east", target="west", sampled_at=AT, age_seconds=seconds, worst="orders-0",
        is_missing=missing, unknown=0, text="",
    )  # fmt: skip


def drawn(*names: str, down: str = "", routes: tuple[tuple[str, str], ...] = ()) -> RoutePicture:
    lines = [cluster(name, Verdict.DOWN if name == down else Verdict.UP) for name in names]
    ways = [RouteLine(source=one, target=other, queries=1, oldest=copies(1.0)) for one, other in routes]
    return picture_of(lines, ways, {"revenue": 60.0}, lambda seconds: "–" if seconds is None else f"{seconds} s")


@pytest.mark.parametrize(
    ("oldest", "colour"),
    [
        (None, "quiet"),
        (copies(None), "quiet"),
        (copies(None, missing=True), "bad"),
        (copies(30.0), "good"),
        (copies(30.1), "warn"),
        (copies(60.1), "bad"),
    ],
)
def test_an_arrow_has_the_colour_of_the_age_of_the_copies(oldest: CopyAge | None, colour: str) -> None:
    assert colour_of(oldest, {"revenue": 60.0}) == colour


def test_a_route_of_a_cluster_in_doubt_is_crossed() -> None:
    picture = drawn("east", "west", down="east", routes=(("east", "west"), ("west", "east")))
    assert [each.words for each in picture.arrows] == ["× 1.0 s", "× 1.0 s"]
    assert [each.colour for each in picture.boxes] == ["bad", "good"]
    assert [each.colour for each in picture.arrows] == ["bad", "bad"]
    assert [each.words for each in drawn("east", "west", routes=(("east", "west"),)).arrows] == ["1.0 s"]


def test_every_box_and_arrow_is_inside_of_the_picture_and_none_on_another() -> None:
    picture = drawn("a", "b", "c", routes=(("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")))
    assert [each.x for each in picture.boxes] == [2 + number * (BOX_WIDTH + GAP) for number in range(3)]
    assert picture.width == picture.boxes[-1].x + BOX_WIDTH + 2
    assert len({(each.x, each.y) for each in picture.arrows}) == 4
    assert all(0 < each.y < picture.height for each in picture.arrows)
    assert drawn("a").arrows == ()


def test_a_long_name_is_cut_to_its_box() -> None:
    (box,) = drawn("a" * 60).boxes
    assert box.name == "a" * 14 + "…"
