"""A gateway's summary for the others' consoles, once a second: a record of `__weir_shares`, JSON in UTF-8.

    {"version": 2, "gateway": "1-5f0c77aa", "address": "gateway-1.example:9092", "connections": 1200,
     "throttled": 3, "bytes_in": 81000000, ..., "channels": [{"connection_id": "...", "client_id": "app",
     "quota": "produce", "bound": 1000000.0, "remaining_ms": 1700, ...}],
     "uses": [["producer_byte_rate", [["user", "alice"]], "alice", null, 250000.0, 3]], "unlisted_uses": 0,
     "nodes": [["EXTERNAL", "SASL_SSL", "gateway-1.example:31000-31099"]], "draining": false}

`channels` are the throttled connections with the longest remaining time; long names are cut. `uses` are the
limits of which most is used: key, rule, user and client id of its clients, rate and throttled connections.
`nodes` are the addresses of upstream nodes for clients of each listener, with its protocol: where another
gateway sends its clients while it drains. The record's key distinguishes it from a report without reading it.
Gateways that know only reports skip it, because of its version; those that do not know `uses` or `nodes`
ignore them.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from math import isfinite, nan
from typing import Any, Final

import msgspec

from broker.config.sections.gateway import NodeAddresses, read_node_addresses
from broker.controller.rows.connections import ThrottledRow
from broker.controller.rows.upstream import GatewayTraffic
from broker.gateway.sharing.report import (
    MAX_VERSION,
    UnreadableReport,
    as_json,
    check_size,
    count_of,
    text_of,
)
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.remote_use import SensorUse

VERSION: Final = 2

KEY_PREFIX: Final = b"summary "

MAX_CHANNELS: Final = 50

MAX_BYTES: Final = 65_536
"""The largest size of all channels in one summary, and of all uses. Such records fit into any topic."""

MAX_LISTENERS: Final = 16
"""Listeners with addresses in one summary; ours."""

MAX_READ: Final = 2 * MAX_BYTES + 16_384
"""Bytes of a summary that is read, at once: 3 ms at most."""

MAX_USES: Final = 250

MAX_NAME: Final = 256
"""Characters of a name that clients choose. Longer ones are cut, so that they do not displace other rows."""


MAX_AMOUNT: Final = 1e300
"""A larger rate is no rate. JSON has whole numbers of any size, and not all are floats."""


class ListenerNodes(msgspec.Struct, frozen=True):
    """A listener, its protocol, and where its clients reach the upstream nodes."""

    listener: str
    protocol: str
    addresses: NodeAddresses


class Summary(msgspec.Struct, frozen=True):
    """`address` is where the gateway's clients bootstrap. `traffic` counts all of its throttled connections,
    `channels` are some of them. `uses` are some of the limits that its clients use, and `unlisted_uses` the
    number of the others. A gateway that is `draining` takes no more clients.
    """

    gateway: str
    address: str
    traffic: GatewayTraffic
    channels: tuple[ThrottledRow, ...] = ()
    uses: tuple[SensorUse, ...] = ()
    unlisted_uses: int = 0
    nodes: tuple[ListenerNodes, ...] = ()
    draining: bool = False


def key_of(gateway: str) -> bytes:
    """Return the key of a gateway's summaries."""
    return KEY_PREFIX + gateway.encode()


def write_summary(summary: Summary) -> bytes:
    """Write the first `MAX_CHANNELS` of the channels, as many as fit into `MAX_BYTES`; the uses likewise."""
    traffic = summary.traffic
    found: dict[str, Any] = {"version": VERSION, "gateway": summary.gateway, "address": summary.address}
    found |= msgspec.structs.asdict(traffic)
    limited = [row for row in summary.channels if isfinite(row.bound)]
    channels = b",".join(_fitting(map(_write_channel, limited[:MAX_CHANNELS])))
    # A name that is cut would be another one's.
    whole = [use for use in summary.uses if all(len(name or "") <= MAX_NAME for name in use.clients)]
    uses = list(_fitting(map(_write_use, whole[:MAX_USES])))
    unlisted = summary.unlisted_uses + len(summary.uses) - len(uses)
    nodes = [[each.listener, each.protocol, str(each.addresses)] for each in summary.nodes[:MAX_LISTENERS]]
    return b'%b,"channels":[%b],"uses":[%b],"unlisted_uses":%d,%b' % (
        as_json(found)[:-1],
        channels,
        b",".join(uses),
        unlisted,
        as_json({"nodes": nodes, "draining": summary.draining})[1:],
    )


