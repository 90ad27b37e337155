"""A plan, and what was measured of it, is read by the fields of its type: one module alone knows the keys of each."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contract.test_imports import modules, relative

KNOWS = ("state/model/plan.py", "state/model/measured.py")
OWN = frozenset(
    {
        "followed", "awaited", "starting_offsets", "uncommitted_batch", "resume_text", "data_batch", "in_run",
        "otherwise_repeats", "rows_before", "unread_before", "log_truncation", "divergent_offset", "totals",
        "first_batch_records", "usual_batch_records", "exposure_sampled_at", "target_topic", "target_partition",
        "target_offset", "asked_at_ms", "compared", "new_after_ms", "sampled_end", "exposed", "exposed_from",
        "exposed_to", "exposed_at_least", "exposed_at_most", "announced", "came", "rewound", "batch_planned_at",
        "retained_from", "switch_seconds", "batch_went_on", "sink_took", "rows_since", "rows_expected", "not_proven",
    }
)  # fmt: skip
"""Keys that no other document of the product has."""
NAMES = ("plan", "planned", "followed", "awaited", "totals", "measured")
"""What a variable is called that holds a plan, a part of it or what was measured: of such a one no key is read."""


def reads(path: Path) -> Iterator[tuple[int, str]]:
    """Line and key of each read by a literal key."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Subscript(value=of, slice=ast.Constant(value=str(key)), ctx=ast.Load()):
                pass
            case ast.Call(func=ast.Attribute(value=of, attr="get" | "pop"), args=[ast.Constant(value=str(key)), *_]):
                pass
            case ast.Compare(left=ast.Constant(value=str(key)), ops=[ast.In() | ast.NotIn()], comparators=[of]):
                pass
            case _:
                continue
        if key in OWN or is_of_plan(of):
            yield node.lineno, key


def is_of_plan(node: ast.AST) -> bool:
    """Whether an expression is called a plan, or a part of one."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=name)):
            return name in NAMES
        case ast.BoolOp(values=values):
            return any(map(is_of_plan, values))
        case _:
            return False


def test_no_other_module_reads_a_key_of_a_plan() -> None:
    found = [f"{relative(path)}:{line}: {key}" for path in modules() for line, key in reads(path)]
    assert [each for each in found if each.split(":")[0] not in KNOWS] == [], f"read a field of {KNOWS}"


def test_a_read_by_key_is_found_in_every_form(tmp_path: Path) -> None:
    lines = [
        'row["target_topic"]',
        'plan.get("kind")',
        '(x.plan or {})["batch"]',
        '"rewind" in plan',
        'row["topic"]',
        'said["plan"]["fence"]',
        'operation.measured.get("x")',
    ]
    module = tmp_path / "some.py"
    module.write_text("\n".join(lines))
    found = [(1, "target_topic"), (2, "kind"), (3, "batch"), (4, "rewind"), (6, "fence"), (7, "x")]
    assert list(reads(module)) == found
