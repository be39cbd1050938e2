"""A file that fits on a few screens is read; 300 lines is the habit, 400 the limit."""

import ast
from typing import Final

import pytest

from tests.house.sources import ROOT, Module, modules, other_sources

LIMIT: Final = 400
HANDLER_LIMIT: Final = 149  # one file per API key, under 150
HABIT: Final = 300
HABIT_SHARE: Final = 0.05  # so many files may lie between the habit and the limit


def _lines(text: str) -> int:
    return len(text.splitlines())


def _limit(module: Module) -> int:
    handler = module.path.parent == ROOT / "broker" / "api" and module.path.name[:1] == "a"
    return HANDLER_LIMIT if handler and module.path.name[1:3].isdigit() else LIMIT


def test_no_module_is_longer_than_its_limit() -> None:
    too_long = {m.name: _lines(m.text) for m in modules() if not m.derived and _lines(m.text) > _limit(m)}
    assert too_long == {}


def test_no_other_source_is_longer_than_the_limit() -> None:
    lengths = {
        str(path.relative_to(ROOT)): _lines(path.read_text(encoding="utf-8")) for path in other_sources()
    }
    assert {name: length for name, length in lengths.items() if length > LIMIT} == {}


def test_three_hundred_lines_is_the_habit() -> None:
    own = [m for m in modules() if not m.derived]
    long = [m.name for m in own if _lines(m.text) > HABIT]
    assert len(long) <= HABIT_SHARE * len(own), long


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("broker/api/a00_produce.py", HANDLER_LIMIT),
        ("broker/api/authorize.py", LIMIT),
        ("broker/log/a00_segment.py", LIMIT),
    ],
)
def test_only_handlers_have_the_handlers_limit(path: str, limit: int) -> None:
    assert _limit(Module(ROOT / path, "", ast.Module([], []))) == limit
