"""Spark's logical plan as a small tree of values, from the JSON that ``TreeNode.toJSON`` makes of it.

Spark writes a tree as the list of its nodes, parents before children, each with ``num-children``; an expression inside
a node is such a list again. Spark 3.5.7, 4.0.0 and 4.2.0 agree in what is read here. What JSON cannot hold (functions,
options, intervals) is null there.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a plan, or an expression in one."""

    kind: str
    """Name of its class without the package."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """As Spark names them; an expression is a node, several are a tuple of nodes."""
    children: tuple["Node", ...] = ()

    def expressions(self, name: str) -> tuple["Node", ...]:
        """The expressions of one field; none where it has no such field."""
        return tuple(_flat(self.fields.get(name)))

    def number(self, name: str) -> int | None:
        """A field that is a whole number, or the id of an ``ExprId``."""
        value = self.fields.get(name)
        if isinstance(value, Mapping):
            value = value.get("id")
        return value if isinstance(value, int) else None


def read_plan(text: str) -> Node:
    """The plan of ``toJSON``. Raises ``ValueError`` for what is none."""
    nodes = json.loads(text)
    if not _is_tree(nodes):
        raise ValueError("this is not the JSON of a plan")
    return _tree(iter(nodes))


def _is_tree(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def _tree(nodes: Iterator[Mapping[str, Any]]) -> Node:
    try:
        node = next(nodes)
    except StopIteration:
        raise ValueError("this JSON of a plan ends too early") from None
    children = tuple(_tree(nodes) for _ in range(int(node["num-children"])))
    own = {name: _value(value) for name, value in node.items() if name not in {"class", "num-children"}}
    return Node(str(node["class"]).rpartition(".")[2], own, children)


def _value(value: object) -> object:
    if not isinstance(value, list):
        return value
    if _is_tree(value):
        return _tree(iter(value))
    return tuple(_value(each) for each in value)


def _flat(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _flat(each)
