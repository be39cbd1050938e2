"""A broker with two listeners on the loopback, one of them the brokers' own, and what tests of the connection
quotas ask of it.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from trio.testing import MockClock, wait_all_tasks_blocked

from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.network.acceptor.connection_gate import ListenerGate
from broker.network.connection.channel import Channel
from broker.quotas.connections import IP_RATE
from tests.support.live import alter_through
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient, connect

TURNS = 200
"""Of waiting for what the kernel does."""

PLAINTEXT, EXTERNAL, CONTROLLER, PLANE = "PLAINTEXT", "EXTERNAL", "CONTROLLER", "PLANE"
LOOPBACK = "127.0.0.1"

TWO_SERVERS = (
    f"listeners={PLAINTEXT}://{LOOPBACK}:0,{CONTROLLER}://{LOOPBACK}:0",
    f"listener.security.protocol.map={PLAINTEXT}:PLAINTEXT,{CONTROLLER}:PLAINTEXT,{PLANE}:PLAINTEXT",
    "process.roles=broker,controller",
    f"controller.listener.names={CONTROLLER}",
    "quota.window.num=2",
)
"""A listener of the broker's socket server and one of the controller's; rates are over two windows of a
second.
"""

WITH_CONTROL_PLANE = (
    *TWO_SERVERS,
    f"listeners={PLAINTEXT}://{LOOPBACK}:0,{CONTROLLER}://{LOOPBACK}:0,{PLANE}://{LOOPBACK}:0",
    f"control.plane.listener.name={PLANE}",
)
"""The same, and a control plane, which is part of the broker's server."""


def two_listeners(directory: Path, *overrides: str) -> AbstractAsyncContextManager[RunningBroker]:
    """PLAINTEXT is protected, EXTERNAL is not; rates are over two windows of a second."""
    return running_broker(
        directory,
        f"listeners={PLAINTEXT}://{LOOPBACK}:0,{EXTERNAL}://{LOOPBACK}:0",
        f"listener.security.protocol.map={PLAINTEXT}:PLAINTEXT,{EXTERNAL}:PLAINTEXT",
        f"inter.broker.listener.name={PLAINTEXT}",
        "quota.window.num=2",
        *overrides,
    )


def gate_of(broker: RunningBroker, listener: str = EXTERNAL) -> ListenerGate:
    (found,) = (each for each in broker.server.socket_server.listeners if each.name == listener)
    return found.acceptor.gate


async def open_to(broker: RunningBroker, listener: str = EXTERNAL) -> WireClient:
    """A connection to one of the listeners, which the broker may leave waiting."""
    (found,) = (each for each in broker.server.socket_server.listeners if each.name == listener)
    client = await connect(found.acceptor.address[1])
    broker.clients.append(client)
    return client


async def settle() -> None:
    """Wait until all tasks are blocked."""
    await wait_all_tasks_blocked(0.02)


def channel_of(broker: RunningBroker, client: WireClient) -> Channel | None:
    """The broker's side of a connection, if it serves it. Two that lead to different listeners may have the
    same port on the client's side.
    """
    sock = client.stream.socket
    if sock.fileno() < 0:
        return None
    try:
        (local_host, port), (peer_host, listening) = sock.getsockname(), sock.getpeername()
    except OSError:
        return None  # it was reset
    ends = f"{peer_host}:{listening}-{local_host}:{port}-"
    return next((each for each in broker.server.socket_server.channels() if each.id.startswith(ends)), None)


def served(broker: RunningBroker, clients: list[WireClient]) -> int:
    """How many of these connections a processor has."""
    return sum(channel_of(broker, each) is not None for each in clients)


async def serves(broker: RunningBroker, clients: list[WireClient], count: int) -> None:
    """Wait until a processor has so many of these connections, and no more. The kernel may hand a connection
    over later than all tasks are blocked.
    """
    for _ in range(TURNS):
        await settle()
        if served(broker, clients) >= count:
            break
    await settle()
    assert served(broker, clients) == count


async def set_ip_rate(broker: RunningBroker, rate: int | None, address: str | None = None) -> None:
    """connection_creation_rate of an address, or of all without one (None), through the control plane."""
    rule = QuotaAlteration((("ip", address),), (QuotaOp(IP_RATE, rate),))
    (outcome,) = await broker.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
    assert outcome.ok


async def opened(broker: RunningBroker, count: int, listener: str = EXTERNAL) -> list[WireClient]:
    clients = [await open_to(broker, listener) for _ in range(count)]
    await settle()
    return clients


async def passes(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds)
    await settle()


async def alter_from_inside(broker: RunningBroker, **settings: str) -> None:
    """As an operator whose connection is open already, because no other gets through."""
    (client,) = [each for each in broker.clients if channel_of(broker, each)][:1]
    keys = {key.replace("_", "."): text for key, text in settings.items()}
    assert await alter_through(client, keys) == (0, None)
