"""What may be sent: the body of each path that takes one, as a model with its limits."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from state.plain_text import LONGEST, plain
from state.settings.values import Name

Consent = Literal["unfenced", "repeats", "loss", "replication", "gap", "fresh", "dropped", "columns"]
GroupKind = Literal["failover", "switchover", "failback"]
MOST_QUERIES = 500
"""Of one group of moves; more of them take another call."""
Reason = Annotated[str, Field(max_length=LONGEST), AfterValidator(plain)]
ToTime = Annotated[str, Field(max_length=100)]
Within = Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)]


class Body(BaseModel):
    """What is sent: another key is a mistake, and a number is no text."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlanBody(Body):
    """What a move would do."""

    kind: Literal["failover", "switchover", "failback", "rewind", "drill"]
    query: Name
    to: Name | None = Field(default=None, description="default: the next of the query's clusters; of a failback, home")
    to_time: ToTime | None = Field(default=None, description="of a rewind, and only of one: back to when")
    consents: Annotated[tuple[Consent, ...], Field(max_length=8)] = ()


class SeenBody(Body):
    """Something whose plan was seen."""

    query: Name
    expect_active: Name = Field(description="the cluster that the query is on: the plan's from")
    plan: str = Field(pattern=r"^[0-9a-f]{64}$", description="the hash that came with the plan")
    consents: Annotated[tuple[Consent, ...], Field(max_length=8)] = ()
    reason: Reason = ""
    within_seconds: Within = 120.0


class MoveBody(SeenBody):
    """A move."""

    to: Name


class PlansBody(Body):
    """What the moves of several queries would do."""

    kind: GroupKind
    queries: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_QUERIES)]
    to: Name | None = Field(default=None, description="default: of each query, the next of its clusters")
    consents: Annotated[tuple[Consent, ...], Field(max_length=8)] = ()


class GroupedMove(Body):
    """One query of a move of several."""

    query: Name
    expect_active: Name = Field(description="the cluster that the query is on: the plan's from")
    to: Name | None = Field(default=None, description="default: the next of the query's clusters")
    plan: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="the hash that came with the plan; default: no plan was seen, the gates alone decide"
    )


class MovesBody(Body):
    """Moves of several queries, as one group."""

    kind: GroupKind
    moves: Annotated[tuple[GroupedMove, ...], Field(min_length=1, max_length=MOST_QUERIES)]
    consents: Annotated[tuple[Consent, ...], Field(max_length=8)] = ()
    reason: Reason = ""
    within_seconds: Within = 120.0


class RewindBody(SeenBody):
    """A way back in time, on the cluster where the query is."""

    to_time: ToTime = Field(description="the to_time of the plan's rewind")


class DrillBody(Body):
    """A rehearsal."""

    query: Name
    to: Name | None = None
    consents: Annotated[
        tuple[Literal["repeats", "loss", "gap", "fresh", "dropped", "columns"], ...], Field(max_length=6)
    ] = ()
    reason: Reason = ""
    within_seconds: Within = 600.0


class CancelBody(Body):
    """What shall be taken back."""

    id: str = Field(max_length=100, description="of an operation or a request")
    reason: Reason = ""
    within_seconds: Within = 120.0


class PauseBody(Body):
    """Which queries automatic failover shall leave alone."""

    query: Name | None = Field(default=None, description="default: all of them")
    until: Annotated[str, Field(max_length=100)] | None = Field(default=None, description="default: until it is ended")
    reason: Reason = ""


class ResumeBody(Body):
    """Whose pause shall end."""

    query: Name | None = Field(default=None, description="default: the pause of all of them")
    reason: Reason = ""


class AckBody(Body):
    """What was seen."""

    query: Name
    reason: Reason = ""
