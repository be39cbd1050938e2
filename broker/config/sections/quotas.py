"""Quotas of clients, of the whole broker and of the cluster; retry storms. For broker.quotas.

The quotas of clients themselves are metadata.
"""

from dataclasses import dataclass
from sys import float_info
from typing import Final

from broker.config.kinds import BOOLEAN, CLASS, LONG_MAX, decimal, integer, list_of, long, one_of
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class QuotaConfig:
    """The measurement of client quotas."""

    window_num: int = setting(
        "quota.window.num",
        11,
        integer(1),
        "Number of samples over which a client's rate is measured.",
    )
    window_size_seconds: int = setting(
        "quota.window.size.seconds",
        1,
        integer(1),
        "Length of one sample.",
        unit="s",
    )
    controller_window_num: int = setting(
        "controller.quota.window.num",
        11,
        integer(1),
        "Number of samples whose quota of controller mutations a client can accumulate.",
    )
    controller_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds",
        1,
        integer(1),
        "Length of one of these samples.",
        unit="s",
    )
    scope: str = setting(
        "quota.scope",
        "gateway",
        one_of("broker", "gateway", "cluster"),
        "Where each client quota holds, for `weir gateway`: `broker`: at each upstream broker by itself, "
        "through one gateway, as Kafka's own quotas do; `gateway`: at all upstream brokers together, through "
        "one gateway; `cluster`: through all gateways of the cluster, which share each quota and have the "
        "same rules ([quotas.md](quotas.md#where-a-limit-holds)). With `cluster`, request percentages hold "
        "at each gateway; connection quotas always do. A broker of `weir serve` is always by itself, "
        "whatever is set.",
        ours=True,
    )
    callback_class: str = setting(
        "client.quota.callback.class",
        "",
        CLASS,
        "A Python class, `package.module:Class`, that replaces the rules: it decides which clients share a "
        "quota and the limit (KIP-257, [quota-callback.md](quota-callback.md)). It receives all keys, "
        "including unknown ones.",
        null_default=True,
    )
    metrics_max_entities: int = setting(
        "quota.metrics.max.entities",
        1_000,
        integer(0),
        "Maximum number of entities with their own series on /metrics, for each kind of quota: those with "
        "the highest usage.",
        dynamic=True,
        ours=True,
    )
    bandwidth_algorithm: str = setting(
        "quota.bandwidth.algorithm",
        "paced",
        one_of("paced", "rate", "token_bucket"),
        "How the broker limits a client above its byte rate: `rate` is Kafka's rule, which admits ten "
        "seconds of quota in one burst and then throttles; `paced` has the same first throttle and then "
        "spreads requests evenly; `token_bucket` admits quota.bandwidth.burst.seconds of quota above the "
        "rate. Connection rates, request time and replication rates are kept exactly, except with `rate`, "
        "which is Kafka's for them too.",
        ours=True,
    )
    bandwidth_burst_seconds: float = setting(
        "quota.bandwidth.burst.seconds",
        1.0,
        decimal(0.1, 3600),
        "Seconds of quota that a client can send at once if quota.bandwidth.algorithm is token_bucket.",
        unit="s",
        ours=True,
    )
    max_throttle_ms: int = setting(
        "quota.max.throttle.ms",
        -1,
        long(-1),
        "Maximum time that a byte-rate quota mutes a connection at once; -1: unlimited.",
        unit="ms",
        dynamic=True,
        ours=True,
    )

    usage_persistence: bool = setting(
        "quota.usage.persistence.enable",
        True,
        BOOLEAN,
        "Whether the usage and the debts of clients survive a restart: they are saved in the first of "
        "log.dirs, in `weir-quota-usage`, every second and when the server stops.",
        ours=True,
    )

    @property
    def longest_throttle_ms(self) -> int | None:
        """Return the maximum throttle time; None: unlimited."""
        return None if self.max_throttle_ms < 0 else self.max_throttle_ms

    @property
    def burst_ms(self) -> int | None:
        """Return the capacity of a bandwidth bucket, in milliseconds of its rate; None without buckets."""
        return (
            round(self.bandwidth_burst_seconds * 1000) if self.bandwidth_algorithm == "token_bucket" else None
        )


UNLIMITED: Final = float_info.max

_BYTES: Final = decimal(1, UNLIMITED)
_NAMES: Final = list_of(str, "a list of names")


@dataclass(frozen=True, slots=True)
class BrokerQuotaConfig:
    """AutoMQ's limits. For broker.quotas.broker_quota, broker.quotas.retry_storm and
    broker.controller.topics.
    """

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
