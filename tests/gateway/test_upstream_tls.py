"""Responses of a broker behind TLS: the kernel does not report bytes that the gateway has decrypted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.config.sections import TlsConfig
from broker.gateway.forwarder import SCRATCH_BYTES
from broker.network.connection.tls_socket import CIPHERTEXT_BYTES
from broker.protocol.api_key import ApiKey
from broker.security.tls import server_context
from tests.gateway.test_older_versions import fetch, fetched, framed
from tests.support.certificates import certificates
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.machine_speed import WITHIN_S
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

VERSION = 2


@asynccontextmanager
async def encrypted_gateway(tmp_path: Path) -> AsyncIterator[tuple[FakeNode, RunningGateway]]:
    known = certificates()
    async with fake_cluster(1) as cluster:
        cluster.tls = server_context(TlsConfig(keystore_location=str(known.server.store)))
        async with running_gateway(
            tmp_path,
            cluster.live[0].port,
            "upstream.security.protocol=SSL",
            f"upstream.ssl.truststore.location={known.authority.certificate}",
            "upstream.ssl.endpoint.identification.algorithm=",
        ) as gateway:
            yield cluster.live[0], gateway


@asynccontextmanager
async def encrypted(tmp_path: Path) -> AsyncIterator[tuple[FakeNode, WireClient]]:
    async with encrypted_gateway(tmp_path) as (node, gateway):
        yield node, await gateway.connect()


@pytest.mark.parametrize(
    ("size", "waits"),
    [(100, False), (CIPHERTEXT_BYTES, False), (SCRATCH_BYTES * 3, False), (8 << 20, True)],
)
async def test_what_is_behind_a_large_response_follows_it(tmp_path: Path, size: int, waits: bool) -> None:
    """The broker answers three requests in one write, the first with more than is decrypted at a time. The
    client reads at once, or only after the gateway has filled the kernel's buffers.
    """
    asked: list[bytes] = []
    bodies = fetched(VERSION, size=size), fetched(VERSION), fetched(VERSION, size=20_000)

    def all_at_once(frame: bytes) -> bytes:
        asked.append(frame)
        if len(asked) < len(bodies):
            return b""
        return b"".join(framed(each[4:8] + body) for each, body in zip(asked, bodies, strict=True))

    async with encrypted(tmp_path) as (node, client):
        node.whole[ApiKey.FETCH] = all_at_once
        await client.stream.send_all(fetch(VERSION, "events") * len(bodies))
        if waits:
            await trio.sleep(0.2)
        for body in bodies:
            with trio.fail_after(WITHIN_S):
                assert (await client.receive_frame())[4:] == body
