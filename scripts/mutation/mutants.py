"""What can be broken in a file: every mutant is one small change of meaning in its syntax tree."""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: Stands for what is outside of functions, in a module or in a class.
MODULE = "<outside>"
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_PAIRS = (
    "min max|minimum maximum|argmin argmax|nanmin nanmax|any all|floor ceil|sum mean|zeros ones|left right|"
    "zeros_like ones_like|amin amax|cumsum cumprod|flatnonzero argsort"
)
SWAPS = {a: b for pair in _PAIRS.split("|") for a, b in (pair.split(), reversed(pair.split()))}
ORDERS = {"sorted": "list", "reversed": "list"}
WEIGHTS = re.compile(r"weight|mass|share|lucid|shrink|count", re.I)
# Keywords whose loss changes nothing but types, speed or wording.
IDLE = {
    "dtype",
    "copy",
    "strict",
    "stacklevel",
    "progress",
    "file",
    "encoding",
    "title",
    "label",
    "name",
    "what",
}


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, of which kind, before and after, and how to make it."""

    path: str
    function: str
    line: int
    kind: str
    before: str
    after: str
    number: int  # the how-manieth such change in that function
    node: int  # the place in the walk of the tree
    variant: int

    @property
    def name(self) -> str:
        """The same whatever happens to other lines of the file."""
        nth = f" #{self.number}" if self.number else ""
        return f"{self.path}:{self.function}: {self.kind}: {self.before} -> {self.after}{nth}"

    @property
    def inside(self) -> bool:
        """Whether it stands in a function."""
        return not self.function.endswith(MODULE)

    def rank(self, seed: int) -> str:
        """A place in an order drawn by the seed, which other mutants do not change."""
        return hashlib.sha256(f"{seed}|{self.name}".encode()).hexdigest()


def mutants(path: str, text: str) -> list[Mutant]:
    """Every mutant of a source file."""
    found: list[Mutant] = []
    seen: dict[tuple[str, ...], int] = {}
    for place, (node, function) in enumerate(walk(ast.parse(text))):
        for variant, (kind, change) in enumerate(changes(node)):
            changed = change(copy.deepcopy(node))
            before, after = _shown(node), _shown(changed)
            if isinstance(changed, ast.Call) and len(changed.keywords) < len(getattr(node, "keywords", ())):
                kept = {one.arg for one in changed.keywords}
                after = f"without {next(one.arg for one in node.keywords if one.arg not in kept)}"
            key = (function, kind, before, after)
            seen[key] = seen.get(key, -1) + 1
            line = getattr(node, "lineno", 0)
            found.append(Mutant(path, function, line, kind, before, after, seen[key], place, variant))
    return found


def broken(text: str, mutant: Mutant) -> ast.Module:
    """The tree of the file with that one change."""
    tree = ast.parse(text)
    nodes = [node for node, _ in walk(tree)]
    victim = nodes[mutant.node]
    _, change = list(changes(victim))[mutant.variant]
    new = change(copy.deepcopy(victim))
    ast.copy_location(new, victim)
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is victim:
                setattr(parent, field, new)
            elif isinstance(value, list) and any(one is victim for one in value):
                value[:] = [new if one is victim else one for one in value]
    return ast.fix_missing_locations(tree)


def walk(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that may be broken, each with the function it stands in; always in the same order."""
    yield from _within(tree, (), inside=False)


def _within(node: ast.AST, scope: tuple[str, ...], inside: bool) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        scope, inside = (*scope, node.name), not isinstance(node, ast.ClassDef)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _untouched(child):
                yield child, ".".join(scope if inside else (*scope, MODULE))
                yield from _within(child, scope, inside)


def _untouched(node: ast.AST) -> bool:
    """Messages, imports, docstrings, types and our own assertions: changing them means little."""
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr | ast.Pass):
        return True
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Name) and one.id.startswith("__") for one in node.targets)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


Change = tuple[str, Callable[[ast.AST], ast.AST]]


