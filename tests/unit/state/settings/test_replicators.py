"""What may be said of a replicator: what its kind can keep, and who reports."""

from typing import Any

import pytest
from pydantic import ValidationError

from state.settings.keys import Route
from state.settings.replicators import OF_SAME_OFFSETS, ReplicatorKind

LINK = {"kind": "cluster-linking", "url": "https://west.example/kafka/v3/clusters/lkc-1/links/dr"}
SHADOW = {"kind": "shadowing", "url": "http://west.example:9644", "link": "dr"}


def route(replicator: dict[str, Any], **more: Any) -> Route:
    return Route.model_validate({"from": "east", "to": "west", "replicator": replicator, **more})


@pytest.mark.parametrize("kind", ReplicatorKind)
def test_a_route_keeps_offsets_as_its_kind_of_replicator_does(kind: ReplicatorKind) -> None:
    keeps = kind in OF_SAME_OFFSETS
    known = route({"kind": kind}, keeps_offsets=keeps).replicator
    assert known is not None
    assert known.keeps_offsets is keeps
    with pytest.raises(ValidationError, match=f"keeps_offsets: {kind} wants {str(keeps).lower()}"):
        route({"kind": kind}, keeps_offsets=not keeps)


def test_a_replicator_that_reports_has_what_its_requests_need() -> None:
    for replicator in (LINK, SHADOW, {**LINK, "username": "key", "password": "secret", "ca": "/ca.pem"}):
        assert route(replicator, keeps_offsets=True).replicator is not None


@pytest.mark.parametrize(
    ("replicator", "more", "text"),
    [
        ({**LINK, "link": "dr"}, {"keeps_offsets": True}, "link: the name of a shadow link"),
        ({**SHADOW, "link": None}, {"keeps_offsets": True}, "link: the name of a shadow link"),
        ({**LINK, "username": "key"}, {"keeps_offsets": True}, "username and password must be set together"),
        (
            {**SHADOW, "username": "key", "password": "secret", "url": "http://west.example:9644"},
            {"keeps_offsets": True},
            "unencrypted on another host",
        ),
        ({"kind": "shadowing", "ca": "/ca.pem"}, {"keeps_offsets": True}, "url: username, password and ca"),
        ({"kind": "mirror-maker-2", "url": "http://connect:8083"}, {}, "url: only cluster-linking and shadowing"),
        ({**LINK, "url": "https://key:secret@west.example/"}, {"keeps_offsets": True}, "url"),
        (LINK, {"keeps_offsets": True, "offset_syncs": "mm2-offset-syncs.east.internal"}, "offset_syncs: remove it"),
    ],
)
def test_a_replicator_that_does_not_fit_its_route_is_refused(
    replicator: dict[str, Any], more: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValidationError, match=text):
        route(replicator, **more)
