"""Limits of Produce and Fetch for all topics. For broker.partitions and broker.api."""

from dataclasses import dataclass

from broker.config.kinds import integer
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class FetchConfig:
    max_bytes: int = setting(
        "fetch.max.bytes",
        57_671_680,
        integer(1_024),
        "Maximum bytes of records in one Fetch response; a larger first batch is sent all the same.",
        unit="bytes",
    )
    max_incremental_sessions: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        integer(0),
        "Maximum number of fetch sessions; a client without a session sends its whole list of partitions "
        "every time.",
    )
    fetch_purge_interval: int = setting(
        "fetch.purgatory.purge.interval.requests",
        1_000,
        integer(0),
        "Completed fetches that can remain in the purgatory before it is purged.",
        unit="requests",
    )
    produce_purge_interval: int = setting(
        "producer.purgatory.purge.interval.requests",
        1_000,
        integer(0),
        "Completed produces that can remain in the purgatory before it is purged; a produce waits only if "
        "flush.messages requires a flush.",
        unit="requests",
    )
    delete_records_purge_interval: int = setting(
        "delete.records.purgatory.purge.interval.requests",
        1,
        integer(0),
        "As the two above, for DeleteRecords.",
        unit="requests",
        inert="with one replica, DeleteRecords completes immediately",
    )
    share_fetch_purge_interval: int = setting(
        "share.fetch.purgatory.purge.interval.requests",
        1_000,
        integer(0),
        "As the others, for ShareFetch.",
        unit="requests",
    )
