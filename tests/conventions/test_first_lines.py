"""Every module begins with a docstring."""

import ast

from tests.conventions.sources import modules


def test_every_module_begins_with_a_docstring() -> None:
    assert [m.name for m in modules() if m.text and not ast.get_docstring(m.tree)] == []


def test_the_docstring_is_the_first_line() -> None:
    late = [m.name for m in modules() if m.tree.body and m.tree.body[0].lineno > 1]
    assert late == []


def test_the_brokers_package_file_is_only_a_docstring() -> None:
    (tour,) = [m for m in modules() if m.name == "broker/__init__.py"]
    assert len(tour.tree.body) == 1
