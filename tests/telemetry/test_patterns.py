"""Patterns match whole texts, in linear time."""

import time

import pytest

from broker.telemetry.patterns import compile_pattern


def test_the_whole_text_must_match() -> None:
    pattern = compile_pattern("b")
    assert pattern.fullmatch("b")
    assert not pattern.fullmatch("abc") and not pattern.fullmatch("b\n")


def test_texts_of_every_script_are_matched_by_character() -> None:
    assert compile_pattern("日.語").fullmatch("日本語")


@pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(.*a){12}", "(a|a?)+"])
def test_patterns_that_stop_others_for_years_answer_at_once(text: str) -> None:
    """Java's engine and Python's need more than 2^60 steps for the first of these."""
    pattern = compile_pattern(text)
    began = time.process_time()
    assert not pattern.fullmatch("a" * 30_000 + "!")
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "missing )"),
        ("*", "no argument for repetition operator"),
        ("[z-a]", "invalid character class range"),
        ("(?=a)b", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("((a{99}){99}){99}", "invalid repetition size"),
    ],
)
def test_what_is_no_pattern_is_refused_in_words(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".*" + why.replace(")", r"\)")):
        compile_pattern(text)


def test_a_pattern_that_would_take_up_too_much_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        compile_pattern("(\\pL{500}){2}|" * 20 + "x")
