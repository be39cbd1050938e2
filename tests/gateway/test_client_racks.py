"""Racks of clients by their addresses, and the requests that are given one: exactly what the codec would make
of them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.gateway import client_racks
from broker.gateway.client_racks import (
    FETCH_FROM,
    FETCH_TO,
    HEARTBEATS,
    MAX_BYTES,
    ClientRacks,
    Rack,
    takes_rack,
    with_rack,
)
from broker.gateway.forwarder import SCRATCH_BYTES, SMALL_BYTES
from broker.protocol.api_key import FLEXIBLE_FROM, ApiKey
from broker.protocol.codec import encode_request, known_versions
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from broker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from broker.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from tests.gateway.test_proxied import REQUIRED, through
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.proxy_protocol import v1, v2
from tests.support.random_messages import RandomMessages
from tests.support.running_gateway import RunningGateway, running_gateway

KEY = "gateway.client.racks"
SOFTWARE = "gateway.client.racks.software"
RACKS = f"{KEY}=127.0.0.1:rack-a,127.0.0.0/8:rack-b,192.0.2.0/24:rack-c,[2001:db8::/32]:rack-d"
FETCHES = range(FETCH_FROM, FETCH_TO + 1)
TOPIC_ID = bytes(range(16))
UUIDS = 13
"""The version from which Fetch names topics by id."""


def racks(text: str) -> ClientRacks:
    return ClientRacks(load(None, [f"{KEY}={text}"], {}).config.gateway.client_racks)


def of(text: str, address: str) -> str | None:
    rack = racks(text).of(address)
    return None if rack is None else rack.name


def test_the_longest_prefix_counts_in_any_order() -> None:
    text = "10.0.0.0/8:far, 10.1.2.3 : own ,10.1.0.0/16:us-east-1a,[2001:db8::/32]:six,[2001:db8:1::/48]:near"
    for order in (text, ",".join(reversed(text.split(",")))):
        found = [of(order, each) for each in ("10.1.2.3", "10.1.2.4", "10.2.0.1", "11.0.0.1")]
        assert found == ["own", "us-east-1a", "far", None]
        found = [of(order, each) for each in ("2001:db8:1::5", "2001:db8:2::5", "2001:db9::5")]
        assert found == ["near", "six", None]


@pytest.mark.parametrize(
    ("address", "rack"),
    [("10.0.255.255", None), ("10.1.0.0", "a"), ("10.1.255.255", "a"), ("10.2.0.0", None), ("::1", None)],
)
def test_a_network_holds_its_addresses(address: str, rack: str | None) -> None:
    assert of("10.1.0.0/16:a", address) == rack


def test_all_addresses_can_have_a_rack() -> None:
    text = "0.0.0.0/0:four,[::/0]:six"
    assert [of(text, each) for each in ("192.0.2.1", "fe80::1%eth0")] == ["four", "six"]


def test_without_the_key_no_address_has_a_rack() -> None:
    assert not racks("") and racks("").of("127.0.0.1") is None


def test_a_rack_may_have_colons_and_brackets() -> None:
    assert of("10.1.0.0/16:zone:1]", "10.1.0.1") == "zone:1]"
    assert of("[2001:db8::/32]:zone]:1", "2001:db8::1") == "zone]:1"


@pytest.mark.parametrize(
    "text",
    [
        "10.1.0.0/16",
        "10.1.0.0/16:",
        ":a",
        "10.1.0.0/33:a",
        "10.1.0.1/16:a",
        "2001:db8::/32:a",
        "[2001:db8::/32]a",
        "[2001:db8::/32:a",
        "[10.1.0.0/16]:a",
        "[::ffff:10.0.0.1]:a",
        "us-east-1a:10.1.0.0/16",
        "10.1.0.0/16:a,,10.2.0.0/16:b",
        "10.1.0.0/16:a,10.1.0.0/16:b",
        "10.1.0.0/16:a\x07",
        f"10.1.0.0/16:{'x' * 256}",
        f"10.1.0.0/16:{'ü' * 128}",
    ],
)
def test_what_is_no_network_with_a_rack_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match="a list of network:rack, each network once") as error:
        load(None, [f"{KEY}={text}"], {})
    assert error.value.key == KEY and error.value.value == text


@pytest.mark.parametrize("rack", ["x", "x" * 255, "ü" * 127])
def test_a_rack_has_255_bytes_at_most(rack: str) -> None:
    assert of(f"10.1.0.0/16:{rack}", "10.1.0.1") == rack


def test_the_setting_is_shown_as_it_is_read() -> None:
    shown = ",".join(map(str, load(None, [RACKS], {}).config.gateway.client_racks))
    assert f"{KEY}={shown}" == RACKS.replace("127.0.0.1:", "127.0.0.1/32:")


@pytest.mark.parametrize(
    ("name", "version", "suits"),
    [
        ("apache-kafka-java", "4.4.0", True),
        ("librdkafka", "2.16.0", True),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", True),
        ("kgo", "v1.22.3", True),
        ("sarama", "1.61.1", True),
        ("kafka-python", "3.0.12", True),
        ("aiokafka", "0.14.0", False),
        ("unknown", "unknown", False),
        ("", "", False),
    ],
)
def test_a_client_that_does_not_follow_its_rack_is_given_none(name: str, version: str, suits: bool) -> None:
    known = load(None, [], {}).config.gateway.client_racks_software
    assert ClientRacks((), known).suit(name, version) is suits
    assert ClientRacks((), ("*",)).suit(name, version)
    assert not ClientRacks((), ()).suit(name, version)


# Requests


def frame_of(message: Any, version: int, client_id: str | None = "tester") -> bytes:
    parts = encode_request(message.API_KEY, version)(message, 77, client_id)
    return b"".join(bytes(part) for part in parts)


def given(message: Any, version: int, rack: Rack, client_id: str | None = "tester") -> bytes | None:
    body = 14 + len((client_id or "").encode())
    return with_rack(frame_of(message, version, client_id), message.API_KEY, version, body, rack)


def expected(message: Any, version: int, rack: Rack, client_id: str | None = "tester") -> bytes:
    message.rack_id = rack.name
    return frame_of(message, version, client_id)


LONG = Rack("r" * 255)
SIZES = [(1, 1)] * 6 + [(1, 60), (1, 130), (50, 1), (130, 1)]
"""How often the topics and the partitions of a random Fetch are there: counts of one byte, and of two."""
NAMES = [Rack("a"), Rack("us-east-1a"), Rack("zürich"), Rack("r" * 126), Rack("r" * 127), LONG]


@pytest.mark.parametrize("version", FETCHES)
def test_a_random_fetch_is_given_a_rack_as_the_codec_would(version: int) -> None:
    """As clients send it: without tagged fields."""
    made = RandomMessages(version)
    texts = ["", "\1", "\1\1", "\0\0", "\1\0", "a", "b" * 200]
    given_one = 0
    for index in range(300):
        message = made.request(ApiKey.FETCH, version)
        assert isinstance(message, FetchRequest)
        message.replica_id, message.replica_state, message.cluster_id = -1, None, None
        message.rack_id = made.rng.choice(texts) if index % 3 == 0 else ""
        many_topics, many_partitions = made.rng.choice(SIZES)
        for topic in (*message.topics, *message.forgotten_topics_data):
            topic.partitions *= many_partitions
        message.topics *= many_topics
        rack, client_id = made.rng.choice(NAMES), made.rng.choice((None, "", "tester"))
        is_named = bool(message.rack_id)
        changed = given(message, version, rack, client_id)
        given_one += not is_named
        assert changed == (None if is_named else expected(message, version, rack, client_id)), index
    assert given_one > 200


@pytest.mark.parametrize("version", FETCHES)
def test_a_fetch_whose_end_says_nothing_stays_as_it_is(version: int) -> None:
    """Tagged fields may end as a request without a rack does, and a rack may, too."""
    rack = Rack("rack-a")
    assert given(FetchRequest(rack_id="\1"), version, rack) is None
    assert given(FetchRequest(rack_id="\0\0"), version, rack) is None
    if version <= 14:
        assert given(FetchRequest(replica_id=3), version, rack) is None
        assert given(FetchRequest(replica_id=-2), version, rack) is None
    else:
        assert given(FetchRequest(replica_state=ReplicaState(3, 1)), version, rack) is None
        assert given(FetchRequest(replica_state=ReplicaState(3, 0x101)), version, rack) is None
    if version < FLEXIBLE_FROM[ApiKey.FETCH]:
        return
    assert given(FetchRequest(cluster_id="a\1"), version, rack) is None
    whole = frame_of(FetchRequest(), version, None)
    assert whole[14] == 0
    tagged = whole[:14] + b"\1\x09\1x" + whole[15:]
    assert with_rack(tagged, ApiKey.FETCH, version, 14, rack) is None
    partition = FetchPartition()
    topic = FetchTopic("name", TOPIC_ID, [partition, partition])
    whole = frame_of(FetchRequest(topics=[topic]), version, None)
    ends_of_tags = [len(whole) - 4, len(whole) - 5, len(whole) - 5 - 33]
    for at in ends_of_tags:  # of the topic and of its two partitions
        assert whole[at] == 0
        tagged = whole[:at] + b"\1\x09\1x" + whole[at + 1 :]
        assert with_rack(tagged, ApiKey.FETCH, version, 14, rack) is None, at
        assert with_rack(whole[:at] + b"\1" + whole[at + 1 :], ApiKey.FETCH, version, 14, rack) is None


@pytest.mark.parametrize("version", FETCHES)
def test_no_damaged_fetch_is_changed_into_another_request(version: int) -> None:
    """Every byte of it cut off or turned over: what is changed differs in its size and its end alone."""
    rack, made = Rack("rack-a"), RandomMessages(version)
    topic = FetchTopic("name", TOPIC_ID, [FetchPartition(1), FetchPartition(2)])
    forgotten = ForgottenTopic("name", TOPIC_ID, [3, 4])
    whole = frame_of(FetchRequest(topics=[topic, topic], forgotten_topics_data=[forgotten]), version)
    changed = 0
    for end in range(20, len(whole)):
        assert with_rack(whole[:end], ApiKey.FETCH, version, 20, rack) is None
    for _ in range(5_000):
        damaged = bytes(whole[:20]) + made.flipped(bytes(4) + whole[20:])[4:]
        found = with_rack(damaged, ApiKey.FETCH, version, 20, rack)
        if found is not None:
            changed += 1
            ending = rack.ending(version)
            assert found[4:] == damaged[4:-2] + ending
            assert int.from_bytes(found[:4], "big") == len(found) - 4
    assert 0 < changed < 5_000


HEARTBEAT_VERSIONS = [
    (key, version)
    for key in sorted(HEARTBEATS)
    for version in range(known_versions(key)[0], known_versions(key)[1] + 1)
]


@pytest.mark.parametrize(("key", "version"), HEARTBEAT_VERSIONS)
def test_a_random_heartbeat_that_joins_is_given_a_rack_as_the_codec_would(key: ApiKey, version: int) -> None:
    made, given_one = RandomMessages(version), 0
    for index in range(400):
        message: Any = made.request(key, version)
        if index % 2:
            message.member_epoch = 0
        rack, client_id = made.rng.choice(NAMES), made.rng.choice((None, "", "tester"))
        joins = not message.member_epoch and message.rack_id is None
        changed = given(message, version, rack, client_id)
        given_one += joins
        assert changed == (expected(message, version, rack, client_id) if joins else None), index
    assert given_one > 20


def test_other_requests_name_no_rack() -> None:
    assert [version for version in range(20) if takes_rack(ApiKey.FETCH, version)] == list(FETCHES)
    for key in HEARTBEATS:
        first, last = known_versions(key)
        assert [version for version in range(9) if takes_rack(key, version)] == list(range(first, last + 1))
    assert not takes_rack(ApiKey.METADATA, 12) and not takes_rack(ApiKey.JOIN_GROUP, 9)


def test_a_heartbeat_that_cannot_be_read_stays_as_it_is() -> None:
    whole = frame_of(ConsumerGroupHeartbeatRequest("group"), 1)
    assert with_rack(whole, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 20, Rack("a")) is not None
    for damaged in (whole[:-4], whole[:20] + b"\1\x09\1x" + whole[21:], whole[:-1] + b"\1\x09\1x"):
        assert with_rack(damaged, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 20, Rack("a")) is None


# Through a gateway


@asynccontextmanager
async def serving(tmp_path: Path, *overrides: str) -> AsyncIterator[tuple[FakeNode, RunningGateway]]:
    """Before one node, which answers every Fetch and heartbeat with nothing."""
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        node.rack = "rack-a"
        node.versions |= {
            ApiKey.FETCH: (4, 17),
            ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
            ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
            ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0),
        }
        node.answers[ApiKey.FETCH] = lambda _request: FetchResponse(responses=[])
        node.answers |= {
            ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda _request: ConsumerGroupHeartbeatResponse(),
            ApiKey.SHARE_GROUP_HEARTBEAT: lambda _request: ShareGroupHeartbeatResponse(),
            ApiKey.STREAMS_GROUP_HEARTBEAT: lambda _request: StreamsGroupHeartbeatResponse(status=[]),
        }
        async with running_gateway(tmp_path, node.port, f"{SOFTWARE}=*", *overrides) as gateway:
            yield node, gateway


def topics(partitions: int, version: int = FETCH_TO) -> list[FetchTopic]:
    made = [FetchPartition(number, fetch_offset=7) for number in range(partitions)]
    return [FetchTopic(*names(version), made)]


def names(version: int) -> tuple[str, bytes]:
    """The name and the id of a topic, as the codec reads them in this version."""
    return ("", TOPIC_ID) if version >= UUIDS else ("events", bytes(16))


def fetches(node: FakeNode) -> list[FetchRequest]:
    return [each for each in node.requests if isinstance(each, FetchRequest)]


def last(node: FakeNode, kind: type) -> Any:
    """The last request of this kind: the gateway sends its own, too."""
    return [each for each in node.requests if isinstance(each, kind)][-1]


def named(node: FakeNode) -> list[str]:
    return [each.rack_id for each in fetches(node)]


@pytest.mark.parametrize("client_id", ["tester", None, "x" * 200])
async def test_every_fetch_names_the_rack_of_the_address(tmp_path: Path, client_id: str | None) -> None:
    seen: list[Any] = []
    async with serving(tmp_path, RACKS) as (node, gateway):
        for version in FETCHES:
            client = await gateway.connect(client_id)
            sent = []
            for number in range(6):
                request = FetchRequest(
                    session_id=number and 9,
                    session_epoch=number,
                    topics=topics(number, version) if number % 3 else [],
                    forgotten_topics_data=[],
                )
                if number == 4:
                    request.forgotten_topics_data = [ForgottenTopic(*names(version), [1, 2])]
                sent.append(request)
                await client.ask(request, version)
            (channel,) = (each for each in gateway.server.socket_server.channels() if each not in seen)
            seen.append(channel)
            assert channel.bytes_in == sum(len(frame_of(each, version, client_id)) for each in sent)
            for each in sent:
                each.rack_id = "rack-a"
            assert fetches(node)[-len(sent) :] == sent, version
        assert len(fetches(node)) == 6 * len(FETCHES)


async def test_pipelined_requests_keep_their_order(tmp_path: Path) -> None:
    async with serving(tmp_path, RACKS) as (node, gateway):
        client = await gateway.connect()
        for _ in range(3):
            requests: list[tuple[Any, int]] = [
                (FetchRequest(), 12),
                (MetadataRequest([], False), 9),
                (FetchRequest(rack_id="own"), 15),
                (FetchRequest(topics=topics(2, 11)), 11),
                (FetchRequest(), 10),
                (MetadataRequest([], False), 9),
            ]
            whole = b"".join(frame_of(*each) for each in requests)
            await client.stream.send_all(whole)
            for message, version in requests:
                correlation_id, _ = await client.receive(message.API_KEY, version)
                assert correlation_id == 77
        assert named(node) == ["rack-a", "own", "rack-a", ""] * 3


async def test_a_client_that_names_a_rack_keeps_it_and_so_does_one_without_an_address(tmp_path: Path) -> None:
    async with serving(tmp_path, f"{KEY}=10.0.0.0/8:rack-a") as (node, gateway):
        client = await gateway.connect()
        for rack in ("", "own"):
            for _ in range(3):
                await client.ask(FetchRequest(rack_id=rack), 15)
        assert named(node) == [""] * 3 + ["own"] * 3
        assert {each.rack for each in gateway.server.socket_server.channels()} == {None}
    async with serving(tmp_path / "second", RACKS) as (node, gateway):
        client = await gateway.connect()
        for rack in ("own", ""):
            for _ in range(3):
                await client.ask(FetchRequest(rack_id=rack), 15)
        assert named(node) == ["own"] * 3 + ["rack-a"] * 3


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_the_rack_is_for_the_software_that_follows_it(tmp_path: Path, version: int) -> None:
    """As the client's last ApiVersions says, whether the gateway forwards that or answers it."""
    software = f"{SOFTWARE}=follows,other"
    async with serving(tmp_path, RACKS, software) as (node, gateway):
        client = await gateway.connect()
        for name, software_version, rack in (
            (None, None, ""),
            ("stays", "1", ""),
            ("follows", "1", "rack-a"),
            ("stays", "1-other-2", "rack-a"),
            ("stays", "1", ""),
            ("follows", "2", "rack-a"),
        ):
            if name is not None:
                await client.ask(ApiVersionsRequest(name, software_version), version)
            for _ in range(3):
                await client.ask(FetchRequest(), 15)
            assert named(node)[-3:] == [rack] * 3
            request, heartbeat_version = heartbeats(0, None)[2]
            await client.ask(request, heartbeat_version)
            assert last(node, StreamsGroupHeartbeatRequest).rack_id == (rack or None)


