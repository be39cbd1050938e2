"""What is said to change while the broker runs is shown to: a test for every key that is marked dynamic."""

import ast

from broker.config.table import SETTINGS
from tests.conventions.sources import Module, modules


def shown(tests: list[Module]) -> set[str]:
    """The keys that stand above tests as `@takes_effect("key", ...)`."""
    return {
        argument.value
        for module in tests
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "takes_effect"
        for argument in mark.args
        if isinstance(argument, ast.Constant)
    }


def test_every_dynamic_setting_is_shown_to_take_effect_and_nothing_else_is() -> None:
    dynamic = {key for key, setting in SETTINGS.items() if setting.dynamic}
    assert shown([module for module in modules() if module.name.startswith("tests/")]) == dynamic


def test_only_a_dynamic_setting_can_be_for_one_broker_only() -> None:
    assert [key for key, setting in SETTINGS.items() if setting.per_broker and not setting.dynamic] == []
