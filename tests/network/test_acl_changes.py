"""Created and deleted ACLs on open connections, in every path that serves a request without its handler."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.controller.commands import BROKER_ITSELF, CreateAcls, DeleteAcls
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.security.acl.acl import Acl, AclFilter, Operation, ResourceType, filter_of
from tests.controller.world import AUTHORIZER
from tests.security.acl.acls import allow
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    users = " ".join(f'user_{name}="secret"' for name in ("root", "alice", "bob"))
    async with running_broker(
        tmp_path,
        AUTHORIZER,
        "super.users=User:root",
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} {users};",
    ) as running:
        root = await logged_in(running, "root")
        assert (await root.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def logged_in(broker: RunningBroker, user: str) -> WireClient:
    client = await broker.connect()
    assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    login = await client.ask(SaslAuthenticateRequest(f"\0{user}\0secret".encode()), 2)
    assert login.error_code == 0
    return client


async def grant(broker: RunningBroker, *acls: Acl) -> None:
    outcomes = await broker.server.control.apply(CreateAcls(acls), BROKER_ITSELF)
    assert all(each.ok for each in outcomes)


async def revoke(broker: RunningBroker, *filters: AclFilter) -> None:
    await broker.server.control.apply(DeleteAcls(filters or (AclFilter(),)), BROKER_ITSELF)


async def produced(client: WireClient, version: int) -> int:
    answer = await client.ask(produce_request(batch_of(b"value")), version)
    return int(answer.responses[0].partition_responses[0].error_code)


def fetch_request(session: int = 0, epoch: int = -1) -> FetchRequest:
    topics = [FetchTopic("events", partitions=[FetchPartition(0, partition_max_bytes=10_000)])]
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=100_000, session_id=session, session_epoch=epoch, topics=topics
    )


@pytest.mark.parametrize("version", [8, 9, 12])
async def test_the_next_produce_of_an_open_connection_knows_the_acls(
    broker: RunningBroker, version: int
) -> None:
    client = await logged_in(broker, "alice")
    write = allow(Operation.WRITE, "events")
    assert await produced(client, version) == DENIED
    await grant(broker, write)
    assert [await produced(client, version) for _ in range(3)] == [0, 0, 0]
    await revoke(broker, filter_of(write))
    assert await produced(client, version) == DENIED
    log = broker.server.partitions.log("events", 0)
    assert log is not None and log.high_watermark == 3


@pytest.mark.parametrize("version", [11, 12])
async def test_the_next_fetch_of_an_open_connection_knows_the_acls(
    broker: RunningBroker, version: int
) -> None:
    client = await logged_in(broker, "alice")
    read, write = allow(Operation.READ, "events"), allow(Operation.WRITE, "events")
    await grant(broker, read, write)
    assert await produced(client, 9) == 0
    opened = await client.ask(fetch_request(0, 0), version)
    assert opened.responses[0].partitions[0].records
    for epoch in (1, 2):
        answer = await client.ask(fetch_request(opened.session_id, epoch), version)
        assert answer.responses[0].partitions[0].records
    await revoke(broker, filter_of(read))
    for request in (fetch_request(opened.session_id, 3), fetch_request()):
        (partition,) = (await client.ask(request, version)).responses[0].partitions
        assert (partition.error_code, bytes(partition.records or b"")) == (DENIED, b"")
    await grant(broker, read)
    answer = await client.ask(fetch_request(opened.session_id, 4), version)
    assert answer.responses[0].partitions[0].records


async def test_users_of_one_connection_prologue_are_distinguished(broker: RunningBroker) -> None:
    """All requests of the same client id begin with the same bytes, whoever has logged in."""
    await grant(broker, allow(Operation.WRITE, "events"))
    alice, bob = await logged_in(broker, "alice"), await logged_in(broker, "bob")
    for _ in range(3):
        assert (await produced(alice, 9), await produced(bob, 9)) == (0, DENIED)


async def test_no_response_is_kept_for_another_user(broker: RunningBroker) -> None:
    await grant(
        broker, allow(Operation.DESCRIBE, "events"), allow(Operation.READ, "readers", kind=ResourceType.GROUP)
    )
    alice, bob = await logged_in(broker, "alice"), await logged_in(broker, "bob")
    groups = FindCoordinatorRequest(coordinator_keys=["readers"])
    for _ in range(3):
        for client, names, error in (
            (alice, ["events"], 0),
            (bob, [], ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ):
            topics = (await client.ask(MetadataRequest(None), 9)).topics
            assert [each.name for each in topics if not each.is_internal] == names
            assert (await client.ask(groups, 4)).coordinators[0].error_code == error
    await revoke(broker)
    assert (await alice.ask(MetadataRequest(None), 9)).topics == []
    for listener in broker.server.socket_server.listeners:
        assert not any(route.cached_responses for route in listener.routes.all() if not route.before_login)


async def test_what_is_denied_is_counted(broker: RunningBroker) -> None:
    client = await logged_in(broker, "alice")
    await produced(client, 9)
    page = broker.server.prometheus.page()
    assert 'weir_authorizer_denied_total{operation="WRITE",resource_type="TOPIC"} 1' in page
    assert "weir_authorizer_acls 0" in page