def changes(node: ast.AST) -> Iterator[Change]:
    """The kinds of change that a node allows; each takes a copy of the node and returns what stands in its place."""
    by_type: dict[type[ast.AST], Callable[[ast.AST], Iterator[Change]]] = {
        ast.Compare: _comparison, ast.BinOp: _arithmetic, ast.BoolOp: _boolean, ast.UnaryOp: _unary,
        ast.Constant: _constant, ast.Call: _call, ast.If: _condition, ast.IfExp: _choice, ast.Expr: _statement,
        ast.AugAssign: _statement, ast.While: _condition,
    }  # fmt: skip
    kinds = by_type.get(type(node))
    if kinds is not None:
        yield from kinds(node)


def _comparison(node: ast.AST) -> Iterator[Change]:
    assert isinstance(node, ast.Compare)
    for place, operator in enumerate(node.ops):
        other = COMPARISONS[type(operator)]

        def change(one: ast.AST, place: int = place, other: type[ast.cmpop] = other) -> ast.AST:
            one.ops[place] = other()
            return one

        yield "comparison", change


def _arithmetic(node: ast.AST) -> Iterator[Change]:
    assert isinstance(node, ast.BinOp)
    other = ARITHMETIC.get(type(node.op))
    if other is not None and not _is_text(node):

        def change(one: ast.AST) -> ast.AST:
            one.op = other()
            return one

        yield "arithmetic", change
    if isinstance(node.op, ast.Mult | ast.Div):
        if WEIGHTS.search(ast.unparse(node.right)):
            yield "factor dropped", lambda one: one.left
        elif WEIGHTS.search(ast.unparse(node.left)) and isinstance(node.op, ast.Mult):
            yield "factor dropped", lambda one: one.right


def _is_text(node: ast.AST) -> bool:
    return any(isinstance(one, ast.JoinedStr) or _text(one) for one in ast.walk(node))


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _boolean(node: ast.AST) -> Iterator[Change]:
    def change(one: ast.AST) -> ast.AST:
        one.op = ast.And() if isinstance(one.op, ast.Or) else ast.Or()
        return one

    yield "and, or", change


def _unary(node: ast.AST) -> Iterator[Change]:
    assert isinstance(node, ast.UnaryOp)
    if isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield "sign or not dropped", lambda one: one.operand


def _constant(node: ast.AST) -> Iterator[Change]:
    assert isinstance(node, ast.Constant)
    value = node.value
    if isinstance(value, bool):
        yield "constant", lambda one: ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", lambda one: ast.Constant(value + 1)
    elif isinstance(value, float):
        yield "constant", lambda one: ast.Constant(2 * value if value else 1.0)
    elif isinstance(value, str) and value in SWAPS:
        yield "word", lambda one: ast.Constant(SWAPS[value])


def _call(node: ast.AST) -> Iterator[Change]:
    assert isinstance(node, ast.Call)
    function = node.func
    word = getattr(function, "id", None) or getattr(function, "attr", None)
    if word in SWAPS:

        def swap(one: ast.AST) -> ast.AST:
            setattr(one.func, "id" if isinstance(one.func, ast.Name) else "attr", SWAPS[word])
            return one

        yield "function", swap
    if isinstance(function, ast.Name) and word in ORDERS and not node.keywords and len(node.args) == 1:
        yield "order", lambda one: ast.Call(ast.Name("list", ast.Load()), one.args, [])
    if word == "sort" and len(node.args) == 1:  # np.sort(x); x.sort() is a statement that can be dropped
        yield "order", lambda one: one.args[0]
    for place, given in enumerate(node.keywords):
        if given.arg is not None and given.arg not in IDLE and not _is_text(given.value):

            def drop(one: ast.AST, place: int = place) -> ast.AST:
                del one.keywords[place]
                return one

            yield "argument not passed on", drop


def _condition(node: ast.AST) -> Iterator[Change]:
    assert isinstance(node, ast.If | ast.While)
    if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):  # those are broken themselves

        def change(one: ast.AST) -> ast.AST:
            one.test = ast.UnaryOp(ast.Not(), one.test)
            return one

        yield "condition", change


def _choice(node: ast.AST) -> Iterator[Change]:
    def change(one: ast.AST) -> ast.AST:
        one.body, one.orelse = one.orelse, one.body
        return one

    yield "choice", change


def _statement(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.AugAssign) or isinstance(getattr(node, "value", None), ast.Call):
        yield "statement dropped", lambda one: ast.Pass()


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(node.test)}"
    text = " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
    return text if len(text) <= 90 else f"{text[:60]} ... {text[-25:]}"