def read_summary(data: bytes) -> Summary:
    """Raises UnreadableReport."""
    check_size(data, MAX_READ)
    try:
        found = json.loads(data)
        if found["version"] != VERSION:
            raise UnreadableReport(f"version {str(found['version'])[:MAX_VERSION]}")
        gateway = text_of(found["gateway"])
        counts = [count_of(found[name]) for name in ("connections", "throttled")]
        totals = [count_of(found[name]) for name in ("bytes_in", "bytes_out", "requests")]
        rates = [_amount(found[f"{name}_per_s"]) for name in ("bytes_in", "bytes_out", "requests")]
        channels = tuple(_read_channel(each, gateway) for each in found["channels"][:MAX_CHANNELS])
        uses = tuple(map(_read_use, found.get("uses", ())[:MAX_USES]))
        traffic, unlisted = GatewayTraffic(*counts, *totals, *rates), count_of(found.get("unlisted_uses", 0))
        nodes = tuple(map(_read_nodes, found.get("nodes", ())[:MAX_LISTENERS]))
        draining = found.get("draining", False) is True
        return Summary(gateway, text_of(found["address"]), traffic, channels, uses, unlisted, nodes, draining)
    except UnreadableReport:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableReport(f"{type(error).__name__}: {error}") from error


def _fitting(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece) + 1
        if size > MAX_BYTES:
            return
        yield piece


def _write_channel(row: ThrottledRow) -> bytes:
    return as_json(
        {
            "connection_id": row.connection_id,
            "client_id": _cut(row.client_id),
            "principal": _cut(row.principal),
            "address": row.address,
            "quota": row.quota_type.value,
            "entity": row.entity,
            "tags": [[_cut(name), _cut(value)] for name, value in row.tags],
            "observed": row.observed if isfinite(row.observed) else None,
            "bound": row.bound,
            "throttle_ms": row.throttle_ms,
            "remaining_ms": row.remaining_ms,
            "since_ms": row.since_ms,
            "times": row.times,
            "obeys": row.obeys,
        }
    )


def _read_channel(found: dict[str, Any], gateway: str) -> ThrottledRow:
    observed, obeys = found["observed"], found["obeys"]
    if obeys is not None and not isinstance(obeys, bool):
        raise UnreadableReport("obeys is neither true nor false")
    return ThrottledRow(
        connection_id=text_of(found["connection_id"]),
        client_id=text_of(found["client_id"]),
        principal=text_of(found["principal"]),
        address=text_of(found["address"]),
        quota_type=QuotaKind(found["quota"]),
        entity=_pairs(found["entity"], _name),
        tags=_pairs(found["tags"], text_of),
        observed=nan if observed is None else _amount(observed),
        bound=_amount(found["bound"]),
        throttle_ms=count_of(found["throttle_ms"]),
        remaining_ms=count_of(found["remaining_ms"]),
        since_ms=count_of(found["since_ms"]),
        times=count_of(found["times"]),
        obeys=obeys,
        gateway=gateway,
    )


def _write_use(use: SensorUse) -> bytes:
    return as_json([use.key, use.rule.pairs, *use.clients, use.observed, use.throttled])


def _read_use(found: Any) -> SensorUse:
    key, rule, user, client_id, observed, throttled = found
    clients = (_name(user), _name(client_id))
    entity = Entity.of(_pairs(rule, _name))
    return SensorUse(text_of(key), entity, clients, _amount(observed), count_of(throttled))


def _read_nodes(found: Any) -> ListenerNodes:
    listener, protocol, addresses = found
    return ListenerNodes(text_of(listener), text_of(protocol), read_node_addresses(text_of(addresses)))


def _cut(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _pairs(found: Any, read: Callable[[Any], Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((text_of(name), read(value)) for name, value in found)


def _name(value: Any) -> str | None:
    return None if value is None else text_of(value)


def _amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= MAX_AMOUNT:
        raise UnreadableReport("no amount")
    return float(value)
