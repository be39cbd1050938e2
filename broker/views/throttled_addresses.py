"""The addresses whose new connections wait because the address exceeds its connection rate.

Read by `live` for the list of what is throttled. Such a connection is accepted and not read yet, so it has
neither a client id nor a user: there is one row for each address and listener.
"""

from collections.abc import Iterator

from broker.controller.rows.connections import ThrottledRow
from broker.network.socket_server import SocketServer
from broker.quotas.kinds import QuotaKind


def throttled_addresses(server: SocketServer, now_ms: int) -> Iterator[ThrottledRow]:
    """Yield a row for each address, with the connection that waits longest from now."""
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
                observed=each.bound if sensor is None else max(sensor.peek(now_ms), each.bound),
                bound=each.bound,
                throttle_ms=each.throttle_ms,
                remaining_ms=max(each.end_ms - now_ms, 0),
                since_ms=max(now_ms - (each.end_ms - each.throttle_ms), 0),
                times=1 if stats is None else max(stats.delayed, 1),
            )
