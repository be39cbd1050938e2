"""A name in a path is one segment, whatever a browser does with the path."""

from urllib.parse import quote, unquote, urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webui.path_names import path_name, unescaped


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("queues", "queues"),
        (".", "~2e"),
        ("..", "~2e~2e"),
        ("...", "..."),
        ("a..b", "a..b"),
        ("a/../b", "a~2f..~2fb"),
        ("~2e", "~7e2e"),
        ("a b%ä", "a b%ä"),
    ],
)
def test_only_what_would_be_misread_is_escaped(name: str, segment: str) -> None:
    assert path_name(name) == segment and unescaped(segment) == name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_name_comes_back_as_one_segment(name: str) -> None:
    segment = quote(path_name(name), safe="")
    assert unescaped(unquote(segment)) == name
    assert urljoin("http://weir/a/b", f"/names/{segment}") == f"http://weir/names/{segment}"


@pytest.mark.parametrize(
    ("segment", "name"), [("~", "~"), ("~2", "~2"), ("~g0", "~g0"), ("~2E", "."), ("~C3~a4", "ä")]
)
def test_other_tildes_stand_for_themselves_and_digits_are_of_either_case(segment: str, name: str) -> None:
    assert unescaped(segment) == name


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        unescaped("~ff")
