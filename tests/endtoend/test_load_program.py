"""The benchmarks' load program believes no broker: a wrong answer ends the load with its reason.

A broker of a few lines answers it, with the codec of the real one; what the load sends is read with that too.
"""

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

from benchmarks.install import LOAD_PROGRAM, install_load_program
from broker.protocol.codec import decode_request, encode_response
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from broker.records.build import NewRecord, build_batch
from broker.records.validate import check_batch
from broker.records.walk import records
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
def _answering(answer: Answer, correlation_shift: int) -> Iterator[int]:
    """The port of a broker that serves one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, answer, correlation_shift))
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()


def _serve(server: socket.socket, answer: Answer, correlation_shift: int) -> None:
    connection, _ = server.accept()
    # The load goes at its end without reading what is still on its way.
    with connection, connection.makefile("rb") as stream, suppress(ConnectionError):
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
    ask: str, answer: Answer, *options: str, correlation_shift: int = 0
) -> subprocess.CompletedProcess[str]:
    with _answering(answer, correlation_shift) as port:
        command = [str(LOAD_PROGRAM), ask, f"--port={port}", "--seconds=0.2", "--warm-up=0", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def _versions(error_code: int = 0) -> Answer:
    return lambda _header, _message: ApiVersionsResponse(error_code, [ApiVersion(18, 0, 4)])


def _topic(error_code: int = 0) -> Answer:
    partition = MetadataResponsePartition(0, 0, 1, 0, [1], [1], [])
    topic = MetadataResponseTopic(error_code, "load", partitions=[partition])
    return lambda _header, _message: MetadataResponse(brokers=[], topics=[topic])


def _appended(error_code: int = 0, base_offset: int = 0) -> Answer:
    partition = PartitionProduceResponse(0, error_code, base_offset, record_errors=[])
    return lambda _header, _message: ProduceResponse(
        [TopicProduceResponse("load", partition_responses=[partition])]
    )


def _fetched(records: bytes, error_code: int = 0) -> Answer:
    partition = PartitionData(0, error_code, 1, 1, 0, aborted_transactions=[], records=records)
    return lambda _header, _message: FetchResponse(
        responses=[FetchableTopicResponse("load", partitions=[partition])]
    )


FETCH: Final = ("--records=1", "--record-bytes=100", "--batches=1")


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


def test_what_is_produced_is_a_batch_that_a_broker_takes() -> None:
    seen: list[Any] = []

    def keep(header: RequestHeader, message: Any) -> Any:
        seen.append((header, message))
        return _appended()(header, message)

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
