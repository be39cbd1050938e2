"""The limits of a made-up broker: read and checked as a broker does, from texts by key."""

import math
from collections.abc import Iterable, Mapping

from broker.common.errors import ConfigError
from broker.config.load import build_config
from broker.config.sections import BrokerQuotaConfig
from broker.config.setting import settings_of
from broker.config.table import read_value
from broker.controller.commands import ConfigOp
from broker.controller.rows.quotas import BrokerLimit, BrokerQuotas, RetryStormUse
from broker.controller.topics import invalid_value
from broker.quotas.broker_quota import UNLIMITED
from broker.quotas.kinds import QuotaKind
from broker.views.quota_views import broker_quotas

KEYS = frozenset(setting.key for _, setting in settings_of(BrokerQuotaConfig))


def refused_value(ops: Iterable[ConfigOp]) -> str | None:
    """What the broker says of the first value that is not allowed."""
    for op in ops:
        if op.key in KEYS and op.value is not None:
            try:
                read_value(op.key, op.value)
            except ConfigError as error:
                return invalid_value(error)
    return None


def fake_broker_quotas(
    configs: Mapping[str, str],
    use: Mapping[str, tuple[float, int, int, int]],
    topics: int,
    version: int,
) -> BrokerQuotas:
    """`use` by key: what is observed, who is throttled now, throttles in all and their milliseconds."""
    config = build_config({key: value for key, value in configs.items() if key in KEYS}).broker_quotas
    limits = (
        (QuotaKind.BROKER_PRODUCE, "broker.quota.produce.bytes", config.produce_bytes),
        (QuotaKind.BROKER_FETCH, "broker.quota.fetch.bytes", config.fetch_bytes),
        (QuotaKind.BROKER_SLOW_FETCH, "broker.quota.slow.fetch.bytes", config.slow_fetch_bytes),
        (QuotaKind.BROKER_REQUEST_RATE, "broker.quota.request.rate", config.request_rate),
    )
    return broker_quotas(
        config,
        [
            BrokerLimit(
                kind,
                key,
                "requests/s" if kind is QuotaKind.BROKER_REQUEST_RATE else "bytes/s",
                None if value >= UNLIMITED else value,
                *use.get(key, (0.0, 0, 0, 0)),
            )
            for kind, key, value in limits
        ],
        RetryStormUse(*use.get("storm", (0, 0, 0))[:3]),  # type: ignore[arg-type]
        (topics, topics * 3),
        version,
    )


LIMITS = {
    "broker.quota.enabled": "true",
    "broker.quota.produce.bytes": "50000000",
    "broker.quota.fetch.bytes": "200000000",
    "broker.quota.white.list.user": "admin,monitoring",
    "cluster.quota.topic.count": "200",
    "automq.retry.storm.backoff.enabled": "true",
}
"""What the whole broker is limited to in the simulation."""


def simulated_use(elapsed_ms: int) -> dict[str, tuple[float, int, int, int]]:
    """One of the limits is broken now and then."""
    wave = 1 + 0.3 * math.sin(elapsed_ms / 17_000)
    return {
        "broker.quota.produce.bytes": (44e6 * wave, int(44 * wave > 50), elapsed_ms // 9_000, 812),
        "broker.quota.fetch.bytes": (71e6 * wave, 0, 0, 0),
        "broker.quota.slow.fetch.bytes": (2.4e6 * wave, 0, 0, 0),
        "broker.quota.request.rate": (3_900 * wave, 0, 0, 0),
        "storm": (217, 181_400, 3, 0),
    }