@pytest.mark.parametrize(
    ("header", "rack"),
    [
        (v1(("192.0.2.9", 4_000)), "rack-c"),
        (v2(("192.0.2.9", 4_000)), "rack-c"),
        (v2(("2001:db8::7", 4_000)), "rack-d"),
        (v2(("198.51.100.1", 4_000)), ""),
    ],
)
async def test_the_address_is_that_of_a_proxy_header(tmp_path: Path, header: bytes, rack: str) -> None:
    async with serving(tmp_path, RACKS, *REQUIRED) as (node, gateway):
        client = await through(gateway, header, gateway.port)
        for _ in range(3):
            await client.ask(FetchRequest(), 15)
        assert named(node) == [rack] * 3


def sized(size: int) -> tuple[FetchRequest, str]:
    """A Fetch that has so many bytes, with its size, in version 15 and with this client id."""
    request = FetchRequest(topics=topics(size // 33 - 4))
    missing = size - len(frame_of(request, FETCH_TO))
    request.topics += [FetchTopic("", TOPIC_ID, []) for _ in range(missing // 18)]
    client_id = "tester" + "x" * (size - len(frame_of(request, FETCH_TO)))
    assert len(frame_of(request, FETCH_TO, client_id)) == size
    return request, client_id


@pytest.mark.parametrize("limit", [SMALL_BYTES, MAX_BYTES, SCRATCH_BYTES])
@pytest.mark.parametrize("longer", [-1, 0, 1])
async def test_large_fetches(tmp_path: Path, limit: int, longer: int) -> None:
    """Up to MAX_BYTES they have a rack; the larger ones pass as they are, and the next one has it again."""
    async with serving(tmp_path, RACKS) as (node, gateway):
        client = await gateway.connect()
        for number in range(2):
            small = FetchRequest(session_id=9, session_epoch=number)
            large, client.client_id = sized(limit + longer)
            await client.ask(large, FETCH_TO)
            await client.ask(small, FETCH_TO)
            found = fetches(node)[-2:]
            assert [len(each.topics) for each in found] == [len(large.topics), 0]
            assert [each.rack_id for each in found] == ["rack-a" * (limit + longer <= MAX_BYTES), "rack-a"]
            assert found[0].topics == large.topics


async def test_a_fetch_that_arrives_byte_by_byte(tmp_path: Path) -> None:
    async with serving(tmp_path, RACKS) as (node, gateway):
        client = await gateway.connect()
        for version in FETCHES:
            whole = frame_of(FetchRequest(topics=topics(2, version)), version)
            for at in range(len(whole)):
                await client.stream.send_all(whole[at : at + 1])
            await client.receive(ApiKey.FETCH, version)
        assert named(node) == ["rack-a"] * len(FETCHES)


async def test_a_large_fetch_in_pieces_is_whole_when_it_leaves(tmp_path: Path) -> None:
    async with serving(tmp_path, RACKS) as (node, gateway):
        client = await gateway.connect()
        large, client_id = sized(MAX_BYTES)
        whole = frame_of(large, FETCH_TO, client_id)
        second = frame_of(FetchRequest(), FETCH_TO)
        await client.stream.send_all(whole[:SMALL_BYTES])
        (channel,) = gateway.server.socket_server.channels()
        await client.stream.send_all(whole[SMALL_BYTES:] + second[:9])
        await client.receive(ApiKey.FETCH, FETCH_TO)
        await client.stream.send_all(second[9:])
        await client.receive(ApiKey.FETCH, FETCH_TO)
        assert named(node) == ["rack-a", "rack-a"]
        assert channel.bytes_in == len(whole) + len(second)


def heartbeats(member_epoch: int, rack_id: str | None) -> list[tuple[Any, int]]:
    common = {"group_id": "group", "member_id": "m", "member_epoch": member_epoch, "rack_id": rack_id}
    return [
        (ConsumerGroupHeartbeatRequest(**common), 1),
        (ShareGroupHeartbeatRequest(**common), 1),
        (StreamsGroupHeartbeatRequest(**common), 0),
    ]


async def test_members_name_the_rack_when_they_join(tmp_path: Path) -> None:
    """Later heartbeats name none if nothing has changed, also of a member that named its own."""
    async with serving(tmp_path, RACKS) as (node, gateway):
        client = await gateway.connect()
        joins = [(0, None, "rack-a"), (0, "own", "own"), (0, "", "")]
        cases = [*joins, (5, None, None), (5, "b", "b"), (-1, None, None)]
        for member_epoch, rack_id, expected_rack in cases:
            for _ in range(2):
                for request, version in heartbeats(member_epoch, rack_id):
                    await client.ask(request, version)
                    request.rack_id = expected_rack
                    assert last(node, type(request)) == request


async def test_a_large_heartbeat_names_the_rack_too(tmp_path: Path) -> None:
    async with serving(tmp_path, RACKS) as (node, gateway):
        client = await gateway.connect()
        many = [f"topic-{number:05}" for number in range(SMALL_BYTES // 10)]
        consumer = ConsumerGroupHeartbeatRequest(group_id="group", subscribed_topic_names=many)
        topology = Topology(1, [Subtopology("0", many)])
        for _ in range(2):
            await client.ask(consumer, 1)
            found = last(node, ConsumerGroupHeartbeatRequest)
            assert (found.rack_id, found.subscribed_topic_names) == ("rack-a", many)
            streams = StreamsGroupHeartbeatRequest(group_id="group", topology=topology)
            await client.ask(streams, 0)
            found = last(node, StreamsGroupHeartbeatRequest)
            assert (found.rack_id, found.topology) == ("rack-a", topology)


async def test_without_the_key_nothing_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    for name in ("lacks_rack", "with_rack"):
        monkeypatch.setattr(f"broker.gateway.client_receive.{name}", refuse)
    monkeypatch.setattr(client_racks, "ip_address", refuse)
    async with serving(tmp_path) as (node, gateway):
        client = await gateway.connect()
        for _ in range(3):
            await client.ask(FetchRequest(), 15)
            for request, version in heartbeats(0, None):
                await client.ask(request, version)
        assert named(node) == [""] * 3
        assert gateway.server.upstream_views.row().racks == ()
