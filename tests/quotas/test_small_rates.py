"""Warnings about small rates stand where they are true: with Kafka's rule, of connections and replication."""

import pytest

from broker.quotas.small_rates import small_rate_warnings

LEADER = "leader.replication.throttled.rate"
FOLDERS = "replica.alter.log.dirs.io.max.bytes.per.second"
CONNECTIONS = "connection_creation_rate"


@pytest.mark.parametrize(
    ("key", "value", "warned"),
    [
        (LEADER, 999_999.0, True),
        (LEADER, 1_000_000.0, False),
        (LEADER, 1_000_001.0, False),
        ("follower.replication.throttled.rate", 1.0, True),
        (FOLDERS, 999_999.0, True),
        (FOLDERS, 0.0, False),
        (CONNECTIONS, 0.5, True),
        (CONNECTIONS, 1.0, True),
        (CONNECTIONS, 2.0, False),
        (CONNECTIONS, None, False),
        ("producer_byte_rate", 1.0, False),
        ("consumer_byte_rate", 10_000.0, False),
    ],
)
def test_small_rates_are_warned_of_with_kafkas_rule(key: str, value: float | None, warned: bool) -> None:
    found = small_rate_warnings([(key, value)], "rate")
    assert [text.startswith(f"{key}=") for text in found] == [True] * warned


@pytest.mark.parametrize("algorithm", ["paced", "token_bucket"])
def test_what_counts_exactly_is_not_warned_of(algorithm: str) -> None:
    assert small_rate_warnings([(LEADER, 1.0), (CONNECTIONS, 1.0)], algorithm) == ()
