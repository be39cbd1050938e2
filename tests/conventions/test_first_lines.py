"""Every file says first what it is, who calls it and what it refuses to know."""

import ast

from tests.conventions.sources import modules


def test_every_module_begins_with_a_docstring() -> None:
    assert [m.name for m in modules() if m.text and not ast.get_docstring(m.tree)] == []


def test_nothing_stands_before_the_docstring() -> None:
    late = [m.name for m in modules() if m.tree.body and m.tree.body[0].lineno > 1]
    assert late == []


def test_the_first_file_of_the_broker_is_only_a_tour() -> None:
    (tour,) = [m for m in modules() if m.name == "broker/__init__.py"]
    assert len(tour.tree.body) == 1
