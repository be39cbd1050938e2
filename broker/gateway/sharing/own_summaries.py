"""A gateway's own summaries for the consoles of the other gateways: one of its traffic, throttles and limits,
one of its clients and addresses. Built by `server.gateway`, measured by the task that shares limits, once a
second; that of the clients only while there are other gateways.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import Final

from broker.common.slices import Steps, nlargest_in_steps
from broker.controller.rows.connections import AddressUse
from broker.controller.rows.quotas import ClientUsage
from broker.controller.rows.upstream import GatewayTraffic
from broker.gateway.sharing.client_summary import MAX_ADDRESSES, MAX_CLIENTS, MAX_HISTORIES, ClientSummary
from broker.gateway.sharing.summary import MAX_CHANNELS, MAX_USES, ListenerNodes, Summary
from broker.metrics.rate import INT_MAX, CounterRate
from broker.network.clock import TrioClock
from broker.network.server_metrics import totals_of
from broker.network.socket_server import SocketServer
from broker.quotas.accounts import Account
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connection_rates import AddressStats
from broker.quotas.connections import IP_RATE, ConnectionQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF
from broker.quotas.remote_use import SensorUse
from broker.quotas.request import PERCENT_OF_A_SECOND_PER_NS
from broker.quotas.table import UNLIMITED
from broker.views.live_quotas import address_use, history_of, throttled_row

COMPARED_AT_ONCE: Final = 512
"""Addresses compared between two pauses."""


class OwnSummaries:
    """Reads existing counters, throttled channels, the accounts as of their last update, and the addresses:
    no request pays for it.
    """

    def __init__(
        self,
        gateway: str,
        server: SocketServer,
        quotas: ClientQuotas,
        connections: Iterable[ConnectionQuotas],
        clock: TrioClock,
        nodes: Callable[[], tuple[ListenerNodes, ...]],
        is_draining: Callable[[], bool],
    ) -> None:
        self._nodes = nodes
        self._is_draining = is_draining
        self._gateway = gateway
        self._connections = connections
        self._server = server
        self._quotas = quotas
        self._clock = clock
        self._rates = CounterRate(clock.ns())

    def summary(self) -> Steps[Summary]:
        """Measure traffic, throttles and limits."""
        server, quotas, now_ns = self._server, self._quotas, self._clock.ns()
        processors = [totals_of(each, now_ns) for each in server.processors()]
        bytes_in = int(server.ended_processors.bytes_in + sum(each.bytes_in for each in processors))
        bytes_out = int(server.ended_processors.bytes_out + sum(each.bytes_out for each in processors))
        requests = sum(each.requests for each in server.metrics.once())
        rates = self._rates.update(now_ns, (bytes_in, bytes_out, requests))
        yield
        muted = [each for channels in quotas.throttled_channels() for each in channels.all()]
        traffic = GatewayTraffic(
            sum(len(each.selector.channels) for each in server.processors()),
            len(muted),
            bytes_in,
            bytes_out,
            requests,
            *rates,
        )
        longest = yield from nlargest_in_steps(MAX_CHANNELS, muted, lambda each: each.end_ms)
        now_ms, obeys = self._clock.ms(), quotas.throttle_compliance.obeys
        channels = tuple(throttled_row(each.row(now_ms, obeys(each.channel))) for each in longest)
        used = yield from self._uses(now_ms)
        most = yield from nlargest_in_steps(MAX_USES, used, lambda each: each[0])
        uses = tuple(each for _, each in most)
        address = next((each.address for each in server.client_endpoints()), "")
        return Summary(
            self._gateway,
            address,
            traffic,
            channels,
            uses,
            len(used) - len(uses),
            self._nodes(),
            self._is_draining(),
        )

    def _uses(self, now_ms: int) -> Steps[list[tuple[float, SensorUse]]]:
        """Return the limits that clients use, each with the used part of it."""
        found: list[tuple[float, SensorUse]] = []
        quotas = self._quotas
        managers = quotas.managers.items() if quotas.callback is None else ()
        for kind, manager in managers:
            if not manager.active:
                continue
            throttled = Counter(each.sensor for each in manager.throttled.all())
            yield
            for sensor in manager.sensors():
                yield
                rule, window = sensor.rule, sensor.rate.window
                is_idle = now_ms - sensor.last_record_ms > window.samples * window.window_ms
                if not isinstance(rule, Entity) or (is_idle and not throttled[sensor]):
                    continue
                observed, limit = max(sensor.observed(now_ms), 0.0), manager.whole_bound(sensor)
                clients = (sensor.user, sensor.client_id)
                use = SensorUse(KEY_OF[kind], rule, clients, observed, throttled[sensor])
                found.append((observed / limit, use))
        for ips in (each.ips for each in self._connections):
            for address, rate in list(ips.sensors.items()):
                yield
                observed, limit = rate.peek(now_ms), ips.rate_for(address)
                if observed > 0 and 0 < limit < INT_MAX:
                    use = SensorUse(IP_RATE, ips.rule_of(address), (address, None), observed)
                    found.append((observed / limit, use))
        return found

    def clients(self) -> Steps[ClientSummary]:
        """Measure clients and addresses."""
        now_ms = self._clock.ms()
        accounts = list(self._server.accounts.last)
        busiest = yield from nlargest_in_steps(
            MAX_CLIENTS, accounts, lambda each: sum(each.per_second(now_ms)[:2])
        )
        clients = yield from self._clients(busiest, now_ms)
        known = list(self._server.gate.quotas.addresses)
        addresses = yield from self._addresses(known, now_ms)
        unlisted = len(known) - len(addresses)
        return ClientSummary(self._gateway, clients, len(accounts) - len(clients), addresses, unlisted)

    def _clients(self, accounts: Iterable[Account], now_ms: int) -> Steps[tuple[ClientUsage, ...]]:
        since_ms, is_timed = self._clock.wall_ms() - now_ms, self._quotas.request.active
        found: list[ClientUsage] = []
        histories = 0
        for each in accounts:
            yield
            bytes_in, bytes_out, requests, ns = each.per_second(now_ms)
            history: tuple[tuple[int, int, int], ...] = ()
            if histories < MAX_HISTORIES and self._is_unlimited(each):
                histories += 1
                history = tuple(history_of(each, now_ms))
            found.append(
                ClientUsage(
                    each.user,
                    each.client_id,
                    each.connections,
                    bytes_in,
                    bytes_out,
                    requests,
                    ns * PERCENT_OF_A_SECOND_PER_NS if is_timed else None,
                    *each.counts[:3],
                    each.since_ms + since_ms,
                    each.last_active_ms + since_ms,
                    (),
                    partial(tuple, history),
                )
            )
        return tuple(found)

    def _addresses(self, known: list[tuple[str, AddressStats]], now_ms: int) -> Steps[tuple[AddressUse, ...]]:
        """Return those that connected last."""
        last: list[tuple[str, AddressStats]] = []
        left = iter(known)
        while some := list(islice(left, COMPARED_AT_ONCE)):
            last = nlargest(MAX_ADDRESSES, last + some, key=lambda each: each[1].last_ms)
            yield
        quotas, found = self._server.gate.quotas, []
        for address, stats in last:
            yield
            found.append(address_use(quotas, address, stats, now_ms))
        return tuple(found)

    def _is_unlimited(self, client: Account) -> bool:
        if self._quotas.callback is not None:
            return False  # it is not asked only for this
        managers = self._quotas.managers.values()
        return all(each.bound(client.user, client.client_id) == UNLIMITED for each in managers if each.active)
