"""Host names and their addresses: shared lookups, and attempts one after the other."""

import errno
import os
import socket
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.config.listeners import Address
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.tcp import HostNames, open_tcp
from tests.support.fake_upstream import HOST, Names, fake_cluster, full_backlog

KAFKA = Address("kafka.example", 9092)


async def test_callers_that_come_during_a_lookup_share_its_result() -> None:
    names = Names("10.0.0.1", "10.0.0.2")
    host_names = HostNames()
    found: list[Any] = []

    async def resolve() -> None:
        found.append(list(await host_names.resolve(KAFKA)))

    for lookups in (1, 2):
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(resolve)
        assert names.lookups == ["kafka.example"] * lookups
    both = [(socket.AF_INET, ("10.0.0.1", 9092)), (socket.AF_INET, ("10.0.0.2", 9092))]
    assert found == [both] * 200


async def test_callers_share_a_failure() -> None:
    names = Names()
    host_names = HostNames()
    errors: list[UpstreamError] = []

    async def resolve() -> None:
        with pytest.raises(UpstreamError) as caught:
            await host_names.resolve(KAFKA)
        errors.append(caught.value)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(resolve)
    assert names.lookups == ["kafka.example"] and [error.reason for error in errors] == [Reason.DNS] * 3
    assert len(set(map(id, errors))) == 3


async def test_a_lookup_whose_caller_is_cancelled_is_made_by_the_next() -> None:
    names = Names(HOST)
    hosts, names.hosts = names.hosts, None
    host_names = HostNames()
    found: list[Any] = []
    async with trio.open_nursery() as nursery:
        first = trio.CancelScope()

        async def resolve(scope: trio.CancelScope) -> None:
            with scope:
                found.append(list(await host_names.resolve(KAFKA)))

        nursery.start_soon(resolve, first)
        await wait_all_tasks_blocked()
        for _ in range(2):
            nursery.start_soon(resolve, trio.CancelScope())
        await wait_all_tasks_blocked()
        names.hosts = hosts
        first.cancel()
    assert found == [[(socket.AF_INET, (HOST, 9092))]] * 2
    assert names.lookups == ["kafka.example"] * 2


async def test_the_next_address_is_tried_at_once_after_a_failure(mock_clock: MockClock) -> None:
    async with fake_cluster() as fake:
        Names("127.0.0.2", "127.0.0.3", HOST)
        sock = await open_tcp(Address("kafka.example", fake.live[0].port), HostNames())
        assert sock.getpeername() == (HOST, fake.live[0].port)
        sock.close()


async def test_the_next_address_is_tried_after_a_quarter_of_a_second(mock_clock: MockClock) -> None:
    async with fake_cluster() as fake:
        port = fake.live[0].port
        with full_backlog("127.0.0.2", port):
            Names("127.0.0.2", HOST)
            opened: list[str] = []

            async def connect() -> None:
                sock = await open_tcp(Address("kafka.example", port), HostNames())
                opened.append(sock.getpeername()[0])
                sock.close()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect)
                await wait_all_tasks_blocked(0.01)
                mock_clock.jump(0.1875)
                await wait_all_tasks_blocked(0.01)
                assert opened == []
                mock_clock.jump(0.0625)
            assert opened == [HOST]


async def test_all_failures_are_reported() -> None:
    async with fake_cluster() as fake:
        (node,) = fake.live
        node.stop()
        await wait_all_tasks_blocked(0.01)
        # The broadcast address is unreachable without a socket option.
        Names("127.0.0.2", "255.255.255.255", HOST)
        with pytest.raises(UpstreamError) as caught:
            await open_tcp(Address("kafka.example", node.port), HostNames())
        assert caught.value.reason is Reason.REFUSED
        expected = sorted(map(os.strerror, (errno.ECONNREFUSED, errno.ENETUNREACH)))
        assert str(caught.value) == f"kafka.example:{node.port}: {', '.join(expected)}"


async def test_a_cancelled_attempt_leaves_no_socket(mock_clock: MockClock) -> None:
    with full_backlog("127.0.0.2") as first, full_backlog("127.0.0.3", first.port):
        Names("127.0.0.2", "127.0.0.3")
        before = len(os.listdir("/proc/self/fd"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_tcp, Address("kafka.example", first.port), HostNames())
            await wait_all_tasks_blocked(0.01)
            mock_clock.jump(0.25)
            await wait_all_tasks_blocked(0.01)
            assert len(os.listdir("/proc/self/fd")) == before + 2
            nursery.cancel_scope.cancel()
        assert len(os.listdir("/proc/self/fd")) == before
