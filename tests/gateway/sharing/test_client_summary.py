"""What gateways tell of their clients and addresses, as records."""

import json
from collections.abc import Sequence
from functools import partial
from math import inf, nan
from typing import Any

import pytest
from msgspec.structs import replace

from broker.common.slices import Steps, run_through
from broker.controller.rows.connections import AddressUse
from broker.controller.rows.quotas import ClientUsage
from broker.gateway.sharing.client_summary import (
    MAX_ADDRESS_BYTES,
    MAX_ADDRESSES,
    MAX_CLIENT_BYTES,
    MAX_CLIENTS,
    MAX_READ,
    ClientSummary,
    client_key_of,
    read_in_steps,
    write_in_steps,
)
from broker.gateway.sharing.report import MAX_COUNT, UnreadableReport, read_report
from broker.gateway.sharing.summary import MAX_NAME
from broker.quotas.accounts import INTERVALS

HISTORY = ((100, 20, 3), (0, 0, 0))
CLIENT = ClientUsage(
    user="alice",
    client_id="app",
    connections=2,
    bytes_in_per_s=250_000.0,
    bytes_out_per_s=1_000.5,
    requests_per_s=310.5,
    request_percentage=None,
    bytes_in=81_000_000,
    bytes_out=9_000,
    requests=77,
    since_at_ms=1_700_000_000_000,
    last_active_at_ms=1_700_000_100_000,
    limited_by=(),
    history=partial(tuple, HISTORY),
    gateways=("g1-5f0c",),
)
ADDRESS = AddressUse("10.0.0.7", 1.5, 2, None, 14, 0, 3, "g1-5f0c")
SUMMARY = ClientSummary("g1-5f0c", (CLIENT,), 4, (ADDRESS,), 5)
TEXT = (
    '{"version":4,"gateway":"g1-5f0c","unlisted_clients":4,"unlisted_addresses":5,'
    '"clients":[["alice","app",2,250000.0,1000.5,310.5,null,81000000,9000,77,1700000000000,1700000100000,'
    '[[100,20,3],[0,0,0]]]],"addresses":[["10.0.0.7",1.5,2,null,14,0,3]]}'
)


def write(summary: ClientSummary) -> bytes:
    return run_through(write_in_steps(summary))


def read(data: bytes) -> ClientSummary:
    return run_through(read_in_steps(data))


def reported(row: ClientUsage) -> tuple[ClientUsage, list[tuple[int, ...]]]:
    """Return what can be compared: rows are equal only if they have the same function."""
    return replace(row, history=tuple), [tuple(each) for each in row.history()]


def damaged(**changes: Any) -> bytes:
    return json.dumps(json.loads(TEXT) | changes).encode()


def with_client(index: int, value: Any) -> bytes:
    found = json.loads(TEXT)
    found["clients"][0][index] = value
    return json.dumps(found).encode()


def with_address(index: int, value: Any) -> bytes:
    found = json.loads(TEXT)
    found["addresses"][0][index] = value
    return json.dumps(found).encode()


def test_a_record_is_the_documented_json() -> None:
    assert write(SUMMARY).decode() == TEXT
    found = read(TEXT.encode())
    assert [reported(row) for row in found.clients] == [reported(CLIENT)]
    assert replace(found, clients=()) == replace(SUMMARY, clients=())


def test_a_gateway_that_knows_only_reports_skips_it() -> None:
    with pytest.raises(UnreadableReport, match="version 4"):
        run_through(read_report(TEXT.encode()))


def test_its_key_is_not_that_of_another_record() -> None:
    assert client_key_of("g1-5f0c") == b"clients g1-5f0c"


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_clients_and_addresses_beyond_the_most_are_counted(beyond: int) -> None:
    clients = [
        replace(CLIENT, client_id=str(number), history=tuple) for number in range(MAX_CLIENTS + beyond)
    ]
    addresses = [
        replace(ADDRESS, address=f"10.0.{number // 256}.{number % 256}")
        for number in range(MAX_ADDRESSES + beyond)
    ]
    found = read(write(ClientSummary("g1", tuple(clients), 4, tuple(addresses), 5)))
    assert [row.client_id for row in found.clients] == [row.client_id for row in clients[:MAX_CLIENTS]]
    assert [row.address for row in found.addresses] == [row.address for row in addresses[:MAX_ADDRESSES]]
    more = max(beyond, 0)
    assert (found.unlisted_clients, found.unlisted_addresses) == (4 + more, 5 + more)


def test_rows_that_do_not_fit_are_counted() -> None:
    long = tuple(replace(CLIENT, user=f"{number:0{MAX_NAME}}") for number in range(MAX_CLIENTS))
    where = tuple(replace(ADDRESS, accepted=MAX_COUNT - 1 - number) for number in range(MAX_ADDRESSES))
    data = write(ClientSummary("g1", long, 0, where, 0))
    assert len(data) <= MAX_READ
    found = read(data)
    row = len(json.dumps([*json.loads(TEXT)["clients"][0][1:], "0" * MAX_NAME], separators=(",", ":"))) + 1
    assert len(found.clients) == MAX_CLIENT_BYTES // row < MAX_CLIENTS
    assert found.unlisted_clients == MAX_CLIENTS - len(found.clients)
    assert (len(found.addresses), found.unlisted_addresses) == (MAX_ADDRESSES, 0)
    assert MAX_ADDRESSES * 128 < MAX_ADDRESS_BYTES


