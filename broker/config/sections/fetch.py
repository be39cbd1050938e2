"""Limits of Produce and Fetch for all topics. For broker.partitions and broker.api."""

from dataclasses import dataclass

from broker.config.kinds import integer
from broker.config.setting import Setting


@dataclass(frozen=True, slots=True)
class FetchConfig:
    max_bytes: int = Setting("fetch.max.bytes", 57_671_680, integer(1_024), "bytes").described(
        "Maximum bytes of records in one Fetch response; a larger first batch is sent all the same."
    )
    max_incremental_sessions: int = Setting(
        "max.incremental.fetch.session.cache.slots", 1_000, integer(0)
    ).described(
        "Maximum number of fetch sessions; a client without a session sends its whole list of partitions "
        "every time."
    )
    fetch_purge_interval: int = Setting(
        "fetch.purgatory.purge.interval.requests", 1_000, integer(0), "requests"
    ).described("Completed fetches that can remain in the purgatory before it is purged.")
    produce_purge_interval: int = Setting(
        "producer.purgatory.purge.interval.requests", 1_000, integer(0), "requests"
    ).described(
        "Completed produces that can remain in the purgatory before it is purged; a produce waits only if "
        "flush.messages requires a flush."
    )
    delete_records_purge_interval: int = Setting(
        "delete.records.purgatory.purge.interval.requests",
        1,
        integer(0),
        "requests",
        inert="with one replica, DeleteRecords completes immediately",
    ).described("As the two above, for DeleteRecords.")
    share_fetch_purge_interval: int = Setting(
        "share.fetch.purgatory.purge.interval.requests", 1_000, integer(0), "requests"
    ).described("As the others, for ShareFetch.")
