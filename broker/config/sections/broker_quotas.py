"""AutoMQ's limits of the whole broker and of the cluster.

For broker.quotas.broker_quota, broker.control.topics and broker.quotas.retry_storm.
"""

from dataclasses import dataclass
from sys import float_info
from typing import Final

from broker.config.kinds import BOOLEAN, LONG_MAX, decimal, list_of, long
from broker.config.setting import setting

UNLIMITED: Final = float_info.max

_BYTES: Final = decimal(1, UNLIMITED)
_NAMES: Final = list_of(str, "a list of names")


@dataclass(frozen=True, slots=True)
class BrokerQuotaConfig:
    quota_enabled: bool = setting(
        "broker.quota.enabled",
        False,
        BOOLEAN,
        "Whether the `broker.quota` limits apply. They apply to all clients together, in addition to each "
        "client's own quota; the longer throttle time wins. AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    produce_bytes: float = setting(
        "broker.quota.produce.bytes",
        UNLIMITED,
        _BYTES,
        "Bytes per second of Produce requests of all clients together. AutoMQ's key.",
        unit="bytes/s",
        dynamic=True,
        ours=True,
    )
    fetch_bytes: float = setting(
        "broker.quota.fetch.bytes",
        UNLIMITED,
        _BYTES,
        "Bytes per second of Fetch responses to all clients together. AutoMQ's key.",
        unit="bytes/s",
        dynamic=True,
        ours=True,
    )
    slow_fetch_bytes: float = setting(
        "broker.quota.slow.fetch.bytes",
        UNLIMITED,
        _BYTES,
        "Bytes per second of Fetch responses with records outside the page cache; these also count for "
        "`broker.quota.fetch.bytes`. If the file system cannot report this, records outside a partition's "
        "active segment count. AutoMQ's key, where a slow fetch is one that its caches cannot serve.",
        unit="bytes/s",
        dynamic=True,
        ours=True,
    )
    request_rate: float = setting(
        "broker.quota.request.rate",
        UNLIMITED,
        decimal(0.01, UNLIMITED),
        "Produce and Fetch requests per second of all clients together. AutoMQ's key.",
        unit="requests/s",
        dynamic=True,
        ours=True,
    )
    white_list_users: tuple[str, ...] = setting(
        "broker.quota.white.list.user",
        (),
        _NAMES,
        "Users that the `broker.quota` limits do not count or throttle. AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    white_list_client_ids: tuple[str, ...] = setting(
        "broker.quota.white.list.client.id",
        (),
        _NAMES,
        "Client ids that the `broker.quota` limits do not count or throttle, in addition to all that start "
        "with `__automq_client_`. AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    white_list_listeners: tuple[str, ...] = setting(
        "broker.quota.white.list.listener",
        (),
        _NAMES,
        "Listeners whose clients the `broker.quota` limits do not count or throttle. AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    topic_count: int = setting(
        "cluster.quota.topic.count",
        LONG_MAX,
        long(0),
        "Maximum number of topics, including internal ones. The broker refuses further topics, created by "
        "request or automatically. AutoMQ's key.",
        unit="topics",
        dynamic=True,
        ours=True,
    )
    partition_count: int = setting(
        "cluster.quota.partition.count",
        LONG_MAX,
        long(0),
        "Maximum number of partitions of all topics, including internal ones. AutoMQ's key.",
        unit="partitions",
        dynamic=True,
        ours=True,
    )
    retry_storm_backoff: bool = setting(
        "automq.retry.storm.backoff.enabled",
        False,
        BOOLEAN,
        "Whether the broker delays the response to a client that repeats a failing request at once: see "
        "[quotas.md](quotas.md). AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    retry_storm_max_delay_ms: int = setting(
        "automq.retry.storm.backoff.max.delay.ms",
        1_000,
        long(0, 10_000),
        "The length of this delay; 0: none. AutoMQ's key.",
        unit="ms",
        dynamic=True,
        ours=True,
    )
