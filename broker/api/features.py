"""The features of this broker, which are finalized at the highest level it supports. (KIP-584)

ApiVersions tells them, and UpdateFeatures refuses other levels.
"""

from typing import Final

from broker.transactions.ending import BUMPS_EPOCH

CONSUMER_GROUPS: Final = 1
"""The level of group.version."""

SHARE_GROUPS: Final = 1
"""The level of share.version."""

FEATURES: Final = {
    "group.version": CONSUMER_GROUPS,
    "share.version": SHARE_GROUPS,
    "transaction.version": BUMPS_EPOCH,
}
"""The level of each feature. With group.version 1, consumer groups exist (KIP-848), with share.version 1
share groups (KIP-932); with transaction.version 2, producers get a new epoch with each transaction and add
partitions by writing to them.
"""

FEATURES_EPOCH: Final = 0
"""The finalized features never change."""
