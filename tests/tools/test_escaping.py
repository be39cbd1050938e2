"""Names chosen by clients do not control a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.tools.escaping import entity_text, escape, printable


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
def test_control_characters_are_shown_as_escapes(name: str, words: str) -> None:
    assert printable(name) == words


def test_an_entity_is_formatted_in_words() -> None:
    assert entity_text({"user": "al\x1bice", "client-id": None}) == r"user al\x1bice, default client-id"


@given(st.text())
def test_no_text_at_all_controls_a_terminal(text: str) -> None:
    made = escape(text)
    assert all(unicodedata.category(each)[0] not in "CM" for each in made)
    assert made.isprintable()
