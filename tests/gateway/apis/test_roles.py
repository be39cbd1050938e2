"""What a gateway that logs its clients in forwards for a viewer, an editor and an administrator.

Upstream they are all the gateway. The node answers every request with an empty response and keeps it.
"""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.api.security.client_security import ACCESS, FOR_BROKERS
from broker.common.errors import ErrorCode
from broker.controller.commands import ResourceType
from broker.gateway.api_versions import INTERNAL, judged
from broker.gateway.apis.roles import NO_REPLICAS
from broker.gateway.forwarder import SMALL_BYTES
from broker.metadata.actor import Role
from broker.protocol import codec
from broker.protocol.api_key import NAMES, ApiKey
from broker.protocol.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.schema import Message
from tests.api.test_roles import NEEDS, errors_in
from tests.gateway.apis.test_configs import set_interval
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.random_messages import RandomMessages
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

NEWER = 95
"""The first key that the codec does not know."""

TOPIC, BROKER, LOGGER, GROUP = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.GROUP,
)
LATER_TYPE = 64

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED

JUDGED = "gateway.authentication=gateway"

SENT: dict[int, Message] = {
    **{message.API_KEY: message for _, message, _ in NEEDS.values() if message.API_KEY is not None},
    ApiKey.CREATE_ACLS: CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 2, 3)]),
    ApiKey.DELETE_ACLS: DeleteAclsRequest([DeleteAclsFilter(2, "t", 3, None, None, 2, 3)]),
}
"""A request of each API that changes something."""
SENT[ApiKey.ALTER_CONFIGS], SENT[ApiKey.INCREMENTAL_ALTER_CONFIGS] = (
    NEEDS["topic settings replaced"][1],
    NEEDS["topic settings"][1],
)
SENT[ApiKey.DELETE_TOPICS] = DeleteTopicsRequest(topics=[DeleteTopicState("orders")], topic_names=["orders"])
SENT.pop(ApiKey.FETCH)


class Judging:
    """A gateway, and the node behind it."""

    def __init__(self, gateway: RunningGateway, node: FakeNode) -> None:
        self.gateway = gateway
        self.node = node
        self._client: WireClient | None = None

    async def client(self) -> WireClient:
        if self._client is None:
            self._client = await self.gateway.connect()
        return self._client

    async def ask(self, message: Message, version: int) -> tuple[Any, list[Any]]:
        """Return the response, and what has reached the node for it."""
        before = len(self.node.requests)
        reply = await (await self.client()).ask(message, version)
        return reply, [each for each in self.node.requests[before:] if each.API_KEY == message.API_KEY]

    async def closes(self, key: int, version: int) -> bool:
        """Whether the connection closes, and nothing reaches the node."""
        client = await self.gateway.connect()
        await client.stream.send_all(struct.pack(">ihhih", 12, key, version, 1, -1) + b"\0\0")
        return await client.is_closed() and (key, version) not in self.node.request_versions


@asynccontextmanager
async def judging(tmp_path: Path, role: Role, *overrides: str) -> AsyncIterator[Judging]:
    async with fake_cluster() as cluster:
        (node,) = cluster.live
        for key in ApiKey:
            node.versions[key] = (0, 100)
            node.answers.setdefault(key, empty)
        for key in (ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER, ApiKey.METADATA):
            del node.answers[key]
        node.versions[NEWER] = (0, 3)
        settings = (JUDGED, f"wire.role={role.name.lower()}", *overrides)
        async with running_gateway(tmp_path, node.port, *settings) as gateway:
            yield Judging(gateway, node)


def empty(request: Any) -> Message:
    """Return a response without results."""
    reply = codec.response_class(request.API_KEY)()
    for field in type(reply).FIELDS:
        if getattr(reply, field.name) is None and field.type in ("string", "bytes"):
            setattr(reply, field.name, "" if field.type == "string" else b"")
    return reply


def versions_of(key: int) -> range:
    first, last = judged(key) or (0, -1)
    first = max(first, codec.known_versions(key)[0])
    return range(first, last + 1)


@pytest.mark.parametrize("role", Role)
async def test_every_api_is_forwarded_for_the_roles_that_may_use_it_only(tmp_path: Path, role: Role) -> None:
    messages = RandomMessages(seed=7)
    async with judging(tmp_path, role, "gateway.quotas=upstream") as judge:
        answered = {entry.key for entry in judge.gateway.server._always_answered}
        answered |= {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}  # on listeners with logins
        walked = 0
        for key in sorted({*ApiKey, NEWER, 94, 500, 32_767}):
            if key in INTERNAL or key not in ACCESS:
                assert await judge.closes(key, 0), key
                continue
            for version in versions_of(key) if key not in answered else ():
                message = SENT.get(key) or messages.request(ApiKey(key), version)
                if key == ApiKey.PRODUCE:
                    message.acks = 1  # type: ignore[attr-defined]
                elif key == ApiKey.FETCH:
                    message.replica_id = -1  # type: ignore[attr-defined]
                elif key == ApiKey.STREAMS_GROUP_HEARTBEAT:
                    message.topology = None  # type: ignore[attr-defined]
                elif key == ApiKey.FIND_COORDINATOR:
                    message.key_type = 0  # type: ignore[attr-defined]
                reply, arrived = await judge.ask(message, version)
                is_refused = role < ACCESS[key].role_in(version)
                # The gateway itself may have asked for quotas meanwhile.
                assert bool(arrived) is not is_refused, (NAMES[key], version)
                if is_refused:
                    assert set(errors_in(reply)) - {0} == {denial(key)}, (NAMES[key], version)
                walked += 1
            assert await judge.closes(key, 900) or key == ApiKey.API_VERSIONS, key
        assert walked > 200


