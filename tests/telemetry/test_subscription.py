"""The settings of a subscription, and the clients that it matches. (Kafka: ClientMetricsConfigsTest)

Patterns match whole texts, in linear time.
"""

import random

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, Steps, run_through
from broker.telemetry.subscription import (
    ALL_METRICS,
    MATCH_KEYS,
    MAX_CHARACTERS,
    MAX_PATTERNS,
    MAX_PREFIXES,
    MAX_READ,
    MAX_READ_CHARACTERS,
    Effective,
    Subscription,
    effective_of,
    matching,
    read_subscription,
)

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
        run_through(read_subscription(name, {key.replace("_", "."): text for key, text in configs.items()}))
    return caught.value.code, caught.value.message


def matches(match: str, facts: dict[str, str | None] | dict[str, str] = JAVA) -> bool:
    return run_through(read_subscription("s", {"match": match})).matches(facts)


def test_the_default_subscription_has_no_metrics_every_five_minutes_for_all_clients() -> None:
    subscription = run_through(read_subscription("s", {}))
    assert (subscription.metrics, subscription.interval_ms) == (frozenset(), 300_000)
    assert subscription.matches(JAVA)


def test_lists_are_trimmed_and_may_be_empty() -> None:
    subscription = run_through(read_subscription("s", {"metrics": " org.a. , org.b.,org.a. ", "match": ""}))
    assert subscription.metrics == {"org.a.", "org.b."}
    assert subscription.match == ()


@pytest.mark.parametrize("interval", [100, 101, 3_599_999, 3_600_000])
def test_an_interval_within_the_bounds_is_taken(interval: int) -> None:
    assert run_through(read_subscription("s", {"interval.ms": str(interval)})).interval_ms == interval


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


@pytest.mark.parametrize("count", [MAX_PATTERNS - 1, MAX_PATTERNS, MAX_PATTERNS + 1])
def test_a_subscription_has_a_limited_number_of_patterns(count: int) -> None:
    match = ",".join(f"client_id=a{number}" for number in range(count))
    if count <= MAX_PATTERNS:
        assert len(run_through(read_subscription("s", {"match": match})).match) == count
    else:
        assert refusal(match=match) == (
            ErrorCode.INVALID_CONFIG,
            f"A subscription can have at most {MAX_PATTERNS} client matching patterns",
        )


def test_a_subscription_is_read_in_steps_of_a_pattern() -> None:
    configs = {"match": "client_id=a,client_id=b,client_id=c", "metrics": "*"}
    assert pauses(read_subscription("s", configs)) == 2 + 3


# Many subscriptions


def pauses(steps: Steps[object]) -> int:
    return sum(1 for _ in steps)


@pytest.mark.parametrize("count", [0, 1, 129])
@pytest.mark.parametrize("match", ["", "client_id=orders-.+", "client_id=payments"])
def test_one_subscription_is_matched_between_two_pauses(count: int, match: str) -> None:
    many = [run_through(read_subscription(f"s{number}", {"match": match})) for number in range(count)]
    assert pauses(matching(many, JAVA)) == count
    assert run_through(matching(many, JAVA)) == ([] if match == "client_id=payments" else many)


def test_the_prefixes_of_one_subscription_are_added_between_two_pauses() -> None:
    one = run_through(read_subscription("s", {"metrics": ",".join(numbered(127))}))
    assert pauses(effective_of([one] * 3)) == 3 + 1 + 127, "three are added, one run is sorted"
    assert len(run_through(effective_of([one] * 3)).metrics) == 127


def subscribed(*prefixes: str) -> Subscription:
    return Subscription("s", frozenset(prefixes))


def numbered(count: int, first: int = 0) -> list[str]:
    """Prefixes of which none begins with another."""
    return [f"m{number:07}" for number in range(first, first + count)]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, 1), (SLICE, 2 + SLICE), (SLICE + 1, 3 + 2 * (SLICE + 1)), (3 * SLICE, 4 + 2 * 3 * SLICE)],
)
def test_many_prefixes_are_sorted_in_pieces(count: int, expected: int) -> None:
    """One pause follows the subscription, and others follow each sorted piece, each prefix that is merged if
    there are several pieces, and each that is compared with the one before.
    """
    one = subscribed(*numbered(count))
    assert pauses(effective_of([one])) == expected
    assert run_through(effective_of([one])).metrics == tuple(sorted(numbered(count)))


@pytest.mark.parametrize(("over", "selects_all"), [(-1, False), (0, False), (1, True)])
def test_the_prefixes_of_all_subscriptions_have_a_maximum(over: int, selects_all: bool) -> None:
    """Prefixes that subscriptions share count once."""
    half = MAX_PREFIXES // 2
    many = [
        subscribed(*numbered(half)),
        subscribed(*numbered(half)),
        subscribed(*numbered(half + over, half)),
    ]
    found = run_through(effective_of(many))
    assert (found.metrics == (ALL_METRICS,)) is found.is_over_limit is selects_all
    assert selects_all or len(found.metrics) == MAX_PREFIXES + over


