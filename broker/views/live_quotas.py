"""The quota measurements of this server: clients, addresses, throttles and the broker's own limits. Made by
`server`, read by `quota_views` and `resolving`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from broker.config.listeners import Server
from broker.controller.commands import EntityPairs
from broker.controller.rows.connections import AddressUse, ThrottledRow
from broker.controller.rows.quotas import (
    BrokerLimit,
    ClientUsage,
    Decided,
    NodeUse,
    RetryStormUse,
    ShadowUse,
)
from broker.metrics.rate import INT_MAX
from broker.network.socket_server import SocketServer
from broker.quotas.accounts import Account
from broker.quotas.client_quotas import RuleUse, rule_use, rule_use_of
from broker.quotas.connection_metrics import ip_rule_use
from broker.quotas.connection_rates import AddressStats
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.entity import CLIENT_ID, USER, Entity
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS, KEY_OF, QuotaKind
from broker.quotas.remote_use import Clients, RemoteUse
from broker.quotas.request import PERCENT_OF_A_SECOND_PER_NS
from broker.quotas.table import UNLIMITED
from broker.quotas.throttled import MutedRow
from broker.views.parts import ServerParts


class LiveQuotas:
    """All calls are fast and synchronous, and return the present state."""

    def __init__(self, parts: ServerParts, remote_use: Callable[[], RemoteUse]) -> None:
        """`remote_use` returns what other gateways use of shared limits."""
        self._clock = parts.clock
        self._server = parts.server
        self._quotas = parts.quotas
        self._retry_storm = parts.retry_storm
        self._remote_use = remote_use

    def throttled(self) -> Iterator[ThrottledRow]:
        """Yield the connections that were throttled at the time of the call; rows are built lazily."""
        now_ms = self._clock.ms()
        return chain(
            map(throttled_row, self._quotas.each_row(now_ms)), throttled_addresses(self._server, now_ms)
        )

    def broker_limits(self) -> list[BrokerLimit]:
        """Return the four rates of the broker quota."""
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
            for use in self._quotas.broker.use(self._clock.ms())
        ]

    def retry_storm(self) -> RetryStormUse:
        totals = self._retry_storm.storm.totals
        return RetryStormUse(totals.delayed, totals.delayed_ms, self._retry_storm.delayed.delayed)

    def connected_clients(self) -> Iterator[tuple[str, str]]:
        """Yield the user and client id of every connection that was authenticated at the time of the call."""
        channels = list(self._server.channels())
        return ((each.principal, each.client_id or "") for each in channels if each.authenticated)

    def addresses(self) -> Sequence[AddressUse]:
        return address_uses(self._server.gate.quotas, self._clock.ms())

    def controller_addresses(self) -> Sequence[AddressUse]:
        resources = self._server.resources.get(Server.CONTROLLER)
        return () if resources is None else address_uses(resources.gate.quotas, self._clock.ms())

    def quota_use(self) -> Iterator[RuleUse | None]:
        """Yield the use of every rule with recent clients. None stands for sensors without a result."""
        now_ms, remote_use = self._clock.ms(), self._remote_use()
        return chain(
            rule_use(self._quotas, now_ms, remote_use),
            ip_rule_use(self._connection_quotas(), now_ms, remote_use),
        )

    def quota_use_of(self, entity: Entity) -> Iterable[RuleUse]:
        """Return the use of one entity."""
        now_ms, remote_use = self._clock.ms(), self._remote_use()
        if entity.ip is None:
            return rule_use_of(self._quotas, entity, now_ms, remote_use)
        rules = ip_rule_use(self._connection_quotas(), now_ms, remote_use)
        return (use for use in rules if use is not None and use.entity == entity)

    def shadow_use(self) -> Sequence[ShadowUse]:
        """Return the use of every limit in shadow mode, whether or not its rule sets a bound for the key."""
        now_ms = self._clock.ms()
        since_ms = self._clock.wall_ms() - now_ms
        return [
            ShadowUse(
                Entity(*rule).pairs,
                KEY_OF[kind],
                total.times,
                total.throttled.at(now_ms),
                None if total.last_ms is None else total.last_ms + since_ms,
            )
            for kind, manager in self._quotas.managers.items()
            for rule, total in manager.shadows.items()
        ]

    def decided(self, user: str, client_id: str, key: str) -> Decided | None:
        """Return the callback's decision; None without a callback."""
        manager = self._quotas.managers[CLIENT_KEYS[key].kind]
        decision = manager.decide(user, client_id)
        if decision is None:
            return None
        return Decided(decision.tags, decision.bound, self.observed(key, user, client_id, ""))

    def usage(self) -> Iterator[ClientUsage]:
        """Yield every recently active client, built lazily. With very many clients, the least active are
        dropped.
        """
        accounts, now_ms = self._server.accounts.update(), self._clock.ms()
        since_ms = self._clock.wall_ms() - now_ms
        return (self._client_usage(account, now_ms, since_ms) for account in list(accounts))

    def observed(self, key: str, user: str, client_id: str, ip: str) -> float | None:
        """Return the value of the sensor of this client or address, the highest of several nodes; None
        without a sensor.
        """
        now_ms = self._clock.ms()
        if key in IP_KEYS:
            sensors = (quotas.ips.sensors.get(ip) for quotas in self._connection_quotas())
            return max((each.observed(now_ms) for each in sensors if each is not None), default=None)
        sensors_of = self._quotas.managers[CLIENT_KEYS[key].kind].sensors_of
        return max((each.observed(now_ms) for each in sensors_of(user, client_id)), default=None)

    def throttled_clients(self, key: str) -> Iterator[Clients]:
        """Yield the clients of the limit that throttles it, for each connection throttled by one of `key`."""
        throttled = self._quotas.managers[CLIENT_KEYS[key].kind].throttled.all()
        return ((each.sensor.user, each.sensor.client_id) for each in throttled)

    def limited_by(self, user: str, client_id: str) -> tuple[str, ...]:
        """Return the keys of the limits that apply to a client."""
        return tuple(self._limits(user, client_id))

    def nodes(self, key: str, user: str, client_id: str, bound: float) -> tuple[NodeUse, ...]:
        """Return the use of a limit of this client at each upstream node, with the throttle time under
        `bound`; empty unless limits hold at each node.
        """
        now_ms, manager = self._clock.ms(), self._quotas.managers[CLIENT_KEYS[key].kind]
        uses = (
            (each.node, each.observed(now_ms))
            for each in (manager.sensors_of(user, client_id) if manager.parts else ())
        )
        return tuple(
            NodeUse(node, observed, manager.wait_at(observed, bound))
            for node, observed in sorted((node, observed) for node, observed in uses if node is not None)
        )

    def wait_ms(self, key: str, observed: float, bound: float) -> int:
        """Return the throttle time for this use over the whole window; 0 up to the bound."""
        if key in IP_KEYS:
            return self._server.gate.quotas.ips.wait_at(observed, bound)
        return self._quotas.managers[CLIENT_KEYS[key].kind].wait_at(observed, bound)

    def first_wait_ms(self, key: str, user: str, client_id: str, entity: EntityPairs, bound: float) -> int:
        """Return how long a client is throttled first if `entity` limits it to `bound` from now on; 0 if it
        only waits for what it sends from now on.
        """
        kinds = {kind for kind, _ in entity}
        sensor = (user if USER in kinds else None, client_id if CLIENT_ID in kinds else None)
        manager = self._quotas.managers[CLIENT_KEYS[key].kind]
        return manager.first_wait_ms(user, client_id, sensor, bound, self._clock.ms())

    def _connection_quotas(self) -> Iterator[ConnectionQuotas]:
        return (each.gate.quotas for each in self._server.resources.values())

    def _client_usage(self, account: Account, now_ms: int, since_ms: int) -> ClientUsage:
        bytes_in, bytes_out, requests, ns = account.per_second(now_ms)
        limiting = self._limits(account.user, account.client_id)
        nodes = {
            key: uses
            for key, bound in limiting.items()
            if (uses := self.nodes(key, account.user, account.client_id, bound))
        }
        return ClientUsage(
            account.user,
            account.client_id,
            account.connections,
            bytes_in,
            bytes_out,
            requests,
            ns * PERCENT_OF_A_SECOND_PER_NS if self._quotas.request.active else None,
            account.counts[0],
            account.counts[1],
            account.counts[2],
            account.since_ms + since_ms,
            account.last_active_ms + since_ms,
            tuple(limiting),
            partial(history_of, account, now_ms),
            nodes,
        )

    def _limits(self, user: str, client_id: str) -> dict[str, float]:
        """Return the limits of a client by key."""
        bounds = {
            KEY_OF[kind]: manager.bound(user, client_id)
            for kind, manager in self._quotas.managers.items()
            if manager.active
        }
        return {key: bound for key, bound in bounds.items() if bound != UNLIMITED}