def denial(key: int) -> ErrorCode:
    """The error of a client that may not send the request of SENT."""
    configs = ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS
    return TOPIC_DENIED if key in configs else ACCESS[key].denial


async def test_a_client_is_offered_what_the_gateway_can_judge(tmp_path: Path) -> None:
    async with judging(tmp_path, Role.ADMIN) as judge:
        offered = await (await judge.client()).ask(ApiVersionsRequest("test", "1"), 3)
        versions = {each.api_key: (each.min_version, each.max_version) for each in offered.api_keys}
        assert versions.keys() <= ACCESS.keys()
        assert NEWER not in versions
        assert versions[ApiKey.FETCH][1] == 14
        for key, (_, last) in versions.items():
            assert last <= codec.known_versions(key)[1]


async def test_a_client_that_logs_in_upstream_is_judged_there(tmp_path: Path) -> None:
    async with judging(tmp_path, Role.VIEWER, "gateway.authentication=upstream") as judge:
        for key in (ApiKey.CREATE_ACLS, ApiKey.DELETE_GROUPS, ApiKey.ALTER_CONFIGS, ApiKey.DELETE_RECORDS):
            _, arrived = await judge.ask(SENT[key], codec.known_versions(key)[1])
            assert len(arrived) == 1, key
        _, arrived = await judge.ask(fetch(2), 14)
        assert len(arrived) == 1
        assert judge.gateway.started.server.endpoint.creates_topics


@pytest.mark.parametrize("key", [ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.ALTER_USER_SCRAM_CREDENTIALS])
async def test_credentials_are_the_gateways_own_without_a_login_too(tmp_path: Path, key: ApiKey) -> None:
    """Upstream, a client would get a token of the gateway itself."""
    async with judging(tmp_path, Role.ADMIN) as judge:
        message = SENT.get(key) or codec.request_class(key)()
        await judge.ask(message, codec.known_versions(key)[1])
        assert judge.node.count(key) == 0


async def test_a_super_user_may_do_everything(tmp_path: Path) -> None:
    async with judging(tmp_path, Role.VIEWER, "super.users=User:ANONYMOUS") as judge:
        _, arrived = await judge.ask(SENT[ApiKey.DELETE_RECORDS], 2)
        assert len(arrived) == 1


async def test_a_refusal_names_the_role_that_is_needed(tmp_path: Path) -> None:
    async with judging(tmp_path, Role.VIEWER) as judge:
        reply, _ = await judge.ask(CreateTopicsRequest([CreatableTopic("a", 1, 1)]), 7)
        assert [(each.name, each.error_message) for each in reply.topics] == [
            ("a", "User:ANONYMOUS has the role viewer; this operation requires the role editor")
        ]


@pytest.mark.parametrize("count", [0, 1, 9_999])
async def test_all_that_was_asked_is_refused_and_the_connection_goes_on(tmp_path: Path, count: int) -> None:
    """Requests of any size: those beyond SMALL_BYTES are read and answered in slices."""
    async with judging(tmp_path, Role.VIEWER) as judge:
        names = [f"events-{at:05}" for at in range(count)]
        message = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names])
        for version in (2, 7):
            reply, arrived = await judge.ask(message, version)
            assert [(each.name, each.error_code) for each in reply.topics] == [
                (name, TOPIC_DENIED) for name in names
            ]
            assert not arrived
        _, arrived = await judge.ask(ListGroupsRequest(), 4)
        assert len(arrived) == 1


# Fetch


def fetch(replica_id: int, topics: int = 1) -> FetchRequest:
    wanted = [FetchTopic(f"t{at}", partitions=[FetchPartition(0)]) for at in range(topics)]
    return FetchRequest(replica_id=replica_id, session_epoch=-1, topics=wanted)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("version", [4, 6, 7, 11, 12, 13, 14])
async def test_a_fetch_of_a_replica_is_refused_whatever_the_role(
    tmp_path: Path, version: int, role: Role
) -> None:
    async with judging(tmp_path, role) as judge:
        for replica_id in (-1, -1, 0, 1, -1, -2, 0x7FFF_FFFF, -1):
            reply, arrived = await judge.ask(fetch(replica_id), version)
            assert len(arrived) == (replica_id < 0), replica_id
            refused = set() if replica_id < 0 else {CLUSTER_DENIED}
            assert set(errors_in(reply)) - {0} == refused


