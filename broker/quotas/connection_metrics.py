"""Metrics of the connection quotas for Prometheus and the console, under Kafka's names.
(ConnectionQuotaEntity)

Computed on each scrape, from the sensors that the verdicts use. An address has a series only while it has a
sensor; where there are too many, the addresses with the highest rates are included.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import chain
from typing import Final

from broker.common.slices import nlargest_in_steps
from broker.metrics.families import MAX_SERIES, Families, Sample, counter, gauge
from broker.metrics.rate import INT_MAX
from broker.quotas.client_quotas import RuleUse
from broker.quotas.connections import IP_RATE, ConnectionQuotas
from broker.quotas.remote_use import NO_REMOTE_USE, NOTHING, RemoteUse

GROUP: Final = "kafka_server_socket_server_metrics"


Labels = tuple[tuple[str, str], ...]


def families(servers: Mapping[str, ConnectionQuotas], now_ms: int, max_series: int = MAX_SERIES) -> Families:
    """Yield the families, with the `max_series` addresses that connect most often. A source for the metrics
    registry.

    `servers` are the quotas by the name of the socket server. With several servers, values of a whole server
    have the label `server`; a listener belongs to one server, so its name is enough.
    """
    labelled = [(label_of(name, servers), quotas) for name, quotas in servers.items()]
    yield gauge(
        f"{GROUP}_broker_connection_accept_rate",
        "Connections accepted per second, except on a protected listener",
        [Sample(server, quotas.rate.peek(now_ms)) for server, quotas in labelled],
    )
    listeners = [each for quotas in servers.values() for each in quotas.listeners.values()]
    measured = [(server, *each) for server, quotas in labelled for each in quotas.ips.sensors.items()]
    addresses = yield from nlargest_in_steps(max_series, measured, lambda each: each[2].peek(now_ms))
    yield gauge(
        f"{GROUP}_connection_accept_rate",
        "Connections accepted per second, by listener or by address with a limit",
        chain(
            (Sample((("listener", each.name),), each.rate.peek(now_ms)) for each in listeners),
            (
                Sample((("ip", address), *server), sensor.peek(now_ms))
                for server, address, sensor in addresses
            ),
        ),
    )
    yield gauge(
        "weir_quota_addresses_left_out",
        "Addresses with a limit omitted from this page, since others connect more often",
        len(measured) - len(addresses),
    )
    yield gauge(
        f"{GROUP}_connection_accept_throttle_time",
        "Mean milliseconds that the acceptor waited for the rate of listener or broker",
        [
            Sample((("listener", each.name),), each.throttle_time.measure_or_zero(now_ms))
            for each in listeners
        ],
    )
    yield gauge(
        f"{GROUP}_ip_connection_accept_throttle_time",
        "Mean milliseconds for which connections of an address over its rate were delayed",
        [
            Sample((("listener", each.name),), each.ip_throttle_time.measure_or_zero(now_ms))
            for each in listeners
        ],
    )
    counts = [(server, *each) for server, quotas in labelled for each in quotas.users.counts.items()]
    yield gauge(
        f"{GROUP}_user_connections",
        "Open connections by user, identified by SASL or a client certificate",
        [
            Sample((("user", user), *server), count)
            for server, user, count in nlargest(MAX_SERIES, counts, key=lambda each: each[2])
        ],
    )
    rates = [(server, *each) for server, quotas in labelled for each in quotas.users.rates.items()]
    latest = nlargest(MAX_SERIES, rates, key=lambda each: each[2].last_record_ms)
    yield gauge(
        f"{GROUP}_user_connection_creation_rate",
        "Connections per second by user with a rate limit",
        [Sample((("user", user), *server), sensor.observed(now_ms)) for server, user, sensor in latest],
    )
    yield counter(
        f"{GROUP}_rejected_connections_total",
        "Connections closed by a connection quota",
        [
            Sample((("listener", each.name), ("rule", rule)), count)
            for each in listeners
            for rule, count in sorted(each.rejected.items())
        ],
    )


def label_of(name: str, servers: Collection[str]) -> Labels:
    """Return the label that distinguishes the metrics of several socket servers; none for a single one."""
    return (("server", name),) if len(servers) > 1 else ()


def ip_rule_use(
    servers: Iterable[ConnectionQuotas], now_ms: int, remote: RemoteUse = NO_REMOTE_USE
) -> Iterator[RuleUse | None]:
    """Yield the use of every address rule under which a client connected in the last hour, here or at another
    gateway.

    The use is the rate of the busiest address on one server of all gateways, since a rule limits each address
    by itself. None between the rules marks that time has passed.
    """
    others = remote.get(IP_RATE, NOTHING)
    busiest, only_there = dict(others.highest), dict(others.shared)
    measured = [(quotas, *each) for quotas in servers for each in quotas.ips.sensors.items()]
    for quotas, address, sensor in measured:
        yield None
        if quotas.ips.rate_for(address) == INT_MAX:
            continue
        rule = quotas.ips.rule_of(address)
        there = only_there.pop((address, None), None)
        observed = sensor.peek(now_ms) + (0.0 if there is None else there.observed)
        if rule not in busiest or observed >= busiest[rule][0]:
            busiest[rule] = observed, ""
    for there in only_there.values():
        if there.rule not in busiest or there.observed > busiest[there.rule][0]:
            busiest[there.rule] = there.observed, ""
    for rule, (observed, gateway) in busiest.items():
        yield RuleUse(rule, IP_RATE, max(observed, 0.0), 0, gateway=gateway)
