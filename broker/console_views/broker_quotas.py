"""The use of the broker's own limits and of retry-storm back-off. For `console_views.live`."""

from broker.api.broker import Broker
from broker.control.rows.broker_quotas import BrokerLimit, RetryStormUse
from broker.quotas.kinds import QuotaKind


def broker_limits(broker: Broker, now_ms: int) -> list[BrokerLimit]:
    return [
        BrokerLimit(
            use.kind,
            use.key,
            "requests/s" if use.kind is QuotaKind.BROKER_REQUEST_RATE else "bytes/s",
            use.bound,
            use.observed,
            use.throttled,
            use.throttles,
            use.throttle_ms,
        )
        for use in broker.quotas.broker.use(now_ms)
    ]


def retry_storm_use(broker: Broker) -> RetryStormUse:
    totals = broker.retry_storm.totals
    return RetryStormUse(totals.delayed, totals.delayed_ms, broker.delayed_answers.delayed)
