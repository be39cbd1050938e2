"""Java's rules for .properties files, one claim each (java.util.Properties.load)."""

import pytest

from broker.common.errors import ConfigError
from broker.config.load import Property, parse


def pairs(text: str) -> list[tuple[str, str]]:
    return [(each.key, each.value) for each in parse(text)]


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("key=value", "key", "value"),
        ("key:value", "key", "value"),
        ("key value", "key", "value"),
        ("key\tvalue", "key", "value"),
        ("key = value", "key", "value"),
        ("key  :  value", "key", "value"),
        ("   key=value", "key", "value"),
        ("key=value  ", "key", "value  "),
        ("key==value", "key", "=value"),
        ("key = = value", "key", "= value"),
        ("key=a:b=c d", "key", "a:b=c d"),
        ("key", "key", ""),
        ("key=", "key", ""),
        ("=value", "", "value"),
        ("a\\=b=c", "a=b", "c"),
        ("a\\ b=c", "a b", "c"),
        ("a\\:b c", "a:b", "c"),
        ("key=a\\tb\\nc\\\\d\\qe", "key", "a\tb\nc\\dqe"),
        ("key=\\u0041\\u00e9", "key", "Aé"),
        ("key=\\ud83d\\ude00", "key", "\U0001f600"),  # a pair of surrogates, as Java writes it
        (
            "listeners=PLAINTEXT://:9092,SASL_PLAINTEXT://h:1",
            "listeners",
            "PLAINTEXT://:9092,SASL_PLAINTEXT://h:1",
        ),
    ],
)
def test_a_line_splits_into_key_and_value_as_in_java(line: str, key: str, value: str) -> None:
    assert pairs(line) == [(key, value)]


def test_comments_and_blank_lines_are_skipped_and_lines_keep_their_numbers() -> None:
    text = "# one\n\n  ! two\n \t\nkey=1\r\nother=2\rthird=3"
    assert parse(text) == [Property("key", "1", 5), Property("other", "2", 6), Property("third", "3", 7)]


def test_a_backslash_continues_a_line_and_swallows_the_indentation() -> None:
    assert pairs("jaas=one \\\n    two \\\n\tthree\nnext=1") == [("jaas", "one two three"), ("next", "1")]


def test_two_backslashes_at_the_end_are_a_backslash_and_no_continuation() -> None:
    assert pairs("path=c:\\\\\nnext=1") == [("path", "c:\\"), ("next", "1")]


def test_a_comment_is_not_continued_but_a_hash_on_a_continued_line_is_text() -> None:
    assert pairs("# comment \\\nkey=1\\\n#2") == [("key", "1#2")]


def test_a_continuation_at_the_end_of_the_file_ends_the_value() -> None:
    assert pairs("key=value\\") == [("key", "value")]
    assert pairs("key=value\\\n") == [("key", "value")]


def test_a_continued_line_of_blanks_only_is_no_assignment() -> None:
    assert pairs("\\\n \nkey=1\n\\") == [("key", "1")]


@pytest.mark.parametrize("escape", ["\\u12", "\\uxyz1", "\\u"])
def test_a_bad_unicode_escape_is_refused_with_its_line(escape: str) -> None:
    with pytest.raises(ConfigError, match="line 2"):
        parse(f"a=1\nb={escape}")


@pytest.mark.parametrize(
    "text", ["b=\\ud800", "b=\\ude00\\ud83d", "\\ud83d=b", "b=a\\ud83d\\\n  \\ude00x\\udc00"]
)
def test_half_a_character_is_refused_with_its_line(text: str) -> None:
    """It could not be sent, as a password of a map of principals has to be."""
    with pytest.raises(ConfigError, match=r"line 2: \\u=.*both surrogates"):
        parse(f"a=1\n{text}")


def test_an_empty_text_has_no_assignments() -> None:
    assert parse("") == []
