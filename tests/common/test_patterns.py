"""What a regular expression of a client may cost, before it is compiled, in memory, and for each text."""

import time

import pytest

from broker.common.patterns import MAX_COST, MAX_PROGRAM, MAX_WORK, Pattern, compiled, cost_of


def test_the_whole_text_must_match() -> None:
    pattern = Pattern("b")
    assert pattern.fullmatch("b")
    assert not pattern.fullmatch("abc") and not pattern.fullmatch("b\n")


def test_texts_of_every_script_are_matched_by_character() -> None:
    assert Pattern("日.語").fullmatch("日本語")


@pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(.*a){12}", "(a|a?)+"])
def test_patterns_that_stop_others_for_years_answer_at_once(text: str) -> None:
    """Java's engine and Python's need more than 2^60 steps for the first of these."""
    pattern = Pattern(text)
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
def test_invalid_patterns_are_refused_in_words(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".*" + why.replace(")", r"\)")):
        Pattern(text)


@pytest.mark.parametrize(
    ("text", "cost"), [("", 0), ("abcde", 1), ("a*b+c?", 25), (r"\pL\PN", 801), ("[a]{2}", 151)]
)
def test_the_cost_of_an_expression_is_that_of_its_parts(text: str, cost: int) -> None:
    assert cost_of(text) == cost


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_an_expression_that_costs_more_is_refused_before_it_is_compiled(over: int) -> None:
    text = "[a]" + "a" * (5 * (MAX_COST + over - 20) - 3)
    assert cost_of(text) == MAX_COST + over
    with pytest.raises(ValueError, match="too many classes" if over > 0 else "too large"):
        Pattern(text)


@pytest.mark.parametrize(
    "text", [r"\pL" * 2_600, r"(?i:\PN)" * 900, r"[^\pL\pN]" * 800, "a?" * 4_000, "a{1000}" * 1_100]
)
def test_what_took_long_to_compile_is_refused_by_its_cost(text: str) -> None:
    with pytest.raises(ValueError, match="too many classes"):
        Pattern(text)


def test_an_expression_that_would_take_up_too_much_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        Pattern(r"(\pL{500}){2}|x")


def test_a_program_has_a_limited_length() -> None:
    around = compiled("").programsize
    fitting = "x" * (MAX_PROGRAM - around)
    assert compiled(fitting).programsize == MAX_PROGRAM
    assert compiled(fitting[1:]).programsize == MAX_PROGRAM - 1
    with pytest.raises(ValueError, match="too large"):
        Pattern(fitting + "x")


def test_a_text_that_would_take_long_to_match_does_not_match() -> None:
    pattern = Pattern("(?:a?){9}b*")
    longest = MAX_WORK // compiled("(?:a?){9}b*").programsize
    assert pattern.fullmatch("b" * (longest - 1)) and pattern.fullmatch("b" * longest)
    assert not pattern.fullmatch("b" * (longest + 1))


def test_every_pattern_matches_every_name_of_a_topic() -> None:
    assert MAX_WORK // MAX_PROGRAM >= 249