@pytest.mark.parametrize(("characters", "listed"), [(MAX_NAME - 1, 1), (MAX_NAME, 1), (MAX_NAME + 1, 0)])
@pytest.mark.parametrize("field", ["user", "client_id"])
def test_a_client_with_a_long_name_is_only_counted(field: str, characters: int, listed: int) -> None:
    long = replace(CLIENT, **{field: "x" * characters})  # type: ignore[arg-type] # one of the names
    found = read(write(replace(SUMMARY, clients=(long, CLIENT))))
    assert len(found.clients) == 1 + listed
    assert found.unlisted_clients == 4 + 1 - listed


@pytest.mark.parametrize("rate", [nan, inf, -inf, -1e-9])
def test_a_rate_that_is_none_is_0(rate: float) -> None:
    found = read(
        write(
            replace(
                SUMMARY,
                clients=(replace(CLIENT, bytes_in_per_s=rate),),
                addresses=(replace(ADDRESS, rate=rate),),
            )
        )
    )
    assert (found.clients[0].bytes_in_per_s, found.addresses[0].rate) == (0.0, 0.0)


def test_a_name_that_is_no_unicode_ends_nothing() -> None:
    (found,) = read(write(replace(SUMMARY, clients=(replace(CLIENT, client_id="a\udcffb"),)))).clients
    assert found.client_id == "a?b"


def test_of_a_long_history_the_last_intervals_count() -> None:
    rows = [[number, 0, 0] for number in range(INTERVALS + 1)]
    (found,) = read(with_client(12, rows)).clients
    assert list(found.history()) == [(number, 0, 0) for number in range(1, INTERVALS + 1)]


BAD_COUNTS: Sequence[Any] = (-1, MAX_COUNT, 1.5, "1", True, None, [])
BAD_RATES: Sequence[Any] = (-0.1, 1e301, "1", None, True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * MAX_READ,
        TEXT.encode()[:-1],
        TEXT.encode() + b" " * (MAX_READ - len(TEXT) + 1),
        TEXT.replace("250000.0", "1e999").encode(),
        TEXT.replace("250000.0", "NaN").encode(),
        TEXT.replace("310.5", "9" * 400).encode(),
        TEXT.replace("alice", "\\ud800").encode(),
        *(damaged(version=version) for version in (1, 3, 5, "4", None)),
        *(damaged(gateway=gateway) for gateway in ("", None, 7, [])),
        *(damaged(unlisted_clients=count) for count in BAD_COUNTS),
        *(damaged(unlisted_addresses=count) for count in BAD_COUNTS),
        *(damaged(clients=rows) for rows in (None, {}, "x", [None], [[]], [{}], [["alice", "app"]])),
        *(damaged(addresses=rows) for rows in (None, {}, "x", [None], [[]], [{}], [["10.0.0.7"]])),
        *(with_client(index, value) for index in (0, 1) for value in (None, 7, [])),
        *(with_client(index, value) for index in (2, 7, 8, 9, 10, 11) for value in BAD_COUNTS),
        *(with_client(index, value) for index in (3, 4, 5) for value in BAD_RATES),
        *(with_client(6, value) for value in (-0.1, 1e301, "1")),
        # A time after the year 9999 cannot be shown.
        *(with_client(index, 253_402_300_800_000) for index in (10, 11)),
        *(with_client(12, rows) for rows in (None, 7, [7], [[1, 2]], [[1, 2, -3]], [[1, 2, 3, 4]])),
        *(with_address(0, value) for value in (None, 7, "", "no address", "10.0.0.256", "\0")),
        *(with_address(1, value) for value in BAD_RATES),
        *(with_address(index, value) for index in (2, 4, 5, 6) for value in BAD_COUNTS),
        *(with_address(3, value) for value in BAD_COUNTS if value is not None),
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableReport) as refusal:
        read(data)
    assert len(str(refusal.value)) < 300


def test_times_up_to_the_year_9999_and_counts_below_the_most_are_read() -> None:
    assert read(with_client(10, 253_402_300_799_999)).clients[0].since_at_ms == 253_402_300_799_999
    assert read(with_client(7, MAX_COUNT - 1)).clients[0].bytes_in == MAX_COUNT - 1


def pauses(steps: Steps[object]) -> int:
    return sum(1 for _ in steps)


@pytest.mark.parametrize("rows", [0, 1, 2, MAX_CLIENTS])
def test_writing_and_reading_pause_before_every_row(rows: int) -> None:
    summary = ClientSummary("g1", (CLIENT,) * rows, 0, (ADDRESS,) * rows, 0)
    assert pauses(write_in_steps(summary)) == 2 * rows
    # One more after the decoding.
    assert pauses(read_in_steps(write(summary))) == 1 + 2 * rows


def test_rows_beyond_the_most_are_not_read() -> None:
    rows = json.loads(TEXT)
    data = damaged(
        clients=rows["clients"] * (MAX_CLIENTS + 1), addresses=rows["addresses"] * (MAX_ADDRESSES + 1)
    )
    found = read(data)
    assert (len(found.clients), len(found.addresses)) == (MAX_CLIENTS, MAX_ADDRESSES)
