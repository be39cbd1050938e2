"""Transactions. For broker.coordinator.transaction."""

from dataclasses import dataclass

from broker.config.kinds import integer
from broker.config.setting import Setting


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    max_timeout_ms: int = Setting("transaction.max.timeout.ms", 900_000, integer(1), "ms").described(
        "The longest transaction timeout that a producer can request; a longer one is refused with "
        "INVALID_TRANSACTION_TIMEOUT."
    )
    timeout_check_interval_ms: int = Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, integer(1), "ms"
    ).described("How often the broker aborts transactions that have exceeded their timeout.")
    expiration_ms: int = Setting("transactional.id.expiration.ms", 604_800_000, integer(1), "ms").described(
        "A transactional id without an ongoing transaction is forgotten after this time without a request "
        "that changes it."
    )
    expiry_check_interval_ms: int = Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, integer(1), "ms"
    ).described("How often the broker forgets expired transactional ids.")
    topic_partitions: int = Setting("transaction.state.log.num.partitions", 1, integer(1)).described(
        "Partitions of __transaction_state; fixed at its creation.",
        kafka_default="50",
        why="With one broker, there is no load to distribute.",
    )
    topic_segment_bytes: int = Setting(
        "transaction.state.log.segment.bytes", 104_857_600, integer(1), "bytes"
    ).described("Segment size of __transaction_state.")
