"""Connections that are searched and ordered as a page asks."""

import random

import pytest
from msgspec.structs import replace

from broker.common.slices import run_through
from broker.views.connection_search import FILTERS, SORTS, ConnectionQuery, find_connections
from tests.webui.rows import connection

ROWS = [
    connection(
        f"Client {number % 7}",
        f"user {number % 5}",
        number,
        opened_at_ms=1_000 + number % 50,
        bytes_in=number * 7919 % 1_000,
        mute_state="not_muted" if number % 3 else "muted_and_throttled",
        tls="" if number % 2 else "TLSv1.3 X",
    )
    for number in range(1_000)
]


def found(query: ConnectionQuery, count: int = len(ROWS)) -> list[str]:
    rows = ROWS[:count]
    random.Random(7).shuffle(rows)
    answer = run_through(find_connections(rows, query))
    assert answer.of == count
    return [row.connection_id for row in answer.rows]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", [None, "since", *SORTS])
def test_every_order_is_that_of_all_rows(sort: str | None, descending: bool) -> None:
    ordered = sorted(ROWS, key=lambda row: (row.opened_at_ms, row.connection_id))
    if sort in SORTS:
        ordered.sort(key=SORTS[sort or ""], reverse=descending)
    elif descending:
        ordered.reverse()
    wanted = [row.connection_id for row in ordered]
    for rows in (1, 100, 999, 1_000, 1_001):
        assert found(ConnectionQuery(sort=sort, descending=descending, rows=rows)) == wanted[:rows]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257])
def test_any_number_of_rows_is_found(count: int) -> None:
    assert len(found(ConnectionQuery(rows=1_000), count)) == count


@pytest.mark.parametrize("shape", FILTERS)
def test_filters_and_search_leave_rows_out_and_count_the_rest(shape: str) -> None:
    answer = run_through(find_connections(ROWS, ConnectionQuery("CLIENT 3", shape, rows=2)))
    wanted = [row for row in ROWS if FILTERS[shape](row) and row.client_id == "Client 3"]
    assert answer.total == len(wanted) > 2 and answer.of == 1_000
    assert len(answer.rows) == 2 and set(answer.rows) <= set(wanted)


def test_the_search_goes_through_names_addresses_and_ids() -> None:
    row = replace(ROWS[0], software_name="librdkafka", listener="EDGE", address="10.9.9.9")
    for text in ("LIBRD", "edge", "10.9.9", row.connection_id, "USER 0", "client 0"):
        assert run_through(find_connections([row, *ROWS[1:3]], ConnectionQuery(text))).rows[0] == row
    assert run_through(find_connections(ROWS, ConnectionQuery("nobody"))).total == 0
