"""Where an event comes from: headers of every record in an event topic, so that tables of several clusters,
brokers and gateways can be one. docs/events.md defines them.
"""

from collections.abc import Callable

import msgspec

Headers = tuple[tuple[str, bytes | None], ...]


class EventOrigin(msgspec.Struct, frozen=True):
    """`cluster` returns the cluster's id, empty while it is unknown; a gateway's is that of its upstream
    cluster. `gateway` is the gateway's own id, empty for a broker.
    """

    node_id: int
    cluster: Callable[[], str]
    gateway: str = ""

    def headers(self) -> Headers:
        named = {"cluster": self.cluster(), "node": str(self.node_id), "gateway": self.gateway}
        return tuple((name, text.encode()) for name, text in named.items() if text)
