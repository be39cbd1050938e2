"""What went into one partition and out of it, for the figures of its topic. (Kafka: BrokerTopicMetrics)

Held by PartitionLog and added to by whoever appends and reads; made sense of by `services.partitions`. What
the log knows anyway, how many records and bytes came in, is not counted again here.
"""


class PartitionMetrics:
    """Since the log was opened. `appends` are batches that were written, `failed_appends` those that were
    refused or could not be; `reads` were made for fetches, `failed_reads` by the broker's fault.
    """

    __slots__ = ("appends", "bytes_out", "failed_appends", "failed_reads", "reads")

    def __init__(self) -> None:
        self.appends = 0
        self.failed_appends = 0
        self.reads = 0
        self.failed_reads = 0
        self.bytes_out = 0
