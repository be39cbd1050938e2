"""The statuses that a StreamsGroupHeartbeat response reports beside its error code.
(Kafka: StreamsGroupHeartbeatResponse.Status)
"""

from enum import IntEnum
from typing import NamedTuple


class StatusCode(IntEnum):
    """The numbers are those of the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(NamedTuple):
    code: StatusCode
    detail: str