def address_uses(quotas: ConnectionQuotas, now_ms: int) -> list[AddressUse]:
    return [address_use(quotas, address, stats, now_ms) for address, stats in quotas.addresses]


def address_use(quotas: ConnectionQuotas, address: str, stats: AddressStats, now_ms: int) -> AddressUse:
    return AddressUse(
        address,
        stats.rate.observed(now_ms),
        quotas.counts.get(address, 0),
        limit_or_none(quotas.per_ip.of(address)),
        stats.accepted,
        stats.delayed,
        stats.refused,
    )


def limit_or_none(value: float) -> int | None:
    return None if value == INT_MAX else int(value)


def throttled_row(row: MutedRow) -> ThrottledRow:
    return ThrottledRow(
        connection_id=row.connection_id,
        client_id=row.client_id,
        principal=row.principal,
        address=row.address,
        quota_type=QuotaKind(row.quota_type.value),
        entity=row.entity.pairs if isinstance(row.entity, Entity) else (),
        tags=() if isinstance(row.entity, Entity) else row.entity.pairs,
        observed=row.observed,
        bound=row.bound,
        throttle_ms=row.throttle_ms,
        remaining_ms=row.remaining_ms,
        since_ms=row.since_ms,
        times=row.count,
        obeys=row.obeys,
        upstream_node=row.node,
    )


