"""Schema ids in records, and whether an id means one schema on both clusters. Pure.

In the wire format of Confluent's serializers a value begins with a zero byte and the four bytes of an id. Only the
registry of its cluster can turn that id into a schema. Bytes that were copied whole keep their id: where the registries
count for themselves, equal bytes are other records, and a query decodes them wrongly without an error.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_MAGIC = 0
_HEAD = 5


def schema_id(data: bytes) -> int | None:
    """The id in front of a key or value; None where it is not in the wire format. Ids begin at 1."""
    if len(data) < _HEAD or data[0] != _MAGIC:
        return None
    return int.from_bytes(data[1:_HEAD], "big") or None


def ids_of(values: Iterable[bytes | None]) -> frozenset[int]:
    """The ids of some keys or values; none unless each of them has one, for any bytes may begin with a zero."""
    found = [schema_id(each) for each in values if each is not None]
    return frozenset() if None in found else frozenset(each for each in found if each is not None)


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a registry gives it."""

    kind: str
    """``AVRO``, ``JSON`` or ``PROTOBUF``."""
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Name and subject of each schema that it refers to."""

    @property
    def meaning(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """What two schemas have in common that read the same bytes in the same way; white space does not count."""
        try:
            text = json.dumps(json.loads(self.text), sort_keys=True)
        except ValueError:
            text = " ".join(self.text.split())
        return self.kind, text, self.references


class Agreement(StrEnum):
    """Whether ids mean the same."""

    AGREE = "agree"
    DIFFER = "differ"
    UNKNOWN = "unknown"
    NOT_REQUESTED = "not checked"
    """No registry is configured that could be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """What one cluster's registry says of the ids in its newest records of one topic."""

    cluster: str
    ids: frozenset[int]
    registry: str | None
    """Its address; None where the configuration has none."""
    schemas: Mapping[int, Schema | None]
    """By id; None: the registry does not know it. An id that is missing could not be looked up."""
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaFinding:
    """What is known of the keys or the values of one topic."""

    topic: str
    part: str
    agreement: Agreement
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaAnswers:
    """What is known of all topics of a query."""

    at: datetime
    findings: tuple[SchemaFinding, ...]
    error: str = ""
    """Why the records of one side could not be read."""


def compare(topic: str, part: str, here: Registered, there: Registered, *, rewrites: bool) -> SchemaFinding | None:
    """Whether the ids of both sides mean the same schemas; None where the records carry none.

    ``rewrites``: the replicator gives copies the ids of the other registry; then each schema there must be one of here.
    """
    if not here.ids and not there.ids:
        return None
    agreement, text = _compared(here, there, rewrites=rewrites)
    return SchemaFinding(topic=topic, part=part, agreement=agreement, text=f"{part} of {topic}: {text}")


def _compared(here: Registered, there: Registered, *, rewrites: bool) -> tuple[Agreement, str]:
    ids = sorted(here.ids | there.ids)
    named = f"id{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids[:5]))}"
    without = [side.cluster for side in (here, there) if side.registry is None]
    if without:
        return Agreement.NOT_REQUESTED, (
            f"records carry schema {named}, and no schema_registry of {' and '.join(without)} is configured: whether "
            "an id means the same on both is unknown"
        )
    if here.registry == there.registry:
        return Agreement.AGREE, f"schema {named} are of one registry"
    if not there.ids:
        return Agreement.UNKNOWN, f"no copy with a schema id is on {there.cluster} yet"
    silent = [f"{side.cluster}: {side.error}" for side in (here, there) if side.error]
    if silent:
        return Agreement.UNKNOWN, f"schema {named} cannot be compared: {'; '.join(silent)}"
    wrong = _rewritten(here, there) if rewrites else _kept(here, there)
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return Agreement.DIFFER, f"{wrong[0]}{more}"
    return Agreement.AGREE, f"schema {named} mean the same on both"


def _kept(here: Registered, there: Registered) -> list[str]:
    """Ids that travel in the bytes must mean the same on both sides."""
    wrong: list[str] = []
    for each in sorted(here.ids | there.ids):
        if each not in here.schemas or each not in there.schemas:
            continue
        mine, theirs = here.schemas.get(each), there.schemas.get(each)
        if theirs is None:
            wrong.append(f"id {each} is not in the registry of {there.cluster}")
        elif mine is None:
            wrong.append(f"id {each} is not in the registry of {here.cluster}")
        elif mine.meaning != theirs.meaning:
            wrong.append(f"id {each} means one schema on {here.cluster} and another one on {there.cluster}")
    return wrong


def _rewritten(here: Registered, there: Registered) -> list[str]:
    known = {schema.meaning for each in here.ids if (schema := here.schemas.get(each)) is not None}
    wrong: list[str] = []
    for each in sorted(there.ids & there.schemas.keys()):
        schema = there.schemas.get(each)
        if schema is None:
            wrong.append(f"id {each} is not in the registry of {there.cluster}")
        elif schema.meaning not in known:
            wrong.append(f"id {each} on {there.cluster} means none of the schemas of {here.cluster}")
    return wrong
