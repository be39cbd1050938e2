"""Every memory channel has a capacity, and no handler swallows all errors."""

import ast
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.conventions.sources import modules

Finder = Callable[[Iterable[ast.AST]], Iterator[int]]


def unbounded_channels(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines that open a memory channel with an infinite capacity."""
    for node in nodes:
        if isinstance(node, ast.Call) and _called(node).startswith("open_memory_channel"):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(_is_infinite(part) for argument in arguments for part in ast.walk(argument)):
                yield node.lineno


def swallowed_errors(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines of handlers that catch everything and do nothing, such as suppress(Exception)."""
    for node in nodes:
        if isinstance(node, ast.ExceptHandler) and _catches_all(node.type) and all(map(_is_idle, node.body)):
            yield node.lineno
        if isinstance(node, ast.Call) and _called(node) == "suppress" and any(map(_catches_all, node.args)):
            yield node.lineno


def _called(call: ast.Call) -> str:
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_infinite(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="inf") | ast.Name(id="inf"):
            return True
        case ast.Constant(value=str(text)):
            return text.strip().lower() in {"inf", "infinity"}
        case ast.Constant(value=float(value)):
            return value == float("inf")
    return False


def _catches_all(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(map(_catches_all, caught.elts))
    return caught is None or (isinstance(caught, ast.Name) and caught.id in {"Exception", "BaseException"})


def _is_idle(statement: ast.stmt) -> bool:
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass | ast.Continue)


@pytest.mark.parametrize("find", [unbounded_channels, swallowed_errors])
def test_no_module_breaks_the_rule(find: Finder) -> None:
    assert [f"{m.name}:{line}" for m in modules() for line in find(m.nodes)] == []


@pytest.mark.parametrize(
    ("find", "source", "found"),
    [
        (unbounded_channels, "trio.open_memory_channel(math.inf)", True),
        (unbounded_channels, "trio.open_memory_channel[int](max_buffer_size=inf)", True),
        (unbounded_channels, "open_memory_channel(float('inf'))", True),
        (unbounded_channels, "open_memory_channel(1e999)", True),
        (unbounded_channels, "trio.open_memory_channel(500)", False),
        (unbounded_channels, "trio.open_memory_channel(settings.queued_max_requests)", False),
        (unbounded_channels, "trio.move_on_after(math.inf)", False),
        (swallowed_errors, "try: f()\nexcept Exception: pass", True),
        (swallowed_errors, "try: f()\nexcept: ...", True),
        (swallowed_errors, "try: f()\nexcept (OSError, BaseException): pass", True),
        (swallowed_errors, "with contextlib.suppress(Exception): f()", True),
        (swallowed_errors, "try: f()\nexcept OSError: pass", False),
        (swallowed_errors, "try: f()\nexcept Exception: logger.exception('f')", False),
        (swallowed_errors, "with suppress(OSError): f()", False),
    ],
)
def test_the_finder_finds_violations_only(find: Finder, source: str, found: bool) -> None:
    assert bool(list(find(ast.walk(ast.parse(source))))) is found
