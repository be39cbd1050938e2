"""Transactions. For broker.coordinator.transaction."""

from dataclasses import dataclass

from broker.config.kinds import integer
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        900_000,
        integer(1),
        "The longest transaction timeout that a producer can request; a longer one is refused with "
        "INVALID_TRANSACTION_TIMEOUT.",
        unit="ms",
    )
    timeout_check_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        integer(1),
        "How often the broker aborts transactions that have exceeded their timeout.",
        unit="ms",
    )
    expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        604_800_000,
        integer(1),
        "A transactional id without an ongoing transaction is forgotten after this time without a request "
        "that changes it.",
        unit="ms",
    )
    expiry_check_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        integer(1),
        "How often the broker forgets expired transactional ids.",
        unit="ms",
    )
    topic_partitions: int = setting(
        "transaction.state.log.num.partitions",
        1,
        integer(1),
        "Partitions of __transaction_state; fixed at its creation.",
        kafka_default="50",
        why="With one broker, there is no load to distribute.",
    )
    topic_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        104_857_600,
        integer(1),
        "Segment size of __transaction_state.",
        unit="bytes",
    )
