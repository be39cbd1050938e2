"""Cohesion decides how long a file is; one of more than 800 lines holds more than one idea."""

from typing import Final

from tests.conventions.sources import ROOT, modules, other_sources

LIMIT: Final = 800


def _lines(text: str) -> int:
    return len(text.splitlines())


def test_no_module_is_longer_than_the_limit() -> None:
    too_long = {m.name: _lines(m.text) for m in modules() if not m.derived and _lines(m.text) > LIMIT}
    assert too_long == {}


def test_no_other_source_is_longer_than_the_limit() -> None:
    lengths = {
        str(path.relative_to(ROOT)): _lines(path.read_text(encoding="utf-8")) for path in other_sources()
    }
    assert {name: length for name, length in lengths.items() if length > LIMIT} == {}
