"""The network threads, their connections and the queues between them and the handlers. (Kafka: SocketServer,
SelectorMetrics, RequestChannel)
"""

from collections.abc import Iterator

from broker.metrics.registry import FamilySamples, Kind, Sample
from broker.network.socket_server import SocketServer


def families(server: SocketServer) -> Iterator[FamilySamples]:
    counts = [
        Sample(
            (("listener", listener.name), ("networkProcessor", str(processor.id))),
            len(processor.selector.channels),
        )
        for listener in server.listeners
        for processor in listener.processors
    ]
    yield FamilySamples(
        "kafka_server_socket_server_metrics_connection_count", "Open connections", Kind.GAUGE, counts
    )
    depth = [Sample((), server.requests.depth())]
    yield FamilySamples(
        "kafka_network_requestchannel_requestqueuesize", "Requests waiting", Kind.GAUGE, depth
    )
    waiting = [
        Sample((("processor", str(each.id)),), len(each.responder.responses)) for each in server.processors()
    ]
    yield FamilySamples(
        "kafka_network_requestchannel_responsequeuesize", "Responses waiting", Kind.GAUGE, waiting
    )
