"""What Prometheus and the console read of the connection quotas, under Kafka's names. (ConnectionQuotaEntity)

Called when somebody looks. Reads the same sensors that decide; an address has a series only while it has a
sensor, and those that connect most are shown where there are too many.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import chain
from typing import Final

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample, Steps
from broker.metrics.quota import INT_MAX
from broker.metrics.top_k import AT_ONCE, largest
from broker.quotas.connections import IP_RATE, ConnectionQuotas
from broker.quotas.entity import Entity
from broker.quotas.quota_metrics import RuleUse, decayed

GROUP: Final = "kafka_server_socket_server_metrics"


Labels = tuple[tuple[str, str], ...]


def families(servers: Mapping[str, ConnectionQuotas], now_ms: int, most: int = MAX_SERIES) -> Steps:
    """A source for the metrics registry, with the `most` addresses that connect most.

    `servers` are the quotas by the name of the socket server. Where there are several, what each counts by
    itself has the label `server`; a listener belongs to one of them, so its name is enough.
    """
    labelled = [(label_of(name, servers), quotas) for name, quotas in servers.items()]
    yield FamilySamples(
        f"{GROUP}_broker_connection_accept_rate",
        "Connections accepted per second, but for a protected listener's",
        Kind.GAUGE,
        [Sample(server, quotas.rate.peek(now_ms)) for server, quotas in labelled],
    )
    listeners = [each for quotas in servers.values() for each in quotas.listeners.values()]
    measured = [(server, *each) for server, quotas in labelled for each in quotas.ips.sensors.items()]
    addresses = yield from largest(most, measured, lambda each: each[2].peek(now_ms))
    yield FamilySamples(
        f"{GROUP}_connection_accept_rate",
        "Connections accepted per second, of a listener or of an address that has a limit",
        Kind.GAUGE,
        chain(
            (Sample((("listener", each.name),), each.rate.peek(now_ms)) for each in listeners),
            (
                Sample((("ip", address), *server), sensor.peek(now_ms))
                for server, address, sensor in addresses
            ),
        ),
    )
    yield FamilySamples(
        "weir_quota_addresses_left_out",
        "Addresses that have a limit and are not on this page, since others connect more",
        Kind.GAUGE,
        [Sample((), len(measured) - len(addresses))],
    )
    yield FamilySamples(
        f"{GROUP}_connection_accept_throttle_time",
        "Mean milliseconds that accepting waited for the rate of listener or broker",
        Kind.GAUGE,
        [Sample((("listener", each.name),), decayed(each.throttle_time, now_ms)) for each in listeners],
    )
    yield FamilySamples(
        f"{GROUP}_ip_connection_accept_throttle_time",
        "Mean milliseconds for which connections of an address over its rate were held",
        Kind.GAUGE,
        [Sample((("listener", each.name),), decayed(each.ip_throttle_time, now_ms)) for each in listeners],
    )
    counts = [(server, *each) for server, quotas in labelled for each in quotas.users.counts.items()]
    yield FamilySamples(
        f"{GROUP}_user_connections",
        "Open connections of a user, as SASL or a client's certificate says",
        Kind.GAUGE,
        [
            Sample((("user", user), *server), count)
            for server, user, count in nlargest(MAX_SERIES, counts, key=lambda each: each[2])
        ],
    )
    rates = [(server, *each) for server, quotas in labelled for each in quotas.users.rates.items()]
    latest = nlargest(MAX_SERIES, rates, key=lambda each: each[2].last_record_ms)
    yield FamilySamples(
        f"{GROUP}_user_connection_creation_rate",
        "Connections per second of a user whose rate is limited",
        Kind.GAUGE,
        [Sample((("user", user), *server), sensor.observed(now_ms)) for server, user, sensor in latest],
    )
    yield FamilySamples(
        f"{GROUP}_rejected_connections_total",
        "Connections closed by a rule of the connection quotas",
        Kind.COUNTER,
        [
            Sample((("listener", each.name), ("rule", rule)), count)
            for each in listeners
            for rule, count in sorted(each.rejected.items())
        ],
    )


def label_of(name: str, servers: Collection[str]) -> Labels:
    """What tells the figures of one socket server from those of another: nothing where there is one only."""
    return (("server", name),) if len(servers) > 1 else ()


def ip_rule_use(servers: Iterable[ConnectionQuotas], now_ms: int) -> Iterator[RuleUse | None]:
    """Every rule for addresses under which somebody has connected lately, with the busiest one's rate on one
    server, as a rule binds each by itself. None between them: it has taken time.
    """
    busiest: dict[Entity, float] = {}
    measured = [(quotas, *each) for quotas in servers for each in quotas.ips.sensors.items()]
    for number, (quotas, address, sensor) in enumerate(measured):
        if number % AT_ONCE == 0:
            yield None
        if quotas.ips.rate_for(address) == INT_MAX:
            continue
        rule = quotas.ips.rule_of(address)
        busiest[rule] = max(sensor.peek(now_ms), busiest.get(rule, 0.0))
    yield from (RuleUse(rule, IP_RATE, use, 0) for rule, use in busiest.items())
