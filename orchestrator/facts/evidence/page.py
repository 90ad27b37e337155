"""The document of an operation as one page for people: no script, no link, nothing from elsewhere; light and dark.

Everything that comes from outside is escaped. The page shows what the document says and adds nothing; its hash is that
of the JSON document, which is what counts.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from orchestrator.decide.move.plan import headline
from state.model.entities import OperationKind
from state.model.evidence import BEFORE_ALL, Evidence
from state.model.plan import Plan

Row = Mapping[str, object]

_UNKNOWN = "unknown"
_PARTITION_COLUMNS = {
    "topic": "topic",
    "partition": "partition",
    "offset": "read to",
    "target_offset": "resumes at",
    "method": "method",
    "replay_records": "replay, forecast",
    "measured_replay_records": "replay, measured",
    "exposure_records": "exposure, forecast",
    "measured_exposure_records": "exposure, measured",
    "note": "note",
}


def page(kept: Evidence) -> str:
    """The page of a link that still has its document. Raises ``ValueError`` for one without."""
    if kept.document is None:
        raise ValueError(f"the document of operation {kept.operation} is gone")
    said = json.loads(kept.document)
    operation, plan = said["operation"], Plan.of(said["plan"] or {})
    sides = (operation["query"], operation["from"], operation["to"])
    return template("evidence.html").render(
        operation=operation,
        title=headline(OperationKind(operation["kind"]), *sides, operation["parameters"]),
        who=list(_who(said)),
        where=list(_where(said)),
        steps=_with_shares(_rows(said["steps"])),
        gates=plan.gates,
        columns=_PARTITION_COLUMNS,
        partitions=_rows(said["partitions"]),
        fences=_rows(said["fences"]),
        measured=list(said["measured"].items()),
        rows=list((said.get("rows") or {}).items()),
        plan=list(_plan(plan)) if said["plan"] is not None else (),
        history=_rows(said["history"]),
        is_cut=said["history_left_out"],
        versions=list(said["versions"].items()),
        place=list(_place(kept, said)),
    )


@cache
def template(name: str) -> Template:
    """One of the pages of this package: each name that it shows must be given, and texts are escaped."""
    made = Environment(
        loader=PackageLoader("orchestrator.facts.evidence"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"json": _json, "seconds": "{:.3f}".format}
    return made.get_template(name)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _who(said: Mapping[str, Row]) -> Iterable[tuple[str, object]]:
    who, written = said["who"], said["written"]
    yield "actor", who["actor"]
    yield "reason", who["reason"] or "none given"
    yield "consents", who["consents"] or "none"
    yield "written", f"at {written['at']} by {written['by']}"


def _where(said: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    clusters, checkpoint = said["clusters"], said["checkpoint"]
    for each in _rows(clusters):
        yield f"{each['role']} cluster", f"{each['cluster']}, cluster id {each['id'] or _UNKNOWN}"
    if isinstance(checkpoint, Mapping):
        yield "checkpoint before", checkpoint["from"] or _UNKNOWN
        yield "checkpoint after", (checkpoint["to"] if said["moved"] else None) or "the same: nothing was moved"


def _with_shares(steps: list[Row]) -> list[Row]:
    """Each step with its share of the slowest one, in percent: the length of its bar."""
    most = max([_number(row["seconds"]) for row in steps] or [0.0])
    return [{**row, "share": f"{100 * _number(row['seconds']) / most:.1f}" if most else "0"} for row in steps]


def _plan(plan: Plan) -> Iterable[tuple[str, object]]:
    yield "resume", plan.resume
    yield "batch", plan.batch
    yield "uncommitted_batch", plan.uncommitted_batch
    yield "fence", plan.fence
    yield "refused", plan.refused
    yield from ((f"total {name}", value) for name, value in plan.totals.as_json().items())


def _place(kept: Evidence, said: Row) -> Iterable[tuple[str, object]]:
    yield "number", said["sequence"]
    yield "sha256 of the JSON document", kept.sha256
    yield "of the document before it", "none: this is the first" if said["previous"] == BEFORE_ALL else said["previous"]


def _rows(value: object) -> list[Row]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
