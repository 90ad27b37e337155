"""The document of an operation as one page for people: no script, no link, nothing from elsewhere; light and dark.

Everything that comes from outside is escaped. The page shows what the document says and adds nothing; its hash is that
of the JSON document, which is what counts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from orchestrator.decide.move.plan import headline
from state.model.entities import OperationKind
from state.model.evidence import BEFORE_ALL, Evidence
from state.model.plan import Gate, Plan

Row = Mapping[str, object]

_STYLE = """
:root { color-scheme: light dark; --text: #1c2024; --quiet: #5b6570; --line: #d5dae0; --back: #ffffff; --bar: #2f6fb0;
  --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ea; --quiet: #9aa4ae; --line: #3a424a; --back: #15181b;
  --bar: #6aa9e6; --good: #57c278; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .quiet { color: var(--quiet); } .good { color: var(--good); } .bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--quiet); white-space: nowrap; } td.number { text-align: right; }
code, pre { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; } pre { white-space: pre-wrap; }
.bar { background: var(--bar); height: .7rem; min-width: 1px; border-radius: 2px; }
"""
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
    title = headline(OperationKind(operation["kind"]), *sides, operation["parameters"])
    parts = (
        _head(said, title),
        _facts("Who and why", _who(said)),
        _facts("Where", _where(said)),
        _phases(said["steps"]),
        _gates(plan.gates),
        _partitions(said["partitions"]),
        _fences(said["fences"]),
        _facts("Measured", said["measured"].items()),
        _facts("Rows of the query before and after", (said.get("rows") or {}).items()),
        _facts("Plan", _plan(plan) if said["plan"] is not None else ()),
        _history(said),
        _facts("Versions where this was written", said["versions"].items()),
        _facts("Place in the chain", _place(kept, said)),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(operation['id'])}: {escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(filter(None, parts))
        + "\n</body>\n</html>\n"
    )


def _head(said: Mapping[str, Row], title: str) -> str:
    operation = said["operation"]
    kind = "good" if operation["outcome"] == "done" else "bad"
    return (
        f"<h1>{escape(title)}</h1>\n"
        f'<p><strong class="{kind}">{_text(operation["outcome"])}</strong>: {_text(operation["sentence"])}</p>\n'
        f'<p class="quiet">Operation <code>{_text(operation["id"])}</code>, epoch {_text(operation["epoch"])}, '
        f"from {_text(operation['started_at'])} to {_text(operation['ended_at'])}</p>"
    )


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


def _phases(steps: object) -> str:
    """A bar for each step, as long as its share of the slowest one."""
    rows = _rows(steps)
    most = max([_number(row["seconds"]) for row in rows] or [0.0])
    lines = [
        f"<tr><td>{_text(row['name'])}</td><td>{_text(row['outcome'] or 'not ended')}</td>"
        f'<td class="number">{_seconds(row["seconds"])}</td><td style="width:50%">'
        f'<div class="bar" style="width:{_share(row["seconds"], most)}%"></div></td></tr>'
        for row in rows
    ]
    return _section("Seconds per phase", ("step", "outcome", "seconds", ""), lines)


def _gates(gates: Iterable[Gate]) -> str:
    lines = [
        f'<tr><td>{_text(gate.name)}</td><td class="{"good" if gate.ok else "bad"}">'
        f"{'passes' if gate.ok else 'refuses'}</td><td>{_text(gate.measured)}</td><td>{_text(gate.limit)}</td>"
        f"<td>{_text(gate.text)}</td></tr>"
        for gate in gates
    ]
    return _section("Gates", ("gate", "answer", "measured", "limit", "in words"), lines)


def _partitions(partitions: object) -> str:
    lines = [
        "<tr>" + "".join(_cell(row.get(column)) for column in _PARTITION_COLUMNS) + "</tr>" for row in _rows(partitions)
    ]
    return _section("Partitions: forecast beside what was measured", tuple(_PARTITION_COLUMNS.values()), lines)


def _fences(fences: object) -> str:
    lines = [
        f"<tr><td>{_text(row['asked_of'])}</td>{_cell(row['epoch'])}<td>{_text(row['proof'] or 'none')}</td>"
        f"<td>{_text(row['planted'])}</td><td>{_text(row['detail'])}</td></tr>"
        for row in _rows(fences)
    ]
    return _section("Fence: proof that the old run has stopped", ("runner", "epoch", "proof", "planted", "seen"), lines)


def _plan(plan: Plan) -> Iterable[tuple[str, object]]:
    yield "resume", plan.resume
    yield "batch", plan.batch
    yield "uncommitted_batch", plan.uncommitted_batch
    yield "fence", plan.fence
    yield "refused", plan.refused
    yield from ((f"total {name}", value) for name, value in plan.totals.as_json().items())


def _history(said: Mapping[str, object]) -> str:
    lines = [
        f"<tr><td>{_text(row['at'])}</td><td>{_text(row['kind'])}</td><td>{_text(row['actor'])}</td>"
        f"<td>{_text(row['text'])}</td></tr>"
        for row in _rows(said["history"])
    ]
    heading = "History (its newest lines)" if said["history_left_out"] else "History"
    return _section(heading, ("at", "kind", "actor", "line"), lines)


def _place(kept: Evidence, said: Row) -> Iterable[tuple[str, object]]:
    yield "number", said["sequence"]
    yield "sha256 of the JSON document", kept.sha256
    yield "of the document before it", "none: this is the first" if said["previous"] == BEFORE_ALL else said["previous"]


def _facts(heading: str, facts: Iterable[tuple[str, object]]) -> str:
    lines = [f"<tr><th>{escape(str(name).replace('_', ' '))}</th><td>{_text(value)}</td></tr>" for name, value in facts]
    return _section(heading, (), lines)


def _section(heading: str, columns: Sequence[str], lines: Sequence[str]) -> str:
    """A heading and a table; nothing where there are no lines."""
    if not lines:
        return ""
    head = "<tr>" + "".join(f"<th>{escape(column)}</th>" for column in columns) + "</tr>\n" if columns else ""
    return f'<h2>{escape(heading)}</h2>\n<div class="wide"><table>\n{head}' + "\n".join(lines) + "\n</table></div>"


def _cell(value: object) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f'<td class="number">{_text(value)}</td>' if is_number else f"<td>{_text(value)}</td>"


def _text(value: object) -> str:
    """One value, escaped."""
    if value is None:
        return f'<span class="quiet">{_UNKNOWN}</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(each) for each in value) or "none"
    if isinstance(value, Mapping):
        return f"<code>{escape(json.dumps(value, ensure_ascii=False, sort_keys=True))}</code>"
    return escape(str(value))


def _rows(value: object) -> list[Row]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _seconds(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, (int, float)) else _text(value)


def _share(value: object, most: float) -> str:
    return f"{100 * _number(value) / most:.1f}" if most else "0"
