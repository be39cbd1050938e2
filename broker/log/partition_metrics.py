"""Append and read counters of one partition. (Kafka: BrokerTopicMetrics)

A PartitionLog owns the counters; appenders and readers increment them; `services.partitions` exports them.
Records and bytes in are not counted here because the log derives them from its offsets and sizes.
"""


class PartitionMetrics:
    """Counters since the log was opened.

    `appends` counts batches written, `failed_appends` batches that were refused or could not be written,
    `reads` fetch reads, `failed_reads` fetch reads that failed through the broker's fault.
    """

    __slots__ = ("appends", "bytes_out", "failed_appends", "failed_reads", "reads")

    def __init__(self) -> None:
        self.appends = 0
        self.failed_appends = 0
        self.reads = 0
        self.failed_reads = 0
        self.bytes_out = 0
