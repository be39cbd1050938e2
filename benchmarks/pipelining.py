"""Many small requests on one connection, in both modes of the server: `python -m benchmarks.pipelining`.

Measures only Weir, with `socket.server.mode=kafka` and with `automq`, the modes in turn. One connection
keeps a number of requests in flight; then a hundred connections with one each, by the C load program, show
the mode's cost without pipelining. Requests are encoded before the clock starts. Every response is checked:
its size and its correlation id, and so the order.
"""

import argparse
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.install import install_load_program
from benchmarks.loads import LOADS, measure, prepared
from benchmarks.peers import PEERS, Peer
from benchmarks.process import Broker, running
from broker.protocol import codec
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch

MODES: Final = ("kafka", "automq")
DEPTHS: Final = (1, 8, 64)
RING: Final = 4_096
"""Number of encoded requests, sent repeatedly; more than are ever in flight."""

WARM_UP_S: Final = 0.5
ALONE: Final = ("api_versions", "produce_100b")


class WrongAnswer(Exception):  # noqa: N818 - a fault of the broker, reported to the user
    """A response has another size or another correlation id than the next request's."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Requests per second, and the broker's processor time for one in microseconds."""

    rate: float
    cpu_us: float


def _messages(topic: str) -> Iterator[tuple[str, object, int]]:
    yield "ApiVersions", ApiVersionsRequest("load", "1"), 3
    batch = bytearray(build_batch([NewRecord(None, b"." * 100, 1_000)]))
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    yield "Produce, 1 record of 100 B", ProduceRequest(None, 1, 30_000, data), 9
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=100)
    yield (
        "Fetch, 1 record of 100 B",
        FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=100, topics=[FetchTopic(topic, partitions=[partition])]
        ),
        12,
    )


def _joined(parts: Sequence[Any]) -> bytes:
    return b"".join(parts)


class Pipeline:
    """One connection with `depth` identical requests in flight."""

    def __init__(self, port: int, message: object, version: int) -> None:
        encode = codec.encode_request(message.API_KEY, version)  # type: ignore[attr-defined]
        frames = [_joined(encode(message, i, "weir-load")) for i in range(RING)]
        self._frame = len(frames[0])
        self._ring = b"".join(frames) * 2
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=15)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(frames[-1])
        size = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))[0]
        self._socket.recv(size, socket.MSG_WAITALL)
        self._answer = size + 4

    def run(self, depth: int, seconds: float) -> int:
        """Return the number of responses. Raises WrongAnswer."""
        sock, each = self._socket, self._answer
        head = struct.Struct(">ii")
        sent = answered = 0
        rest = b""
        until = time.perf_counter() + seconds
        wanted = depth
        while True:
            while wanted:
                at = sent % RING
                n = min(wanted, RING)
                sock.sendall(self._ring[at * self._frame : (at + n) * self._frame])
                sent += n
                wanted -= n
            if sent == answered:
                return answered
            data = rest + sock.recv(1 << 18)
            whole = len(data) // each
            for at in range(0, whole * each, each):
                if head.unpack_from(data, at) != (each - 4, answered % RING):
                    raise WrongAnswer(f"after {answered} answers: {data[at : at + each]!r}")
                answered += 1
            rest = data[whole * each :]
            if time.perf_counter() < until:
                wanted = whole

    def close(self) -> None:
        self._socket.close()


def peer(mode: str) -> Peer:
    """Return Weir in this mode as a peer."""
    weir = PEERS["weir"]
    option = f"--override=socket.server.mode={mode}"
    return replace(weir, command=lambda directory, port: [*weir.command(directory, port), option])


def one_round(broker: Broker, seconds: float) -> Iterator[tuple[str, Figure]]:
    """Run every load once; yield title and result. Loads that write little come first, as flushes come
    later.
    """
    for name in ALONE:
        load = LOADS[name]
        with prepared(load, broker.port) as topic:
            before = broker.cpu_s()
            result = measure(load, broker.port, topic, seconds=seconds, warm_up_s=WARM_UP_S)
            spent = broker.cpu_s() - before
            yield load.title, Figure(result["requests_per_second"], spent / result["answered"] * 1e6)
    with prepared(LOADS["produce_100b"], broker.port) as topic:
        for title, message, version in _messages(topic):
            pipeline = Pipeline(broker.port, message, version)
            for depth in DEPTHS:
                pipeline.run(depth, WARM_UP_S)
                before, began = broker.cpu_s(), time.perf_counter()
                count = pipeline.run(depth, seconds)
                took, spent = time.perf_counter() - began, broker.cpu_s() - before
                yield f"{title}, {depth} in flight", Figure(count / took, spent / count * 1e6)
            pipeline.close()


def _told(figures: list[Figure]) -> tuple[float, str]:
    rates = [figure.rate for figure in figures]
    cpu = statistics.median(figure.cpu_us for figure in figures)
    middle = statistics.median(rates)
    return middle, f"{middle:,.0f} ({min(rates):,.0f}-{max(rates):,.0f}), {cpu:.1f}"


def main() -> None:
    """Print a table for docs/benchmarks-figures.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="counted for each load")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    install_load_program()
    found: dict[str, dict[str, list[Figure]]] = {}
    with tempfile.TemporaryDirectory(prefix="weir-pipelining-") as scratch:
        for number in range(arguments.rounds):
            for mode in MODES if number % 2 else reversed(MODES):
                with running(peer(mode), Path(scratch)) as broker:
                    for title, figure in one_round(broker, arguments.seconds):
                        found.setdefault(title, {}).setdefault(mode, []).append(figure)
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    print("| load; req/s (least-most), us of the broker's processor each | kafka | automq | automq/kafka |")
    print("| --- | --- | --- | --- |")
    for title, by_mode in found.items():
        kafka, automq = (_told(by_mode[mode]) for mode in MODES)
        print(f"| {title} | {kafka[1]} | {automq[1]} | {automq[0] / kafka[0]:.2f} |")


if __name__ == "__main__":
    main()
