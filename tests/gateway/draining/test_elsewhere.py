"""Where clients go while a gateway drains."""

from collections.abc import Iterable, Sequence

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from broker.config.listeners import Address
from broker.config.sections.gateway import NodeAddresses, read_node_addresses
from broker.controller.rows.upstream import GatewayTraffic
from broker.gateway.draining.elsewhere import Elsewhere
from broker.gateway.sharing.summary import ListenerNodes, Summary
from tests.support.kafka_tools import free_port

TRAFFIC = GatewayTraffic(0, 0, 0, 0, 0, 0.0, 0.0, 0.0)
OWN = ListenerNodes("EXTERNAL", "SSL", NodeAddresses("own.example", 1_000, 1_009))


def summary(
    gateway: str, host: str, *, listener: str = "EXTERNAL", protocol: str = "SSL", draining: bool = False
) -> Summary:
    nodes = (ListenerNodes(listener, protocol, NodeAddresses(host, 2_000, 2_002)),)
    return Summary(gateway, "", TRAFFIC, nodes=nodes, draining=draining)


def elsewhere(
    others: Iterable[Summary] = (),
    configured: Sequence[NodeAddresses] = (),
    offset: int = 0,
    own_ports: Sequence[int] = (),
) -> Elsewhere:
    return Elsewhere(lambda _listener: configured, lambda: others, offset, lambda port: port in own_ports)


async def hosts(found: Elsewhere, nodes: Sequence[int] = (0, 1, 2)) -> list[str | None]:
    await found.look([OWN], nodes)
    addresses = [found.address("EXTERNAL", node) for node in nodes]
    return [None if each is None else each.host for each in addresses]


async def test_without_other_gateways_nothing_is_known() -> None:
    found = elsewhere()
    assert not await found.look([OWN], [1])
    assert not found.is_known and found.addresses == ()
    assert found.address("EXTERNAL", 1) is None


async def test_nodes_are_spread_over_the_live_gateways() -> None:
    others = [summary("c", "c"), summary("b", "b"), summary("a", "a", draining=True)]
    found = elsewhere(others)
    assert await hosts(found) == ["b", "c", "b"]
    assert found.is_known and found.addresses == ("b:2000-2002", "c:2000-2002")
    assert found.address("EXTERNAL", 2) == Address("b", 2_002)
    assert not await found.look([OWN], [1])


async def test_gateways_that_drain_prefer_different_ones() -> None:
    others = [summary("b", "b"), summary("c", "c")]
    assert await hosts(elsewhere(others, offset=1)) == ["c", "b", "c"]


async def test_a_listener_has_the_addresses_of_its_namesakes_only() -> None:
    others = [
        summary("b", "b", listener="INTERNAL"),
        summary("c", "c", protocol="SASL_SSL"),
        summary("d", "d"),
    ]
    found = elsewhere(others)
    assert await hosts(found) == ["d", "d", "d"]
    assert found.address("INTERNAL", 1) is None


async def test_gateways_with_the_same_address_count_once() -> None:
    found = elsewhere([summary("b", "all"), summary("c", "all")])
    await found.look([OWN], [1])
    assert found.addresses == ("all:2000-2002",)


async def test_the_own_addresses_come_with_no_others() -> None:
    """Processes of one gateway have the same ones, and drain together, known a second later."""
    sibling = Summary("a", "", TRAFFIC, nodes=(OWN,))
    assert await hosts(elsewhere([sibling, summary("b", "b")])) == ["b", "b", "b"]
    assert await hosts(elsewhere([sibling])) == ["own.example"] * 3


async def test_a_node_goes_where_the_range_is_long_enough_for_it() -> None:
    long = NodeAddresses("long", 3_000, 3_009)
    others = [
        summary("b", "short"),
        Summary("c", "", TRAFFIC, nodes=(ListenerNodes("EXTERNAL", "SSL", long),)),
    ]
    assert await hosts(elsewhere(others), [2, 3, 4, 9, 10]) == ["short", "long", "long", "long", None]


