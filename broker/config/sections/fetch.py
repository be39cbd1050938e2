"""Limits of Produce and Fetch that hold for all topics. For broker.services and broker.api."""

from dataclasses import dataclass

from broker.config.kinds import integer
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class FetchConfig:
    max_bytes: int = setting(
        "fetch.max.bytes",
        57_671_680,
        integer(1_024),
        "The most bytes of records in one Fetch answer; a first batch that is larger is sent all the same.",
        unit="bytes",
    )
    max_incremental_sessions: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        integer(0),
        "Fetch sessions that are kept; a client without one sends its whole list of partitions every time.",
    )
    fetch_purge_interval: int = setting(
        "fetch.purgatory.purge.interval.requests",
        1_000,
        integer(0),
        "Finished waiting fetches that may lie in the purgatory before it is swept.",
        unit="requests",
    )
    produce_purge_interval: int = setting(
        "producer.purgatory.purge.interval.requests",
        1_000,
        integer(0),
        "Finished waiting produces that may lie in the purgatory before it is swept; a produce waits where "
        "flush.messages makes it wait for the disk.",
        unit="requests",
    )
    delete_records_purge_interval: int = setting(
        "delete.records.purgatory.purge.interval.requests",
        1,
        integer(0),
        "As the two above, for DeleteRecords.",
        unit="requests",
        inert="with one replica the answer of DeleteRecords is known at once, and nothing waits",
    )
    share_fetch_purge_interval: int = setting(
        "share.fetch.purgatory.purge.interval.requests",
        1_000,
        integer(0),
        "As the others, for ShareFetch.",
        unit="requests",
        inert="share groups are not served, and nothing waits",
    )
