"""The topics `__weir_*` of the upstream cluster are internal for clients, and no other byte changes."""

from pathlib import Path
from typing import Any

import pytest

from broker.common.slices import Steps, run_through
from broker.config.listeners import Address
from broker.gateway.internal_topics import PIECE_BYTES, internal_marks, marked_description, with_marks
from broker.gateway.responses import AT_ONCE, MetadataBrokers, rewritten
from broker.gateway.splice import PipePool, Splice
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.gateway.frames import UPSTREAM, even_nodes, frame_of, read, versions_of
from tests.gateway.test_large_responses import serving
from tests.support.fake_upstream import FakeNode
from tests.support.gateway_upstream import gateway_upstream
from tests.support.random_messages import RandomMessages

OURS = "__weir_"
LAYOUTS = [(ApiKey.METADATA, version) for version in versions_of(ApiKey.METADATA)[1:]] + [
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
]
NAMES = [
    *(OURS + "x" * length for length in (0, 1, 87, 88, 118, 119, 120, 121, 242)),
    *(
        "events",
        "__weir",
        "_" + OURS,
        "A" + OURS + "x" * 60,
        "_." + OURS * 9,
        "." + OURS,
        OURS[1:],
        "w" * 249,
    ),
    *(character + OURS + "y" * 100 for character in "-.09AZ_az"),
]


def message_of(key: int, names: list[str], rng: Any, partitions: int = 1) -> Any:
    """A response with topics of these names; ids have no byte that is random by luck."""
    topics: list[Any] = []
    for name in names:
        topic_id = rng.randbytes(16)
        numbers = range(partitions)
        if key == ApiKey.METADATA:
            held: Any = [MetadataResponsePartition(0, each, 0, 0, [0], [0]) for each in numbers]
            topics.append(MetadataResponseTopic(0, name, topic_id, partitions=held))
        else:
            held = [DescribeTopicPartitionsResponsePartition(0, each, 0, 0, [0], [0]) for each in numbers]
            topics.append(DescribeTopicPartitionsResponseTopic(0, name, topic_id, partitions=held))
    if key == ApiKey.METADATA:
        return MetadataResponse(
            brokers=[MetadataResponseBroker(0, UPSTREAM, 9092, "__weir_rack")],
            cluster_id="__weir_cluster",
            controller_id=0,
            topics=topics,
        )
    return DescribeTopicPartitionsResponse(topics=topics)


def begin_of(frame: bytes, key: int, version: int) -> int:
    return MetadataBrokers(frame, version).topics_at() if key == ApiKey.METADATA else 9


def expected(message: Any, version: int) -> bytes:
    """The response with the marks of the codec."""
    for topic in message.topics:
        topic.is_internal = topic.is_internal or (topic.error_code == 0 and topic.name.startswith(OURS))
    return frame_of(message, version)


def whole_of(made: bytes | Steps[bytes]) -> bytes:
    return made if isinstance(made, bytes) else run_through(made)


@pytest.mark.parametrize(("key", "version"), LAYOUTS)
def test_the_marks_are_those_of_the_codec(key: ApiKey, version: int) -> None:
    rng = RandomMessages(seed=version).rng
    for _ in range(100):
        message = message_of(key, rng.choices(NAMES, k=rng.randrange(1, 12)), rng, rng.randrange(3))
        for topic in message.topics:
            topic.error_code = rng.choice((0, 0, 0, 3, 5, 17, 29, -1))
            topic.is_internal = rng.random() < 0.2
        frame = frame_of(message, version)
        marks = internal_marks(key, version)
        assert marks is not None
        made = run_through(with_marks(frame, begin_of(frame, key, version), marks))
        assert bytes(made) == expected(message, version)


@pytest.mark.parametrize(("key", "version"), LAYOUTS)
@pytest.mark.parametrize("size", [1, 2, 7, 8, 16, 17, 100])
def test_a_mark_is_set_whatever_the_pieces(key: ApiKey, version: int, size: int) -> None:
    rng = RandomMessages(seed=size).rng
    message = message_of(key, [*NAMES, *reversed(NAMES)], rng)
    frame = frame_of(message, version)
    begin = begin_of(frame, key, version)
    marks = internal_marks(key, version)
    assert marks is not None
    made = frame[:begin]
    for at in range(begin, len(frame), size):
        piece = bytearray(frame[at : at + size])
        marks.mark(memoryview(piece))
        made += piece
    assert made == expected(message, version)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_whole_response_is_searched_beyond_a_piece(more: int) -> None:
    """The name of the last topic begins at the end of a piece, and its mark is in the next one."""
    rng = RandomMessages(seed=1).rng
    message = message_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS, ["first", OURS + "last"], rng)
    name_at = frame_of(message, 0).index(OURS.encode())
    partition = message.topics[0].partitions[0]
    partition.replica_nodes = [0] * ((PIECE_BYTES + 9 - name_at) // 4 - 4)
    shift = PIECE_BYTES + 9 - frame_of(message, 0).index(OURS.encode())
    message.topics[0].name += "x" * (shift + more)
    frame = frame_of(message, 0)
    assert frame.index(OURS.encode()) == PIECE_BYTES + 9 + more
    assert whole_of(marked_description(frame))[4:] == expected(message, 0)


def test_a_response_with_no_such_topic_is_not_copied() -> None:
    rng = RandomMessages(seed=1).rng
    frame = frame_of(message_of(ApiKey.METADATA, ["events"], rng), 12)
    marks = internal_marks(ApiKey.METADATA, 12)
    assert marks is not None
    assert run_through(with_marks(frame, begin_of(frame, ApiKey.METADATA, 12), marks)) is frame


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.METADATA, 0), (ApiKey.METADATA, 14), (75, 1), (ApiKey.HEARTBEAT, 0)]
)
def test_no_other_layout_has_marks(key: int, version: int) -> None:
    assert internal_marks(key, version) is None


