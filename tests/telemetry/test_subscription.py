"""The settings of a subscription, and the clients that it matches. (Kafka: ClientMetricsConfigsTest)"""

import pytest

from broker.errors import ApiError, ErrorCode
from broker.telemetry.subscription import MATCH_KEYS, read_subscription

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
