"""Every key that is marked dynamic has a test that shows its change take effect."""

import ast

from broker.config.table import SETTINGS
from tests.conventions.sources import Module, modules


def keys_with_tests(tests: list[Module]) -> set[str]:
    """Return the keys in the decorators `@takes_effect("key", ...)` of tests."""
    return {
        argument.value
        for module in tests
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "takes_effect"
        for argument in mark.args
        if isinstance(argument, ast.Constant)
    }


def test_every_dynamic_setting_and_no_other_has_a_test() -> None:
    dynamic = {key for key, setting in SETTINGS.items() if setting.dynamic}
    assert keys_with_tests([module for module in modules() if module.name.startswith("tests/")]) == dynamic


def test_a_setting_for_one_broker_is_dynamic() -> None:
    assert [key for key, setting in SETTINGS.items() if setting.per_broker and not setting.dynamic] == []
