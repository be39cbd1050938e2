"""Replication throttles: rates, and the throttled replicas. For broker.quotas; topics set the replicas.

In Kafka, the rates are dynamic only; here, the file can set them too.
"""

from dataclasses import dataclass
from typing import Any, Final

from broker.config.kinds import INT_MAX, LONG_MAX, ConfigKind, ConfigType, integer, long
from broker.config.setting import Setting

ALL_REPLICAS: Final = "*"

_FOLLOWS_NONE: Final = "this broker does not replicate from other brokers"


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """Rates are in bytes per second."""

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