@pytest.mark.parametrize(("over", "selects_all"), [(-1, False), (0, False), (1, True)])
def test_prefixes_that_others_cover_do_not_count(over: int, selects_all: bool) -> None:
    covered = [f"{each}.more" for each in numbered(MAX_PREFIXES // 2)]
    found = run_through(effective_of([subscribed(*covered), subscribed(*numbered(MAX_PREFIXES + over))]))
    assert found.is_over_limit is selects_all
    assert found.metrics == ((ALL_METRICS,) if selects_all else tuple(numbered(MAX_PREFIXES + over)))


@pytest.mark.parametrize(("over", "selects_all"), [(-1, False), (0, False), (1, True)])
def test_the_prefixes_that_are_read_have_a_maximum(over: int, selects_all: bool) -> None:
    """With those that others cover or repeat, which would take a second of processor time per million."""
    half = MAX_READ // 2
    many = [subscribed(*numbered(half - 1), "n"), subscribed(*(f"n{at:06}" for at in range(half + over)))]
    found = run_through(effective_of(many))
    assert found.is_over_limit is selects_all
    assert found.metrics == ((ALL_METRICS,) if selects_all else (*numbered(half - 1), "n"))


@pytest.mark.parametrize(("over", "selects_all"), [(-1, False), (0, False), (1, True)])
def test_the_characters_that_are_read_have_a_maximum(over: int, selects_all: bool) -> None:
    found = run_through(effective_of([subscribed("x"), subscribed("x" * (MAX_READ_CHARACTERS - 1 + over))]))
    assert found.is_over_limit is selects_all
    assert found.metrics == ((ALL_METRICS,) if selects_all else ("x",))


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        (("org.", "org.apache.", "org.apache.kafka."), ("org.",)),
        (("org.apache.", "org", "com."), ("com.", "org")),
        (("ab", "a-", "a", "b"), ("a", "b")),
        (("abc", "abd", "ab."), ("ab.", "abc", "abd")),
        (("\u00e9.x", "\u00e9", "z"), ("z", "\u00e9")),
    ],
)
def test_a_prefix_that_begins_with_another_is_left_out(
    prefixes: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert run_through(effective_of([subscribed(each) for each in prefixes])).metrics == expected


def test_the_same_metrics_are_selected_without_what_is_covered() -> None:
    chance = random.Random(14)
    for _ in range(200):
        prefixes = [
            "".join(chance.choices("ab.", k=chance.randint(1, 5))) for _ in range(chance.randint(1, 30))
        ]
        found = run_through(effective_of([subscribed(*prefixes)])).metrics
        for _ in range(50):
            name = "".join(chance.choices("ab.", k=6))
            assert name.startswith(found) == name.startswith(tuple(prefixes))


def test_all_metrics_of_one_subscription_are_no_limit() -> None:
    many = [subscribed(*numbered(MAX_READ + 1)), subscribed(ALL_METRICS, "a")]
    assert run_through(effective_of(many)) == Effective((ALL_METRICS,))
    assert run_through(effective_of(many[::-1])) == Effective((ALL_METRICS,))


@pytest.mark.parametrize(("over", "selects_all"), [(-1, False), (0, False), (1, True)])
def test_the_characters_of_all_subscriptions_have_a_maximum(over: int, selects_all: bool) -> None:
    long = "x" * (MAX_CHARACTERS - 2 + over)
    metrics = run_through(effective_of([subscribed(long), subscribed("ab"), subscribed("ab")])).metrics
    assert metrics == ((ALL_METRICS,) if selects_all else ("ab", long))


class Unread(frozenset[str]):
    """Prefixes that are not added or counted."""

    def __len__(self) -> int:
        raise AssertionError("the prefixes are read")


def test_subscriptions_after_the_maximum_only_count_for_the_interval() -> None:
    many = [subscribed(*numbered(MAX_READ + 1)), Subscription("t", Unread(numbered(9_000)), 5_000)]
    assert run_through(effective_of(many)) == Effective((ALL_METRICS,), 5_000, is_over_limit=True)
    assert pauses(effective_of(many)) == len(many), "nothing is sorted"


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ((), 300_000),
        ((299_999,), 299_999),
        ((300_000,), 300_000),
        ((300_001,), 300_001),
        ((3_600_000,), 3_600_000),
        ((3_600_000, 600_000), 600_000),
    ],
)
def test_the_shortest_interval_holds_and_the_default_only_without_any(
    intervals: tuple[int, ...], expected: int
) -> None:
    found = [run_through(read_subscription(f"s{each}", {"interval.ms": str(each)})) for each in intervals]
    assert run_through(effective_of(found)).interval_ms == expected
