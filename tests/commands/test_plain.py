"""Names chosen by clients do not control a terminal and have the computed width."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.commands.plain import cell, in_words, shown, width


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("orders", "orders"),
        ("", '""'),
        ("two words", "two words"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("\x9b31m", r"\x9b31m"),  # CSI in one character
        ("a\nb\tc\x7f", r"a\nb\tc\x7f"),
        ("evil\u202egnp", r"evil\u202egnp"),  # changes the writing direction
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("e\u0301", r"e\u0301"),  # combines
        ("\U0001f600", r"\U0001f600"),
        ("\u05d0", r"\u05d0"),  # right-to-left text
        ("\ud800", r"\ud800"),
        ("Zürich Ελλάς", "Zürich Ελλάς"),
        ("顧客", "顧客"),
    ],
)
def test_what_could_move_anything_is_shown_as_an_escape(name: str, words: str) -> None:
    assert shown(name) == words


def test_an_entity_is_said_in_words() -> None:
    assert in_words({"user": "al\x1bice", "client-id": None}) == r"user al\x1bice, default client-id"


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("abcd", 5, "abcd "),
        ("abcd", 4, "abcd"),
        ("abcd", 3, "ab~"),
        ("abcd", 1, "~"),
        ("abcd", 0, ""),
        ("", 2, "  "),
        ("顧客x", 5, "顧客x"),
        ("顧客x", 4, "顧~ "),
        ("ab\x1bcd", 6, "ab~   "),  # half an escape would have another meaning
        ("ab\x1bc", 7, r"ab\x1bc"),
    ],
)
def test_a_cell_is_as_wide_as_it_is_to_be(text: str, room: int, expected: str) -> None:
    assert cell(text, room) == expected


def test_figures_stand_on_the_right() -> None:
    assert cell("12", 4, right=True) == "  12"


@given(st.text(), st.integers(0, 40))
def test_no_text_at_all_gets_out_of_its_cell(text: str, room: int) -> None:
    made = cell(text, room)
    assert width(made) == room
    assert all(unicodedata.category(each)[0] not in "CM" for each in made)
    assert made.isprintable()


def test_of_a_long_name_no_more_is_looked_at_than_is_shown() -> None:
    class Counted(str):
        """A name of which only the beginning may be read."""

        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("the whole of it was read")

    assert cell(Counted("x" * 1_000_000), 4) == "xxx~"
