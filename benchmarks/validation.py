"""The cost of reading the records of produced batches (`record.validation`).

    python -m benchmarks.validation

First alone, in this process: microseconds to decompress a batch and to read its records. Then in a broker
that receives the same batch over four connections, one request each at a time: the processor time of all
its threads for a request, and the megabytes of uncompressed records that this makes per second of a core.
Records are JSON, which snappy and LZ4 halve and gzip and zstd quarter. The least time of all rounds counts,
so that other load of the machine hardly matters.
"""

import json
import random
import socket
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.peers import PEERS
from benchmarks.process import Broker, running
from broker.common.slices import run_through
from broker.protocol import codec as wire
from broker.protocol.api_key import response_header_version
from broker.protocol.codec import parse_response_header
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.protocol.schema import Struct
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec, decompress
from broker.records.header import HEADER_BYTES
from broker.records.inspect import UNBOUNDED, RecordRules, check_records

SIZES: Final = ((16_384, 1_000), (16_384, 100), (1_000_000, 1_000), (1_000_000, 100))
"""Bytes of uncompressed records in a batch, and of a value."""

CONNECTIONS: Final = 4
PRODUCE_VERSION: Final = 9
PRODUCE_KEY: Final = 0
CREATE_KEY: Final = 19
CREATE_VERSION: Final = 5
FREE: Final = RecordRules(False, -UNBOUNDED, UNBOUNDED, 1 << 30)


def values(size: int, count: int) -> list[bytes]:
    """Return JSON texts like the clicks of a shop's visitors, cut to `size`."""
    chance = random.Random(size)
    made = []
    for _ in range(count):
        text = json.dumps({"user": chance.randrange(10**6), "session": chance.randbytes(8).hex()})
        while len(text) < size:
            page, action = chance.randrange(1_000), chance.choice(["view", "click", "buy"])
            text += json.dumps({"page": f"/items/{page}", "action": action, "price": chance.random()})
        made.append(text.encode()[:size])
    return made


def batch_of(total: int, size: int, codec: Codec) -> tuple[bytearray, int]:
    """Return the batch, and the bytes of its records."""
    now = int(time.time() * 1_000)
    count = total // (size + 20)
    new = [NewRecord(b"%08d" % at, value, now + at // 10) for at, value in enumerate(values(size, count))]
    return bytearray(build_batch(new, codec=codec)), len(build_batch(new)) - HEADER_BYTES


def least_us(run: Callable[[], object], rounds: int = 40) -> float:
    found = []
    for _ in range(rounds):
        began = time.thread_time_ns()
        run()
        found.append(time.thread_time_ns() - began)
    return min(found) / 1e3


class Client:
    """Blocking connections that send encoded requests."""

    def __init__(self, port: int) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(CONNECTIONS)]

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def create(self, topic: str, validation: str) -> None:
        configs = [CreatableTopicConfig("record.validation", validation)]
        request = CreateTopicsRequest([CreatableTopic(topic, 1, 1, configs=configs)], 30_000, False)
        self._sockets[0].sendall(frame_of(CREATE_KEY, CREATE_VERSION, request))
        answer: Any = self._receive(self._sockets[0], CREATE_KEY, CREATE_VERSION)
        if answer.topics[0].error_code:
            raise click.ClickException(f"{topic}: error {answer.topics[0].error_code}")

    def send(self, frame: bytes, times: int) -> None:
        """Send the frame `times` times over each connection. Raises ClickException if a batch is refused."""
        for _ in range(times):
            for each in self._sockets:
                each.sendall(frame)
            for each in self._sockets:
                answer: Any = self._receive(each, PRODUCE_KEY, PRODUCE_VERSION)
                error = answer.responses[0].partition_responses[0].error_code
                if error:
                    raise click.ClickException(f"error {error}")

    def _receive(self, connection: socket.socket, key: int, version: int) -> object:
        length = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        frame = connection.recv(length, socket.MSG_WAITALL)
        _, at = parse_response_header(frame, response_header_version(key, version))
        return wire.decode_response(key, version)(frame, at)


def frame_of(key: int, version: int, message: Struct) -> bytes:
    return b"".join(wire.encode_request(key, version)(message, 1, "validation"))  # type: ignore[arg-type]


def cpu_ns(broker: Broker) -> int:
    """Return the processor time of all threads of the broker, including ended ones, finer than
    `Broker.cpu_s`.

    The number is Linux's clock of another process (CPUCLOCK_SCHED).
    """
    return time.clock_gettime_ns(~broker.process.pid << 3 | 2)


def request_us(broker: Broker, client: Client, frame: bytes, times: int) -> float:
    before = cpu_ns(broker)
    client.send(frame, times)
    return (cpu_ns(broker) - before) / (times * CONNECTIONS) / 1e3


@click.command()
@click.option("--rounds", default=8, show_default=True)
def main(rounds: int) -> None:
    """Measure the cost of reading the records of produced batches."""
    click.echo(
        "| batch | codec | compressed to | unpack, us | read the records, us "
        "| a request with `header` | with its records read |"
    )
    click.echo("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="weir-validation-") as scratch:
        for total, size in SIZES:
            for codec in Codec:
                click.echo(row(total, size, codec, rounds, Path(scratch)))


def row(total: int, size: int, codec: Codec, rounds: int, scratch: Path) -> str:
    batch, plain = batch_of(total, size, codec)
    packed = bytes(batch[HEADER_BYTES:])
    unpack = least_us(partial(decompress, codec, packed)) if codec else 0.0
    uncompressed, _ = batch_of(total, size, Codec.NONE)
    walk = least_us(lambda: run_through(check_records(uncompressed, FREE)))
    times = max(10, min(150, 15_000_000 // plain))
    costs: dict[str, list[float]] = {"header": [], "full": []}
    with running(PEERS["weir"], scratch) as broker:
        client = Client(broker.port)
        frames = {}
        for validation in costs:
            client.create(validation, validation)
            data = [TopicProduceData(validation, partition_data=[PartitionProduceData(0, batch)])]
            request = ProduceRequest(None, 1, 30_000, data)
            frames[validation] = frame_of(PRODUCE_KEY, PRODUCE_VERSION, request)
            client.send(frames[validation], 5)
        for _ in range(rounds):
            for validation, found in costs.items():
                found.append(request_us(broker, client, frames[validation], times))
        client.close()
    name = f"{total // 1_000:,} kB, {plain // (size + 20):,} of {size:,} B"
    cells: list[Any] = [name, codec.name.lower(), f"{len(batch):,} B", f"{unpack:,.0f}", f"{walk:,.0f}"]
    cells += [f"{min(found):,.0f} us, {plain / min(found):,.0f} MB/s" for found in costs.values()]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
