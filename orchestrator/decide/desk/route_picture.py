"""The clusters and the routes between them as a picture: where each box and each arrow is, and its colour. Pure.

Clusters are in one row, in the order of the configuration. Routes between neighbours are straight arrows; longer ones
are arcs, above the row to the right and below it to the left. Lengths are pixels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.decide.desk.lines import ClusterLine, CopyAge, RouteLine
from state.model.cluster_status import WELL

BOX_WIDTH, BOX_HEIGHT, GAP = 132, 64, 92
_APART = 11
_ARC = 26
_LETTERS = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """One cluster."""

    line: ClusterLine
    name: str
    """Its name, cut where it is too long for the box."""
    x: int
    y: int
    colour: str
    """``good``, ``warn`` or ``bad``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrow:
    """One route."""

    line: RouteLine
    path: str
    head: str
    x: int
    """Of the middle of its words."""
    y: int
    colour: str
    """``good``, ``warn``, ``bad``, or ``quiet`` where no age is known."""
    words: str
    """The age of the oldest copy, with a cross where one of its clusters is in doubt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutePicture:
    """All of them."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def picture_of(
    clusters: Sequence[ClusterLine],
    routes: Sequence[RouteLine],
    limits: Mapping[str, float],
    said: Callable[[float | None], str],
) -> RoutePicture:
    """``limits`` has by query the largest age in seconds that its policy allows; ``said`` words an age."""
    places = {each.name: index for index, each in enumerate(clusters)}
    known = [each for each in routes if each.source in places and each.target in places]
    reach = max((abs(places[each.source] - places[each.target]) for each in known), default=1)
    top = _ARC * (reach - 1) + 4
    boxes = {
        each.name: Box(
            line=each,
            name=each.name if len(each.name) <= _LETTERS else each.name[: _LETTERS - 1] + "…",
            x=2 + index * (BOX_WIDTH + GAP),
            y=top,
            colour="good" if each.verdict in WELL else "bad" if each.verdict in {"DOWN", "CONFIG_ERROR"} else "warn",
        )
        for index, each in enumerate(clusters)
    }
    return RoutePicture(
        width=4 + len(boxes) * BOX_WIDTH + max(0, len(boxes) - 1) * GAP,
        height=2 * top + BOX_HEIGHT,
        boxes=tuple(boxes.values()),
        arrows=tuple(_arrow(each, boxes[each.source], boxes[each.target], limits, said) for each in known),
    )


def _arrow(
    route: RouteLine, source: Box, target: Box, limits: Mapping[str, float], said: Callable[[float | None], str]
) -> Arrow:
    is_right = source.x < target.x
    steps = abs(source.x - target.x) // (BOX_WIDTH + GAP)
    side, oldest = -1 if is_right else 1, route.oldest
    colour = colour_of(oldest, limits)
    words = "missing" if oldest is not None and oldest.is_missing else said(oldest.age_seconds if oldest else None)
    if source.line.verdict not in WELL or target.line.verdict not in WELL:
        words, colour = f"× {words}", "bad"  # nothing comes, however fresh the last sample was
    shape = _straight(source, target, side) if steps == 1 else _arc(source, target, side, steps)
    path, head, x, y = shape
    return Arrow(line=route, path=path, head=head, x=x, y=y, colour=colour, words=words)


def colour_of(oldest: CopyAge | None, limits: Mapping[str, float]) -> str:
    """Of an age: ``good`` up to half of its limit, ``warn`` up to it, else ``bad``, as where copies are missing."""
    if oldest is None or (oldest.age_seconds is None and not oldest.is_missing):
        return "quiet"
    limit = limits.get(oldest.query)
    if oldest.is_missing or (limit is not None and (oldest.age_seconds or 0.0) > limit):
        return "bad"
    return "warn" if limit is not None and (oldest.age_seconds or 0.0) > limit / 2 else "good"


def _straight(source: Box, target: Box, side: int) -> tuple[str, str, int, int]:
    right = side < 0
    begin = source.x + BOX_WIDTH if right else source.x
    end = target.x if right else target.x + BOX_WIDTH
    y = source.y + BOX_HEIGHT // 2 + side * _APART
    back = end - 8 if right else end + 8
    words = y - 5 if right else y + 15
    return f"M{begin} {y}H{back}", f"M{end} {y}L{back} {y - 5}V{y + 5}Z", (begin + end) // 2, words


def _arc(source: Box, target: Box, side: int, steps: int) -> tuple[str, str, int, int]:
    begin, end = source.x + BOX_WIDTH // 2 + side * 12, target.x + BOX_WIDTH // 2 + side * 12
    edge = source.y if side < 0 else source.y + BOX_HEIGHT
    far = edge + side * _ARC * (steps - 1)
    head = f"M{end} {edge}L{end - 5} {edge + side * 8}H{end + 5}Z"
    words = far + (14 if side < 0 else -5)
    return f"M{begin} {edge}V{far}H{end}V{edge + side * 8}", head, (begin + end) // 2, words