async def test_a_large_fetch_of_a_replica_is_refused_and_one_of_a_consumer_forwarded(tmp_path: Path) -> None:
    async with judging(tmp_path, Role.ADMIN) as judge:
        for version in (11, 12):
            for replica_id in (-1, 0):
                _, arrived = await judge.ask(fetch(replica_id, topics=2 * SMALL_BYTES // 30), version)
                assert len(arrived) == (replica_id < 0)


async def test_the_replica_id_is_found_behind_tagged_fields_of_the_header(tmp_path: Path) -> None:
    async with judging(tmp_path, Role.ADMIN) as judge:
        for replica_id, reaches in ((-1, True), (3, False)):
            client = await judge.gateway.connect()
            parts = codec.encode_request(ApiKey.FETCH, 12)(fetch(replica_id), 1, "x")
            whole = b"".join(bytes(part) for part in parts)[4:]
            at = 8 + 2 + 1
            assert whole[at] == 0
            tagged = whole[:at] + b"\1\x05\3abc" + whole[at + 1 :]
            before = judge.node.count(ApiKey.FETCH)
            # In two parts, so that no read has the whole request.
            sent = struct.pack(">i", len(tagged)) + tagged
            await client.stream.send_all(sent[: at + 9])
            await client.stream.send_all(sent[at + 9 :])
            await client.receive(ApiKey.FETCH, 12)
            assert judge.node.count(ApiKey.FETCH) - before == reaches


async def test_a_fetch_without_a_replica_id_closes_its_connection(tmp_path: Path) -> None:
    async with judging(tmp_path, Role.ADMIN) as judge:
        for body in (b"", b"\0", b"\0\0\0"):
            client = await judge.gateway.connect()
            frame = struct.pack(">hhih", ApiKey.FETCH, 11, 1, -1) + body
            await client.stream.send_all(struct.pack(">i", len(frame)) + frame)
            assert await client.is_closed()
        assert judge.node.count(ApiKey.FETCH) == 0


async def test_pipelined_fetches_are_refused_in_their_order(tmp_path: Path) -> None:
    async with judging(tmp_path, Role.ADMIN) as judge:
        client = await judge.client()
        sent = [await client.send(fetch(replica_id), 13) for replica_id in (-1, 0, -1, -1, 5, 5, -1)]
        received = [await client.receive(ApiKey.FETCH, 13) for _ in sent]
        assert [number for number, _ in received] == sent
        codes = [reply.error_code for _, reply in received]
        assert codes == [0, CLUSTER_DENIED, 0, 0, CLUSTER_DENIED, CLUSTER_DENIED, 0]
        assert NO_REPLICAS


# FindCoordinator


@pytest.mark.parametrize("role", Role)
async def test_share_coordinators_are_for_brokers(tmp_path: Path, role: Role) -> None:
    async with judging(tmp_path, role) as judge:
        for kind, needed in ((0, Role.VIEWER), (1, Role.VIEWER), (2, FOR_BROKERS)):
            for count in (1, 2_000):
                keys = [f"group-{at}" for at in range(count)]
                message = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
                reply, arrived = await judge.ask(message, 6)
                assert len(arrived) == (role >= needed)
                refused = [each.error_code for each in reply.coordinators]
                assert refused == ([] if role >= needed else [CLUSTER_DENIED] * count)


# Settings

LEAST = {
    TOPIC: Role.EDITOR,
    GROUP: Role.EDITOR,
    BROKER: Role.ADMIN,
    LOGGER: Role.ADMIN,
    LATER_TYPE: Role.ADMIN,
}
CODES = {
    TOPIC: TOPIC_DENIED,
    GROUP: GROUP_DENIED,
    BROKER: CLUSTER_DENIED,
    LOGGER: CLUSTER_DENIED,
    LATER_TYPE: CLUSTER_DENIED,
}


@pytest.mark.parametrize("quotas", ["local", "upstream"])
@pytest.mark.parametrize("role", Role)
async def test_settings_are_changed_as_far_as_the_role_allows(
    tmp_path: Path, role: Role, quotas: str
) -> None:
    async with judging(tmp_path, role, f"gateway.quotas={quotas}") as judge:

        def accept(request: Any) -> Any:
            reply = codec.response_class(request.API_KEY)()
            result = type(reply).FIELDS[-1].type
            for each in request.resources:
                reply.responses.append(result(0, None, each.resource_type, each.resource_name))
            return reply

        for key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
            judge.node.answers[key] = accept
        asked = [(kind, f"{kind}-{at}") for at in range(2) for kind in LEAST]
        reply, arrived = await judge.ask(set_interval(*asked), 1)
        passed = [each for each in asked if role >= LEAST[each[0]]]
        assert [(each.resource_type, each.resource_name) for each in reply.responses] == asked
        assert [each.error_code for each in reply.responses] == [
            0 if each in passed else CODES[each[0]] for each in asked
        ]
        forwarded = [(each.resource_type, each.resource_name) for one in arrived for each in one.resources]
        assert forwarded == passed
