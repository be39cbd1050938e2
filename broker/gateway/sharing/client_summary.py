"""A gateway's clients and addresses for the others' consoles, once a second: a record of `__weir_shares`,
JSON in UTF-8.

    {"version": 4, "gateway": "1-5f0c77aa", "unlisted_clients": 0, "unlisted_addresses": 0,
     "clients": [["alice", "app", 2, 250000.0, 1000.5, 310.5, null, 81000000, 9000, 77, 1700000000000,
     1700000100000, [[100, 20, 3], ...]]],
     "addresses": [["10.0.0.7", 1.5, 2, 20, 14, 0, 3]]}

`clients` have the fields of `ClientUsage` in the order of CLIENT_FIELDS, and few of them a history; those
that move the most bytes are first. `addresses` have those of `AddressUse`; the last to connect are first.
Like that of a summary, the record's key distinguishes it from a report.
"""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Annotated, Any, Final, TypeVar

import msgspec

from broker.common.slices import Steps
from broker.controller.rows.connections import AddressUse
from broker.controller.rows.quotas import ClientUsage
from broker.gateway.sharing.report import MAX_COUNT, UnreadableReport, as_json, check_size
from broker.gateway.sharing.summary import MAX_AMOUNT, MAX_NAME
from broker.quotas.accounts import INTERVALS
from broker.quotas.connection_rates import canonical_address

Row = TypeVar("Row")

VERSION: Final = 4

KEY_PREFIX: Final = b"clients "

MAX_CLIENTS: Final = 500
MAX_ADDRESSES: Final = 500

MAX_HISTORIES: Final = 20
"""Clients with a history: the busiest ones without a limit, of which the console shows fewer."""

MAX_CLIENT_BYTES: Final = 131_072
MAX_ADDRESS_BYTES: Final = 65_536
"""The largest size of all clients and of all addresses in one record. It fits into any topic."""

MAX_READ: Final = MAX_CLIENT_BYTES + MAX_ADDRESS_BYTES + 4_096
"""Bytes of a record that is read, at once: 5 ms at most."""


MAX_REASON: Final = 200
"""Characters of what is wrong with a record that are logged."""

CLIENT_FIELDS: Final = (
    "user",
    "client_id",
    "connections",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "requests_per_s",
    "request_percentage",
    "bytes_in",
    "bytes_out",
    "requests",
    "since_at_ms",
    "last_active_at_ms",
)
ADDRESS_FIELDS: Final = (
    "address",
    "rate",
    "connections",
    "max_connections",
    "accepted",
    "throttled",
    "refused",
)

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT - 1)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
"""Milliseconds of a time before the year 10000, which can be shown."""
_Amount = Annotated[float, msgspec.Meta(ge=0, le=MAX_AMOUNT)]


class ClientSummary(msgspec.Struct, frozen=True):
    """`clients` and `addresses` are some of the gateway's, the others are counted."""

    gateway: str
    clients: tuple[ClientUsage, ...] = ()
    unlisted_clients: int = 0
    addresses: tuple[AddressUse, ...] = ()
    unlisted_addresses: int = 0


def client_key_of(gateway: str) -> bytes:
    """Return the key of a gateway's records."""
    return KEY_PREFIX + gateway.encode()


def write_in_steps(summary: ClientSummary) -> Steps[bytes]:
    """Write as many of the clients and of the addresses as fit."""
    clients = yield from _fitting(map(_write_client, summary.clients[:MAX_CLIENTS]), MAX_CLIENT_BYTES)
    addresses = yield from _fitting(map(_write_address, summary.addresses[:MAX_ADDRESSES]), MAX_ADDRESS_BYTES)
    head = {
        "version": VERSION,
        "gateway": summary.gateway,
        "unlisted_clients": summary.unlisted_clients + len(summary.clients) - len(clients),
        "unlisted_addresses": summary.unlisted_addresses + len(summary.addresses) - len(addresses),
    }
    return b'%b,"clients":[%b],"addresses":[%b]}' % (
        as_json(head)[:-1],
        b",".join(clients),
        b",".join(addresses),
    )


def read_in_steps(data: bytes) -> Steps[ClientSummary]:
    """Raises UnreadableReport."""
    check_size(data, MAX_READ)
    try:
        found = _RECORDS.decode(data)
        yield
        clients = yield from _each(_client, found.clients[:MAX_CLIENTS], found.gateway)
        addresses = yield from _each(_address, found.addresses[:MAX_ADDRESSES], found.gateway)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnreadableReport(f"{type(error).__name__}: {str(error)[:MAX_REASON]}") from error
    return ClientSummary(found.gateway, clients, found.unlisted_clients, addresses, found.unlisted_addresses)


def _each(read: Callable[[Any, str], Row], rows: Sequence[Any], gateway: str) -> Steps[tuple[Row, ...]]:
    found = []
    for row in rows:
        yield
        found.append(read(row, gateway))
    return tuple(found)


class _Client(msgspec.Struct, array_like=True):
    user: str
    client_id: str
    connections: _Count
    bytes_in_per_s: _Amount
    bytes_out_per_s: _Amount
    requests_per_s: _Amount
    request_percentage: _Amount | None
    bytes_in: _Count
    bytes_out: _Count
    requests: _Count
    since_at_ms: _Time
    last_active_at_ms: _Time
    history: list[tuple[_Count, _Count, _Count]]


class _Address(msgspec.Struct, array_like=True):
    address: str
    rate: _Amount
    connections: _Count
    max_connections: _Count | None
    accepted: _Count
    throttled: _Count
    refused: _Count


class _Record(msgspec.Struct):
    version: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)]
    gateway: Annotated[str, msgspec.Meta(min_length=1)]
    unlisted_clients: _Count
    unlisted_addresses: _Count
    clients: list[_Client]
    addresses: list[_Address]


_RECORDS: Final = msgspec.json.Decoder(_Record)


def _client(row: _Client, gateway: str) -> ClientUsage:
    fields: dict[str, Any] = {name: getattr(row, name) for name in CLIENT_FIELDS}
    history = row.history[-INTERVALS:]
    return ClientUsage(**fields, limited_by=(), history=lambda: history, gateways=(gateway,))


def _address(row: _Address, gateway: str) -> AddressUse:
    fields: dict[str, Any] = {name: getattr(row, name) for name in ADDRESS_FIELDS}
    # A console orders addresses as numbers.
    canonical_address(row.address)
    return AddressUse(**fields, gateway=gateway)


def _write_client(row: ClientUsage) -> bytes | None:
    if max(len(row.user), len(row.client_id)) > MAX_NAME:
        return None  # a name that is cut would be another one's
    return as_json([*(_finite(getattr(row, name)) for name in CLIENT_FIELDS), list(row.history())])


def _write_address(row: AddressUse) -> bytes:
    return as_json([_finite(getattr(row, name)) for name in ADDRESS_FIELDS])


def _finite(value: Any) -> Any:
    """A rate over no time is none, and one just below 0 is a rounding error."""
    if isinstance(value, float):
        return max(value, 0.0) if isfinite(value) else 0.0
    return value


def _fitting(pieces: Iterable[bytes | None], maximum: int) -> Steps[list[bytes]]:
    """Return the pieces before the first one that does not fit, without those that are None."""
    found: list[bytes] = []
    size = 0
    for piece in pieces:
        yield
        if piece is not None:
            size += len(piece) + 1
            if size > maximum:
                break
            found.append(piece)
    return found