async def test_a_host_name_with_a_placeholder_has_one_port() -> None:
    names = NodeAddresses("broker-$(nodeId).c", 9_093, 9_093)
    found = elsewhere([Summary("c", "", TRAFFIC, nodes=(ListenerNodes("EXTERNAL", "SSL", names),))])
    await found.look([OWN], [1])
    assert found.address("EXTERNAL", 41) == Address("broker-41.c", 9_093)


async def test_a_change_is_noticed() -> None:
    others = [summary("b", "b")]
    found = elsewhere(others)
    assert await found.look([OWN], [1])
    others[0] = summary("b", "b", draining=True)
    assert await found.look([OWN], [1])
    assert not found.is_known


async def test_configured_addresses_come_first_if_something_accepts_there() -> None:
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, _nothing, [listener])
        port = listener.socket.getsockname()[1]
        here, closed = (
            NodeAddresses("127.0.0.1", port - 1, port),
            NodeAddresses("127.0.0.1", free_port(), 65_535),
        )
        found = elsewhere([summary("b", "b")], [closed, here])
        await found.look([OWN], [1])
        assert found.addresses == (str(here),)
        nursery.cancel_scope.cancel()
    assert await found.look([OWN], [1])
    assert not found.is_known


async def test_an_own_port_that_accepts_connections_is_not_elsewhere() -> None:
    """A port of a node stays open in a drain, and `gateway.drain.to` may have all gateways."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, _nothing, [listener])
        port = listener.socket.getsockname()[1]
        configured = [NodeAddresses("localhost", port, port)]
        for own_ports, is_known in (([port], False), ([port + 1], True)):
            found = elsewhere(configured=configured, own_ports=own_ports)
            for _ in range(2):
                await found.look([OWN], [0])
                assert found.is_known is is_known
        nursery.cancel_scope.cancel()


async def test_a_configured_range_that_is_too_short_for_every_node_is_not_known() -> None:
    found = elsewhere(configured=[NodeAddresses("127.0.0.1", 3_000, 3_001)])
    await found.look([OWN], [2, 3])
    assert not found.is_known


async def test_an_address_that_was_there_is_given_up_after_three_looks_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """A gateway whose backlog is full drops what it is sent. Clients that all left at once would not help."""
    answers: list[bool] = []

    async def connect(_host: str, _port: int) -> trio.abc.Stream:
        if not answers.pop(0):
            await trio.sleep_forever()
        return memory_stream_pair()[0]

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    monkeypatch.setattr(Elsewhere, "_leads_here", lambda *_: False)
    found = elsewhere(configured=[NodeAddresses("b", 2_000, 2_002)])
    looks = []
    for answer in (False, True, False, False, True, False, False, False, False):
        answers.append(answer)
        await found.look([OWN], [1])
        looks.append(found.is_known)
    assert looks == [False, True, True, True, True, True, True, False, False]


@pytest.mark.parametrize(("after_s", "is_known"), [(1.499, True), (1.501, False)])
async def test_an_address_has_time_for_a_packet_that_is_lost(
    after_s: float, is_known: bool, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async def connect(_host: str, _port: int) -> trio.abc.Stream:
        await trio.sleep(after_s)
        return memory_stream_pair()[0]

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    monkeypatch.setattr(Elsewhere, "_leads_here", lambda *_: False)
    found = elsewhere(configured=[NodeAddresses("b", 2_000, 2_002)])
    await found.look([OWN], [1])
    assert found.is_known is is_known


@pytest.mark.parametrize(
    ("host", "node"), [("a..b", 0), ("a" * 64, 0), ("b" * 62 + "$(nodeId)", 1), ("b" * 62 + "$(nodeId)", 10)]
)
async def test_what_is_no_name_of_a_host_is_not_known(host: str, node: int) -> None:
    found = elsewhere(configured=[NodeAddresses(host, 1, 1)])
    assert not await found.look([OWN], [node])
    assert not found.is_known


async def _nothing(_stream: trio.SocketStream) -> None:
    pass


@pytest.mark.parametrize(
    "address", ["g.example:31000-31099", "[2001:db8::1]:1-65535", "b-$(nodeId).g.example:1"]
)
def test_addresses_are_read_as_they_are_written(address: str) -> None:
    assert str(read_node_addresses(address)) == address
