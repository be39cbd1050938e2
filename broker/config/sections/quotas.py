"""Quotas of clients, of the whole broker and of the cluster; retry storms; replication throttles. For
broker.quotas.

The quotas of clients themselves are metadata; topics set the throttled replicas.
"""

from dataclasses import dataclass
from sys import float_info
from typing import Any, Final

from broker.config.kinds import (
    BOOLEAN,
    CLASS,
    INT_MAX,
    LONG_MAX,
    ConfigKind,
    ConfigType,
    decimal,
    integer,
    list_of,
    long,
    one_of,
)
from broker.config.setting import Setting


@dataclass(frozen=True, slots=True)
class QuotaConfig:
    """The measurement of client quotas."""

    window_num: int = Setting("quota.window.num", 11, integer(1)).described(
        "Number of samples over which a client's rate is measured."
    )
    window_size_seconds: int = Setting("quota.window.size.seconds", 1, integer(1), "s").described(
        "Length of one sample."
    )
    controller_window_num: int = Setting("controller.quota.window.num", 11, integer(1)).described(
        "Number of samples whose quota of controller mutations a client can accumulate."
    )
    controller_window_size_seconds: int = Setting(
        "controller.quota.window.size.seconds", 1, integer(1), "s"
    ).described("Length of one of these samples.")
    scope: str = Setting(
        "quota.scope", "gateway", one_of("broker", "gateway", "cluster"), ours=True
    ).described(
        "Where each client quota holds, for `weir gateway`: `broker`: at each upstream broker by itself, "
        "through one gateway, as Kafka's own quotas do; `gateway`: at all upstream brokers together, through "
        "one gateway; `cluster`: through all gateways of the cluster, which share each quota and have the "
        "same rules ([quotas.md](quotas.md#where-a-limit-holds)). Connection quotas hold at each gateway, "
        "with `cluster` for all of them. A broker of `weir serve` is always by itself, whatever is set."
    )
    callback_class: str = Setting("client.quota.callback.class", "", CLASS, null_default=True).described(
        "A Python class, `package.module:Class`, that replaces the rules: it decides which clients share a "
        "quota and the limit (KIP-257, [quota-callback.md](quota-callback.md)). It receives all keys, "
        "including unknown ones."
    )
    metrics_max_entities: int = Setting(
        "quota.metrics.max.entities", 1_000, integer(0), dynamic=True, ours=True
    ).described(
        "Maximum number of entities with their own series on /metrics, for each kind of quota: those with "
        "the highest usage."
    )
    bandwidth_algorithm: str = Setting(
        "quota.bandwidth.algorithm", "paced", one_of("paced", "rate", "token_bucket"), ours=True
    ).described(
        "How the broker limits a client above its byte rate: `rate` is Kafka's rule, which admits ten "
        "seconds of quota in one burst and then throttles; `paced` has the same first throttle and then "
        "spreads requests evenly; `token_bucket` admits quota.bandwidth.burst.seconds of quota above the "
        "rate. Connection rates, request time and replication rates are kept exactly, except with `rate`, "
        "which is Kafka's for them too."
    )
    bandwidth_burst_seconds: float = Setting(
        "quota.bandwidth.burst.seconds", 1.0, decimal(0.1, 3600), "s", ours=True
    ).described(
        "Seconds of quota that a client can send at once if quota.bandwidth.algorithm is token_bucket."
    )
    max_throttle_ms: int = Setting(
        "quota.max.throttle.ms", -1, long(-1), "ms", dynamic=True, ours=True
    ).described("Maximum time that a byte-rate quota mutes a connection at once; -1: unlimited.")

    usage_persistence: bool = Setting("quota.usage.persistence.enable", True, BOOLEAN, ours=True).described(
        "Whether the usage and the debts of clients survive a restart: they are saved in the first of "
        "log.dirs, in `weir-quota-usage`, every second and when the server stops."
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

    quota_enabled: bool = Setting("broker.quota.enabled", False, BOOLEAN, dynamic=True, ours=True).described(
        "Whether the `broker.quota` limits apply. They apply to all clients together, in addition to each "
        "client's own quota; the longer throttle time wins. AutoMQ's key."
    )
    produce_bytes: float = Setting(
        "broker.quota.produce.bytes", UNLIMITED, _BYTES, "bytes/s", dynamic=True, ours=True
    ).described("Bytes per second of Produce requests of all clients together. AutoMQ's key.")
    fetch_bytes: float = Setting(
        "broker.quota.fetch.bytes", UNLIMITED, _BYTES, "bytes/s", dynamic=True, ours=True
    ).described("Bytes per second of Fetch responses to all clients together. AutoMQ's key.")
    slow_fetch_bytes: float = Setting(
        "broker.quota.slow.fetch.bytes", UNLIMITED, _BYTES, "bytes/s", dynamic=True, ours=True
    ).described(
        "Bytes per second of Fetch responses with records outside the page cache; these also count for "
        "`broker.quota.fetch.bytes`. If the file system cannot report this, records outside a partition's "
        "active segment count. AutoMQ's key, where a slow fetch is one that its caches cannot serve."
    )
    request_rate: float = Setting(
        "broker.quota.request.rate",
        UNLIMITED,
        decimal(0.01, UNLIMITED),
        "requests/s",
        dynamic=True,
        ours=True,
    ).described("Produce and Fetch requests per second of all clients together. AutoMQ's key.")
    white_list_users: tuple[str, ...] = Setting(
        "broker.quota.white.list.user", (), _NAMES, dynamic=True, ours=True
    ).described("Users that the `broker.quota` limits do not count or throttle. AutoMQ's key.")
    white_list_client_ids: tuple[str, ...] = Setting(
        "broker.quota.white.list.client.id", (), _NAMES, dynamic=True, ours=True
    ).described(
        "Client ids that the `broker.quota` limits do not count or throttle, in addition to all that start "
        "with `__automq_client_`. AutoMQ's key."
    )
    white_list_listeners: tuple[str, ...] = Setting(
        "broker.quota.white.list.listener", (), _NAMES, dynamic=True, ours=True
    ).described("Listeners whose clients the `broker.quota` limits do not count or throttle. AutoMQ's key.")
    topic_count: int = Setting(
        "cluster.quota.topic.count", LONG_MAX, long(0), "topics", dynamic=True, ours=True
    ).described(
        "Maximum number of topics, including internal ones. The broker refuses further topics, created by "
        "request or automatically. AutoMQ's key."
    )
    partition_count: int = Setting(
        "cluster.quota.partition.count", LONG_MAX, long(0), "partitions", dynamic=True, ours=True
    ).described("Maximum number of partitions of all topics, including internal ones. AutoMQ's key.")
    retry_storm_backoff: bool = Setting(
        "automq.retry.storm.backoff.enabled", False, BOOLEAN, dynamic=True, ours=True
    ).described(
        "Whether the broker delays the response to a client that repeats a failing request at once: see "
        "[quotas.md](quotas.md). AutoMQ's key."
    )
    retry_storm_max_delay_ms: int = Setting(
        "automq.retry.storm.backoff.max.delay.ms", 1_000, long(0, 10_000), "ms", dynamic=True, ours=True
    ).described("The length of this delay; 0: none. AutoMQ's key.")


ALL_REPLICAS: Final = "*"

_FOLLOWS_NONE: Final = "this broker does not replicate from other brokers"


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """The rates of replication throttles. In Kafka they are dynamic only; here, the file can set them too."""

    leader_rate: int = Setting(
        "leader.replication.throttled.rate", LONG_MAX, long(0), "bytes/s", dynamic=True
    ).described(
        "Maximum rate at which replicas read from this broker, over all partitions in "
        "leader.replication.throttled.replicas of their topics."
    )
    follower_rate: int = Setting(
        "follower.replication.throttled.rate", LONG_MAX, long(0), "bytes/s", dynamic=True, inert=_FOLLOWS_NONE
    ).described(
        "Maximum rate at which this broker reads from other brokers, over all partitions in "
        "follower.replication.throttled.replicas of their topics."
    )
    alter_log_dirs_rate: int = Setting(
        "replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, long(0), "bytes/s", dynamic=True
    ).described("Maximum rate of all moves of partitions between directories of log.dirs.")
    window_num: int = Setting("replication.quota.window.num", 11, integer(1)).described(
        "Number of samples over which the two replication rates are measured."
    )
    window_size_seconds: int = Setting("replication.quota.window.size.seconds", 1, integer(1), "s").described(
        "Length of one of these samples."
    )
    alter_log_dirs_window_num: int = Setting(
        "alter.log.dirs.replication.quota.window.num", 11, integer(1)
    ).described("Number of samples over which the rate of moves between directories is measured.")
    alter_log_dirs_window_size_seconds: int = Setting(
        "alter.log.dirs.replication.quota.window.size.seconds", 1, integer(1), "s"
    ).described("Length of one of these samples.")


def _read_replicas(text: str) -> Any:
    """Parse `*`, or (partition, broker) pairs; trailing empty items are allowed.

    (Kafka: ThrottledReplicaListValidator)
    """
    items = [item.strip() for item in text.split(",")]
    if items == [ALL_REPLICAS]:
        return ALL_REPLICAS
    while items and not items[-1]:
        items.pop()
    return tuple(_read_replica(item) for item in items)


def _read_replica(text: str) -> tuple[int, int]:
    partition, colon, broker = text.partition(":")
    if not (colon and text.isascii() and partition.isdigit() and broker.isdigit() and len(text) <= 40):
        raise ValueError("not a partition and a broker")
    if int(partition) > INT_MAX or int(broker) > INT_MAX:
        raise ValueError("out of range")
    return int(partition), int(broker)


def _write_replicas(value: Any) -> str:
    return (
        value if value == ALL_REPLICAS else ",".join(f"{partition}:{broker}" for partition, broker in value)
    )


THROTTLED_REPLICAS: Final = ConfigKind(
    ConfigType.LIST,
    "the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    _read_replicas,
    _write_replicas,
    separator=",",
)


@dataclass(frozen=True, slots=True)
class TopicThrottles:
    """Topic-only keys: which replicas the rates above apply to."""

    leader: Any = Setting(  # noqa: RUF009 - a field, typed for what `*` and pairs share
        "leader.replication.throttled.replicas",
        (),
        THROTTLED_REPLICAS,
        topic_key="leader.replication.throttled.replicas",
    ).described("The replicas that are throttled on the leader's side, as partition:broker, or * for all.")
    follower: Any = Setting(  # noqa: RUF009
        "follower.replication.throttled.replicas",
        (),
        THROTTLED_REPLICAS,
        topic_key="follower.replication.throttled.replicas",
        inert=_FOLLOWS_NONE,
    ).described("The replicas that are throttled on the follower's side, as partition:broker, or * for all.")
