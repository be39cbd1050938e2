"""A handler does not pause between the staging of its records and their commit."""

import ast

from tests.conventions.sources import modules

STAGES = "conclude"
"""It stages the records of a group, which are committed after the handler has returned."""


def pauses_after_staging(function: ast.FunctionDef) -> bool:
    """Return whether the function can pause below a call of `conclude`."""
    nodes = list(ast.walk(function))
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == STAGES]
    pauses = [node.lineno for node in nodes if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await)]
    return any(at > call.lineno for call in calls for at in pauses)


def test_no_handler_pauses_after_it_has_staged_records() -> None:
    found = [
        (module.name, node)
        for module in modules()
        if module.name.startswith("broker/api/")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef)
    ]
    staging = [(name, node) for name, node in found if f"{STAGES}(" in ast.unparse(node)]
    assert len(staging) > 5
    assert [(name, node.name) for name, node in staging if pauses_after_staging(node)] == []


def test_a_function_that_goes_on_is_found() -> None:
    good = "def good():\n    yield\n    return conclude(1)\n"
    bad = "def bad():\n    found = conclude(1)\n    yield\n    return found\n"
    found = ast.parse(good + bad).body
    assert [pauses_after_staging(node) for node in found if isinstance(node, ast.FunctionDef)] == [
        False,
        True,
    ]
