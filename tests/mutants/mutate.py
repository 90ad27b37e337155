"""Small mistakes, made from a module's text. Pure.

Each operator is a mistake that people make: a boundary one off, a condition reversed, a guard or a call forgotten.
Texts for people are left alone: what a sentence says is tested elsewhere.
"""

import ast
from collections import Counter
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SILENT = ("log.", "_log.", "self._log.", "self._say", "say(", "print(")


@dataclass(frozen=True)
class Mutant:
    """One mistake in one module."""

    module: str
    function: str
    """Its qualified name, or ``<module>``."""
    line: int
    start: int
    end: int
    """Where the text is that is replaced, in characters."""
    old: str
    new: str
    number: int
    """How many equal mistakes of that function come before it."""

    @property
    def key(self) -> str:
        """What names it while lines move: module, function, the mistake."""
        again = f" #{self.number + 1}" if self.number else ""
        return f"{self.module} {self.function}: {' '.join(self.old.split())} -> {self.new}{again}"

    def applied(self, text: str) -> str:
        """The module's text with the mistake in it."""
        return text[: self.start] + self.new + text[self.end :]


def mutants(module: str, text: str) -> list[Mutant]:
    """Every mistake that the operators can make in a module, in the order of its lines."""
    found = _Finder(module, text)
    found.visit(ast.parse(text))
    return sorted(found.mutants, key=lambda each: (each.start, each.end, each.new))


class _Finder(ast.NodeVisitor):
    def __init__(self, module: str, text: str) -> None:
        self.mutants: list[Mutant] = []
        self._module = module
        self._text = text
        self._names: list[str] = []
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _offset(self, line: int, column: int) -> int:
        begin = self._lines[line - 1]
        whole = self._text[begin : self._lines[line]]
        return begin + len(whole.encode()[:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        at: ast.expr = node  # type: ignore[assignment] # every node that is needed has a place
        assert at.end_lineno is not None
        assert at.end_col_offset is not None
        return self._offset(at.lineno, at.col_offset), self._offset(at.end_lineno, at.end_col_offset)

    def _replace(self, start: int, end: int, new: str, line: int) -> None:
        function, old = ".".join(self._names) or "<module>", self._text[start:end]
        if old != new:
            number = self._seen[function, old, new]
            self._seen[function, old, new] += 1
            self.mutants.append(Mutant(self._module, function, line, start, end, old, new, number))

    def _named(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if node.name in {"__repr__", "__str__"}:
            return
        self._names.append(node.name)
        for inner in node.body if isinstance(node, ast.ClassDef) else (node.args, *node.body):
            self.visit(inner)
        self._names.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _named  # noqa: N815 # ast's names

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts for people are left alone."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        before = node.left
        for operator, after in zip(node.ops, node.comparators, strict=True):
            (_, start), (end, _) = self._span(before), self._span(after)
            between, sign = self._text[start:end], _SIGNS[type(operator)]
            if sign in between and "\n" not in between:
                at = start + between.index(sign)
                self._replace(at, at + len(sign), _COMPARED[type(operator)], after.lineno)
            before = after
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for before, after in zip(node.values, node.values[1:], strict=False):
            (_, start), (end, _) = self._span(before), self._span(after)
            between = self._text[start:end]
            if old in between:
                at = start + between.index(old)
                self._replace(at, at + len(old), new, after.lineno)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start, _ = self._span(node)
            self._replace(start, start + len("not "), "", node.lineno)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        signs = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
        if type(node.op) in signs and not isinstance(node.left, (ast.JoinedStr, ast.List, ast.Tuple)):
            old, new = signs[type(node.op)]
            (_, start), (end, _) = self._span(node.left), self._span(node.right)
            between = self._text[start:end]
            if between.count(old) == 1:
                at = start + between.index(old)
                self._replace(at, at + 1, new, node.right.lineno)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start, end = self._span(node)
        if isinstance(node.value, bool):
            self._replace(start, end, str(not node.value), node.lineno)
        elif isinstance(node.value, int) and self._names:
            self._replace(start, end, str(node.value + 1), node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _CALLED:
            self._replace(*self._span(node.func), _CALLED[node.func.id], node.lineno)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self._replace(*self._span(node.test), "False", node.lineno)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        start, end = self._span(node)
        if isinstance(node.value, ast.Call) and not self._text[start:end].startswith(_SILENT):
            self._replace(start, end, "...", node.lineno)
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What is raised is a sentence; whether it is raised is the condition before it."""
