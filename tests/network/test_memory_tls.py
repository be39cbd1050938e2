"""Bounded memory under TLS (KIP-72): handshakes do not wait, and no plaintext stays in a buffer."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.protocol.messages.metadata import MetadataRequest
from tests.network.test_pipelining import correlation_ids, encoded, stored
from tests.support.certificates import certificates, tls_settings
from tests.support.machine_speed import WITHIN_S
from tests.support.memory import BEGUN, BOUNDED, POOL, settled, used, waiting
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


@pytest.fixture(params=["kafka", "automq"])
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningBroker]:
    mode = f"socket.server.mode={request.param}"
    async with running_broker(tmp_path, *tls_settings(), *BOUNDED, mode) as running:
        maker = await running.connect_tls(certificates().client_context())
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def taker_of_all(broker: RunningBroker) -> WireClient:
    taker = await broker.connect_tls(certificates().client_context())
    await taker.stream.send_all(BEGUN)
    await settled()
    assert used(broker) == POOL
    return taker


async def test_a_handshake_is_not_muted(broker: RunningBroker) -> None:
    await taker_of_all(broker)
    with trio.fail_after(WITHIN_S):
        client = await broker.connect_tls(certificates().client_context())
    await client.send(MetadataRequest([]), 9)
    await settled()
    assert waiting(broker) == 1


@pytest.mark.parametrize("size", [10, 100_000])
async def test_requests_that_have_left_the_kernel_are_served_when_memory_is_back(
    broker: RunningBroker, size: int
) -> None:
    """They are all in the records that the first four bytes came with: no socket tells of them any more."""
    taker = await taker_of_all(broker)
    client = await broker.connect_tls(certificates().client_context())
    stream = b"".join(encoded(produce_request(batch_of(bytes(size))), 8, at) for at in range(5))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.stream.send_all, stream)
        await settled()
        assert (waiting(broker), stored(broker)) == (1, 0)
        await trio.aclose_forcefully(taker.stream)
        with trio.fail_after(WITHIN_S):
            assert await correlation_ids(client, 5) == list(range(5))
    await settled()
    assert (used(broker), waiting(broker), broker.server.socket_server.frames.outstanding) == (0, 0, 0)
