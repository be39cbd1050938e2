"""The log that all gateways of a cluster append to and read: a topic of the upstream cluster, one partition.

`task` and `metadata_log` use it; the upstream client implements it, and tests have one in memory.
"""

from typing import Final, NamedTuple, Protocol

METADATA_TOPIC: Final = "__weir_metadata"
SHARES_TOPIC: Final = "__weir_shares"


class LogUnavailable(Exception):  # noqa: N818 - describes the log
    """The log could not be read, or it is not known whether a record was appended."""


class RecordTooLarge(Exception):  # noqa: N818 - describes the record
    """The topic does not take so large a record; it was not appended."""


class TopicLogRecord(NamedTuple):
    """One record; `value` None removes those before it with the same key."""

    offset: int
    key: bytes
    value: bytes | None


class TopicLogPage(NamedTuple):
    """Records in the order of the log. Reading goes on at `next_offset`."""

    entries: tuple[TopicLogRecord, ...]
    next_offset: int


class TopicLog(Protocol):
    """Every reader sees the same records in the same order, and no record that a later read does not have."""

    async def append(self, key: bytes, value: bytes | None) -> None:
        """Append one record and wait until no failure of a broker can lose it. Raises LogUnavailable: the
        record is in the log, or will be, or never; and RecordTooLarge.
        """

    async def read(self, offset: int) -> TopicLogPage:
        """Return records from `offset` on; if it is below the first record, from there. Waits for a record,
        but only for some seconds. Raises LogUnavailable.
        """

    async def end(self) -> int:
        """Return an offset that is not below that of any record whose append has returned. Raises
        LogUnavailable.
        """
