"""The benchmarks' load program believes no broker: a wrong answer ends the load with its reason.

A broker of a few lines answers it, with the codec of the real one; what the load sends is read with that too.
"""

import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from typing import Any, Final

import pytest

from benchmarks.install import LOAD_PROGRAM, has_openssl, install_load_program
from broker.protocol.codec import decode_request, encode_response
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.protocol.messages.init_producer_id import InitProducerIdResponse
from broker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from broker.records.build import NewRecord, build_batch
from broker.records.header import BatchHeader
from broker.records.validate import check_batch
from broker.records.walk import records
from tests.support.certificates import certificates
from tests.support.headers import RequestHeader, parse_request_header

pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the load program is C, and there is no compiler"),
]

BATCH: Final = bytes(build_batch([NewRecord(None, bytes(100), timestamp=0)]))

# A request to its response; None hangs up.
Answer = Callable[[RequestHeader, Any], Any]


@pytest.fixture(scope="module", autouse=True)
def _program() -> None:
    install_load_program()


@contextmanager
def _answering(answer: Answer, correlation_shift: int, tls: ssl.SSLContext | None) -> Iterator[int]:
    """The port of a broker that serves one connection."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        if tls is not None:
            server = stack.enter_context(tls.wrap_socket(server, server_side=True))
        thread = threading.Thread(target=_serve, args=(server, answer, correlation_shift))
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()


def _serve(server: socket.socket, answer: Answer, correlation_shift: int) -> None:
    connection, _ = server.accept()
    # The load goes at its end without reading what is still on its way.
    with connection, connection.makefile("rb") as stream, suppress(ConnectionError, ssl.SSLError):
        while size := stream.read(4):
            frame = stream.read(int.from_bytes(size, "big"))
            header = parse_request_header(frame)
            message = decode_request(header.api_key, header.version)(frame, header.body_offset)
            response = answer(header, message)
            if response is None:
                return
            encode = encode_response(header.api_key, header.version)
            parts: list[Any] = encode(response, header.correlation_id + correlation_shift)
            connection.sendall(b"".join(parts))


def _load(
    ask: str, answer: Answer, *options: str, correlation_shift: int = 0, tls: ssl.SSLContext | None = None
) -> subprocess.CompletedProcess[str]:
    with _answering(answer, correlation_shift, tls) as port:
        command = [str(LOAD_PROGRAM), ask, f"--port={port}", "--seconds=0.2", "--warm-up=0", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def _versions(error_code: int = 0) -> Answer:
    return lambda _header, _message: ApiVersionsResponse(error_code, [ApiVersion(18, 0, 4)])


def _topic(error_code: int = 0) -> Answer:
    partition = MetadataResponsePartition(0, 0, 1, 0, [1], [1], [])
    topic = MetadataResponseTopic(error_code, "load", partitions=[partition])
    return lambda _header, _message: MetadataResponse(brokers=[], topics=[topic])


def _appended(error_code: int = 0, base_offset: int = 0, step: int = 16) -> Answer:
    """Each batch gets a base offset `step` after the last one of its partition."""
    given: Counter[int] = Counter()

    def append(_header: RequestHeader, message: Any) -> ProduceResponse:
        partitions = []
        for part in message.topic_data[0].partition_data:
            offset = base_offset + given[part.index]
            given[part.index] += step
            partitions.append(PartitionProduceResponse(part.index, error_code, offset, record_errors=[]))
        return ProduceResponse([TopicProduceResponse("load", partition_responses=partitions)])

    return append


def _fetched(records: bytes, error_code: int = 0) -> Answer:
    partition = PartitionData(0, error_code, 1, 1, 0, aborted_transactions=[], records=records)
    return lambda _header, _message: FetchResponse(
        responses=[FetchableTopicResponse("load", partitions=[partition])]
    )


class Partitioned:
    """A broker with one topic, which has the same batch at every offset. It keeps what it reads.

    It answers Produce and Fetch of any partitions, in sessions too, InitProducerId, and Metadata.
    """

    def __init__(self, *, loading: int = 0, session_ids: tuple[int, ...] = (77,), step: int = 16) -> None:
        self.loading = loading  # so many InitProducerId are answered COORDINATOR_LOAD_IN_PROGRESS
        self.session_ids = session_ids  # of the answers, the last again and again
        self.seen: list[tuple[RequestHeader, Any]] = []
        self.append = _appended(step=step)

    def of(self, api_key: int) -> list[Any]:
        return [message for header, message in self.seen if header.api_key == api_key]

    def batches(self) -> list[list[bytes]]:
        """Return the batches of each Produce request."""
        return [
            [bytes(part.records) for part in message.topic_data[0].partition_data] for message in self.of(0)
        ]

    def __call__(self, header: RequestHeader, message: Any) -> Any:
        self.seen.append((header, message))
        if header.api_key == 22:
            self.loading -= 1
            return (
                InitProducerIdResponse(0, 14, -1, -1)
                if self.loading >= 0
                else InitProducerIdResponse(0, 0, 7, 2)
            )
        if header.api_key == 3:
            partition = MetadataResponsePartition(0, 0, 1, 0, [1], [1], [])
            topic = MetadataResponseTopic(0, "load", topic_id=TOPIC_ID, partitions=[partition])
            return MetadataResponse(brokers=[], topics=[topic])
        if header.api_key == 0:
            return self.append(header, message)
        session = self.session_ids[min(len(self.of(1)), len(self.session_ids)) - 1]
        data = [
            PartitionData(
                wanted.partition,
                aborted_transactions=[],
                records=wanted.fetch_offset.to_bytes(8, "big") + BATCH[8:],
            )
            for wanted in reversed(message.topics[0].partitions)
        ]
        return FetchResponse(
            session_id=session, responses=[FetchableTopicResponse("load", TOPIC_ID, partitions=data)]
        )


TOPIC_ID: Final = bytes(range(16))
FETCH: Final = ("--records=1", "--record-bytes=100", "--batches=1")
FETCH_3: Final = ("--records=1", "--record-bytes=100", "--batches=4", "--partitions=3")


@pytest.mark.parametrize(
    ("ask", "answer", "options"),
    [
        ("api_versions", _versions(), ()),
        ("metadata", _topic(), ()),
        ("produce", _appended(), ()),
        ("fetch", _fetched(BATCH), FETCH),
    ],
)
def test_good_answers_are_counted(ask: str, answer: Answer, options: tuple[str, ...]) -> None:
    done = _load(ask, answer, *options)
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert result["requests"] > 0
    assert result["batch_bytes"] == (result["requests"] * len(BATCH) if ask in {"produce", "fetch"} else 0)


@pytest.mark.parametrize(
    ("ask", "answer", "options", "fault"),
    [
        ("api_versions", _versions(35), (), "ApiVersions error (35)"),
        ("metadata", _topic(3), (), "Metadata topic error (3)"),
        ("produce", _appended(error_code=7), (), "Produce error (7)"),
        ("produce", _appended(base_offset=-1), (), "Produce has no base offset"),
        ("produce", _appended(step=0), (), "Produce has the base offset of an earlier batch"),
        ("fetch", _fetched(BATCH, error_code=1), FETCH, "Fetch partition error (1)"),
        ("fetch", _fetched(b""), FETCH, "Fetch has no records"),
        ("fetch", _fetched(BATCH[:-1]), FETCH, "Fetch has less than one batch"),
        ("fetch", _fetched(b"\0" * 7 + b"\1" + BATCH[8:]), FETCH, "does not begin at the requested offset"),
        ("api_versions", lambda _header, _message: None, (), "the broker closed the connection"),
    ],
)
def test_a_wrong_answer_ends_the_load(ask: str, answer: Answer, options: tuple[str, ...], fault: str) -> None:
    done = _load(ask, answer, *options)
    assert done.returncode == 1
    assert fault in done.stderr
    assert done.stdout == ""


def test_the_answer_to_another_request_ends_the_load() -> None:
    done = _load("metadata", _topic(), correlation_shift=1)
    assert done.returncode == 1
    assert "unexpected correlation id" in done.stderr


def test_produced_batches_are_valid() -> None:
    seen: list[Any] = []
    append = _appended()

    def keep(header: RequestHeader, message: Any) -> Any:
        seen.append((header, message))
        return append(header, message)

    done = _load(
        "produce", keep, "--records=16", "--record-bytes=1000", "--acks=-1", "--topic=t", "--batches=3"
    )
    assert json.loads(done.stdout)["requests"] == len(seen) == 3
    header, message = seen[0]
    assert (header.api_key, header.version, header.client_id) == (0, 9, "weir-load")
    assert (message.acks, message.topic_data[0].name) == (-1, "t")
    batch = bytearray(message.topic_data[0].partition_data[0].records)
    check_batch(memoryview(batch), 1 << 20, 1_000_000)
    assert [len(record.value or b"") for record in records(batch)] == [1000] * 16


def test_every_request_has_the_next_correlation_id() -> None:
    broker = Partitioned()
    assert _load("produce", broker, "--batches=5", "--idempotent").stderr == ""
    assert [header.correlation_id for header, _ in broker.seen] == [1, 2, 3, 4, 5, 6]


def test_a_request_has_a_batch_of_each_partition() -> None:
    broker = Partitioned()
    done = _load("produce", broker, "--partitions=3", "--batches=2")
    assert [part.index for part in broker.of(0)[1].topic_data[0].partition_data] == [0, 1, 2]
    assert json.loads(done.stdout)["batch_bytes"] == sum(
        len(batch) for each in broker.batches() for batch in each
    )


def test_an_idempotent_producer_s_batches_follow_each_other_in_each_partition() -> None:
    broker = Partitioned()
    options = ("--partitions=3", "--batches=4", "--idempotent", "--vary", "--records=5")
    assert _load("produce", broker, *options).stderr == ""
    assert len(broker.batches()) == 4
    for number, batches in enumerate(broker.batches()):
        for batch in batches:
            header = BatchHeader(*check_batch(memoryview(batch), 1 << 20, 1_000))
            assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5 * number)


def test_a_broker_that_loads_its_producer_ids_is_asked_again() -> None:
    broker = Partitioned(loading=2)
    assert _load("produce", broker, "--batches=1", "--idempotent").stderr == ""
    assert [header.api_key for header, _ in broker.seen] == [22, 22, 22, 0]


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_no_request_is_as_long_as_the_last_where_sizes_vary(partitions: int) -> None:
    broker = Partitioned()
    _load("produce", broker, f"--partitions={partitions}", "--batches=150", "--vary", "--seconds=5")
    sizes = [sum(map(len, batches)) for batches in broker.batches()]
    assert len(sizes) == 150
    assert all(one != next_one for one, next_one in pairwise(sizes))
    values = [
        len(record.value or b"")
        for each in broker.batches()
        for b in each
        for record in records(bytearray(b))
    ]
    assert (min(values), max(values)) == (50, 150)


@pytest.mark.parametrize("size", [60, 61])
def test_all_the_sizes_of_a_load_that_varies_differ(size: int) -> None:
    broker = Partitioned()
    assert _load("produce", broker, "--batches=61", "--vary", f"--record-bytes={size}").returncode == 0
    assert len({len(batches[0]) for batches in broker.batches()}) == 61


def test_records_that_are_too_small_for_so_many_sizes_are_refused() -> None:
    command = [str(LOAD_PROGRAM), "produce", "--port=1", "--vary", "--record-bytes=59"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert "--vary needs --record-bytes of 60 or more" in done.stderr


def test_each_fetch_has_the_next_offsets_of_every_partition_from_the_end_to_the_beginning() -> None:
    broker = Partitioned()
    assert _load("fetch", broker, *FETCH_3).stderr == ""
    asked = [[part.fetch_offset for part in message.topics[0].partitions] for message in broker.of(1)]
    assert asked[:5] == [[0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1], [0, 1, 2]]
    assert {(message.session_id, message.session_epoch) for message in broker.of(1)} == {(0, -1)}
    assert {header.version for header, _ in broker.seen} == {12}


def test_a_session_is_opened_once_and_continued() -> None:
    broker = Partitioned()
    assert _load("fetch", broker, *FETCH_3, "--session").stderr == ""
    sessions = [(message.session_id, message.session_epoch) for message in broker.of(1)]
    assert sessions[:4] == [(0, 0), (77, 1), (77, 2), (77, 3)]
    assert {message.topics[0].topic_id for message in broker.of(1)} == {TOPIC_ID}
    assert [(header.api_key, header.version) for header, _ in broker.seen[:2]] == [(3, 12), (1, 13)]


@pytest.mark.parametrize("session_ids", [(0,), (77, 78), (77, 0)])
def test_a_broker_without_the_session_ends_the_load(session_ids: tuple[int, ...]) -> None:
    done = _load("fetch", Partitioned(session_ids=session_ids), *FETCH_3, "--session")
    assert "Fetch has no session or another one" in done.stderr


@pytest.mark.parametrize(
    ("indexes", "fault"),
    [
        ([0, 1], "the response does not have the requested partitions (2)"),
        ([0, 1, 1], "the response has a partition that is not expected (1)"),
        ([0, 1, 3], "the response has a partition that is not expected (3)"),
        ([0, 1, -1], "the response has a partition that is not expected (-1)"),
    ],
)
def test_every_partition_is_answered_once(indexes: list[int], fault: str) -> None:
    parts = [PartitionProduceResponse(index, 0, 0, record_errors=[]) for index in indexes]
    response = ProduceResponse([TopicProduceResponse("load", partition_responses=parts)])
    assert fault in _load("produce", lambda _header, _message: response, "--partitions=3").stderr


def test_an_error_of_any_partition_ends_the_load() -> None:
    parts = [
        PartitionProduceResponse(index, error, 0, record_errors=[])
        for index, error in ((0, 0), (1, 0), (2, 45))
    ]
    response = ProduceResponse([TopicProduceResponse("load", partition_responses=parts)])
    assert (
        "Produce error (45)" in _load("produce", lambda _header, _message: response, "--partitions=3").stderr
    )


@pytest.mark.skipif(not has_openssl(), reason="the load program is built without OpenSSL's headers")
@pytest.mark.parametrize(
    ("ask", "options"),
    [
        (
            "produce",
            ("--partitions=8", "--records=100", "--record-bytes=1000", "--batches=3", "--idempotent"),
        ),
        ("fetch", (*FETCH_3, "--session")),
    ],
)
def test_a_load_over_tls_is_the_same(ask: str, options: tuple[str, ...]) -> None:
    server = certificates().server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    broker = Partitioned(step=100)
    done = _load(ask, broker, "--tls", *options, tls=context)
    assert done.stderr == ""
    assert json.loads(done.stdout)["answered"] >= 3
    for batches in broker.batches():
        for batch in batches:
            check_batch(memoryview(batch), 1 << 20, 1_000)


@pytest.mark.skipif(not has_openssl(), reason="the load program is built without OpenSSL's headers")
def test_a_broker_that_hangs_up_in_the_handshake_ends_the_load() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        command = [str(LOAD_PROGRAM), "api_versions", f"--port={server.getsockname()[1]}", "--tls"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        thread.join()
    assert done.returncode == 1
    assert "the TLS handshake failed" in done.stderr
