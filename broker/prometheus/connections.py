"""How accepting goes: what the connection quotas count, and how long their gates hold it up. (Kafka:
Acceptor, ConnectionQuotas)
"""

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample, Steps
from broker.network.socket_server import SocketServer
from broker.quotas import connection_metrics


def families(server: SocketServer, now_ms: int, most: int = MAX_SERIES) -> Steps:
    """A listener that makes way for another one of its name is not shown; of addresses, the `most` busiest
    are.
    """
    quotas = {name.value: each.gate.quotas for name, each in server.resources.items()}
    yield from connection_metrics.families(quotas, now_ms, most)
    gates = {listener.name: listener.acceptor.gate for listener in server.listeners}
    yield FamilySamples(
        "kafka_network_acceptor_acceptorblockedpercent",
        "Share of the last minute, 0 to 1, in which accepting waited for a processor, a slot or a rate",
        Kind.GAUGE,
        [Sample((("listener", name),), gate.blocked.share()) for name, gate in gates.items()],
    )
    yield FamilySamples(
        "kafka_network_acceptor_throttled_sockets",
        "Connections of addresses over their rate that are held now",
        Kind.GAUGE,
        [Sample((("listener", name),), len(gate.throttled_sockets)) for name, gate in gates.items()],
    )
