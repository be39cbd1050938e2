"""The settings of a subscription, and the clients that it matches. (Kafka: ClientMetricsConfigsTest)

Patterns match whole texts, in linear time.
"""

import time

import pytest

from broker.errors import ApiError, ErrorCode
from broker.telemetry.subscription import MATCH_KEYS, compile_pattern, read_subscription

JAVA = {
    "client_instance_id": "Xy3Kfg4SQv-AnJf5TKsQ2A",
    "client_id": "orders-7",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.1.0",
    "client_source_address": "10.0.0.7",
    "client_source_port": "50123",
}


def refusal(name: str = "s", **configs: str) -> tuple[ErrorCode, str | None]:
    with pytest.raises(ApiError) as caught:
        read_subscription(name, {key.replace("_", "."): text for key, text in configs.items()})
    return caught.value.code, caught.value.message


def matches(match: str, facts: dict[str, str | None] | dict[str, str] = JAVA) -> bool:
    return read_subscription("s", {"match": match}).matches(facts)


def test_nothing_said_is_no_metrics_every_five_minutes_for_everybody() -> None:
    subscription = read_subscription("s", {})
    assert (subscription.metrics, subscription.interval_ms) == (frozenset(), 300_000)
    assert subscription.matches(JAVA)


def test_lists_are_trimmed_and_may_be_empty() -> None:
    subscription = read_subscription("s", {"metrics": " org.a. , org.b.,org.a. ", "match": ""})
    assert subscription.metrics == {"org.a.", "org.b."}
    assert subscription.match == ()


@pytest.mark.parametrize("interval", [100, 101, 3_599_999, 3_600_000])
def test_an_interval_within_the_bounds_is_taken(interval: int) -> None:
    assert read_subscription("s", {"interval.ms": str(interval)}).interval_ms == interval


@pytest.mark.parametrize("interval", [99, 3_600_001, 0, -1])
def test_an_interval_beyond_the_bounds_is_refused_and_not_clamped(interval: int) -> None:
    assert refusal(interval_ms=str(interval)) == (
        ErrorCode.INVALID_REQUEST,
        f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
    )


def test_other_bad_input_is_named() -> None:
    assert refusal("", interval_ms="100") == (ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    assert refusal(interval="100") == (
        ErrorCode.INVALID_REQUEST,
        "Unknown client metrics configuration: interval",
    )
    code, words = refusal(interval_ms="soon")
    assert code is ErrorCode.INVALID_CONFIG and "Invalid value soon for configuration interval.ms" in str(
        words
    )
    assert refusal(metrics="a,,b")[0] is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "item",
    [
        "client_id",
        "client_id=",
        "=a",
        "",
        " = ",
        "client_id=a=b",
        "principal=a",
        "Client_id=a",
        "client_id=(",
    ],
)
def test_a_pattern_that_is_none_is_refused(item: str) -> None:
    code, words = refusal(match=f"client_software_name=.*,{item}")
    assert code is ErrorCode.INVALID_CONFIG
    assert item == "" or f"Illegal client matching pattern: {item.strip()} (" in str(words)


@pytest.mark.parametrize("key", MATCH_KEYS)
def test_every_key_matches_what_it_is_named_for(key: str) -> None:
    assert matches(f"{key}={JAVA[key]}")
    assert not matches(f"{key}={JAVA[key]}.")
    assert not matches(f"{key}=.*", {**JAVA, key: None})
    assert not matches(f"{key}=.*", {other: fact for other, fact in JAVA.items() if other != key})


def test_all_must_match() -> None:
    assert matches("client_id=orders-.*, client_software_name = apache-kafka-.*")
    assert not matches("client_id=orders-.*,client_software_name=librdkafka")
    assert not matches("client_id=orders-.*,client_id=.*-8")


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
