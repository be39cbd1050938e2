"""The limits of the whole broker with their use, as one row for the console."""

from collections.abc import Sequence
from typing import Final

from broker.config.kinds import LONG_MAX
from broker.config.sections import BrokerQuotaConfig
from broker.config.setting import settings_of
from broker.control.rows.quotas import (
    BrokerLimit,
    BrokerQuotas,
    ClusterLimit,
    RetryStormRow,
    RetryStormUse,
    WhiteList,
)

_SETTINGS: Final = {each.name: setting for each, setting in settings_of(BrokerQuotaConfig)}


def key_of(field: str) -> str:
    """Return the key of a field of the section."""
    return _SETTINGS[field].key


def broker_quotas(
    config: BrokerQuotaConfig,
    limits: Sequence[BrokerLimit],
    storm: RetryStormUse,
    counts: tuple[int, int],
    version: int,
) -> BrokerQuotas:
    """Return the row; `counts` are the numbers of topics and partitions."""
    topics, partitions = counts
    return BrokerQuotas(
        is_enabled=config.quota_enabled,
        limits=tuple(limits),
        white_lists=(
            WhiteList(key_of("white_list_users"), config.white_list_users),
            WhiteList(key_of("white_list_client_ids"), config.white_list_client_ids),
            WhiteList(key_of("white_list_listeners"), config.white_list_listeners),
        ),
        cluster=(
            ClusterLimit(key_of("topic_count"), _limit(config.topic_count), topics),
            ClusterLimit(key_of("partition_count"), _limit(config.partition_count), partitions),
        ),
        retry_storm=RetryStormRow(config.retry_storm_backoff, config.retry_storm_max_delay_ms, storm),
        version=version,
    )


def _limit(value: int) -> int | None:
    return None if value >= LONG_MAX else value