@pytest.mark.parametrize(("key", "version"), LAYOUTS)
def test_one_topic_of_another_needs_no_search(key: ApiKey, version: int) -> None:
    rng = RandomMessages(seed=1).rng
    for names, is_needless in (
        (["events" * 40], True),
        (["__weir-s"], True),
        ([OURS], False),
        (["events", "others"], False),
        ([], False),
    ):
        frame = frame_of(message_of(key, names, rng, 50), version)
        begin = begin_of(frame, key, version)
        marks = internal_marks(key, version)
        assert marks is not None and marks.is_needless(frame, begin) is is_needless
        seen = {marks.is_needless(frame[:size], begin) for size in range(begin, len(frame))}
        assert seen == ({True, False} if is_needless else {False})


SIZES = {"small": 2, "read at once": 400, "large": 3_000}


@pytest.mark.parametrize("advertised", [even_nodes, lambda _: Address("gateway", 31_000), lambda _: None])
@pytest.mark.parametrize("version", [1, 8, 9, 13])
@pytest.mark.parametrize("size", SIZES)
def test_a_rewritten_response_has_them_in_every_way(advertised: Any, version: int, size: str) -> None:
    rng = RandomMessages(seed=1).rng
    names = ["t" * 40] * SIZES[size] + [OURS + "requests"]
    frame = frame_of(message_of(ApiKey.METADATA, names, rng), version)
    assert (len(frame) > AT_ONCE) is (size != "small")
    for each in (frame, bytearray(frame)):
        made = whole_of(rewritten(each, ApiKey.METADATA, version, advertised))
        topics = read(made, ApiKey.METADATA, version).topics
        assert [topic.is_internal for topic in topics] == [False] * SIZES[size] + [True]


# Through a gateway


def metadata_of(node: FakeNode, names: list[str], partitions: int = 1) -> None:
    rng = RandomMessages(seed=1).rng
    message = message_of(ApiKey.METADATA, names, rng, partitions)
    described = message_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS, names, rng, partitions)
    node.versions[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = (0, 0)
    node.answers[ApiKey.METADATA] = lambda _: message
    node.answers[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = lambda _: described


REQUESTS = [
    (MetadataRequest(None, False), 12),
    (MetadataRequest(None, False), 1),
    (MetadataRequest([MetadataRequestTopic(name=OURS)], True), 12),
    (DescribeTopicPartitionsRequest([TopicRequest("events")]), 0),
]


@pytest.mark.parametrize("count", [1, 400, 10_000])
@pytest.mark.parametrize(("request_", "version"), REQUESTS)
async def test_a_client_sees_them_whatever_the_size(
    tmp_path: Path, request_: Any, version: int, count: int
) -> None:
    async with serving(tmp_path) as (node, gateway):
        client = await gateway.connect()
        for names in (["events"] * count + [OURS + "requests", "last"], ["events"] * count):
            metadata_of(node, names)
            for _ in range(2):
                topics = (await client.ask(request_, version)).topics
                assert [topic.name for topic in topics] == names
                assert [topic.is_internal for topic in topics] == [name.startswith(OURS) for name in names]


@pytest.mark.parametrize(
    ("names", "is_spliced"), [(["events"], True), ([OURS], False), (["events", "other"], False)]
)
@pytest.mark.parametrize(("request_", "version"), [REQUESTS[0], REQUESTS[3]])
async def test_only_one_topic_of_another_is_forwarded_inside_the_kernel(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request_: Any,
    version: int,
    names: list[str],
    is_spliced: bool,
) -> None:
    taken: list[Splice | None] = []
    take = PipePool.take

    def noted(pool: PipePool) -> Splice | None:
        taken.append(take(pool))
        return taken[-1]

    monkeypatch.setattr(PipePool, "take", noted)
    async with serving(tmp_path, "gateway.splice.min.bytes=1") as (node, gateway):
        metadata_of(node, names, 20_000)
        client = await gateway.connect()
        topics = (await client.ask(request_, version)).topics
        assert [topic.is_internal for topic in topics] == [name == OURS for name in names]
        assert [len(topic.partitions) for topic in topics] == [20_000] * len(names)
        assert bool(taken) is is_spliced


@pytest.mark.parametrize("version", [1, 3, 4, 12])
async def test_a_client_that_would_create_one_sees_that_it_is_internal(tmp_path: Path, version: int) -> None:
    """The gateway asks for the others' topics apart from its own."""
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        upstream.topics = {"events": 1, OURS + "requests": 1}
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in upstream.topics], True)
        topics = (await (await gateway.connect()).ask(asked, version)).topics
        assert {topic.name: topic.is_internal for topic in topics} == {
            "events": False,
            OURS + "requests": True,
        }
