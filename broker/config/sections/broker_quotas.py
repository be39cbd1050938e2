"""AutoMQ's limits of the whole broker and of the cluster. For broker.quotas.broker_quota,
broker.control.cluster_quota and broker.quotas.retry_storm.
"""

from dataclasses import dataclass
from sys import float_info
from typing import Final

from broker.config.kinds import BOOLEAN, LONG_MAX, decimal, list_of, long
from broker.config.setting import setting

UNLIMITED: Final = float_info.max

_BYTES: Final = decimal(1, UNLIMITED)
_NAMES: Final = list_of(str, "names between commas")


@dataclass(frozen=True, slots=True)
class BrokerQuotaConfig:
    quota_enabled: bool = setting(
        "broker.quota.enabled",
        False,
        BOOLEAN,
        "Whether the `broker.quota` limits hold. They are for all clients together, beside each client's "
        "own quota; the longer throttle counts. AutoMQ's key.",
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
        "Bytes per second of those Fetch responses whose records are not all in the page cache; they count "
        "for `broker.quota.fetch.bytes` too. Where the file system cannot tell, records that are not in a "
        "partition's active segment count as such. AutoMQ's key, for which a fetch is slow that its caches "
        "cannot answer.",
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
        "Users whom the `broker.quota` limits neither count nor throttle. AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    white_list_client_ids: tuple[str, ...] = setting(
        "broker.quota.white.list.client.id",
        (),
        _NAMES,
        "Client ids that the `broker.quota` limits neither count nor throttle; those that begin with "
        "`__automq_client_` never are. AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    white_list_listeners: tuple[str, ...] = setting(
        "broker.quota.white.list.listener",
        (),
        _NAMES,
        "Listeners whose clients the `broker.quota` limits neither count nor throttle. AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    topic_count: int = setting(
        "cluster.quota.topic.count",
        LONG_MAX,
        long(0),
        "The most topics that there may be, internal ones included. A topic beyond is refused, be it created "
        "by request or automatically. AutoMQ's key.",
        unit="topics",
        dynamic=True,
        ours=True,
    )
    partition_count: int = setting(
        "cluster.quota.partition.count",
        LONG_MAX,
        long(0),
        "The most partitions that all topics together may have, internal ones included. AutoMQ's key.",
        unit="partitions",
        dynamic=True,
        ours=True,
    )
    retry_storm_backoff: bool = setting(
        "automq.retry.storm.backoff.enabled",
        False,
        BOOLEAN,
        "Whether a client that meets the same error again at once is answered later: see "
        "[quotas.md](quotas.md). AutoMQ's key.",
        dynamic=True,
        ours=True,
    )
    retry_storm_max_delay_ms: int = setting(
        "automq.retry.storm.backoff.max.delay.ms",
        1_000,
        long(0, 10_000),
        "How much later; 0: not at all. AutoMQ's key.",
        unit="ms",
        dynamic=True,
        ours=True,
    )
