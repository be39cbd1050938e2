"""The features of this broker: the levels that it supports, and the level that is finalized. (KIP-584)

ApiVersions returns them, and UpdateFeatures refuses every level but the finalized one.
"""

from typing import Final, NamedTuple

from broker.coordinator.transaction.ending import BUMPS_EPOCH


class Feature(NamedTuple):
    """The least level, and the highest, which is finalized."""

    least: int
    level: int


FEATURES: Final = {
    "eligible.leader.replicas.version": Feature(0, 1),
    "group.version": Feature(0, 1),
    "metadata.version": Feature(7, 27),
    "share.version": Feature(0, 1),
    "transaction.version": Feature(0, BUMPS_EPOCH),
}
"""Each with the levels of Kafka 4.1.1, whose new clusters finalize the same but for share.version.

`eligible.leader.replicas.version` 1: min.insync.replicas is a default of the whole cluster, and an only
replica stays the leader (KIP-966). `group.version` 1: consumer groups (KIP-848). `metadata.version` 27:
4.1-IV1, whose requests and settings are served. `share.version` 1: share groups (KIP-932).
`transaction.version` 2: producers get a new epoch with each transaction and add partitions by writing to them
(KIP-890).
"""

NEVER_FINALIZED: Final = frozenset({"kraft.version", "streams.version"})
"""Features of Kafka 4.1 that this broker does not support, so that their level is 0: it has neither a quorum
of controllers nor streams groups.
"""

FEATURES_EPOCH: Final = 0
"""The finalized features never change."""
