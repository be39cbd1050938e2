"""What a thread would gain for the broker's longest computations: `python -m benchmarks.threads`.

Each piece of work is done on the event loop's thread and through `trio.to_thread.run_sync`, with two in
flight, in turns, while a second process keeps a core busy, as clients do. Both ways a task on the loop asks
for a turn every millisecond: how late it gets it is what other requests wait. Independent of the broker.
"""

import contextlib
import multiprocessing
import os
import socket
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import click
import cramjam
import trio
from crc32c import crc32c

from benchmarks.peers import prepare_certificate
from broker.server.interpreter import SWITCH_INTERVAL_SECONDS

MEGABYTE: Final = 1 << 20
IN_FLIGHT: Final = 2
TICK_S: Final = 0.001
ROUNDS: Final = 7
PROCESSES: Final = multiprocessing.get_context("fork")


class Figures(NamedTuple):
    """Pieces of work a second, processor time of one, and the p99 of a tick's lateness."""

    rate: float
    cpu_us: float
    late_us: float


def tls_pair(directory: Path) -> tuple[ssl.SSLObject, ssl.MemoryBIO]:
    """Return a server after its handshake, and what it sends."""
    prepare_certificate(directory, 0)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(directory / "store.pem")
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_mode = ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server)
    for _ in range(2):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    to_client.read()
    return server, to_client


def drain(sock: socket.socket) -> None:
    while sock.recv(MEGABYTE):
        pass


def burn() -> None:
    while True:
        pass


def works(directory: Path) -> dict[str, Callable[[], object]]:
    data = os.urandom(MEGABYTE)
    packed = bytes(
        cramjam.zstd.compress(b"".join(b'{"n": %8d, "v": "%8x"}' % (i, i * i) for i in range(40_000)))
    )
    pairs = [tls_pair(directory) for _ in range(IN_FLIGHT)]
    file = (directory / "records").open("w+b")
    file.write(data)
    file.flush()
    senders = []
    for _ in range(IN_FLIGHT):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            sender = socket.create_connection(listening.getsockname())
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 131_072)
            reader, _ = listening.accept()
            PROCESSES.Process(target=drain, args=(reader,), daemon=True).start()
            reader.close()
            senders.append(sender)

    def encrypt() -> None:
        server, sent = pairs.pop()
        server.write(data)
        sent.read()
        pairs.append((server, sent))

    def send() -> None:
        sender = senders.pop()
        at = 0
        while at < MEGABYTE:
            at += os.sendfile(sender.fileno(), file.fileno(), at, MEGABYTE - at)
        senders.append(sender)

    return {
        "CRC-32C of 1 MB": lambda: crc32c(data),
        "CRC-32C of 64 kB": lambda: crc32c(data[:65_536]),
        "zstd, 1 MB unpacked": lambda: cramjam.zstd.decompress(packed),
        "TLS records of 1 MB": encrypt,
        "sendfile of 1 MB": send,
    }


async def measure(work: Callable[[], object], seconds: float, *, in_thread: bool) -> Figures:
    done = 0
    late: list[float] = []

    async def repeat() -> None:
        nonlocal done
        while True:
            if in_thread:
                await trio.to_thread.run_sync(work)
            else:
                work()
                await trio.lowlevel.checkpoint()
            done += 1

    async def tick() -> None:
        while True:
            due = trio.current_time() + TICK_S
            await trio.sleep_until(due)
            late.append(trio.current_time() - due)

    began, cpu = time.perf_counter(), time.process_time()
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            for _ in range(IN_FLIGHT):
                nursery.start_soon(repeat)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return Figures(done / took, used / done * 1e6, statistics.quantiles(late, n=100)[-1] * 1e6)


@click.command()
@click.option("--seconds", default=0.4, show_default=True, help="Seconds of one turn.")
def main(seconds: float) -> None:
    """Print a row for each work."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    PROCESSES.Process(target=burn, daemon=True).start()
    click.echo("| work; on the loop, in threads | a second | processor us each | p99 of a tick, us late |")
    click.echo("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory:
        for title, work in works(Path(directory)).items():
            both: list[list[Figures]] = [[], []]
            for number in range(ROUNDS):
                for in_thread in (False, True) if number % 2 == 0 else (True, False):
                    both[in_thread].append(trio.run(partial(measure, work, seconds, in_thread=in_thread)))
            loop, thread = ([statistics.median(each) for each in zip(*way, strict=True)] for way in both)
            pairs = [f"{ours:,.0f}, {theirs:,.0f}" for ours, theirs in zip(loop, thread, strict=True)]
            click.echo(f"| {title} | {' | '.join(pairs)} |")
    click.echo(f"load average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
