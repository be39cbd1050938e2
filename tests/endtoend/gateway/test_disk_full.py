"""A gateway whose disk is full: clients notice nothing, changes are refused, and nothing is lost. Upstream is
a broker of ours: this is about the gateway's own files.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import pytest

from tests.support.acknowledged_load import read_all
from tests.support.broker_process import BrokerProcess, within
from tests.support.full_disk import files_refused, filled, small_file_system
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.machine_speed import crowding
from tests.support.real_clients import Target, create
from tests.support.small_requests import P99_MS, SmallRequests

pytestmark = pytest.mark.endtoend

TOPIC: Final = "full"
CLIENT_ID: Final = "small"
RATE: Final = 400_000
"""Above what the clients send, and so low that what they use is worth saving."""
ENOUGH: Final = 500
UNSAVED: Final = "usage of quotas is not saved, a restart would clear it"


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "upstream") as running:
        create(Target(running.plain), TOPIC, 1, 1)
        yield running


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path) as mounted:
        yield mounted


def limit_of(gateway: GatewayProcess) -> float:
    (row,) = gateway.ask("GET", "/api/v1/client-quotas")["items"]
    return float(row["limits"]["producer_byte_rate"]["value"])


def check_full(
    gateway: GatewayProcess,
    upstream: BrokerProcess,
    full: AbstractContextManager[None],
    *,
    has_log: bool = False,
) -> float:
    """The 99th percentile of the clients' waits, in ms. With `has_log`, its log is on another disk."""
    set_rate(gateway, CLIENT_ID, RATE)
    with SmallRequests(gateway.bootstrap, TOPIC) as clients:
        with full:
            clients.wait_for_more(ENOUGH)
            with pytest.raises(HTTPError) as refused:
                set_rate(gateway, CLIENT_ID, RATE + 1)
            refused.value.close()
            assert refused.value.code == 503
            assert limit_of(gateway) == RATE
            # A client that comes now is served, too.
            with SmallRequests(gateway.addresses[1], TOPIC, clients=1) as late:
                late.wait_for_more(10)
            clients.wait_for_more(ENOUGH)
            if has_log:
                within(10, lambda: lines_with(gateway, UNSAVED), "a line")
        clients.wait_for_more(10)
        set_rate(gateway, CLIENT_ID, RATE + 2)
    stored = read_all(upstream.plain, TOPIC, 1)
    for each in (clients, late):
        each.check(stored)
    assert not [line for line in gateway.log_lines if "Traceback" in line]
    gateway.kill()
    gateway.start()
    assert limit_of(gateway) == RATE + 2
    print(f"p99 {clients.p99_ms:.1f} ms, longest {max(clients.waits_ms):.1f} ms of {len(clients.waits_ms)}")
    return clients.p99_ms


def lines_with(gateway: GatewayProcess, words: str) -> list[str]:
    return [line for line in gateway.log_lines if words in line]


def test_without_space_clients_go_on_and_changes_are_refused(
    tmp_path: Path, small_disk: Path, upstream: BrokerProcess
) -> None:
    gateway = GatewayProcess(small_disk, upstream.plain, nodes=1)
    gateway.output = tmp_path / "gateway.output"
    with gateway:
        check_full(gateway, upstream, filled(small_disk), has_log=True)
        assert len(lines_with(gateway, UNSAVED)) == 1, "a line, not one for each attempt"


def test_without_space_for_its_log_a_gateway_goes_on(small_disk: Path, upstream: BrokerProcess) -> None:
    """Its standard error is a file of the same disk."""
    with GatewayProcess(small_disk, upstream.plain, nodes=1) as gateway:
        check_full(gateway, upstream, filled(small_disk))


def test_files_that_may_not_grow_are_the_same(tmp_path: Path, upstream: BrokerProcess) -> None:
    with GatewayProcess(tmp_path, upstream.plain, nodes=1) as gateway:
        check_full(gateway, upstream, files_refused(gateway.running.pid))
        # A line of the log could not be written either, but the next one was.
        set_rate(gateway, CLIENT_ID, RATE)
        within(5, lambda: limit_of(gateway) == RATE, "a change")


@pytest.mark.timed
def test_a_full_disk_keeps_no_client_waiting(
    tmp_path: Path, small_disk: Path, upstream: BrokerProcess
) -> None:
    gateway = GatewayProcess(small_disk, upstream.plain, nodes=1)
    gateway.output = tmp_path / "gateway.output"
    with gateway:
        assert check_full(gateway, upstream, filled(small_disk)) < P99_MS * crowding()
