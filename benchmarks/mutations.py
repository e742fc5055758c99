"""The places of a module's functions at which one operator, number or condition can be changed."""

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple


class Site(NamedTuple):
    """A place in a syntax tree; `apply` changes the tree."""

    statement: int
    line: int
    change: str
    apply: Callable[[], None]


_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
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
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_CALLED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


def sites(tree: ast.Module) -> Iterator[Site]:
    """Yield the places of a module's functions that can be changed, always in the same order."""
    for node, statement in _evaluated(tree, None):
        replaced = partial(_replaced, statement, node)
        match node:
            case ast.Compare(ops=[op]):
                yield replaced("ops", [_COMPARED[type(op)]()], type(op), _COMPARED[type(op)])
            case ast.BoolOp(op=op):
                other = ast.Or if isinstance(op, ast.And) else ast.And
                yield replaced("op", other(), type(op), other)
            case ast.BinOp(op=op) if type(op) in _COMPUTED:
                yield replaced("op", _COMPUTED[type(op)](), type(op), _COMPUTED[type(op)])
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                opposite = replaced("test", ast.UnaryOp(ast.Not(), test), "condition", "its opposite")
                yield opposite._replace(line=test.lineno)  # a lone `if (` is no line for coverage
            case ast.Constant(value=bool() as value):
                yield replaced("value", not value, value, not value)
            case ast.Constant(value=int() | float() as value):
                yield replaced("value", value + 1, value, value + 1)
            case ast.Name(id=name, ctx=ast.Load()) if name in _CALLED:
                yield replaced("id", _CALLED[name], name, _CALLED[name])


def _replaced(statement: int, node: ast.expr | ast.stmt, field: str, value: object, *shown: object) -> Site:
    was, is_now = (each.__name__ if isinstance(each, type) else str(each) for each in shown)
    return Site(statement, node.lineno, f"{was} → {is_now}", partial(setattr, node, field, value))


def _evaluated(node: ast.AST, statement: int | None) -> Iterator[tuple[Any, int]]:
    """Yield the nodes of functions' bodies, each with the first line of its statement.

    Annotations are left out: nothing evaluates them.
    """
    if statement is not None:
        statement = node.lineno if isinstance(node, ast.stmt) else statement
        yield node, statement
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        within = node.lineno if isinstance(node, ast.FunctionDef) and name == "body" else statement
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _evaluated(child, within)


def mutated(text: str, number: int) -> ast.Module:
    """Return the tree of a module with one site changed."""
    tree = ast.parse(text)
    list(sites(tree))[number].apply()
    return ast.fix_missing_locations(tree)
