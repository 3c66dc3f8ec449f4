"""Small changes of Python code, such as a programmer's mistakes, that a test should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Change:
    """A piece of a file, and what stands there instead. ``scope`` is the function or class around it.

    ``in_function``: it is of a function's body, not of what runs when the module is imported.
    """

    path: Path
    line: int
    scope: str
    kind: str
    start: int
    end: int
    was: str
    now: str
    in_function: bool

    def applied(self, text: bytes) -> bytes:
        """The file with the change."""
        return text[: self.start] + self.now.encode() + text[self.end :]

    def is_program(self, text: bytes) -> bool:
        """Return True if Python can parse the file with the change; a function's only statement may not be removable."""
        try:
            ast.parse(self.applied(text))
        except SyntaxError:
            return False
        return True


def changes(path: Path, text: bytes) -> list[Change]:
    """All changes of a file, in their order."""
    return list(_Finder(path, text).find(ast.parse(text)))


class _Finder:
    def __init__(self, path: Path, text: bytes) -> None:
        self._path, self._text = path, text
        # Columns of the syntax tree are bytes.
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def find(self, node: ast.AST, scope: str = "", inside: bool = False) -> Iterator[Change]:
        """The changes in a node."""
        if isinstance(node, (ast.expr, ast.stmt)):
            for kind, now in _instead(node):
                yield self._change(node, scope, inside, kind, now)
        for child in _children(node):
            # Defaults of arguments are computed where the function is defined.
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not isinstance(child, ast.arguments):
                is_function = isinstance(node, ast.FunctionDef)
                yield from self.find(child, f"{scope}.{node.name}".lstrip("."), inside or is_function)
            else:
                yield from self.find(child, scope, inside)

    def _change(self, node: ast.expr | ast.stmt, scope: str, inside: bool, kind: str, now: str) -> Change:
        assert node.end_lineno is not None, "it was parsed"
        assert node.end_col_offset is not None, "it was parsed"
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        return Change(self._path, node.lineno, scope, kind, start, end, self._text[start:end].decode(), now, inside)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Without what has no effect: annotations, docstrings, words of errors; and f-strings, whose parts have no place."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "msg"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr) and not _is_silent(child):
                yield child


def _is_silent(node: ast.AST) -> bool:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _instead(node: ast.expr | ast.stmt) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.expr):
        yield from _expressions(node)
    elif isinstance(node, ast.Return) and node.value is not None:
        for value in ("None", "True", "False"):
            if ast.unparse(node.value) != value:
                yield "return", f"return {value}"
    elif isinstance(node, (ast.Raise, ast.Continue, ast.Break, ast.AugAssign, ast.Delete)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "statement removed", "pass"


def _expressions(node: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            if type(operator) in COMPARISONS:
                other = copy.deepcopy(node)
                other.ops[index] = COMPARISONS[type(operator)]()
                yield "comparison", f"({ast.unparse(other)})"
    elif isinstance(node, ast.BoolOp):
        flipped: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and, or", f"({ast.unparse(ast.BoolOp(flipped, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", f"bool({ast.unparse(node.operand)})"
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield "operator", f"({ast.unparse(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "constant", str(node.value + 1)
        yield "constant", f"({node.value - 1})"
    elif isinstance(node, ast.IfExp):
        yield "condition", f"({ast.unparse(ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse))})"
    elif isinstance(node, ast.Call):
        yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[tuple[str, str]]:
    if isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        yield "function", ast.unparse(ast.Call(ast.Name(FUNCTIONS[node.func.id]), node.args, node.keywords))
    plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
    if plain and len(node.args) >= 2 and ast.dump(node.args[0]) != ast.dump(node.args[1]):
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield "arguments swapped", ast.unparse(ast.Call(node.func, swapped, node.keywords))
