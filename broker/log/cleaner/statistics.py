"""What one pass of the cleaner did (Kafka's CleanerStats). Written by `cleaning`, read by `manager` and the
metrics.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class CleanerStats:
    """Counts of one pass: bytes read for the offset map; bytes and records read and written by the copies.

    `keyless` counts records without a key, which were removed. Times in ms; `utilization` is that of the
    offset map.
    """

    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless: int = 0
    index_ms: int = 0
    elapsed_ms: int = 0
    utilization: float = 0.0
