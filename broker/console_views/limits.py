"""Addresses and connection counts with their limits, and the use of the broker's own limits. For
`console_views.live`.
"""

from broker.api.retry_storm import RetryStormGate
from broker.control.rows.connections import AddressUse, ConnectionLimitRow
from broker.control.rows.quotas import BrokerLimit, RetryStormUse
from broker.metrics.quota import INT_MAX
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.kinds import QuotaKind


def address_uses(quotas: ConnectionQuotas, now_ms: int) -> list[AddressUse]:
    return [
        AddressUse(
            address,
            each.rate.observed(now_ms),
            quotas.counts.get(address, 0),
            _limit(quotas.per_ip.of(address)),
            each.accepted,
            each.delayed,
            each.refused,
        )
        for address, each in quotas.addresses
    ]


def connection_limits(server: str, quotas: ConnectionQuotas, now_ms: int) -> list[ConnectionLimitRow]:
    """Return the server's own limits first, with the refusals of all its listeners, then each listener's."""
    listeners = [
        ConnectionLimitRow(
            each.name,
            each.count,
            _limit(each.max_connections),
            each.rate.observed(now_ms),
            _limit(each.rate.bound),
            tuple(sorted(each.rejected.items())),
            server,
        )
        for each in quotas.listeners.values()
    ]
    rejected: dict[str, int] = {}
    for row in listeners:
        for rule, count in row.rejected:
            rejected[rule] = rejected.get(rule, 0) + count
    whole = ConnectionLimitRow(
        "",
        quotas.total,
        _limit(quotas.max_connections),
        quotas.rate.observed(now_ms),
        _limit(quotas.rate.bound),
        tuple(sorted(rejected.items())),
        server,
    )
    return [whole, *listeners]


def _limit(value: float) -> int | None:
    return None if value == INT_MAX else int(value)


def broker_limits(quotas: ClientQuotas, now_ms: int) -> list[BrokerLimit]:
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
        for use in quotas.broker.use(now_ms)
    ]


def retry_storm_use(gate: RetryStormGate) -> RetryStormUse:
    totals = gate.storm.totals
    return RetryStormUse(totals.delayed, totals.delayed_ms, gate.delayed.delayed)
