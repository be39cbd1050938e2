"""Metrics of the acceptors: connection quotas, and the time that their gates block accepting. (Kafka:
Acceptor, ConnectionQuotas)
"""

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample, Steps
from broker.network.socket_server import SocketServer
from broker.quotas import connection_metrics


def families(server: SocketServer, now_ms: int, most: int = MAX_SERIES) -> Steps:
    """Yield the families, with the `most` busiest addresses.

    A listener that is being replaced by another of its name is omitted.
    """
    quotas = {name.value: each.gate.quotas for name, each in server.resources.items()}
    yield from connection_metrics.families(quotas, now_ms, most)
    gates = {listener.name: listener.acceptor.gate for listener in server.listeners}
    yield FamilySamples(
        "kafka_network_acceptor_acceptorblockedpercent",
        "Share of the last minute, 0 to 1, in which the acceptor waited for a processor, a slot or a rate",
        Kind.GAUGE,
        [Sample((("listener", name),), gate.blocked.share()) for name, gate in gates.items()],
    )
    yield FamilySamples(
        "kafka_network_acceptor_throttled_sockets",
        "Accepted connections delayed because their address exceeds its rate",
        Kind.GAUGE,
        [Sample((("listener", name),), len(gate.throttled_sockets)) for name, gate in gates.items()],
    )
