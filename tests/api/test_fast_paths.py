"""A broker with fast paths answers, stores and remembers what one without them does.

Random requests, damaged ones among them, go to both.
"""

import errno
import itertools
import random
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.requests.fast_path import MAX_PROLOGUE_BYTES, MAX_PROLOGUES, PROLOGUE_AT, Prologues
from broker.api.requests.outcome import EncodedResponse, Hangup, NoResponse, Response
from broker.api.requests.services import FetchServices
from broker.common.errors import ErrorCode, ProtocolViolation
from broker.controller import topics
from broker.log import disk
from broker.log.partition import PartitionLog
from broker.partitions.fetch_sessions import FetchSession
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.protocol.schema import ZERO_UUID, Message
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from tests.api.harness import WALL_MS, Asking, Connection, Harness, join

TOPICS = {"events": 8, "logs": 200, "f" * 200: 2, "__consumer_offsets": 1, "missing": 1}
SEEDS = range(2)


class Pair:
    """A broker with fast paths and one without, with the same topics, ids and clocks."""

    def __init__(self, directory: Path, *overrides: str) -> None:
        self.fast = Harness(directory / "fast", *overrides)
        self.full = Harness(directory / "full", *overrides)
        self.full.uses_fast_paths = False
        self.both = (self.fast, self.full)
        self.connections = (Connection(), Connection())
        self.served_fast = 0

    async def create(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for number, (name, partitions) in enumerate(TOPICS.items()):
            if name.startswith(("missing", "_")):
                continue
            monkeypatch.setattr(topics, "secrets", SimpleNamespace(token_bytes=partial(_id_of, number)))
            for each in self.both:
                await each.create_topic(name, partitions)

    async def ask(self, build: "Build", version: int) -> tuple[object, object]:
        """Return what both answer."""
        answers = []
        for harness, connection in zip(self.both, self.connections, strict=True):
            message = build()
            assert message.API_KEY is not None
            frame = bytearray(join(codec.encode_request(message.API_KEY, version)(message, 7, "test")))[4:]
            answers.append(await self.answer(harness, connection, frame, message.API_KEY, version))
        return answers[0], answers[1]

    async def answer(
        self, harness: Harness, connection: Connection, frame: bytearray, key: int, version: int
    ) -> object:
        asking = asking_of(harness, connection, key, version)
        try:
            await harness.stage_frame(frame, asking)
        except ProtocolViolation as refusal:
            return type(refusal)
        harness.deliver([asking])
        outcome = asking.outcome
        if isinstance(outcome, EncodedResponse):
            self.served_fast += 1
        if isinstance(outcome, EncodedResponse | Response):
            return harness.answer_frame(asking)
        if isinstance(outcome, Hangup):
            return outcome.reason, outcome.error
        return None if outcome is None else (type(outcome), isinstance(outcome, NoResponse))

    def logs(self) -> Iterator[tuple[PartitionLog, PartitionLog]]:
        for name in TOPICS:
            one, other = (each.partitions.by_name.get(name) for each in self.both)
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert one.open_logs.keys() == other.open_logs.keys()
                assert one.failed_appends == other.failed_appends
                for index, log in one.open_logs.items():
                    yield log, other.open_logs[index]

    def check(self) -> None:
        """Compare records, producers and counters."""
        for log, other in self.logs():
            assert log.high_watermark == other.high_watermark
            assert log.producers.items() == other.producers.items()
            for field in ("appends", "failed_appends", "reads", "failed_reads", "bytes_out"):
                assert getattr(log.metrics, field) == getattr(other.metrics, field), field
            if log.high_watermark > log.log_start_offset:
                start = log.log_start_offset
                assert (
                    log.read(start, 1_000_000, min_one_batch=True).read()
                    == other.read(start, 1_000_000, min_one_batch=True).read()
                )

    def close(self) -> None:
        for each in self.both:
            each.close()


def asking_of(harness: Harness, connection: Connection, key: int, version: int) -> Asking:
    asking = Asking()
    context = asking.context
    context.api_key, context.api_version = key, version
    context.connection, context.client_id, context.correlation_id = connection, "test", 7
    context.exempt = False
    context.now_ms, context.wall_ms = harness.now
    return asking


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    for name in ("fast", "full"):
        (tmp_path / name).mkdir()
    made = Pair(tmp_path)
    await made.create(monkeypatch)
    yield made
    made.close()


def _id_of(number: int, size: int) -> bytes:
    return bytes([0xD0 + number]) * size


def id_of(name: str) -> bytes:
    return _id_of(list(TOPICS).index(name), 16)


class Build:
    """Builds one random message, the same each time."""

    def __init__(self, seed: int, pair: Pair) -> None:
        self.seed = seed
        self.pair = pair

    def __call__(self) -> Message:
        raise NotImplementedError


class RandomProduce(Build):
    def __call__(self) -> ProduceRequest:
        chance = random.Random(self.seed)
        names = chance.choices(list(TOPICS), [50, 10, 10, 1, 1], k=chance.choice([1, 1, 1, 2, 3]))
        named = []
        for name in dict.fromkeys(names):
            count = chance.choice([1, 1, 2, 8, 8, 8, 0, 130])
            indexes = [chance.randrange(TOPICS[name] + (chance.random() < 0.01)) for _ in range(count)]
            data = [PartitionProduceData(index, self.batch(chance)) for index in indexes]
            named.append(TopicProduceData(name, id_of(name), data))
        acks = chance.choice([1, 1, -1, -1, 0, 2]) if chance.random() < 0.5 else 1
        transactional = "t" if chance.random() < 0.02 else None
        return ProduceRequest(transactional, acks, 30_000, named)

    def batch(self, chance: random.Random) -> bytes | None:
        records = [
            NewRecord(chance.choice([None, b"key"]), chance.randbytes(chance.choice([0, 30, 300])), WALL_MS)
            for _ in range(chance.choice([1, 1, 5]))
        ]
        codec_ = chance.choice([Codec.NONE] * 6 + [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
        batch = bytearray(build_batch(records, codec=codec_))
        fate = chance.random()
        if fate < 0.02:
            batch[chance.randrange(len(batch))] ^= 1 << chance.randrange(8)
        elif fate < 0.03:
            return None
        elif fate < 0.04:
            return bytes(batch[: chance.randrange(70)])
        elif fate < 0.05:
            return bytes(batch + batch)
        return bytes(batch)


class RandomFetch(Build):
    session: tuple[int, int] = (0, -1)
    forgets = False

    def __call__(self) -> FetchRequest:
        chance = random.Random(self.seed)
        names = chance.choices(list(TOPICS), [50, 10, 10, 1, 1], k=chance.choice([1, 1, 2, 0]))
        named = []
        for name in dict.fromkeys(names):
            hosted = self.pair.fast.partitions.by_name.get(name)
            wanted = []
            for index in range(min(TOPICS[name], chance.choice([1, 2, 8, 8, 140]))):
                log = None if hosted is None else hosted.open_logs.get(index)
                end = 0 if log is None else log.high_watermark
                offset = chance.choice([0, end, chance.randrange(end + 1), chance.randrange(end + 1)])
                offset += chance.random() < 0.01
                limit = chance.choice([0, 1, 100, 1_000, 1_000_000])
                epoch = chance.choice([-1] * 20 + [0] * 20 + [1])
                wanted.append(
                    FetchPartition(index, epoch, offset, partition_max_bytes=limit, log_start_offset=-1)
                )
            named.append(FetchTopic(name, id_of(name), wanted))
        forgotten = []
        if self.forgets and chance.random() < 0.1:
            forgotten.append(ForgottenTopic("events", id_of("events"), [1]))
        session_id, epoch = self.session
        return FetchRequest(
            max_wait_ms=0 if chance.random() < 0.7 else 500,
            min_bytes=chance.choice([0, 1, 1, 200]),
            max_bytes=chance.choice([1, 500, 50_000_000]),
            session_id=session_id,
            session_epoch=epoch,
            topics=named,
            forgotten_topics_data=forgotten,
            rack_id=chance.choice(["", "a-rack"]),
        )


@pytest.mark.rotates
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("version", range(3, 14))
async def test_produce(pair: Pair, version: int, seed: int) -> None:
    for step in range(60):
        fast, full = await pair.ask(RandomProduce(seed * 10_000 + step, pair), version)
        assert fast == full, step
    pair.check()
    assert (pair.served_fast > 10) is (version >= 5)


@pytest.mark.rotates
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("version", range(4, 19))
async def test_fetch(pair: Pair, version: int, seed: int) -> None:
    for step in range(20):
        await pair.ask(RandomProduce(seed * 10_000 + step, pair), 9)
    pair.served_fast = 0
    for step in range(60):
        fast, full = await pair.ask(RandomFetch(seed * 10_000 + step, pair), version)
        assert fast == full, step
    pair.check()
    assert (pair.served_fast > 5) is (version >= 5)


@pytest.mark.rotates
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
async def test_fetch_in_a_session(
    pair: Pair, version: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = itertools.count()
    monkeypatch.setattr("secrets.randbelow", lambda below: next(drawn) // 2)  # both draw the same ids
    chance = random.Random(seed)
    session = (0, 0)
    pair.served_fast = 0
    for step in range(120):
        if chance.random() < 0.3:
            await pair.ask(RandomProduce(seed * 10_000 + step, pair), 9)
            pair.check()
        served = pair.served_fast
        build = RandomFetch(seed * 10_000 + step, pair)
        build.session, build.forgets = session, session[1] > 0
        fast, full = await pair.ask(build, version)
        assert fast == full, step
        if not isinstance(fast, bytes):
            session = (0, 0)  # the fetch waits, and a client gives up
            continue
        answer = decoded(fast, version)
        session = (
            (answer.session_id, session[1] + 1) if answer.session_id and not answer.error_code else (0, 0)
        )
        one, other = (list(each.services[FetchServices].sessions._sessions.values()) for each in pair.both)
        assert [shown(each) for each in one] == [shown(each) for each in other]
        if session[1] > 5:
            session = (session[0], session[1] + chance.choice([0] * 20 + [1]))
        assert pair.served_fast >= served


@pytest.mark.parametrize(
    ("version", "in_session"), [(5, False), (7, True), (11, False), (12, True), (13, False), (18, True)]
)
async def test_a_fetch_that_waits_is_not_decoded_and_gets_the_same_answer(
    pair: Pair, version: int, in_session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = itertools.count()
    monkeypatch.setattr("secrets.randbelow", lambda below: next(drawn) // 2)
    await pair.ask(lambda: produce_of("events"), 9)
    wanted = [FetchPartition(0, -1, 1, partition_max_bytes=1_000)]
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[FetchTopic("events", id_of("events"), wanted)]
    )
    if in_session:
        request.session_epoch, request.max_wait_ms = 0, 0
        opened, _ = await pair.ask(lambda: request, version)
        assert isinstance(opened, bytes)
        request.session_id, request.session_epoch = decoded(opened, version).session_id, 1
        request.max_wait_ms = 500
    frame = bytearray(join(codec.encode_request(ApiKey.FETCH, version)(request, 7, "test")))[4:]
    decode, decodes = codec.decode_request, []

    def counted(key: int, of_version: int) -> Any:
        decodes.append(key)
        return decode(key, of_version)

    monkeypatch.setattr(codec, "decode_request", counted)
    waiting = []
    for harness, connection, expected in zip(pair.both, pair.connections, ([], [ApiKey.FETCH]), strict=True):
        asking = asking_of(harness, connection, ApiKey.FETCH, version)
        waiting.append(await harness.stage_frame(bytearray(frame), asking))
        assert decodes == expected
        harness.deliver([asking])
        assert asking.outcome is None and connection.waiting is not None
    await pair.ask(lambda: produce_of("events"), 9)
    one, other = (harness.answer_frame(asking) for harness, asking in zip(pair.both, waiting, strict=True))
    assert one == other and len(one) > 100
    pair.check()
    sessions = [list(each.services[FetchServices].sessions._sessions.values()) for each in pair.both]
    assert [shown(each) for each in sessions[0]] == [shown(each) for each in sessions[1]]
    assert len(sessions[0]) == in_session


def decoded(frame: bytes, version: int) -> FetchResponse:
    reply = codec.decode_response(ApiKey.FETCH, version)(frame[4:], 5 if version >= 12 else 4)
    assert isinstance(reply, FetchResponse)
    return reply


def shown(session: FetchSession) -> list[object]:
    """Return what a session remembers, in its order."""
    return [session.epoch, session.last_used_ms] + [
        (
            name,
            index,
            each.high_watermark,
            each.log_start_offset,
            each.requested.offset,
            each.requested.max_bytes,
        )
        for (name, _, index), each in session.partitions.items()
    ]


@pytest.mark.parametrize(
    ("key", "version"), [(0, 7), (0, 9), (0, 13), (1, 5), (1, 7), (1, 9), (1, 11), (1, 12), (1, 17)]
)
async def test_a_truncated_or_damaged_request(pair: Pair, key: int, version: int) -> None:
    kind = RandomProduce if key == ApiKey.PRODUCE else RandomFetch
    for step in range(10):
        await pair.ask(RandomProduce(step, pair), 9)
    chance = random.Random(version)
    for step in range(40):
        build = kind(step, pair)
        frames = []
        for _ in pair.both:
            frames.append(bytearray(join(codec.encode_request(key, version)(build(), 7, "test")))[4:])
        if len(frames[0]) > 1_000:
            continue
        ends = sorted(chance.sample(range(14, len(frames[0])), min(60, len(frames[0]) - 14)))
        damage = [(at, 1 << chance.randrange(8)) for at in chance.choices(range(14, len(frames[0])), k=20)]
        for end, (at, bit) in [(end, (0, 0)) for end in ends] + [(None, each) for each in damage]:
            answers = []
            for harness, connection, frame in zip(pair.both, pair.connections, frames, strict=True):
                damaged = frame[:end]
                damaged[at] ^= bit
                answers.append(await pair.answer(harness, connection, damaged, key, version))
            assert answers[0] == answers[1], (step, end, at, bit)
    pair.check()


def produce_of(name: str, value: bytes = b"v") -> ProduceRequest:
    data = PartitionProduceData(0, build_batch([NewRecord(None, value, WALL_MS)]))
    return ProduceRequest(None, 1, 30_000, [TopicProduceData(name, id_of("events"), [data])])


async def test_a_repeated_prologue_keeps_each_connections_client_id_and_topic(pair: Pair) -> None:
    connections = [Connection(), Connection()]
    served = []
    for step in range(12):
        connection, client_id = connections[step % 2], ("one", "two", None)[step % 3]
        asking = await pair.fast.put(
            produce_of(("events", "logs")[step // 3 % 2]), 9, connection=connection, client_id=client_id
        )
        assert isinstance(asking.outcome, EncodedResponse) or step in (0, 3)  # the first opens the log
        served.append(asking.context.client_id)
    assert served == ["one", "two", None] * 4
    ends = [pair.fast.partitions.by_name[name].open_logs[0].high_watermark for name in ("events", "logs")]
    assert ends == [6, 6]


@pytest.mark.parametrize(("longer", "is_kept"), [(-1, True), (0, True), (1, False)])
async def test_only_prologues_up_to_a_limit_are_kept(pair: Pair, longer: int, is_kept: bool) -> None:
    await pair.fast.put(produce_of("events"), 9)
    connection = Connection()
    # The size of the client id, the empty tags, transactional id, acks, timeout; two counts, and the name.
    others = PROLOGUE_AT + 2 + 1 + 7 + 1 + 1 + len("events") + 1
    client_id = "c" * (MAX_PROLOGUE_BYTES - others + longer)
    for _ in range(2):
        asking = await pair.fast.put(produce_of("events"), 9, connection=connection, client_id=client_id)
        assert isinstance(asking.outcome, EncodedResponse)
        assert asking.context.client_id == client_id
    assert (connection.prologue > 0) is is_kept


async def test_the_number_of_kept_prologues_is_limited() -> None:
    prologues: Prologues[int] = Prologues()
    connection = Connection()
    frames = [bytes(PROLOGUE_AT) + at.to_bytes(4, "big") for at in range(MAX_PROLOGUES + 1)]
    for at, frame in enumerate(frames[:-1]):
        prologues.add(frame, len(frame), connection, at)
    assert [prologues.find(frames[at], connection) for at in (0, MAX_PROLOGUES - 1)] == [0, MAX_PROLOGUES - 1]
    prologues.add(frames[-1], len(frames[-1]), connection, MAX_PROLOGUES)
    assert [prologues.find(frames[at], connection) for at in (0, MAX_PROLOGUES)] == [None, MAX_PROLOGUES]


@pytest.mark.parametrize(("partitions", "is_fast"), [(127, False), (126, True), (125, True)])
async def test_a_request_of_many_partitions_of_a_topic_goes_to_the_full_handler(
    pair: Pair, partitions: int, is_fast: bool
) -> None:
    """A compact array of more than 126 elements has a size of two bytes."""
    for at in range(200):
        pair.fast.append("logs", WALL_MS, partition=at)
    data = [
        PartitionProduceData(at, build_batch([NewRecord(None, b"v", WALL_MS)])) for at in range(partitions)
    ]
    asking = await pair.fast.put(
        ProduceRequest(None, 1, 30_000, [TopicProduceData("logs", ZERO_UUID, data)]), 9
    )
    assert isinstance(asking.outcome, EncodedResponse) is is_fast
    wanted = [FetchPartition(at, fetch_offset=0, partition_max_bytes=1_000) for at in range(partitions)]
    asking = await pair.fast.put(FetchRequest(topics=[FetchTopic("logs", ZERO_UUID, wanted)]), 12)
    assert isinstance(asking.outcome, EncodedResponse) is is_fast


@pytest.mark.parametrize(("partitions", "is_fast"), [(129, False), (128, True), (127, True)])
@pytest.mark.parametrize("version", [8, 9])
async def test_a_request_of_many_partitions_of_two_topics_goes_to_the_full_handler(
    pair: Pair, partitions: int, is_fast: bool, version: int
) -> None:
    for at in range(200):
        pair.fast.append("logs", WALL_MS, partition=at)
    pair.fast.append("events", WALL_MS, partition=0)
    batch = build_batch([NewRecord(None, b"v", WALL_MS)])
    data = [PartitionProduceData(at, batch) for at in range(partitions - 5)]
    more = [PartitionProduceData(0, batch) for _ in range(5)]
    topics = [TopicProduceData("logs", ZERO_UUID, data), TopicProduceData("events", ZERO_UUID, more)]
    asking = await pair.fast.put(ProduceRequest(None, 1, 30_000, topics), version)
    assert isinstance(asking.outcome, EncodedResponse) is is_fast


@pytest.mark.parametrize(("partitions", "is_fast"), [(9, False), (8, True), (7, True)])
async def test_many_logs_that_may_roll_are_left_to_the_full_handler(
    pair: Pair, partitions: int, is_fast: bool
) -> None:
    for at in range(partitions):
        pair.fast.append("logs", WALL_MS, partition=at)
        log = pair.fast.partitions.log("logs", at)
        assert log is not None
        log.configure(log.settings)  # whether it rolls is known after the next append
    data = [
        PartitionProduceData(at, build_batch([NewRecord(None, b"v", WALL_MS)])) for at in range(partitions)
    ]
    for again in (is_fast, True):
        request = ProduceRequest(None, 1, 30_000, [TopicProduceData("logs", ZERO_UUID, data)])
        asking = await pair.fast.put(request, 9)
        assert isinstance(asking.outcome, EncodedResponse) is again


@pytest.mark.parametrize("acks", [1, 0])
async def test_a_write_that_fails_fails_every_batch_of_its_partition(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    request = produce_of("events")
    request.acks = acks
    await pair.fast.put(request, 9)

    def no_space(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(disk, "write_at", no_space)
    asking = await pair.fast.put(request, 9)
    if acks == 0:
        assert isinstance(asking.outcome, Hangup) and asking.outcome.error == ErrorCode.KAFKA_STORAGE_ERROR
        return
    (partition,) = pair.fast.answer(asking).responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    monkeypatch.undo()
    (partition,) = (await pair.fast.ask(request, 9)).responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (0, 1)


async def test_a_committed_request_leaves_its_buffer_to_the_next_one(pair: Pair) -> None:
    await pair.fast.put(produce_of("events"), 9)
    frame = bytearray(join(codec.encode_request(ApiKey.PRODUCE, 9)(produce_of("events"), 7, "test")))[4:]
    asking = asking_of(pair.fast, Connection(), ApiKey.PRODUCE, 9)
    await pair.fast.stage_frame(frame, asking)
    with pytest.raises(BufferError):
        frame.append(0)
    pair.fast.partitions.commit()
    frame.append(0)  # fails while a view of the buffer exists
    pair.fast.deliver([asking])
    assert isinstance(asking.outcome, EncodedResponse)


async def test_a_failed_write_of_another_request_does_not_close_a_connection_without_responses(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("events", "logs"):
        await pair.fast.put(produce_of(name), 9)
    silent = produce_of("logs")
    silent.acks = 0
    failing = await pair.fast.stage(produce_of("events"), 9)
    other = await pair.fast.stage(silent, 9)
    write_at = disk.write_at
    calls = []

    def first_fails(*args: Any) -> int:
        calls.append(args)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "no space left")
        return write_at(*args)

    monkeypatch.setattr(disk, "write_at", first_fails)
    pair.fast.deliver([failing, other])
    assert isinstance(failing.outcome, Response) and isinstance(other.outcome, NoResponse)
    assert len(calls) == 2


async def test_a_fetch_of_a_deleted_log_goes_to_the_full_handler(pair: Pair) -> None:
    """The logs of a deleted topic are retired shortly before the fast path forgets its prologues."""
    pair.fast.append("events", WALL_MS)
    wanted = FetchPartition(0, fetch_offset=1, partition_max_bytes=1_000)
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic("events", ZERO_UUID, [wanted])])
    assert isinstance((await pair.fast.put(request, 12)).outcome, EncodedResponse)
    pair.fast.partitions.by_name["events"].open_logs[0].delete()
    asking = await pair.fast.put(request, 12)
    assert isinstance(asking.outcome, Response)
    (partition,) = pair.fast.answer(asking).responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
