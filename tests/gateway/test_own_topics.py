"""Requests of clients for the topics that only gateways use: none reaches the cluster."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.common.errors import ErrorCode, ProtocolViolation
from broker.controller.commands import ResourceType
from broker.gateway.client_receive import _names_none
from broker.gateway.forwarder import SMALL_BYTES
from broker.gateway.own_topics import MAX_REST, FetchTopics, OwnTopics, ProduceTopics
from broker.gateway.routes import MAX_REFUSED
from broker.protocol import codec
from broker.protocol.api_key import FLEXIBLE_FROM, ApiKey
from broker.protocol.messages import alter_configs, incremental_alter_configs
from broker.protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from broker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
    TopicPartitions,
)
from broker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from broker.protocol.messages.partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from broker.protocol.messages.share_fetch import FetchPartition as SharePartition
from broker.protocol.messages.share_fetch import FetchTopic as ShareFetchTopic
from broker.protocol.messages.share_fetch import NodeEndpoint as ShareNode
from broker.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.protocol.varint import uvarint
from tests.support.gateway_upstream import Upstream, gateway_upstream
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of
from tests.support.running_gateway import RunningGateway
from tests.support.wire import WireClient

METADATA, SHARES = "__weir_metadata", "__weir_shares"
OURS = {METADATA: b"m" * 16, SHARES: b"s" * 16, "__weir_requests": b"r" * 16}
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
VERSIONS = range(3, 14)
EVERY = range(14)
"""The codec does not have the first three versions of Produce, which have no transactional id."""


def known() -> OwnTopics:
    own = OwnTopics(waits=True)
    own.learn(OURS)
    return own


def id_of(name: str) -> bytes:
    return OURS.get(name, name.encode().rjust(16, b"-")[-16:])


def produce(
    *topics: str, size: int = 10, partitions: int = 1, transactional: str | None = None
) -> ProduceRequest:
    """A record's value names a topic of ours, which is nobody's business."""
    data = [
        TopicProduceData(
            topic,
            id_of(topic),
            [PartitionProduceData(n, batch_of(b"__weir_metadata" + b"x" * size)) for n in range(partitions)],
        )
        for topic in topics
    ]
    return ProduceRequest(transactional, 1, 30_000, data)


def body_of(request: ProduceRequest, version: int) -> memoryview:
    """The request behind its client id."""
    parts = codec.encode_request(0, max(version, 3))(request, 1, "app")
    begin = 4 + 8 + 2 + 3
    if version < 3:
        begin += 2 + len(request.transactional_id or "")
    return memoryview(b"".join(bytes(part) for part in parts))[begin:]


def walk(data: memoryview, version: int, sizes: Any) -> tuple[bool, bool]:
    """Return whether a topic of ours is found in pieces of these sizes, and whether the request is whole."""
    topics = ProduceTopics(version, known(), flexible=version >= FLEXIBLE_FROM[ApiKey.PRODUCE])
    at = 0
    while at < len(data):
        moved = min(topics.skip, len(data) - at - 1)  # the last byte is always seen
        if moved > 0 and random.random() < 0.5:
            topics.skipped(moved)
            at += moved
            continue
        size = next(sizes)
        if topics.find(data[at : at + size]):
            return True, False
        at += size
    return False, topics.is_complete


LISTS = [
    ((), False),
    (("a",), False),
    (("a", "b" * 200, "weir_metadata", "x__weir_metadata"), False),
    (("__weir", "__weir", "__wei_r"), False),
    (("__weir_",), True),
    ((METADATA,), True),
    (("a", "b", METADATA), True),
    (("a", METADATA, "b"), True),
    (("a", "__weir_" + "y" * 200), True),
]


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(("topics", "are_ours"), LISTS)
def test_a_produce_is_looked_through_whole_and_in_pieces(version, topics, are_ours):
    if version >= 13:
        are_ours = any(topic in OURS for topic in topics)
    for partitions in (0, 1, 3):
        for transactional in (None, "tx"):
            data = body_of(produce(*topics, partitions=partitions, transactional=transactional), version)
            expected = (are_ours, not are_ours)
            assert walk(data, version, iter([len(data)])) == expected
            ones = iter(lambda: 1, 0)
            assert walk(data, version, ones) == expected
            for seed in range(5):
                chunk = random.Random(seed)
                assert walk(data, version, iter(lambda: chunk.randrange(1, 40), 0)) == expected  # noqa: B023


@pytest.mark.parametrize("version", EVERY)
def test_what_is_cut_off_is_not_complete(version):
    data = body_of(produce("a", "b", partitions=2), version)
    for size in range(len(data) - (version >= 9)):  # the request's own tags are of no interest
        found, complete = walk(data[:size], version, iter([size] * 2))
        assert found or not complete


@pytest.mark.parametrize("version", range(9, 14))
def test_the_short_way_through_a_produce_never_finds_less(version):
    """What it lets pass, the other one lets pass, whatever was changed in the request."""
    chance = random.Random(version)
    own, passed = known(), 0
    for number in range(3_000):
        topics = [
            chance.choice(("a", "bb", "__weir", METADATA, "x" * 130)) for _ in range(chance.randrange(5))
        ]
        size = chance.choice((0, 20, 100, 200, 20_000)) if number % 50 == 0 else 1
        request = produce(*topics, size=size, partitions=chance.randrange(4))
        body = bytearray(body_of(request, version))
        for _ in range(chance.randrange(3)):
            body[chance.randrange(len(body))] = chance.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        if chance.random() < 0.1:
            del body[chance.randrange(len(body)) :]
        if _names_none(memoryview(body), version, own.ids):
            passed += 1
            walker = ProduceTopics(version, own, flexible=True)
            assert not walker.find(memoryview(body)) and walker.is_complete
    assert passed > 100


def test_only_one_topic_is_approved_for_the_next_request():
    for version in EVERY:
        flexible = version >= 9
        for topics, is_only in (((), False), (("a",), True), (("a", "b"), False)):
            walker = ProduceTopics(version, known(), flexible=flexible)
            data = body_of(produce(*topics), version)
            assert not walker.find(data)
            assert bool(walker.only) is is_only
            if is_only:
                name = id_of("a") if version >= 13 else b"a"
                assert bytes(data[: walker.only]).endswith(name)


@pytest.mark.parametrize(
    "body",
    [
        # Kafka takes 32 bits of a varint: here it reads one topic, and one that has more bits reads none.
        b"\0\0\0\1\0\0\0\1" + b"\x82\x80\x80\x80\x10" + b"\x10__weir_metadata\x01\0",
        b"\0\0\0\1\0\0\0\1" + b"\x02" + b"\x90\x80\x80\x80\x10" + b"__weir_metadata\x01\0",
        b"\0\0\0\1\0\0\0\1"
        + b"\x03"
        + b"\x02a\x02\0\0\0\0"
        + b"\x81\x80\x80\x80\x10"
        + b"\0\0\x10__weir_metadata\x01\0",
        # More tagged fields than are read here.
        b"\xe9\x07" + b"\0\0" * 1001 + b"\0\0\1\0\0\0\1" + b"\x02" + b"\x10__weir_metadata\x01\0",
        # Varints of six bytes, lengths below zero, names without end.
        b"\0\0\0\1\0\0\0\1" + b"\xff" * 6,
        b"\0\0\0\1\0\0\0\1" + b"\0",
        b"\0" + b"\xff\xff\xff\x07" + b"x" * 100,
    ],
)
def test_what_a_broker_could_understand_in_another_way_is_not_forwarded(body):
    found, complete = walk(memoryview(body), 9, iter([len(body)]))
    assert found or not complete


@pytest.mark.parametrize(
    ("size", "waits"), [(MAX_REST - 5, True), (MAX_REST - 4, True), (MAX_REST - 3, False)]
)
def test_what_waits_for_its_end_is_bounded(size, waits):
    """A tag is kept until all of it has arrived; no client has such large ones."""
    walker = ProduceTopics(9, known(), flexible=True)
    assert walker.find(memoryview(b"\x01\x00" + uvarint(size) + bytes(100))) is not waits


def test_ids_are_refused_until_they_are_known():
    own = OwnTopics(waits=True)
    with pytest.raises(ProtocolViolation):
        ProduceTopics(13, own, flexible=True)
    with pytest.raises(ProtocolViolation):
        own.are_fetched(memoryview(b"x"), 13)
    assert own.are_fetched(memoryview(b"x__weir_metadata"), 12)
    ProduceTopics(12, own, flexible=True)
    lenient = OwnTopics()
    assert not lenient.are_fetched(memoryview(b"x"), 13)


def test_a_name_between_two_pieces_of_a_fetch_is_found():
    data = b"x" * 50 + METADATA.encode() + b"y" * 50 + OURS[SHARES] + b"z"
    for version, found_in in ((12, data[:66]), (13, data[100:])):
        for at in range(1, len(found_in)):
            topics = FetchTopics(version, known(), memoryview(found_in[:at]))
            if not known().are_fetched(memoryview(found_in[:at]), version):
                assert topics.find(memoryview(found_in[at:])), (version, at)


async def test_the_ids_are_asked_for_again(autojump_clock):
    own = OwnTopics(waits=True)
    changes: list[tuple[bytes, ...]] = []
    own.changed = lambda: changes.append(own.ids)
    own.learn({})
    own.learn({})
    own.learn(OURS)
    assert changes == [(), tuple(OURS.values())]
    assert own.secret_ids == (OURS[METADATA], OURS[SHARES])


# Through a gateway


def acked(request: ProduceRequest) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [PartitionProduceResponse(each.index, 0, 7) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def fetched(request: FetchRequest) -> FetchResponse:
    return FetchResponse(
        responses=[FetchableTopicResponse(topic.topic, topic.topic_id, []) for topic in request.topics]
    )


@asynccontextmanager
async def scene(
    tmp_path: Path, *overrides: str
) -> AsyncIterator[tuple[RunningGateway, Upstream, WireClient]]:
    async with gateway_upstream(tmp_path, *overrides) as (gateway, upstream):
        upstream.id_of = lambda name: id_of(name)  # type: ignore[method-assign]
        upstream.topics = dict.fromkeys(("a", "b", METADATA, SHARES), 1)
        upstream.node.versions |= {
            ApiKey.FETCH: (4, 15),
            ApiKey.SHARE_FETCH: (1, 1),
            ApiKey.DELETE_RECORDS: (0, 2),
            ApiKey.CREATE_ACLS: (1, 3),
            ApiKey.DELETE_ACLS: (1, 3),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
            ApiKey.WRITE_TXN_MARKERS: (1, 1),
            ApiKey.ELECT_LEADERS: (0, 2),
        }
        upstream.node.answers |= {
            ApiKey.PRODUCE: acked,
            ApiKey.FETCH: fetched,
            ApiKey.SHARE_FETCH: lambda _: ShareFetchResponse(),
            ApiKey.DELETE_RECORDS: lambda each: DeleteRecordsResponse(
                topics=[DeleteRecordsTopicResult(topic.name, []) for topic in each.topics]
            ),
            ApiKey.CREATE_ACLS: lambda each: CreateAclsResponse(
                results=[AclCreationResult() for _ in each.creations]
            ),
            ApiKey.DELETE_ACLS: lambda each: DeleteAclsResponse(
                filter_results=[DeleteAclsFilterResult(matching_acls=[]) for _ in each.filters]
            ),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda each: AlterPartitionReassignmentsResponse(
                responses=[ReassignableTopicResponse(topic.name, []) for topic in each.topics]
            ),
            ApiKey.ELECT_LEADERS: lambda each: ElectLeadersResponse(
                replica_election_results=[
                    ReplicaElectionResult(topic.topic, []) for topic in each.topic_partitions
                ]
            ),
            ApiKey.WRITE_TXN_MARKERS: lambda _: WriteTxnMarkersResponse([]),
            ApiKey.ALTER_CONFIGS: lambda each: _altered(each, alter_configs.AlterConfigsResponse),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda each: _altered(
                each, incremental_alter_configs.IncrementalAlterConfigsResponse
            ),
        }
        gateway.server._own_topics.ask_soon()
        await knows(gateway, 2)
        yield gateway, upstream, await gateway.connect()


async def knows(gateway: RunningGateway, count: int) -> None:
    """Wait until the gateway has so many ids."""
    with trio.fail_after(20):
        while len(gateway.server._own_topics.ids) < count:  # noqa: ASYNC110 - nothing announces it
            await trio.sleep(0.01)


def _altered(request: Any, response: type) -> Any:
    return response(
        responses=[
            alter_configs.AlterConfigsResourceResponse(0, None, each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )


def errors_of(response: ProduceResponse) -> list[int]:
    return [each.error_code for topic in response.responses for each in topic.partition_responses]


def written(upstream: Upstream) -> list[list[str | bytes]]:
    return [
        [topic.name or topic.topic_id for topic in each.topic_data]
        for each in upstream.requests_of(ApiKey.PRODUCE)
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("before", ["first", "usual"])
async def test_a_produce_to_a_topic_of_ours_is_refused(tmp_path: Path, version: int, before: str) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        count = 0 if before == "first" else 3
        for _ in range(count):
            assert errors_of(await client.ask(produce("a"), version)) == [0]
        assert errors_of(await client.ask(produce(METADATA), version)) == [DENIED]
        assert errors_of(await client.ask(produce("a", METADATA), version)) == [DENIED, DENIED]
        assert errors_of(await client.ask(produce("a", "b"), version)) == [0, 0]
        assert errors_of(await client.ask(produce("a"), version)) == [0]
        a, b = (id_of("a"), id_of("b")) if version >= 13 else ("a", "b")
        assert written(upstream) == [[a]] * count + [[a, b], [a]]


@pytest.mark.parametrize("version", [8, 9, 13])
async def test_several_in_one_read_are_distinguished(tmp_path: Path, version: int) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        requests = [produce("a"), produce(SHARES), produce("a"), produce("b", METADATA), produce("a")]
        parts = [
            b"".join(map(bytes, codec.encode_request(0, version)(each, number, client.client_id)))
            for number, each in enumerate(requests)
        ]
        await client.stream.send_all(b"".join(parts))
        answers = [await client.receive(0, version) for _ in requests]
        assert [(number, errors_of(each)) for number, each in answers] == [
            (0, [0]),
            (1, [DENIED]),
            (2, [0]),
            (3, [DENIED] * 2),
            (4, [0]),
        ]
        assert len(written(upstream)) == 3


@pytest.mark.parametrize("version", [8, 9, 13])
@pytest.mark.parametrize("splice", [0, 4096])
@pytest.mark.parametrize("size", [SMALL_BYTES, 70_000, 300_000])
async def test_a_large_produce_is_refused_before_its_end(
    tmp_path: Path, version: int, splice: int, size: int
) -> None:
    async with scene(tmp_path, f"gateway.splice.min.bytes={splice}") as (gateway, upstream, client):
        # The first topic is told at once, with an answer; a later one closes the connection.
        assert errors_of(await client.ask(produce(METADATA, size=size), version)) == [DENIED]
        assert errors_of(await client.ask(produce("a", "b", size=size, partitions=2), version)) == [0] * 4
        assert errors_of(await client.ask(produce("a", size=size), version)) == [0]
        other = await gateway.connect()
        with suppress(EOFError, trio.BrokenResourceError):
            assert errors_of(await other.ask(produce("a", "b", METADATA, size=size), version)) == [DENIED] * 3
        a, b = (id_of("a"), id_of("b")) if version >= 13 else ("a", "b")
        assert errors_of(await client.ask(produce("a", size=size), version)) == [0]
        assert written(upstream) == [[a, b], [a], [a]]


async def test_one_that_is_too_large_to_be_answered_closes_the_connection(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        overhead = (
            4
            + len(
                b"".join(map(bytes, codec.encode_request(0, 9)(produce(METADATA, size=900_000), 1, "tester")))
            )
            - 900_000
            - 8
        )
        fits = produce(METADATA, size=MAX_REFUSED - overhead)
        assert errors_of(await client.ask(fits, 9)) == [DENIED]
        with suppress(trio.BrokenResourceError):
            await client.send(produce(METADATA, size=MAX_REFUSED), 9)
        assert await client.is_closed()
        assert not written(upstream)


async def test_without_acks_the_connection_closes(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        request = produce(METADATA)
        request.acks = 0
        await client.send(request, 9)
        assert await client.is_closed()
        assert not written(upstream)


async def test_a_topic_that_is_created_later_is_refused_by_its_id(tmp_path: Path) -> None:
    async with scene(tmp_path) as (gateway, upstream, client):
        request = produce("__weir_requests")
        assert errors_of(await client.ask(request, 13)) == [0]
        upstream.topics["__weir_requests"] = 1
        gateway.server._own_topics.ask_soon()
        await knows(gateway, 3)
        assert errors_of(await client.ask(request, 13)) == [DENIED]


def fetch(*topics: str, partitions: int = 1) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        session_epoch=-1,
        topics=[
            FetchTopic(topic, id_of(topic), [FetchPartition(n) for n in range(partitions)])
            for topic in topics
        ],
    )


@pytest.mark.parametrize("version", range(4, 16))
async def test_a_fetch_of_the_metadata_is_refused(tmp_path: Path, version: int) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        for number in range(2):
            for topic in (METADATA, SHARES):
                for topics in ((topic,), ("a", topic), ("a", "b", topic)):
                    response = await client.ask(fetch(*topics), version)
                    codes = [each.partitions[0].error_code for each in response.responses]
                    assert codes == [0] * (len(topics) - 1) + [DENIED]
                    assert not any(each.partitions[0].records for each in response.responses)
            assert len(upstream.requests_of(ApiKey.FETCH)) == number * 4
            for topics in ((), ("a",), ("a", "b"), ("__weir_requests",)):
                assert len((await client.ask(fetch(*topics), version)).responses) == len(topics)


@pytest.mark.parametrize("version", [12, 13])
async def test_a_large_fetch_is_looked_through(tmp_path: Path, version: int) -> None:
    async with scene(tmp_path) as (gateway, upstream, client):
        await client.ask(fetch("a", "b", partitions=10_000), version)
        assert len(upstream.requests_of(ApiKey.FETCH)) == 1
        with suppress(EOFError, trio.BrokenResourceError):
            response = await client.ask(fetch("a", "b", METADATA, partitions=10_000), version)
            assert response.responses[-1].partitions[0].error_code == DENIED
        await (await gateway.connect()).ask(fetch("a"), version)
        assert len(upstream.requests_of(ApiKey.FETCH)) == 2


def marker(topic: str) -> WritableTxnMarker:
    return WritableTxnMarker(1, 0, True, [WritableTxnMarkerTopic(topic, [0])])


def configs(module: Any, request: type, *names: str) -> Any:
    kind = ResourceType.TOPIC
    return request([module.AlterConfigsResource(kind, name, []) for name in names])


ADMIN: list[tuple[int, Any, Any]] = [
    (
        2,
        lambda *names: DeleteRecordsRequest(
            [DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 1)]) for name in names]
        ),
        lambda r: {each.name: each.partitions[0].error_code if each.partitions else 0 for each in r.topics},
    ),
    (
        6,
        lambda *names: DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in names]),
        lambda r: {each.name: each.error_code for each in r.responses},
    ),
    (
        5,
        lambda *names: DeleteTopicsRequest(topic_names=list(names)),
        lambda r: {each.name: each.error_code for each in r.responses},
    ),
    (
        3,
        lambda *names: CreatePartitionsRequest([CreatePartitionsTopic(name, 2) for name in names]),
        lambda r: {each.name: each.error_code for each in r.results},
    ),
    (
        2,
        lambda *names: configs(alter_configs, alter_configs.AlterConfigsRequest, *names),
        lambda r: {each.resource_name: each.error_code for each in r.responses},
    ),
    (
        1,
        lambda *names: configs(
            incremental_alter_configs, incremental_alter_configs.IncrementalAlterConfigsRequest, *names
        ),
        lambda r: {each.resource_name: each.error_code for each in r.responses},
    ),
    (
        2,
        lambda *names: ElectLeadersRequest(0, [TopicPartitions(name, [0]) for name in names]),
        lambda r: {
            each.topic: each.partition_result[0].error_code if each.partition_result else 0
            for each in r.replica_election_results
        },
    ),
    (
        0,
        lambda *names: AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name, [ReassignablePartition(0, [1])]) for name in names]
        ),
        lambda r: {
            each.name: each.partitions[0].error_code if each.partitions else 0 for each in r.responses
        },
    ),
]


@pytest.mark.parametrize("local", ["local", "upstream"])
@pytest.mark.parametrize(("version", "request_of", "errors"), ADMIN)
async def test_a_change_of_a_topic_of_ours_is_refused(
    tmp_path: Path, version: int, request_of: Any, errors: Any, local: str
) -> None:
    async with scene(tmp_path, f"gateway.quotas={local}") as (_, upstream, client):
        key = request_of("a").API_KEY
        assert errors(await client.ask(request_of(METADATA), version)) == {METADATA: DENIED}
        assert not upstream.requests_of(key)
        response = await client.ask(request_of("a", METADATA, "b", "__weir_x"), version)
        assert errors(response) == {"a": 0, "b": 0, METADATA: DENIED, "__weir_x": DENIED}
        (reached,) = upstream.requests_of(key)
        assert "__weir" not in repr(vars_of(reached))
        upstream.topics |= {"c": 1, "d": 1}
        assert set(errors(await client.ask(request_of("c", "d"), version)).values()) == {0}


def vars_of(message: Any) -> Any:
    """All values in a message."""
    if isinstance(message, list):
        return [vars_of(each) for each in message]
    names = getattr(message, "__slots__", None)
    return message if names is None else {name: vars_of(getattr(message, name)) for name in names}


async def test_a_topic_of_ours_is_not_deleted_by_its_id(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        request = DeleteTopicsRequest(topics=[DeleteTopicState(None, OURS[METADATA])])
        (result,) = (await client.ask(request, 6)).responses
        assert result.error_code == DENIED and METADATA in upstream.topics


async def test_acls_of_a_topic_of_ours_are_refused_in_their_places(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        topic, group = ResourceType.TOPIC, ResourceType.GROUP if hasattr(ResourceType, "GROUP") else 3
        names = [(topic, "a"), (topic, METADATA), (group, METADATA), (topic, "__weir_"), (topic, "*")]
        creations = [AclCreation(kind, name, 3, "User:x", "*", 3, 3) for kind, name in names]
        results = (await client.ask(CreateAclsRequest(creations), 3)).results
        assert [each.error_code for each in results] == [0, DENIED, 0, DENIED, 0]
        (reached,) = upstream.requests_of(ApiKey.CREATE_ACLS)
        assert [each.resource_name for each in reached.creations] == ["a", METADATA, "*"]
        filters = [DeleteAclsFilter(2, name, 3, None, None, 1, 1) for name in ("a", METADATA, None)]
        found = (await client.ask(DeleteAclsRequest(filters), 3)).filter_results
        assert [each.error_code for each in found] == [0, DENIED, 0]


async def test_markers_and_share_fetches_are_refused(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, upstream, client):
        response = await client.ask(WriteTxnMarkersRequest([marker("a"), marker(METADATA)]), 1)
        codes = [t.partitions[0].error_code for each in response.markers for t in each.topics]
        assert codes == [DENIED, DENIED] and not upstream.requests_of(ApiKey.WRITE_TXN_MARKERS)
        await client.ask(WriteTxnMarkersRequest([marker("a")]), 1)
        assert len(upstream.requests_of(ApiKey.WRITE_TXN_MARKERS)) == 1
        for topic, code in ((METADATA, DENIED), ("a", 0)):
            request = ShareFetchRequest("g", "m", topics=[ShareFetchTopic(id_of(topic), [])])
            assert (await client.ask(request, 1)).error_code == code
        assert len(upstream.requests_of(ApiKey.SHARE_FETCH)) == 1


@pytest.mark.parametrize("why", ["large", "client id", "event topic"])
@pytest.mark.parametrize("endpoints", [0, 1])
async def test_a_share_fetch_that_names_none_is_answered_and_so_is_the_next(
    tmp_path: Path, why: str, endpoints: int
) -> None:
    """A handler looks through one that may name some, and asks the upstream broker."""
    async with scene(tmp_path) as (gateway, upstream, client):
        topic, partitions = "a", 1
        if why == "large":
            partitions = SMALL_BYTES // 4
        elif why == "client id":
            client.client_id = "__weir_reader"
        else:
            topic = "__weir_throttles"
            upstream.topics[topic] = 1
            gateway.server._own_topics.ask_soon()
            await knows(gateway, 3)
        node = ShareNode(0, "kafka.example", 9092)
        upstream.node.answers[ApiKey.SHARE_FETCH] = lambda _: ShareFetchResponse(
            node_endpoints=[node] * endpoints
        )
        request = ShareFetchRequest(
            "g",
            "m",
            topics=[ShareFetchTopic(id_of(topic), [SharePartition(each) for each in range(partitions)])],
        )
        with trio.fail_after(WITHIN_S):
            for _ in range(3):
                found = await client.ask(request, 1)
                assert found.error_code == 0 and len(found.node_endpoints) == endpoints
                assert "kafka.example" not in [each.host for each in found.node_endpoints]
        assert len(upstream.requests_of(ApiKey.SHARE_FETCH)) == 3
        (channel,) = gateway.server.socket_server.channels()
        assert channel.requests_in_flight == 0


async def test_ids_are_refused_while_the_gateways_do_not_know_their_own(tmp_path: Path) -> None:
    """A gateway that has just started must not let a client read or delete their topics."""
    async with scene(tmp_path) as (gateway, upstream, client):
        own = gateway.server._own_topics
        own.ids, own.secret_ids, own.is_known = (), (), False
        by_name = DeleteTopicsRequest(topics=[DeleteTopicState("b")])
        assert [each.error_code for each in (await client.ask(by_name, 6)).responses] == [0]
        for message, version in (
            (ShareFetchRequest("g", "m", topics=[ShareFetchTopic(id_of(SHARES), [])]), 1),
            (DeleteTopicsRequest(topics=[DeleteTopicState(None, id_of(SHARES))]), 6),
        ):
            client = await gateway.connect()
            await client.send(message, version)
            assert await client.is_closed()
        assert not upstream.requests_of(ApiKey.SHARE_FETCH) and SHARES in upstream.topics
        client = await gateway.connect()
        assert (await client.ask(ShareFetchRequest("g", "m"), 1)).error_code == 0