def history_of(account: Account, now_ms: int) -> list[tuple[int, int, int]]:
    """Return bytes in, bytes out and requests of each interval, the oldest first."""
    return [(row[0], row[1], row[2]) for row in account.recent.rows(now_ms)]


def throttled_addresses(server: SocketServer, now_ms: int) -> Iterator[ThrottledRow]:
    """Yield a row for each address that exceeds its connection rate, with the connection that waits longest
    from now. Such a connection is accepted and not read yet, so it has neither a client id nor a user.
    """
    for listener in server.listeners:
        gate = listener.acceptor.gate
        quotas = gate.quotas
        last = {quotas.counted(each.peer[0]): each for each in gate.throttled_sockets}
        for address, each in last.items():
            sensor, stats = quotas.ips.sensors.get(address), quotas.addresses.get(address)
            yield ThrottledRow(
                connection_id=f"{listener.name} {address}",
                client_id="",
                principal="",
                address=address,
                quota_type=QuotaKind.CONNECTION_RATE,
                entity=quotas.ips.rule_of(address).pairs,
                observed=each.bound if sensor is None else max(sensor.peek(now_ms), sensor.bound),
                bound=each.bound,
                throttle_ms=each.throttle_ms,
                remaining_ms=max(each.end_ms - now_ms, 0),
                since_ms=max(now_ms - (each.end_ms - each.throttle_ms), 0),
                times=1 if stats is None else max(stats.delayed, 1),
            )
