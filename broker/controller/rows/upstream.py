"""The upstream cluster of a gateway, and the gateways in front of it. See `views` for units."""

from enum import StrEnum
from typing import Annotated

import msgspec

from broker.controller.rows.fields import HIDDEN, Measured, Moment, Node, Rate, ShownEntity, pairs


class UpstreamCondition(StrEnum):
    """The condition of an upstream node, or of the cluster as a whole."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    CREDENTIALS = "credentials refused"
    TLS = "TLS failed"
    OTHER_CLUSTER = "another cluster"

    @property
    def is_failing(self) -> bool:
        return self not in (UpstreamCondition.CONNECTING, UpstreamCondition.CONNECTED)


class NodeAddress(msgspec.Struct, frozen=True):
    """The address at which clients of one listener reach a node: host:port, or "" if the listener has none
    for it. `is_open` is False if nothing accepts connections there.
    """

    listener: str
    address: str
    is_open: bool = msgspec.field(name="open")


class UpstreamNodeRow(msgspec.Struct, frozen=True):
    """A node of the upstream cluster. `address` is the one that the gateway uses. `condition` has lasted
    since `since_at_ms`; `error` is the last one, "" if there is none. `latency_ms` is how long the node took
    for the gateway's last own request, None before the first answer.

    `connections` are the client connections that are forwarded to it; `bytes_in` and `bytes_out` are what
    their clients have sent and received since the start.
    """

    node_id: int
    address: str
    rack: str
    condition: UpstreamCondition
    error: str
    latency_ms: float | None
    connections: int
    bytes_in: int
    bytes_out: int
    bytes_in_per_s: Rate
    bytes_out_per_s: Rate
    addresses: tuple[NodeAddress, ...]
    since_at_ms: Moment = msgspec.field(name="since")


class UpstreamLatency(msgspec.Struct, frozen=True):
    """The latency of the upstream cluster for requests of one API: from forwarding to the response, quantiles
    of the last five minutes, NaN without requests. `requests` counts since the start. Requests that `waits`
    may wait upstream on purpose, as Fetch does for records.
    """

    api: str
    requests: int
    p50_ms: Measured
    p99_ms: Measured
    waits: bool


class LoopbackAdvertised(msgspec.Struct, frozen=True):
    """A listener that advertises a loopback address. `remote_connections` counts the connections from other
    machines since the start: their clients cannot use the advertised addresses.
    """

    listener: str
    address: str
    remote_connections: int


class RefusedRecords(msgspec.Struct, frozen=True):
    """Records of one of the gateways' topics that no gateway wrote, by the `reason` to refuse
    them: since the start, and in the last minute.
    """

    topic: str
    reason: str
    total: int
    last_minute: int


class RackTraffic(msgspec.Struct, frozen=True):
    """The traffic between clients whose address has `client_rack` and nodes in `node_rack`; "" for none.
    `connections` are open; bytes are those of requests and of responses since the start.
    """

    client_rack: str
    node_rack: str
    connections: int
    bytes_in: int
    bytes_out: int
    bytes_in_per_s: Rate
    bytes_out_per_s: Rate


class UpstreamRow(msgspec.Struct, frozen=True):
    """The upstream cluster. `cluster_id` is the one that answered, `expected_id` the only one that may; both
    are "" while unknown. `controller_id` is -1 while unknown.

    `turn_ms` is the gateway's own part of the latency: how long a turn of its event loop takes on average,
    which is how long a ready socket waits at most; None if there was no turn. `unwritten` are the event
    topics that cannot be written, with the reason. `racks` is empty unless addresses of clients have racks.
    """

    cluster_id: str
    expected_id: str
    condition: UpstreamCondition
    since_at_ms: Moment = msgspec.field(name="since")
    error: str
    bootstrap_servers: tuple[str, ...]
    controller_id: Node
    nodes: tuple[UpstreamNodeRow, ...]
    latencies: tuple[UpstreamLatency, ...]
    turn_ms: Measured | None
    loopback: tuple[LoopbackAdvertised, ...] = ()
    racks: tuple[RackTraffic, ...] = ()
    unwritten: Annotated[tuple[tuple[str, str], ...], pairs("topic", "error")] = ()
    refused: Annotated[tuple[RefusedRecords, ...], HIDDEN] = ()

    @property
    def connected(self) -> int:
        """Return how many nodes are connected."""
        return sum(node.condition is UpstreamCondition.CONNECTED for node in self.nodes)


class DrainState(StrEnum):
    """Whether a gateway serves clients."""

    SERVING = "serving"
    DRAINING = "draining"
    DRAINED = "drained"


class DrainRow(msgspec.Struct, frozen=True):
    """The drain of a gateway: `connections` of `at_first` are left. `to` are the addresses that clients are
    told. It began at `since_at_ms`, and its last connection ends by `ends_at_ms`, or has ended then.
    """

    state: DrainState
    connections: int
    at_first: int
    to: tuple[str, ...]
    since_at_ms: Moment | None = msgspec.field(name="since")
    ends_at_ms: Moment | None = msgspec.field(name="ends")


class UpstreamSummary(msgspec.Struct, frozen=True):
    """The upstream cluster in one line: `connected` of `nodes` nodes answer."""

    cluster_id: str
    condition: UpstreamCondition
    nodes: int
    connected: int


class GatewayTraffic(msgspec.Struct, frozen=True):
    """The open connections of a gateway and how many of them are throttled; the bytes of requests and of
    responses, and the number of requests, since its start and per second.
    """

    connections: int
    throttled: int
    bytes_in: int
    bytes_out: int
    requests: int
    bytes_in_per_s: Rate
    bytes_out_per_s: Rate
    requests_per_s: Rate


class GatewayRow(msgspec.Struct, frozen=True):
    """A gateway of the upstream cluster. `address` is where its clients bootstrap. `heard_at_ms` is when its
    last report was read; None for the gateway that shows it. `traffic` is None while unknown.
    """

    gateway_id: str
    address: str
    heard_at_ms: Moment | None
    traffic: GatewayTraffic | None = None


class GatewaySums(msgspec.Struct, frozen=True):
    """The number of some of the gateways that share limits, and the sums of their traffic."""

    gateways: int = 0
    connections: int = 0
    throttled: int = 0
    bytes_in_per_s: Rate = 0.0
    bytes_out_per_s: Rate = 0.0
    requests_per_s: Rate = 0.0


class Incomplete(msgspec.Struct, frozen=True):
    """The ids of the other gateways that do not report all of their uses of limits, clients or addresses:
    they have more than they list, or have not reported yet.
    """

    uses: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()


class ShareRow(msgspec.Struct, frozen=True):
    """A gateway's part of one limit: `demand` and `share` in the units of `limit`, such as bytes per second.
    `entity` and `key` name the rule.
    """

    gateway_id: str
    entity: ShownEntity
    key: str
    limit: Rate
    demand: Rate
    share: Rate


class RefusedRead(msgspec.Struct, frozen=True):
    """What the upstream cluster refuses to the gateway's credential: `count` times, with the error `code`.
    An ACL that allows `operation` on the resource of this type and name would allow the first of them.
    """

    api: str
    code: str
    operation: str
    resource_type: str
    resource_name: str
    count: int


class ReadState(msgspec.Struct, frozen=True):
    """The last reading of a part of the upstream cluster. `read_at_ms` is None before the first one that
    succeeded. `error` says why the last one failed or is incomplete, "" if it is neither.
    """

    error: str = ""
    refused: tuple[RefusedRead, ...] = ()
    read_at_ms: Moment | None = msgspec.field(name="read_at", default=None)
