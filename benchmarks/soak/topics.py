"""Names and sizes that the soak and its client processes share."""

from typing import Final

PARTITIONS: Final = 3

IDEMPOTENT: Final = ("librdkafka", "kafka-python", "aiokafka")
SOURCE: Final = "soak-librdkafka"
COPY: Final = "soak-copied"
TRANSACTIONS: Final = "soak-transactions"
RAW: Final = "soak-raw"
TOPICS: Final = (*(f"soak-{name}" for name in IDEMPOTENT), RAW, TRANSACTIONS, COPY)
GROUPS: Final = tuple(f"readers-{name}" for name in IDEMPOTENT)
