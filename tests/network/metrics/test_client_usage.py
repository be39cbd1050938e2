"""Usage by principal, client id and API: all requests are counted, and the first of each second are timed."""

from typing import Any

import pytest

from broker.network.metrics.client_usage import TIMED, ApiClient, ClientUsage


class Channel:
    def __init__(self, client_id: str | None, principal: str = "alice") -> None:
        self.client_id = client_id
        self.principal = principal


class Request:
    """Received at 0, taken up after 5 us, answered after 20."""

    size = 96
    received, dequeued, completed, local_complete = 0, 5_000, 20_000, 0

    def __init__(self, channel: Channel) -> None:
        self.channel = channel


def counted(usage: ClientUsage, api: str, channel: Any, times: int = 1, **marks: int) -> None:
    tap = usage.tap(api)
    assert tap is not None
    for _ in range(times):
        request: Any = Request(channel)
        for name, value in marks.items():
            setattr(request, name, value)
        tap.answered(request, 21_000, 30_000, 50)


@pytest.fixture
def usage() -> ClientUsage:
    made = ClientUsage()
    made.is_enabled = True
    return made


def test_off_there_is_nothing_to_hear_with() -> None:
    assert ClientUsage().tap("Produce") is None


@pytest.mark.parametrize("requests", [TIMED - 1, TIMED, TIMED + 1])
def test_all_requests_are_counted_and_the_first_are_timed(usage: ClientUsage, requests: int) -> None:
    counted(usage, "Produce", Channel("a"), requests)
    ((client, use),) = usage.take(10)
    assert client == ApiClient("alice", "a", "Produce")
    assert (use.requests, use.bytes_in, use.bytes_out) == (requests, 100 * requests, 50 * requests)
    assert use.timed == min(requests, TIMED)
    assert [sum(phase.values()) for phase in use.phases] == [use.timed, use.timed, 0, *[use.timed] * 3]


def test_a_wait_is_remote_time(usage: ClientUsage) -> None:
    counted(usage, "Fetch", Channel("a"), local_complete=6_000)
    ((_, use),) = usage.take(10)
    _, local, remote, *_ = use.phases
    assert local == {0: 1} and remote == {13: 1}  # under 1,024 ns; 14 us are 13 ticks


def test_connections_of_one_client_are_added_up_and_apis_are_not(usage: ClientUsage) -> None:
    for api in ("Produce", "Fetch"):
        counted(usage, api, Channel("a"))
        counted(usage, api, Channel("a"), 2)
    counted(usage, "Produce", Channel("a", principal="bob"))
    counted(usage, "Produce", Channel(None))
    found = {client: use.requests for client, use in usage.take(10)}
    assert found == {
        ApiClient("alice", "a", "Produce"): 3,
        ApiClient("alice", "a", "Fetch"): 3,
        ApiClient("bob", "a", "Produce"): 1,
        ApiClient("alice", "", "Produce"): 1,
    }


@pytest.mark.parametrize(("clients", "others"), [(2, 0), (3, 0), (4, 1), (5, 2)])
def test_more_askers_than_rows_are_one_row_without_a_name(
    usage: ClientUsage, clients: int, others: int
) -> None:
    for number in range(clients):
        counted(usage, "Produce", Channel(f"client-{number}"))
    rows = dict(usage.take(3))
    assert sum(use.requests for use in rows.values()) == clients
    assert (rows[None].requests if None in rows else 0) == others


def test_errors_and_throttles_are_added_up(usage: ClientUsage) -> None:
    channel: Any = Channel("a")
    tap = usage.tap("Produce")
    assert tap is not None
    request: Any = Request(channel)
    tap.erred(request, {3: 2, 6: 1})
    tap.erred(request, {6: 1})
    tap.throttled(request, 200)
    tap.throttled(request, 300)
    ((_, use),) = usage.take(10)
    assert use.errors == {3: 2, 6: 2} and use.throttle_ms == 500
    assert list(usage.take(10)) == []
